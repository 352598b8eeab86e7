//! The source of pages: an implementation keeps them in memory and says which are resident.

use crate::identity::PageNo;
use crate::resident_page::PageRef;
use crate::segment::Segment;

/// Pages that are resident. Rows that a look-up finds borrow from it, so what implements this keeps
/// the pages it has given out where they are for as long as it is borrowed.
pub trait Pages {
    /// A page of `segment`, verified before, if it is resident.
    fn page(&self, segment: &Segment, page: PageNo) -> Option<PageRef<'_>>;
}

impl<P: Pages + ?Sized> Pages for &P {
    #[inline]
    fn page(&self, segment: &Segment, page: PageNo) -> Option<PageRef<'_>> {
        (**self).page(segment, page)
    }
}
