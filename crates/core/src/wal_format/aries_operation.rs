//! The log record of one operation of a transaction, where operations are logged one by one.
//!
//! ```text
//!   BEGIN  = 1
//!   UPDATE = 2 | xid | undo next | change         with the images before and after
//!   CLR    = 3 | xid | undo next | change         compensation: with the image that was restored
//!   END    = 4 | xid                              committed, with the stamp of the log record
//!   ABORT  = 5 | xid                              rolled back, all of it
//!   change = table | images | key length | length of each image | key | each image
//! ```
//! Numbers are varints. A transaction's number, `xid`, is the log sequence number of its BEGIN. `undo next` is that of
//! the operation that is to be undone after this one, 0 for none; so is what a crash in the middle of a rollback
//! leaves to be done. `images` has bit 0 set if there was a value before and bit 1 if there is one after.
//!
//! Under [`RecordFormat::Fixed`] each is padded to the fixed size, or a multiple of it, with its header.
//!
//! Paper: pwal §5.3, §5.5, §6.1.1

use namiki_data::varint;
use namiki_log::{
    Entry, Grant, GroupResource, ImageEffect, Log, LogError, RECORD_HEADER_BYTES, Stream,
};
use namiki_platform::{Epoch, Lsn, Stamp};
use smallvec::{SmallVec, smallvec};

use crate::table::raw_table::TableId;
use crate::wal_format::encoding_primitives::{
    DecodeError, PADDING, Reader, RecordFormat, Writer, slot_bytes,
};

const BEGIN: u8 = 1;
const UPDATE: u8 = 2;
const COMPENSATION: u8 = 3;
const END: u8 = 4;
const ABORT: u8 = 5;

const HAS_BEFORE: u32 = 1;
const HAS_AFTER: u32 = 2;

/// A before- or after-image: a key's value, `None` if the key is absent.
pub type Image<'a> = Option<&'a [u8]>;

/// One log record of a transaction, where operations are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// A transaction begins. Its number is this record's LSN.
    Begin,
    /// A key's value was changed.
    Update {
        /// The transaction's number.
        xid: Lsn,
        /// The operation to be undone after this one; 0 for none.
        undo_next: Lsn,
        /// The table.
        table: TableId,
        /// The key.
        key: &'a [u8],
        /// The before-image.
        before: Image<'a>,
        /// The after-image.
        after: Image<'a>,
    },
    /// Compensation (CLR): the transaction's last change that had not been undone was undone.
    Compensation {
        /// The transaction's number.
        xid: Lsn,
        /// The operation to be undone next; 0 for none.
        undo_next: Lsn,
        /// The table.
        table: TableId,
        /// The key.
        key: &'a [u8],
        /// The image that the undo restored.
        after: Image<'a>,
    },
    /// The transaction has committed.
    End {
        /// The transaction's number.
        xid: Lsn,
    },
    /// All changes of the transaction are undone.
    Abort {
        /// The transaction's number.
        xid: Lsn,
    },
}

/// The fields of a record, in their order.
struct Parts<'a> {
    kind: u8,
    numbers: SmallVec<[u64; 8]>,
    bytes: SmallVec<[&'a [u8]; 3]>,
}

impl<'a> Operation<'a> {
    fn parts(&self) -> Parts<'a> {
        let change = |kind, heads: [Lsn; 2], table: TableId, key: &'a [u8], before, after| {
            let mut numbers = SmallVec::from_iter(heads.map(|lsn| lsn.0));
            let has = |image: Image<'_>, bit| if image.is_some() { bit } else { 0 };
            let images = has(before, HAS_BEFORE) | has(after, HAS_AFTER);
            numbers.extend([table.0.into(), images.into(), key.len() as u64]);
            let mut bytes = smallvec![key];
            for image in [before, after].into_iter().flatten() {
                numbers.push(image.len() as u64);
                bytes.push(image);
            }
            Parts {
                kind,
                numbers,
                bytes,
            }
        };
        let short = |kind, numbers: &[u64]| Parts {
            kind,
            numbers: SmallVec::from_slice(numbers),
            bytes: SmallVec::new(),
        };
        match *self {
            Self::Begin => short(BEGIN, &[]),
            Self::Update {
                xid,
                undo_next,
                table,
                key,
                before,
                after,
            } => change(UPDATE, [xid, undo_next], table, key, before, after),
            Self::Compensation {
                xid,
                undo_next,
                table,
                key,
                after,
            } => change(COMPENSATION, [xid, undo_next], table, key, None, after),
            Self::End { xid } => short(END, &[xid.0]),
            Self::Abort { xid } => short(ABORT, &[xid.0]),
        }
    }

    /// The transaction's number; `None` for [`Operation::Begin`], which has it as its LSN.
    pub(crate) fn xid(&self) -> Option<Lsn> {
        match *self {
            Self::Begin => None,
            Self::Update { xid, .. }
            | Self::Compensation { xid, .. }
            | Self::End { xid }
            | Self::Abort { xid } => Some(xid),
        }
    }

    /// Its effect on the size of the next image. The record of a deleted key is locked.
    fn effect(&self) -> ImageEffect {
        match *self {
            Self::Update { after: Some(_), .. } => ImageEffect::Longer,
            Self::Update { before, .. } => {
                ImageEffect::Shorter(before.map_or(0, |before| before.len() as u64))
            }
            _ => ImageEffect::Shorter(0),
        }
    }

    /// The bytes that it takes.
    pub(crate) fn encoded_bytes(&self, format: RecordFormat) -> usize {
        let parts = self.parts();
        let numbers: usize = parts.numbers.iter().map(|n| varint::len(*n)).sum();
        let bytes: usize = parts.bytes.iter().map(|it| it.len()).sum();
        let own = 1 + numbers + bytes;
        match format {
            RecordFormat::Compact => own,
            RecordFormat::Fixed(size) => {
                let whole = slot_bytes(RECORD_HEADER_BYTES + own, size.get().into());
                whole - RECORD_HEADER_BYTES
            }
        }
    }

    /// Writes it into exactly [`Operation::encoded_bytes`] bytes.
    pub(crate) fn encode(&self, into: &mut [u8]) {
        let len = into.len();
        let mut out = Writer::new(into);
        let parts = self.parts();
        out.byte(parts.kind);
        parts.numbers.iter().for_each(|n| out.varint(*n));
        parts.bytes.iter().for_each(|bytes| out.put(bytes));
        let rest = len - out.len();
        out.padding(rest);
        out.end();
    }

    /// The operation in the payload of a log record.
    ///
    /// # Errors
    /// [`DecodeError`]
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(payload);
        let operation = match from.byte()? {
            BEGIN => Self::Begin,
            kind @ (UPDATE | COMPENSATION) => decode_change(kind, &mut from)?,
            END => Self::End {
                xid: Lsn(from.varint()?),
            },
            ABORT => Self::Abort {
                xid: Lsn(from.varint()?),
            },
            unknown => return Err(DecodeError::UnknownKind(unknown)),
        };
        while !from.is_empty() {
            match from.byte()? {
                PADDING => from.padding()?,
                unknown => return Err(DecodeError::UnknownKind(unknown)),
            }
        }
        Ok(operation)
    }
}

fn decode_change<'a>(kind: u8, from: &mut Reader<'a>) -> Result<Operation<'a>, DecodeError> {
    let (xid, undo_next) = (Lsn(from.varint()?), Lsn(from.varint()?));
    let table = TableId(from.number()?);
    let images = from.number()?;
    let key_bytes = from.length()?;
    let mut length = |bit| match images & bit {
        0 => Ok(None),
        _ => from.length().map(Some),
    };
    let (before, after) = (length(HAS_BEFORE)?, length(HAS_AFTER)?);
    let key = from.take(key_bytes)?;
    let mut image = |bytes: Option<usize>| bytes.map(|bytes| from.take(bytes)).transpose();
    let (before, after) = (image(before)?, image(after)?);
    Ok(match kind {
        UPDATE => Operation::Update {
            xid,
            undo_next,
            table,
            key,
            before,
            after,
        },
        _ => Operation::Compensation {
            xid,
            undo_next,
            table,
            key,
            after,
        },
    })
}

/// Where a transaction's operations are logged.
pub(crate) struct OperationLog<'a, H: GroupResource> {
    pub(crate) log: &'a Log<H>,
    pub(crate) stream: &'a Stream<H>,
    pub(crate) format: RecordFormat,
}

impl<H: GroupResource> OperationLog<'_, H> {
    /// Whether an operation can be logged at all.
    ///
    /// # Errors
    /// [`LogError::CommitTooLarge`]
    pub(crate) fn check(&self, operation: &Operation<'_>) -> Result<(), LogError> {
        let bytes = operation.encoded_bytes(self.format);
        let bytes_max = self.stream.payload_bytes_max();
        if bytes <= bytes_max {
            Ok(())
        } else {
            Err(LogError::CommitTooLarge { bytes, bytes_max })
        }
    }

    /// An LSN at or below all that are drawn from now on.
    pub(crate) fn lower_bound(&self) -> Lsn {
        self.log.last_drawn().next()
    }

    /// Logs an operation that ends no transaction. Returns its LSN.
    pub(crate) fn append(&self, operation: &Operation<'_>) -> Result<Lsn, LogError> {
        let bytes = operation.encoded_bytes(self.format);
        let encode = |into: &mut [u8], _: Lsn| operation.encode(into);
        let (stamp, epoch) = (Stamp(0), Epoch(0));
        let stream = self.stream;
        let appended = if bytes > stream.buffered_bytes_max() {
            let effect = operation.effect();
            let oversize = stream.prepare_oversize(effect, bytes, |into| operation.encode(into))?;
            stream.append_oversize(Entry::Part, stamp, epoch, oversize, |_| {})?
        } else {
            let needs = match operation.effect() {
                ImageEffect::Longer => Grant::All,
                ImageEffect::Shorter(_) => Grant::Deletions,
            };
            stream.append_as(needs, Entry::Part, stamp, epoch, bytes, encode, |_| {})?
        };
        Ok(appended.ticket.lsn)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn each(check: impl Fn(Operation<'_>)) {
        let long = vec![7; 1000];
        let images: [Image<'_>; 4] = [None, Some(&[]), Some(&[1; 8]), Some(&long)];
        check(Operation::Begin);
        for xid in [Lsn(1), Lsn(u64::MAX)] {
            check(Operation::End { xid });
            check(Operation::Abort { xid });
            for before in images {
                for after in images {
                    for key in [&[][..], &[3; 8], &long] {
                        let (undo_next, table) = (Lsn(xid.0 / 2), TableId(300));
                        check(Operation::Update {
                            xid,
                            undo_next,
                            table,
                            key,
                            before,
                            after,
                        });
                        check(Operation::Compensation {
                            xid,
                            undo_next,
                            table,
                            key,
                            after,
                        });
                    }
                }
            }
        }
    }

    #[test]
    fn operations_come_back_and_cut_ones_do_not() {
        let fixed = |bytes| RecordFormat::Fixed(NonZeroU16::new(bytes).unwrap());
        for format in [RecordFormat::Compact, fixed(64), fixed(512)] {
            each(|operation| {
                let mut bytes = vec![0xee; operation.encoded_bytes(format)];
                operation.encode(&mut bytes);
                assert_eq!(Operation::decode(&bytes), Ok(operation));
                if let RecordFormat::Fixed(size) = format {
                    let whole = RECORD_HEADER_BYTES + bytes.len();
                    assert!(whole.is_multiple_of(size.get().into()));
                }
                if format == RecordFormat::Compact {
                    for cut in 0..bytes.len() {
                        let decoded = Operation::decode(&bytes[..cut]);
                        assert_eq!(decoded, Err(DecodeError::Truncated));
                    }
                    bytes.push(9);
                    let decoded = Operation::decode(&bytes);
                    assert_eq!(decoded, Err(DecodeError::UnknownKind(9)));
                }
            });
        }
        let unknown = Operation::decode(&[9]);
        assert_eq!(unknown, Err(DecodeError::UnknownKind(9)));
    }

    #[test]
    fn one_update_in_the_papers_format_takes_three_records() {
        let format = RecordFormat::Fixed(NonZeroU16::new(512).unwrap());
        let (xid, undo_next, table) = (Lsn(1 << 40), Lsn(0), TableId(1));
        let update = Operation::Update {
            xid,
            undo_next,
            table,
            key: &[0; 8],
            before: Some(&[0; 8]),
            after: Some(&[0; 8]),
        };
        for operation in [Operation::Begin, update, Operation::End { xid }] {
            let bytes = operation.encoded_bytes(format);
            assert_eq!(RECORD_HEADER_BYTES + bytes, 512);
        }
    }
}
