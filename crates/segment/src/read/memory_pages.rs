//! A whole segment in memory: for tests, and for small segments that are read all the time.

use std::sync::Arc;

use namiki_platform::disk::AlignedBuf;

use crate::error::SegmentError;
use crate::identity::PageNo;
use crate::leaf_directory::pages_of;
use crate::pages::Pages;
use crate::resident_page::PageRef;
use crate::segment::Segment;

/// All data pages of one segment, verified. None of its look-ups faults.
#[derive(Debug)]
pub struct MemoryPages {
    segment: Arc<Segment>,
    pages: AlignedBuf,
}

impl MemoryPages {
    /// Reads all pages. Waits for the disk.
    ///
    /// # Errors
    /// As [`Segment::read_pages`].
    pub fn load(segment: &Arc<Segment>) -> Result<Self, SegmentError> {
        Ok(Self {
            pages: segment.read_pages(PageNo(0), segment.data_pages() as usize)?,
            segment: Arc::clone(segment),
        })
    }

    /// The segment.
    #[must_use]
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }
}

impl Pages for MemoryPages {
    #[inline]
    fn page(&self, segment: &Segment, page: PageNo) -> Option<PageRef<'_>> {
        debug_assert_eq!(segment.id(), self.segment.id());
        let page = pages_of(&self.pages).get(page.0 as usize)?;
        Some(PageRef::of_verified(page))
    }
}
