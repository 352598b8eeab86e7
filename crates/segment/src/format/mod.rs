//! The bytes of a data segment. All numbers are little endian, but for heads of keys, which compare
//! as big-endian numbers.
//!
//! ```text
//!  file:  | value pages | leaf | value pages | leaf | … | index pages | footer |
//!
//!  every page, of 4096 bytes:
//!   0  CRC-32C                    4   of the segment's identity (24 bytes), the page's number (4), and bytes 4..4096
//!   4  kind                       1   1 leaf, 2 value page, 3 index page, 4 footer
//!   5  …                              the kind's own
//! ```
//!
//! # Invariants
//! - D1. A page's checksum is over its place and its segment: of two pages of a segment, neither
//!   passes in the other's place, because a CRC tells any two page numbers apart. Two segments'
//!   pages pass for each other with a chance of 2⁻³².
//! - D2. A page is looked into only after its checksum and its structure were checked: each kind's
//!   `check` says whether every later access stays inside the page.

pub(crate) mod footer;
pub(crate) mod index_page;
pub(crate) mod leaf;
pub(crate) mod value_page;
pub(crate) mod varint;

pub(crate) use namiki_platform::bytes::{u16_at, u32_at, u64_at, u128_at};

use crate::error::Damage;
use crate::identity::{PageNo, SegmentId};

/// The unit of reading and of checksums: 4096 bytes, one frame of a
/// [pool](namiki_platform::disk::FramePool).
pub use namiki_platform::disk::PAGE_BYTES;

/// The longest key, in bytes: the footer has room for two.
pub const KEY_BYTES_MAX: usize = 1536;

/// The longest value inside a leaf, in bytes; a longer one is in value pages. Four rows of
/// that length and a short key fill a leaf.
pub const VALUE_BYTES_INLINE_MAX: usize = 1000;

/// The format that is written, and the only one that is read. In format 1, a leaf's prefix lay
/// behind its slots.
pub(crate) const VERSION: u32 = 2;

pub(crate) const KIND_AT: usize = 4;

/// A page's kind, at byte 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    Leaf = 1,
    Value = 2,
    Index = 3,
    Footer = 4,
}

pub(crate) type Page = [u8; PAGE_BYTES];

/// The part of a page's checksum that is the same for all pages of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seal(u32);

impl Seal {
    pub(crate) fn of(id: SegmentId) -> Self {
        let crc = crc32c::crc32c(&id.database.to_le_bytes());
        Self(crc32c::crc32c_append(crc, &id.number.to_le_bytes()))
    }

    fn checksum(self, no: PageNo, page: &Page) -> u32 {
        let crc = crc32c::crc32c_append(self.0, &no.0.to_le_bytes());
        crc32c::crc32c_append(crc, &page[4..])
    }

    /// Puts the checksum into a page that is otherwise done.
    pub(crate) fn close(self, no: PageNo, page: &mut Page) {
        let crc = self.checksum(no, page);
        put(page, 0, crc.to_le_bytes());
    }

    /// Whether the page is what was written there.
    pub(crate) fn check(self, no: PageNo, page: &Page) -> Result<(), Damage> {
        let (stored, computed) = (u32_at(page, 0), self.checksum(no, page));
        if stored == computed {
            Ok(())
        } else {
            Err(Damage::Checksum { stored, computed })
        }
    }
}

pub(crate) fn kind_of(page: &Page) -> Option<PageKind> {
    match page[KIND_AT] {
        1 => Some(PageKind::Leaf),
        2 => Some(PageKind::Value),
        3 => Some(PageKind::Index),
        4 => Some(PageKind::Footer),
        _ => None,
    }
}

pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

/// Length of the common prefix of two keys.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b);
    common.count()
}
