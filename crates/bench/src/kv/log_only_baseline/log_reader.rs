//! Reads back the rest of the log of store `floor`.

use std::mem;

use namiki_platform::disk::{AlignedBuf, DiskFile};
use namiki_platform::hash::hash_of;

use super::{HEADER_BYTES, KEY_BYTES, half_bytes};
use crate::error::BenchError;
use crate::kv::store::decoded;
use crate::txn::record_payload::Payload;

/// Size of a read, unless a group is longer.
const READ_BYTES: usize = 1 << 20;

/// The part of a log that its file still contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// The number of the oldest group.
    pub(super) first: u64,
    /// The number of the newest group; `first - 1` without groups.
    pub(super) last: u64,
    /// The end of the newest group.
    pub(super) end: u64,
    /// Whether only overwritten groups are missing.
    pub(super) reaches_back: bool,
}

/// Visits the entries of every remaining group, in order, up to the first incomplete group.
pub(super) fn replay(
    file: &dyn DiskFile,
    mut group: impl FnMut(&[u8]) -> Result<(), BenchError>,
) -> Result<Kept, BenchError> {
    let mut older = half(file, half_bytes(file), |_| Ok(()))?;
    let mut newer = half(file, 0, |_| Ok(()))?;
    if older.last > newer.last {
        mem::swap(&mut older, &mut newer);
    }
    let follows = older.last > 0 && older.last + 1 == newer.first;
    if follows {
        half(file, older.start, &mut group)?;
    }
    half(file, newer.start, &mut group)?;
    Ok(Kept {
        first: if follows { older.first } else { newer.first },
        last: newer.last,
        end: newer.end,
        reaches_back: follows || newer.first == 1,
    })
}

/// Visits the groups of the half that begins at `start`. Their numbers are consecutive; remains of
/// overwritten groups have lower numbers.
fn half(
    file: &dyn DiskFile,
    start: u64,
    mut group: impl FnMut(&[u8]) -> Result<(), BenchError>,
) -> Result<Half, BenchError> {
    let all = start..start + half_bytes(file);
    let mut found = Half {
        start,
        first: 1,
        last: 0,
        end: start,
    };
    let mut buffer = AlignedBuf::zeroed(READ_BYTES);
    loop {
        let read = file
            .read_at(found.end, &mut buffer)
            .map_err(BenchError::system("read the floor's log"))?;
        let left = all.end - found.end;
        let mut rest = &buffer[..read.min(usize::try_from(left).unwrap_or(read))];
        let missing = loop {
            match next_group(rest) {
                Next::Whole(number, entries) if found.last == 0 || number == found.last + 1 => {
                    group(entries)?;
                    if found.last == 0 {
                        found.first = number;
                    }
                    found.last = number;
                    let whole = HEADER_BYTES + entries.len();
                    let bytes = whole.next_multiple_of(file.block_bytes());
                    rest = rest.get(bytes..).unwrap_or_default();
                    found.end += bytes as u64;
                }
                Next::Longer(bytes) => break bytes,
                Next::Whole(..) | Next::None => return Ok(found),
            }
        };
        // The half has no more bytes, or the length is invalid.
        if missing as u64 > all.end - found.end {
            return Ok(found);
        }
        if missing > buffer.len() {
            buffer.resize(missing.next_multiple_of(file.block_bytes()));
        }
    }
}

/// The content of one half: its start, its group numbers (the last is 0 without groups), and the
/// end of its groups.
#[derive(Clone, Copy, Debug)]
struct Half {
    start: u64,
    first: u64,
    last: u64,
    end: u64,
}

enum Next<'a> {
    /// A group's number and entries.
    Whole(u64, &'a [u8]),
    /// A decision needs this number of bytes.
    Longer(usize),
    None,
}

fn next_group(bytes: &[u8]) -> Next<'_> {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Next::Longer(HEADER_BYTES);
    };
    let (words, _) = header.as_chunks::<8>();
    let [hash, number, length] = [0, 1, 2].map(|at| u64::from_le_bytes(words[at]));
    let Some(whole) = usize::try_from(length)
        .ok()
        .and_then(|length| length.checked_add(HEADER_BYTES))
    else {
        return Next::None;
    };
    if number == 0 {
        return Next::None;
    }
    match bytes.get(..whole) {
        None => Next::Longer(whole),
        Some(group) if hash_of(0, &group[8..]) != hash => Next::None,
        Some(group) => Next::Whole(number, &group[HEADER_BYTES..]),
    }
}

/// Visits the records of a group with values of `value_bytes`.
pub(super) fn records(
    entries: &[u8],
    value_bytes: u16,
    mut record: impl FnMut(u64, Payload) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for entry in entries.chunks(KEY_BYTES + usize::from(value_bytes)) {
        let Some((key, value)) = entry.split_first_chunk::<KEY_BYTES>() else {
            return Err(BenchError::Check("a group is cut off".to_owned()));
        };
        let key = u64::from_le_bytes(*key);
        record(key, decoded(key, value)?)?;
    }
    Ok(())
}
