//! Long values: bytes in pages of their own, in front of the leaf that names them.

use crate::error::SegmentError;
use crate::format::leaf::LONG_BYTES;
use crate::format::put;
use crate::format::value_page::VALUE_PAGE_BYTES;
use crate::identity::PageNo;
use crate::pages::{Found, Pages};
use crate::segment::Segment;

/// Where a long value is. Read it with a [`LongReader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongValue {
    first: PageNo,
    /// Where in the first page's bytes it begins.
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

    /// As it stands in a row.
    pub(crate) fn to_bytes(self) -> [u8; LONG_BYTES] {
        let mut bytes = [0; LONG_BYTES];
        put(&mut bytes, 0, self.first.0.to_le_bytes());
        put(&mut bytes, 4, self.offset.to_le_bytes());
        put(&mut bytes, 6, self.len_bytes.to_le_bytes());
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

    /// Where in the first page's bytes it begins.
    pub(crate) fn offset(&self) -> u16 {
        self.offset
    }

    /// How many pages it lies in.
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

/// Reads a long value piece by piece: one page at a time, with faults.
#[derive(Clone, Debug)]
pub struct LongReader {
    page: PageNo,
    /// Where in the page's bytes the next piece begins.
    offset: usize,
    left_bytes: u64,
}

impl LongReader {
    /// At the beginning of a value.
    #[must_use]
    pub fn new(value: LongValue) -> Self {
        Self {
            page: value.first,
            offset: usize::from(value.offset),
            left_bytes: value.len_bytes,
        }
    }

    /// How many bytes are still to come.
    #[must_use]
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// The pages that are still to be read: they lie side by side, for one long read.
    #[must_use]
    pub fn pages_left(&self) -> std::ops::Range<u32> {
        let bytes = self.left_bytes.saturating_add(self.offset as u64);
        let pages = match self.left_bytes {
            0 => 0,
            _ => bytes.div_ceil(VALUE_PAGE_BYTES as u64),
        };
        let end = u64::from(self.page.0).saturating_add(pages);
        self.page.0..u32::try_from(end).unwrap_or(u32::MAX)
    }

    /// The next piece; nothing at the end. After a fault, the same call goes on where it was.
    ///
    /// # Errors
    /// [`SegmentError::Damaged`] if a page holds less of the value than it should.
    pub fn next<'p>(
        &mut self,
        segment: &Segment,
        pages: &'p impl Pages,
    ) -> Result<Found<Option<&'p [u8]>>, SegmentError> {
        if self.left_bytes == 0 {
            return Ok(Found::Is(None));
        }
        let Some(page) = pages.page(segment, self.page) else {
            return Ok(Found::Fault(self.page));
        };
        let piece = match segment.value_bytes(self.page, page)?.get(self.offset..) {
            None | Some([]) => return Err(segment.value_ends_early(self.page)),
            Some(bytes) => bytes,
        };
        let len = piece
            .len()
            .min(usize::try_from(self.left_bytes).unwrap_or(usize::MAX));
        self.left_bytes -= len as u64;
        let is_full = self.offset + piece.len() == VALUE_PAGE_BYTES;
        if self.left_bytes > 0 && !is_full {
            return Err(segment.value_ends_early(self.page));
        }
        self.page = PageNo(self.page.0 + 1);
        self.offset = 0;
        Ok(Found::Is(Some(&piece[..len])))
    }

    /// Adds what is left to `into`. After a fault, the same call with the same `into` goes on where it was.
    ///
    /// # Errors
    /// As [`LongReader::next`].
    pub fn read_to_end(
        &mut self,
        segment: &Segment,
        pages: &impl Pages,
        into: &mut Vec<u8>,
    ) -> Result<Found<()>, SegmentError> {
        loop {
            match self.next(segment, pages)? {
                Found::Is(None) => return Ok(Found::Is(())),
                Found::Is(Some(piece)) => into.extend_from_slice(piece),
                Found::Fault(page) => return Ok(Found::Fault(page)),
            }
        }
    }
}
