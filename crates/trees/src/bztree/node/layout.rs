//! Layout of a node's parts, in bytes from its start.
//!
//! ```text
//!  | header | blocks of slots | separators | blocks of records | strings |
//! ```
//! Loom's atomics are larger than real ones. So the offsets depend on their size here, and heads of
//! records, which never change, are not atomics.

use namiki_index::key::Key;
use namiki_index::shared::cache_line_search::{BLOCK, LINE};
use namiki_platform::sync::AtomicU64;

use super::header::Header;

/// Bytes of the values of a block: a line, except under loom.
pub(super) const VALUES: usize = BLOCK * size_of::<AtomicU64>();
/// Bytes of a block of records: heads, which do not change, and values.
pub(super) const BLOCK_BYTES: usize = LINE + VALUES;
/// Bytes of a block of slots: heads and values, both of which are written later.
const SLOTS_BYTES: usize = 2 * VALUES;
#[cfg(not(loom))]
const _: () = assert!(
    BLOCK_BYTES == namiki_index::shared::cache_line_search::BLOCK_BYTES
        && SLOTS_BYTES == namiki_index::shared::cache_line_search::BLOCK_BYTES
);

/// Offsets of the parts of a node, in bytes from its start.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) separators: usize,
    pub(super) blocks: usize,
    pub(super) strings: usize,
}

impl Parts {
    #[inline(always)]
    pub(super) const fn of<K: Key>(len: usize, slots: usize) -> Self {
        let count = len.div_ceil(BLOCK);
        let separators = size_of::<Header<K>>() + slots.div_ceil(BLOCK) * SLOTS_BYTES;
        let blocks = separators + count.saturating_sub(1).div_ceil(BLOCK) * LINE;
        Self {
            separators,
            blocks,
            strings: blocks + count * BLOCK_BYTES,
        }
    }
}

/// The place of head `i` in blocks.
#[inline]
pub(super) const fn head_in_blocks(i: usize) -> usize {
    i / BLOCK * BLOCK_BYTES + i % BLOCK * size_of::<u64>()
}

/// The place of value `i` in blocks, a line behind its head.
#[inline(always)]
pub(super) const fn value_in_blocks(i: usize) -> usize {
    i / BLOCK * BLOCK_BYTES + LINE + i % BLOCK * size_of::<AtomicU64>()
}

/// The place of a slot's head in the node; its value is [`VALUES`] further.
#[inline(always)]
pub(super) const fn in_slots<K: Key>(slot: usize) -> usize {
    let within = slot / BLOCK * SLOTS_BYTES + slot % BLOCK * size_of::<AtomicU64>();
    size_of::<Header<K>>() + within
}
