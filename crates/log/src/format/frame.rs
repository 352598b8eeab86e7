//! A frame: what one flush writes. It is whole or it is not there.
//!
//! ```text
//!   0  magic "NLF1"                    4   starts at a block boundary
//!   4  CRC-32C                         4   of the records, then of bytes 8..72, then of the `Salt`
//!   8  length                          4   header and records, without the padding
//!  12  record count                    4
//!  16  sequence number                 8   per stream and generation, from 1
//!  24  first LSN                       8   0 if none are drawn; by epochs: the epoch it closes
//!  32  last LSN                        8   0 if none are drawn
//!  40  largest stamp                   8
//!  48  largest epoch                   8
//!  56  horizon                         8   a hardened LSN prefix known when this was written; by
//!                                          epochs: one through which all was hardened
//!  64  generation                      4
//!  68  worker                          2
//!  70  0                               2
//!  72  records: { payload length 4 | flags 4 (0) | stamp 8 | LSN 8 | payload } ...
//!      zeros up to the next block boundary
//! ```
//! Where commits are released by epochs, a record has `epoch << 1 | independent` in the place of
//! its LSN.
//!
//! # Invariants
//! - F1. The checksum covers the database's identity and the place the frame was written to, so a
//!   frame copied, moved or left over in a recycled log file never passes for one written there.
//! - F2. Sequence numbers of a stream in one generation have no gaps.

use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

use super::{put, u16_at, u32_at, u64_at};

/// Length of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = 72;
/// No frame is longer.
pub(crate) const FRAME_BYTES_MAX: usize = 1 << 30;
/// Length of a record's header.
pub const RECORD_HEADER_BYTES: usize = 24;
/// The bytes of a frame with one entry, without the payload.
pub(crate) const ENTRY_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + RECORD_HEADER_BYTES;

const MAGIC: [u8; 4] = *b"NLF1";

/// The length of a frame's head: the blocks in which its header and its first record's lie. The head
/// of an oversize frame is written last.
pub(crate) fn head_bytes(block: usize) -> usize {
    ENTRY_OVERHEAD_BYTES.next_multiple_of(block)
}

/// Whether a frame may begin like this; its header may go on behind these bytes.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Header and records, in bytes.
    pub length: u32,
    /// Number of its records.
    pub records: u32,
    /// Its number in the stream, from 1.
    pub sequence: u64,
    /// LSN of its first record; 0 if none are drawn. By epochs: see [`FrameHeader::closed_epoch`].
    pub first_lsn: Lsn,
    /// LSN of its last record.
    pub last_lsn: Lsn,
    /// The largest stamp among its records.
    pub max_stamp: Stamp,
    /// The largest epoch among its records.
    pub epoch: Epoch,
    /// Every LSN below this was hardened before the frame was written. By epochs: see
    /// [`FrameHeader::hardened_epoch`].
    pub horizon: Lsn,
    /// The generation that wrote it.
    pub generation: Generation,
    /// The stream that wrote it.
    pub worker: WorkerId,
}

impl FrameHeader {
    /// By epochs: no record of this epoch or one before follows the frame in its stream.
    #[must_use]
    pub fn closed_epoch(&self) -> Epoch {
        Epoch(self.first_lsn.0)
    }

    /// By epochs: all of this epoch and those before was hardened before the frame was written, in
    /// every stream.
    #[must_use]
    pub fn hardened_epoch(&self) -> Epoch {
        Epoch(self.horizon.0)
    }
}

/// The end of the checksum's input: the identity of the log, and the position of the frame in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Salt(u32);

impl Salt {
    /// The salt of a database.
    pub(crate) fn of(identity: u128) -> Self {
        Self(crc32c::crc32c(&identity.to_le_bytes()))
    }

    /// The salt of a place: the log file's number (0 in a shared device) and the offset in the
    /// file.
    pub(crate) fn at(self, file_number: u64, offset: u64) -> Self {
        let mut place = [0; 16];
        put(&mut place, 0, file_number.to_le_bytes());
        put(&mut place, 8, offset.to_le_bytes());
        Self(crc32c::crc32c_append(self.0, &place))
    }
}

/// The checksum of a frame's first records. They come first, so that most of a long frame is summed
/// while it fills, from the caches, and not when its flush is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest {
    crc: u32,
    /// End of the records that are in it.
    through: usize,
}

impl Digest {
    /// The checksum of no record.
    pub(crate) const NONE: Self = Self {
        crc: 0,
        through: FRAME_HEADER_BYTES,
    };

    /// The checksum of one record: its header, and a payload that was summed separately.
    pub(crate) fn of_record(header: &[u8], payload_crc: u32, payload_bytes: usize) -> Self {
        let crc = crc32c::crc32c(header);
        Self {
            crc: crc32c::crc32c_combine(crc, payload_crc, payload_bytes),
            through: FRAME_HEADER_BYTES + header.len() + payload_bytes,
        }
    }

    /// The number of bytes that it lacks of a frame `used` bytes long.
    pub(crate) fn missing(&self, used: usize) -> usize {
        used - self.through
    }

    /// Takes in the rest of the records that are there.
    pub(crate) fn extend(&mut self, frame: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, &frame[self.through..]);
        self.through = frame.len();
    }

    /// The frame's checksum, when all records are in it and the header is written.
    fn checksum(self, frame: &[u8], salt: Salt) -> u32 {
        let crc = crc32c::crc32c_append(self.crc, &frame[8..FRAME_HEADER_BYTES]);
        crc32c::crc32c_append(crc, &salt.0.to_le_bytes())
    }
}

/// Writes the header into the first bytes of `frame`, which holds `header.length` bytes with the
/// records in place, some of them in `digest` already; fewer bytes if all records are in it.
pub(crate) fn finish(frame: &mut [u8], header: &FrameHeader, mut digest: Digest, salt: Salt) {
    if digest.missing(header.length as usize) > 0 {
        digest.extend(frame);
    }
    put(frame, 0, MAGIC);
    put(frame, 8, header.length.to_le_bytes());
    put(frame, 12, header.records.to_le_bytes());
    put(frame, 16, header.sequence.to_le_bytes());
    put(frame, 24, header.first_lsn.0.to_le_bytes());
    put(frame, 32, header.last_lsn.0.to_le_bytes());
    put(frame, 40, header.max_stamp.0.to_le_bytes());
    put(frame, 48, header.epoch.0.to_le_bytes());
    put(frame, 56, header.horizon.0.to_le_bytes());
    put(frame, 64, header.generation.0.to_le_bytes());
    put(frame, 68, header.worker.0.to_le_bytes());
    put(frame, 70, 0u16.to_le_bytes());
    let crc = digest.checksum(frame, salt);
    put(frame, 4, crc.to_le_bytes());
}

/// Gives what begins as a frame the checksum of what it holds; nothing else is changed.
#[cfg(feature = "hostile-bytes")]
pub(crate) fn mend_checksum(bytes: &mut [u8], salt: Salt) {
    let length = peek(bytes).map_or(0, |header| header.length as usize);
    if let Some(frame) = bytes.get_mut(..length)
        && length >= FRAME_HEADER_BYTES
    {
        let mut digest = Digest::NONE;
        digest.extend(frame);
        put(frame, 4, digest.checksum(frame, salt).to_le_bytes());
    }
}

/// The header at the start of `bytes`, if that could be one: the checksum is not looked at.
pub(crate) fn peek(bytes: &[u8]) -> Option<FrameHeader> {
    if bytes.len() < FRAME_HEADER_BYTES || bytes[..4] != MAGIC {
        return None;
    }
    let header = FrameHeader {
        length: u32_at(bytes, 8),
        records: u32_at(bytes, 12),
        sequence: u64_at(bytes, 16),
        first_lsn: Lsn(u64_at(bytes, 24)),
        last_lsn: Lsn(u64_at(bytes, 32)),
        max_stamp: Stamp(u64_at(bytes, 40)),
        epoch: Epoch(u64_at(bytes, 48)),
        horizon: Lsn(u64_at(bytes, 56)),
        generation: Generation(u32_at(bytes, 64)),
        worker: WorkerId(u16_at(bytes, 68)),
    };
    let lengths = FRAME_HEADER_BYTES..=FRAME_BYTES_MAX;
    lengths
        .contains(&(header.length as usize))
        .then_some(header)
}

/// Whether `frame`, exactly a frame's length, is what was written there.
pub(crate) fn is_sound(frame: &[u8], salt: Salt) -> bool {
    let mut digest = Digest::NONE;
    digest.extend(frame);
    digest.checksum(frame, salt) == u32_at(frame, 4)
}

/// Writes a record's header into the first bytes of `record`.
pub(crate) fn put_record(record: &mut [u8], payload_bytes: usize, stamp: Stamp, lsn: Lsn) {
    // A buffer is at most 1 GiB, so the length fits.
    put(record, 0, (payload_bytes as u32).to_le_bytes());
    put(record, 4, 0u32.to_le_bytes());
    put(record, 8, stamp.0.to_le_bytes());
    put(record, 16, lsn.0.to_le_bytes());
}

/// One commit in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// When it committed, logically.
    pub stamp: Stamp,
    /// Its place in the order of all streams; 0 if none are drawn. By epochs: see
    /// [`LogRecord::epoch`].
    pub lsn: Lsn,
    /// The payload that the writer encoded.
    pub payload: &'a [u8],
}

impl LogRecord<'_> {
    /// By epochs: the epoch of its commit.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.lsn.0 >> 1)
    }

    /// By epochs: whether all it has read was hardened in every stream before it was committed. It
    /// counts although its epoch may be cut off.
    #[must_use]
    pub fn is_independent(&self) -> bool {
        self.lsn.0 & 1 == 1
    }

    /// By epochs: whether it counts if the epochs through `durable` do.
    #[must_use]
    pub fn counts_through(&self, durable: Epoch) -> bool {
        self.is_independent() || self.epoch() <= durable
    }
}

/// The word in a record in place of its LSN, where commits are released by epochs.
pub(crate) fn epoch_word(epoch: Epoch, is_independent: bool) -> Lsn {
    Lsn(epoch.0 << 1 | u64::from(is_independent))
}

/// The record at the start of `bytes`, and how many bytes it takes.
pub(crate) fn record(bytes: &[u8]) -> Option<(LogRecord<'_>, usize)> {
    if bytes.len() < RECORD_HEADER_BYTES {
        return None;
    }
    let end = RECORD_HEADER_BYTES + u32_at(bytes, 0) as usize;
    let payload = bytes.get(RECORD_HEADER_BYTES..end)?;
    let record = LogRecord {
        stamp: Stamp(u64_at(bytes, 8)),
        lsn: Lsn(u64_at(bytes, 16)),
        payload,
    };
    Some((record, end))
}
