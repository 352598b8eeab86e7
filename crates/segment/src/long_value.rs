//! The position of a long value: in pages of its own, in front of the leaf that names it.

use namiki_platform::disk::PAGE_BYTES;

use crate::identity::PageNo;

/// Number of a value's bytes in one value page: all but its header.
pub(crate) const VALUE_PAGE_BYTES: usize = PAGE_BYTES - 8;

/// The length of the reference in a row to a long value: page (4), byte in that page's values (2),
/// length (8).
pub(crate) const LONG_BYTES: usize = 14;

/// The position of a long value. Read it with a [`LongReader`](crate::LongReader).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongValue {
    first: PageNo,
    /// The offset of its beginning in the first page's bytes.
    offset: u16,
    len_bytes: u64,
}

impl LongValue {
    pub(crate) fn new(first: PageNo, offset: u16, len_bytes: u64) -> Self {
        Self {
            first,
            offset,
            len_bytes,
        }
    }

    /// The encoding in a row.
    pub(crate) fn to_bytes(self) -> [u8; LONG_BYTES] {
        let mut bytes = [0; LONG_BYTES];
        bytes[..4].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.offset.to_le_bytes());
        bytes[6..].copy_from_slice(&self.len_bytes.to_le_bytes());
        bytes
    }

    /// Length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The first of its pages.
    #[must_use]
    pub fn first_page(&self) -> PageNo {
        self.first
    }

    /// The offset of its beginning in the first page's bytes.
    pub(crate) fn offset(&self) -> u16 {
        self.offset
    }

    /// Number of pages that it spans.
    #[must_use]
    pub fn pages(&self) -> u64 {
        let end = self.len_bytes.saturating_add(u64::from(self.offset));
        end.div_ceil(VALUE_PAGE_BYTES as u64)
    }

    /// Whether all of it lies in front of a leaf.
    pub(crate) fn lies_before(&self, leaf: PageNo) -> bool {
        self.len_bytes > 0
            && usize::from(self.offset) < VALUE_PAGE_BYTES
            && u64::from(self.first.0).saturating_add(self.pages()) <= u64::from(leaf.0)
    }
}
