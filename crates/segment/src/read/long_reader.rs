//! Reading long values, with faults.

use crate::error::SegmentError;
use crate::identity::PageNo;
use crate::long_value::{LongValue, VALUE_PAGE_BYTES};
use crate::pages::Pages;
use crate::resident_page::Found;
use crate::segment::Segment;

/// Reads a long value piece by piece: one page at a time, with faults.
#[derive(Clone, Debug)]
pub struct LongReader {
    page: PageNo,
    /// The offset of the next piece in the page's bytes.
    offset: usize,
    left_bytes: u64,
}

impl LongReader {
    /// A reader at the beginning of a value.
    #[must_use]
    pub fn new(value: LongValue) -> Self {
        Self {
            page: value.first_page(),
            offset: usize::from(value.offset()),
            left_bytes: value.len_bytes(),
        }
    }

    /// Number of remaining bytes.
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

    /// The next piece; `None` at the end. After a fault, the same call continues from there.
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

    /// Adds what is left to `into`. After a fault, the same call with the same `into` goes on where
    /// it was.
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
