//! Numbers of pages.

use namiki_index::shared::segmented_array::SegmentedArray;

/// The number of a Bw-tree page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct PageId(pub(super) u32);

impl PageId {
    /// No page.
    pub(super) const NONE: Self = Self(u32::MAX);

    /// Bits of the number of an existing page.
    pub(super) const BITS: u32 = SegmentedArray::<()>::BITS;

    /// The child that an entry of an inner node leads to; above its number is a hint (`base/child_prefetch_hint.rs`).
    #[inline]
    pub(super) fn of_entry(value: u64) -> Self {
        Self(value as u32 & ((1 << Self::BITS) - 1))
    }
}
