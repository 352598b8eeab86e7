//! A page in memory, and the answer that names the page that is not.

use namiki_platform::disk::PAGE_BYTES;

use crate::identity::PageNo;

/// The result of a look-up.
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

/// A resident page that [`Segment::verify_page`](crate::Segment::verify_page) has accepted.
#[derive(Clone, Copy, Debug)]
pub struct PageRef<'p> {
    bytes: &'p [u8; PAGE_BYTES],
}

impl<'p> PageRef<'p> {
    /// Refers to a page that [`Segment::verify_page`](crate::Segment::verify_page) has accepted for
    /// the given segment and page number. A page without this verification gives wrong answers or
    /// panics.
    #[must_use]
    #[inline]
    pub fn of_verified(bytes: &'p [u8; PAGE_BYTES]) -> Self {
        Self { bytes }
    }

    /// The page's bytes.
    #[must_use]
    #[inline]
    pub fn bytes(self) -> &'p [u8; PAGE_BYTES] {
        self.bytes
    }
}
