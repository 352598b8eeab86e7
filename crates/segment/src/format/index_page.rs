//! An index page: which leaf holds which keys. All of them lie behind the last leaf and are read
//! when the segment is opened.
//!
//! ```text
//!   0  CRC-32C                    4
//!   4  kind (3)                   1
//!   5  0                          1
//!   6  entries                    2   1 and more
//!   8  prefix length              2   what all separators of the page begin with
//!  10  end of the entries         2   zeros from there to the page's end
//!  12  prefix
//!      entries, each:
//!        leaf                     4   its page
//!        length                1, 2   of the rest of the separator
//!        rest of the separator
//! ```
//!
//! A leaf's separator is its lower fence: the shortest key that is above the last one of the leaf
//! before. The first leaf's is empty.

use super::{KIND_AT, PAGE_BYTES, Page, PageKind, common_prefix, put, u16_at, u32_at, varint};
use crate::error::Damage;
use crate::identity::PageNo;

const HEADER_BYTES: usize = 12;

/// Separators and leaves, to be put into pages.
#[derive(Default)]
pub(crate) struct IndexBuilder {
    entries: Vec<EntryAt>,
    bytes: Vec<u8>,
}

struct EntryAt {
    leaf: PageNo,
    at: usize,
    len: usize,
}

impl IndexBuilder {
    /// Adds the next leaf.
    pub(crate) fn push(&mut self, separator: &[u8], leaf: PageNo) {
        self.entries.push(EntryAt {
            leaf,
            at: self.bytes.len(),
            len: separator.len(),
        });
        self.bytes.extend_from_slice(separator);
    }

    pub(crate) fn leaves(&self) -> usize {
        self.entries.len()
    }

    fn separator(&self, entry: usize) -> &[u8] {
        let EntryAt { at, len, .. } = self.entries[entry];
        &self.bytes[at..at + len]
    }

    /// Writes a page with as many entries from `first` on as fit, but for its checksum, and returns
    /// the entry after them.
    pub(crate) fn write_page(&self, first: usize, page: &mut Page) -> usize {
        let mut prefix_len = self.separator(first).len();
        let mut end = first;
        let mut separators_bytes = 0;
        while end < self.entries.len() {
            let separator = self.separator(end);
            let prefix = common_prefix(&self.separator(first)[..prefix_len], separator);
            // At most two bytes for a length.
            let entries_bytes = (end + 1 - first) * (4 + 2) + separators_bytes + separator.len()
                - (end + 1 - first) * prefix;
            if HEADER_BYTES + prefix + entries_bytes > PAGE_BYTES {
                break;
            }
            prefix_len = prefix;
            separators_bytes += separator.len();
            end += 1;
        }
        page.fill(0);
        page[KIND_AT] = PageKind::Index as u8;
        put(page, 6, ((end - first) as u16).to_le_bytes());
        put(page, 8, (prefix_len as u16).to_le_bytes());
        let mut at = HEADER_BYTES;
        page[at..at + prefix_len].copy_from_slice(&self.separator(first)[..prefix_len]);
        at += prefix_len;
        for entry in first..end {
            put(page, at, self.entries[entry].leaf.0.to_le_bytes());
            let rest = &self.separator(entry)[prefix_len..];
            at = varint::write(page, at + 4, rest.len());
            page[at..at + rest.len()].copy_from_slice(rest);
            at += rest.len();
        }
        put(page, 10, (at as u16).to_le_bytes());
        end
    }
}

/// An entry of an index page.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'p> {
    pub(crate) leaf: PageNo,
    pub(crate) prefix: &'p [u8],
    pub(crate) rest: &'p [u8],
}

/// Calls `each` with the entries of a page whose checksum is right, and where each begins.
pub(crate) fn read<'p>(
    page: &'p Page,
    mut each: impl FnMut(Entry<'p>, usize) -> Result<(), Damage>,
) -> Result<(), Damage> {
    let (entries, prefix_len, end) = (
        u16_at(page, 6) as usize,
        u16_at(page, 8) as usize,
        u16_at(page, 10) as usize,
    );
    if page[5] != 0 || entries == 0 || end > PAGE_BYTES || HEADER_BYTES + prefix_len > end {
        return Err(Damage::Contents("a header that no index page has"));
    }
    let mut at = HEADER_BYTES + prefix_len;
    for _ in 0..entries {
        let length = varint::try_read(&page[..end], at + 4);
        let (len, rest_at) = length.ok_or(CUT)?;
        if rest_at + len > end {
            return Err(CUT);
        }
        each(entry_at(page, at), at)?;
        at = rest_at + len;
    }
    if at != end {
        return Err(Damage::Contents("bytes behind its last entry"));
    }
    Ok(())
}

const CUT: Damage = Damage::Contents("an entry that leaves the page");

/// The entry that begins at `at` of a checked page.
pub(crate) fn entry_at(page: &[u8], at: usize) -> Entry<'_> {
    let prefix_len = u16_at(page, 8) as usize;
    let (len, rest_at) = varint::read(page, at + 4);
    Entry {
        leaf: PageNo(u32_at(page, at)),
        prefix: &page[HEADER_BYTES..HEADER_BYTES + prefix_len],
        rest: &page[rest_at..rest_at + len],
    }
}
