//! The identity of segments and of their pages.

use std::fmt;

/// Names a segment among all segments of all databases. Every page's checksum covers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId {
    /// The identity of the database, as in its manifest.
    pub database: u128,
    /// The segment's number in the database; numbers are not used twice.
    pub number: u64,
}

impl SegmentId {
    /// Segment `number` of `database`.
    #[must_use]
    pub const fn new(database: u128, number: u64) -> Self {
        Self { database, number }
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "segment {} of database {:032x}",
            self.number, self.database
        )
    }
}

/// A page of a segment: its offset in the file, in pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u32);

impl fmt::Display for PageNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}
