//! Layout of a base node's parts. `base.rs` has the picture.

use std::mem::size_of;

use namiki_index::key::Key;
use namiki_index::shared::cache_line_search::{BLOCK, BLOCK_BYTES, LINE};

use crate::bwtree::node::Header;

/// A key and its payload, or a separator and the child right of it with its hint.
pub(in crate::bwtree) type Entry<'a, K> = (<K as Key>::Ref<'a>, u64);

/// Offsets of the parts of a base node with `len` entries, in bytes from its start.
#[derive(Clone, Copy)]
pub(in crate::bwtree) struct Parts {
    /// The separators.
    pub(in crate::bwtree) separators: usize,
    /// The first block.
    pub(in crate::bwtree) blocks: usize,
    /// The bytes after the last block.
    pub(super) strings: usize,
}

impl Parts {
    #[inline]
    pub(in crate::bwtree) fn of<K: Key>(len: usize) -> Self {
        let count = len.div_ceil(BLOCK);
        let separators = header_bytes::<K>().next_multiple_of(LINE);
        let blocks = separators + count.saturating_sub(1).div_ceil(BLOCK) * LINE;
        Self {
            separators,
            blocks,
            strings: blocks + count * BLOCK_BYTES,
        }
    }

    /// Offset of the heads of a block; its values follow.
    #[inline]
    pub(in crate::bwtree) fn block(&self, block: usize) -> usize {
        self.blocks + block * BLOCK_BYTES
    }

    #[inline]
    pub(super) fn head(&self, i: usize) -> usize {
        self.block(i / BLOCK) + i % BLOCK * size_of::<u64>()
    }

    #[inline]
    pub(super) fn value(&self, i: usize) -> usize {
        self.head(i) + LINE
    }
}

/// Bytes of a bound.
pub(super) const BOUND: usize = size_of::<u32>();

/// Bytes of the header and of the fields right behind it.
pub(super) const fn header_bytes<K: Key>() -> usize {
    size_of::<Header<K>>() + if K::INLINE { 0 } else { BOUND }
}
