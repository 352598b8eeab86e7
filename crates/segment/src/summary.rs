//! The contents of a segment, in numbers.

use namiki_platform::Stamp;

use crate::format::PAGE_BYTES;
use crate::format::footer::Footer;
use crate::identity::SegmentId;

/// The contents of a segment, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The identity of the segment.
    pub id: SegmentId,
    /// Number of rows.
    pub rows: u64,
    /// Number of pages, with index and footer.
    pub pages: u32,
    /// Length of the file.
    pub bytes: u64,
    /// Bytes of values that are not in leaves.
    pub long_bytes: u64,
    /// The smallest key; empty where there are no rows.
    pub first_key: Vec<u8>,
    /// The largest key; empty where there are no rows.
    pub last_key: Vec<u8>,
    /// The largest stamp; 0 where there are no rows.
    pub stamp_max: Stamp,
}

impl Summary {
    pub(crate) fn of(footer: &Footer) -> Self {
        Self {
            id: footer.id,
            rows: footer.rows,
            pages: footer.pages,
            bytes: u64::from(footer.pages) * PAGE_BYTES as u64,
            long_bytes: footer.long_bytes,
            first_key: footer.first_key.clone(),
            last_key: footer.last_key.clone(),
            stamp_max: Stamp(footer.stamp_max),
        }
    }
}
