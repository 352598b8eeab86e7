//! A stream's region in a shared device: the head, and the ring of frames behind it.
//!
//! A device file has no length that grows with the log, so the head says how far it reaches. It is
//! written after the frames it covers, alternately into two slots, so that a torn write of one
//! leaves the other.
//!
//! Frames are written round and round. Their offsets count on as if the region had no end: in the
//! first lap they are the places from the region's start, and from then on [`Ring`] says where in
//! the device they are. A frame that the end of the ring cuts in two continues at its beginning.
//!
//! ```text
//! region:  | slot 0, a block | slot 1, a block | ring of frames              |
//!
//! slot:   0  magic "NAMIKREG"              8
//!         8  CRC-32C of bytes 12..96       4   these two keep their places in every version
//!        12  format version                4   as in a log file
//!        16  identity of the database     16
//!        32  sequence number               8   of the last frame that counts
//!        40  start                         8   the offset where this generation begins
//!        48  end                           8   the offset where the frames that count end
//!        56  region length                 8
//!        64  count of head writes          8   the higher of two slots counts
//!        72  generation                    4
//!        76  block length                  4
//!        80  worker                        2
//!        82  0                             2
//!        84  longest frame                 4   with padding
//!        88  0                             8
//! ```
//!
//! # Invariants
//! - R1. Every byte of frames before `end` was durable before the head that says `end` was written.
//! - R2. Frames from the first one that is kept to `end` follow each other without gaps, generation
//!   by generation, and take no more than the ring.
//! - R3. A byte of the ring is overwritten only when a durable manifest says that what it held is
//!   kept no longer: by where the streams of its generations begin (`generation/log_start.rs`), or
//!   by not naming a generation.
//! - R4. A frame's checksum knows its offset, not its place in the device (`format/frame.rs`, F1). So a frame of an
//!   earlier lap never passes for one of this lap.
//!
//! Paper: pwal §5.7

use namiki_platform::{Generation, WorkerId};

use super::{
    BLOCK_BYTES_MAX, Found, VERSION, block_lengths, is_block_length, put, u16_at, u32_at, u64_at,
    u128_at,
};

pub(crate) const REGION_HEADER_BYTES: usize = 96;
/// The shortest block of a region: its head fits. A device may have shorter ones.
pub(crate) const REGION_BLOCK_BYTES_MIN: usize = 128;
/// The maximum length of both slots.
pub(crate) const SLOTS_BYTES_MAX: usize = 2 * BLOCK_BYTES_MAX;

const MAGIC: [u8; 8] = *b"NAMIKREG";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionHeader {
    pub(crate) identity: u128,
    pub(crate) sequence: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) region_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) generation: Generation,
    pub(crate) block_bytes: u32,
    pub(crate) worker: WorkerId,
    /// No frame of the generation is longer, padding included.
    pub(crate) frame_bytes_max: u32,
}

/// Gives what begins as a head the checksum of what it holds; nothing else is changed.
#[cfg(feature = "hostile-bytes")]
pub(crate) fn mend_checksum(block: &mut [u8]) {
    if block.len() >= REGION_HEADER_BYTES && block[..8] == MAGIC {
        let crc = crc32c::crc32c(&block[12..REGION_HEADER_BYTES]);
        put(block, 8, crc.to_le_bytes());
    }
}

impl RegionHeader {
    pub(crate) fn write(&self, block: &mut [u8]) {
        block.fill(0);
        put(block, 0, MAGIC);
        put(block, 12, VERSION.to_le_bytes());
        put(block, 16, self.identity.to_le_bytes());
        put(block, 32, self.sequence.to_le_bytes());
        put(block, 40, self.start.to_le_bytes());
        put(block, 48, self.end.to_le_bytes());
        put(block, 56, self.region_bytes.to_le_bytes());
        put(block, 64, self.writes.to_le_bytes());
        put(block, 72, self.generation.0.to_le_bytes());
        put(block, 76, self.block_bytes.to_le_bytes());
        put(block, 80, self.worker.0.to_le_bytes());
        put(block, 84, self.frame_bytes_max.to_le_bytes());
        let crc = crc32c::crc32c(&block[12..REGION_HEADER_BYTES]);
        put(block, 8, crc.to_le_bytes());
    }

    pub(crate) fn read(block: &[u8]) -> Found<Self> {
        if block.len() < REGION_HEADER_BYTES
            || block[..8] != MAGIC
            || crc32c::crc32c(&block[12..REGION_HEADER_BYTES]) != u32_at(block, 8)
        {
            return Found::Nothing;
        }
        let version = u32_at(block, 12);
        if version != VERSION {
            return Found::OtherVersion(version);
        }
        let head = Self {
            identity: u128_at(block, 16),
            sequence: u64_at(block, 32),
            start: u64_at(block, 40),
            end: u64_at(block, 48),
            region_bytes: u64_at(block, 56),
            writes: u64_at(block, 64),
            generation: Generation(u32_at(block, 72)),
            block_bytes: u32_at(block, 76),
            worker: WorkerId(u16_at(block, 80)),
            frame_bytes_max: u32_at(block, 84),
        };
        let is_long_enough = head.block_bytes as usize >= REGION_BLOCK_BYTES_MIN;
        if is_block_length(head.block_bytes) && is_long_enough {
            Found::Header(head)
        } else {
            Found::Nothing
        }
    }

    /// The head that counts, among the two slots at the start of `region`. The slots are as long as
    /// the blocks were when the region was laid out, which the device's of today need not be.
    pub(crate) fn read_slots(region: &[u8]) -> Found<Self> {
        let first = Self::read(region);
        let second = match &first {
            Found::OtherVersion(_) => Found::Nothing,
            Found::Header(head) => Self::read_second(region, head.block_bytes as usize),
            // A region that was laid out in longer blocks has nothing between the slots.
            Found::Nothing => block_lengths()
                .map(|block_bytes| Self::read_second(region, block_bytes))
                .find(|found| *found != Found::Nothing)
                .unwrap_or(Found::Nothing),
        };
        match (first, second) {
            (Found::OtherVersion(version), _) | (_, Found::OtherVersion(version)) => {
                Found::OtherVersion(version)
            }
            (Found::Header(a), Found::Header(b)) => {
                Found::Header(if a.writes > b.writes { a } else { b })
            }
            (Found::Header(head), Found::Nothing) | (Found::Nothing, Found::Header(head)) => {
                Found::Header(head)
            }
            (Found::Nothing, Found::Nothing) => Found::Nothing,
        }
    }

    fn read_second(region: &[u8], block_bytes: usize) -> Found<Self> {
        match Self::read(region.get(block_bytes..).unwrap_or_default()) {
            Found::Header(head) if head.block_bytes as usize != block_bytes => Found::Nothing,
            found => found,
        }
    }
}

/// The part of a region that frames are written to, round and round. Offsets are those in the
/// device, counted on as if the region had no end: in the first lap, they are where the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// The offset of its beginning in the device.
    start: u64,
    bytes: u64,
}

impl Ring {
    /// The ring of the region that starts at `base` in the device, laid out in blocks of this
    /// length.
    pub(crate) fn of_region(base: u64, region_bytes: u64, block_bytes: usize) -> Self {
        let slots = 2 * block_bytes as u64;
        Self {
            start: base + slots,
            bytes: region_bytes - slots,
        }
    }

    /// Its length.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.bytes
    }

    /// The position in the device of the byte with this offset.
    pub(crate) fn device_offset(&self, offset: u64) -> u64 {
        match offset.checked_sub(self.start) {
            Some(from_start) => self.start + from_start % self.bytes,
            // The slots, before the first lap.
            None => offset,
        }
    }

    /// The number of contiguous bytes in the device from this offset on.
    pub(crate) fn bytes_to_end(&self, offset: u64) -> u64 {
        self.start + self.bytes - self.device_offset(offset)
    }

    /// The stretches of the device in which `len_bytes` bytes from this offset on are: where each
    /// begins, and its length.
    pub(crate) fn pieces(&self, offset: u64, len_bytes: u64) -> impl Iterator<Item = (u64, u64)> {
        let ring = *self;
        let mut done = 0;
        std::iter::from_fn(move || {
            let left = len_bytes - done;
            let at = offset + done;
            let piece = left.min(ring.bytes_to_end(at));
            done += piece;
            (left > 0).then(|| (ring.device_offset(at), piece))
        })
    }
}

/// The offset of a stream's region in the device; `None` if that is beyond any device's end.
pub(crate) fn region_base(worker: WorkerId, region_bytes: u64) -> Option<u64> {
    let base = u64::from(worker.0).checked_mul(region_bytes)?;
    base.checked_add(region_bytes).map(|_| base)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn offsets_go_round_the_ring() {
        // The third region of 8,192 bytes, in blocks of 512.
        let ring = Ring::of_region(2 * 8192, 8192, 512);
        assert_eq!(ring.len_bytes(), 7168);
        let first = 2 * 8192 + 1024;
        for (offset, at, left) in [
            (first - 512, first - 512, 7168 + 512),
            (first, first, 7168),
            (first + 7167, first + 7167, 1),
            (first + 7168, first, 7168),
            (first + 5 * 7168 + 9, first + 9, 7168 - 9),
        ] {
            assert_eq!(ring.device_offset(offset), at, "{offset}");
            assert_eq!(ring.bytes_to_end(offset), left, "{offset}");
        }
        let pieces = |offset, bytes| ring.pieces(offset, bytes).collect::<Vec<_>>();
        assert_eq!(pieces(first + 7168, 512), [(first, 512)]);
        assert_eq!(
            pieces(first + 3 * 7168 - 512, 2048),
            [(first + 7168 - 512, 512), (first, 1536)]
        );
        assert_eq!(pieces(first, 7168), [(first, 7168)]);
        assert_eq!(pieces(first, 0), []);
    }
}
