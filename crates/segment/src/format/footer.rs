//! The footer: the last page of a segment, written last. A file without one is not a segment.
//!
//! ```text
//!   0  CRC-32C                    4
//!   4  kind (4)                   1
//!   5  0                          3
//!   8  magic "NAMIKRUN"           8
//!  16  format version             4   this and the magic keep their places in every version
//!  20  pages                      4   all of the file, this one included
//!  24  identity of the database  16
//!  40  number of the segment      8
//!  48  rows                       8
//!  56  leaves                     4
//!  60  first index page           4   index pages lie from here to the footer
//!  64  value pages                4
//!  68  length of the first key    2
//!  70  length of the last key     2
//!  72  smallest stamp             8
//!  80  largest stamp              8
//!  88  bytes of long values       8
//!  96  first key, last key, then zeros
//! ```

use super::{
    KEY_BYTES_MAX, KIND_AT, PAGE_BYTES, Page, PageKind, VERSION, put, u16_at, u32_at, u64_at,
    u128_at,
};
use crate::error::Damage;
use crate::identity::SegmentId;

const MAGIC: [u8; 8] = *b"NAMIKRUN";
const KEYS_AT: usize = 96;
const _: () = assert!(KEYS_AT + 2 * KEY_BYTES_MAX <= PAGE_BYTES);

/// The description of a segment in its footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) id: SegmentId,
    pub(crate) pages: u32,
    pub(crate) rows: u64,
    pub(crate) leaves: u32,
    pub(crate) first_index_page: u32,
    pub(crate) value_pages: u32,
    pub(crate) stamp_min: u64,
    pub(crate) stamp_max: u64,
    pub(crate) long_bytes: u64,
    pub(crate) first_key: Vec<u8>,
    pub(crate) last_key: Vec<u8>,
}

/// The kind of a file's last page, before its checksum is verified.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Peeked {
    /// A footer of this segment.
    Of(SegmentId),
    /// A footer of another version.
    Version(u32),
    /// No footer.
    Nothing,
}

/// The kind of the footer in `page`, if it is one.
pub(crate) fn peek(page: &Page) -> Peeked {
    if page[KIND_AT] != PageKind::Footer as u8 || page[8..16] != MAGIC {
        return Peeked::Nothing;
    }
    match u32_at(page, 16) {
        VERSION => Peeked::Of(SegmentId::new(u128_at(page, 24), u64_at(page, 40))),
        other => Peeked::Version(other),
    }
}

impl Footer {
    /// Makes the page but for its checksum.
    pub(crate) fn write(&self, page: &mut Page) {
        page.fill(0);
        page[KIND_AT] = PageKind::Footer as u8;
        put(page, 8, MAGIC);
        put(page, 16, VERSION.to_le_bytes());
        put(page, 20, self.pages.to_le_bytes());
        put(page, 24, self.id.database.to_le_bytes());
        put(page, 40, self.id.number.to_le_bytes());
        put(page, 48, self.rows.to_le_bytes());
        put(page, 56, self.leaves.to_le_bytes());
        put(page, 60, self.first_index_page.to_le_bytes());
        put(page, 64, self.value_pages.to_le_bytes());
        put(page, 68, (self.first_key.len() as u16).to_le_bytes());
        put(page, 70, (self.last_key.len() as u16).to_le_bytes());
        put(page, 72, self.stamp_min.to_le_bytes());
        put(page, 80, self.stamp_max.to_le_bytes());
        put(page, 88, self.long_bytes.to_le_bytes());
        let mut at = KEYS_AT;
        for key in [&self.first_key, &self.last_key] {
            page[at..at + key.len()].copy_from_slice(key);
            at += key.len();
        }
    }

    /// The footer in a page whose checksum is right, the last of a file of `file_pages`.
    pub(crate) fn read(page: &Page, file_pages: u64) -> Result<Self, Damage> {
        let Peeked::Of(id) = peek(page) else {
            return Err(Damage::Contents("not a footer"));
        };
        let first_len = u16_at(page, 68) as usize;
        let last_len = u16_at(page, 70) as usize;
        if first_len > KEY_BYTES_MAX || last_len > KEY_BYTES_MAX {
            return Err(Damage::Contents("its keys are too long"));
        }
        let last_at = KEYS_AT + first_len;
        let footer = Self {
            id,
            pages: u32_at(page, 20),
            rows: u64_at(page, 48),
            leaves: u32_at(page, 56),
            first_index_page: u32_at(page, 60),
            value_pages: u32_at(page, 64),
            stamp_min: u64_at(page, 72),
            stamp_max: u64_at(page, 80),
            long_bytes: u64_at(page, 88),
            first_key: page[KEYS_AT..last_at].to_vec(),
            last_key: page[last_at..last_at + last_len].to_vec(),
        };
        if u64::from(footer.pages) != file_pages {
            return Err(Damage::Contents(
                "the file does not have as many pages as it says",
            ));
        }
        let data_pages = u64::from(footer.leaves) + u64::from(footer.value_pages);
        let adds_up = u64::from(footer.first_index_page) == data_pages
            && footer.first_index_page < footer.pages
            && (footer.leaves == 0) == (footer.rows == 0)
            && (footer.leaves == 0) == (footer.first_index_page + 1 == footer.pages)
            && u64::from(footer.leaves) <= footer.rows
            // Each index page has an entry, of a leaf. They are read before anything else is known
            // of them.
            && footer.pages - 1 - footer.first_index_page <= footer.leaves
            && footer.first_key <= footer.last_key;
        if !adds_up {
            return Err(Damage::Contents("its numbers contradict each other"));
        }
        Ok(footer)
    }
}
