//! A file with a data segment: the manifest names those of loaded tables, and an image list those
//! of the image's runs.

use namiki_segment::SegmentId;
use serde::{Deserialize, Serialize};

use crate::catalogue::image_files::FileNumber;

/// The unit of a segment's length, in bytes.
const PAGE_BYTES: u64 = 4096;

/// A file with a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentFile {
    /// Its number.
    pub file: FileNumber,
    /// Its number among all segments that the database ever had, in hexadecimal. The checksum of each of its pages
    /// covers it.
    pub identity: String,
    /// Its length in pages of 4 KiB.
    pub pages: u32,
}

impl SegmentFile {
    /// Its unique identity among all segments, in a database with this identity.
    #[must_use]
    pub fn id(&self, database: u128) -> SegmentId {
        let number = u64::from_str_radix(&self.identity, 16).expect("checked when it was read");
        SegmentId::new(database, number)
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE_BYTES
    }

    /// Why this, with this number of rows, is impossible; `None` if it is possible.
    pub(crate) fn contradiction(&self, rows: u64) -> Option<String> {
        let file = self.file.0;
        let is_hexadecimal = self.identity.bytes().all(|digit| digit.is_ascii_hexdigit());
        if self.identity.len() != 16 || !is_hexadecimal {
            return Some(format!("has a file, {file}, whose identity is no number"));
        }
        if self.pages == 0 || (file == 0) {
            return Some(format!("has a file, {file}, of {} pages", self.pages));
        }
        // No row is shorter than a byte.
        (rows > self.len_bytes())
            .then(|| format!("has {rows} rows in file {file} of {} pages", self.pages))
    }
}
