//! Where pages come from: whatever keeps them in memory says which are resident.

use crate::format::Page;
use crate::identity::PageNo;
use crate::segment::Segment;

/// What a look-up comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// The answer.
    Is(T),
    /// This page is needed and not resident: make it so and repeat the call.
    Fault(PageNo),
}

impl<T> Found<T> {
    /// The answer, changed.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Self::Is(found) => Found::Is(change(found)),
            Self::Fault(page) => Found::Fault(page),
        }
    }

    /// The answer, if there is one already.
    pub fn resident(self) -> Option<T> {
        match self {
            Self::Is(found) => Some(found),
            Self::Fault(_) => None,
        }
    }
}

/// A resident page that [`Segment::verify_page`] has accepted.
#[derive(Clone, Copy, Debug)]
pub struct PageRef<'p> {
    bytes: &'p Page,
}

impl<'p> PageRef<'p> {
    /// Refers to a page that [`Segment::verify_page`] has accepted for the segment and the number it is given out for.
    /// What was not verified so gives wrong answers or panics.
    #[must_use]
    #[inline]
    pub fn of_verified(bytes: &'p Page) -> Self {
        Self { bytes }
    }

    /// The page's bytes.
    #[must_use]
    #[inline]
    pub fn bytes(self) -> &'p Page {
        self.bytes
    }
}

/// Pages that are resident. Rows that a look-up finds borrow from it, so what implements this keeps the pages it has
/// given out where they are for as long as it is borrowed.
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
