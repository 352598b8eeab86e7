//! The head of a stream's region in a shared device.
//!
//! A device file has no length that grows with the log, so the head says how far it reaches. It is
//! written after the frames it covers, alternately into two slots, so that a torn write of one
//! leaves the other.
//!
//! ```text
//! region:  | slot 0, a block | slot 1, a block | frames ...                  |
//!
//! slot:   0  magic "NAMIKREG"              8
//!         8  CRC-32C of bytes 12..96       4   these two keep their places in every version
//!        12  format version                4
//!        16  identity of the database     16
//!        32  sequence number               8   of the last frame that counts
//!        40  start                         8   where this generation begins, from the region's start
//!        48  end                           8   where the frames that count end
//!        56  region length                 8
//!        64  count of head writes          8   the higher of two slots counts
//!        72  generation                    4
//!        76  block length                  4
//!        80  worker                        2
//!        82  0                             2
//!        84  longest frame                 4   with padding; 0 before there was this field
//!        88  0                             8
//! ```
//!
//! # Invariants
//! - R1. Every byte of frames before `end` was durable before the head that says `end` was written.
//! - R2. Frames from the region's first byte for frames to `end` follow each other without gaps,
//!   generation by generation.
//!
//! Paper: pwal §5.7

use namiki_platform::{Generation, WorkerId};

use super::segment::Found;
use super::{BLOCK_BYTES_MAX, VERSION, put, u16_at, u32_at, u64_at, u128_at};

pub(crate) const REGION_HEADER_BYTES: usize = 96;
/// What both slots take at most.
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
    /// No frame of the generation is longer, padding included; 0 if that is not known.
    pub(crate) frame_bytes_max: u32,
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
        match head.block_bytes {
            512 | 1024 | 2048 | 4096 => Found::Header(head),
            _ => Found::Nothing,
        }
    }

    /// The head that counts, among the two slots at the start of `region`. The slots are as long as
    /// the blocks were when the region was laid out, which the device's of today need not be.
    pub(crate) fn read_slots(region: &[u8]) -> Found<Self> {
        let first = Self::read(region);
        let second = match &first {
            Found::OtherVersion(_) => Found::Nothing,
            Found::Header(head) => Self::read_second(region, head.block_bytes as usize),
            // What was laid out in longer blocks has nothing between the slots.
            Found::Nothing => [512, 1024, 2048, BLOCK_BYTES_MAX]
                .into_iter()
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

/// Where a stream's region starts in the device; none if that is beyond any device's end.
pub(crate) fn region_base(worker: WorkerId, region_bytes: u64) -> Option<u64> {
    let base = u64::from(worker.0).checked_mul(region_bytes)?;
    base.checked_add(region_bytes).map(|_| base)
}
