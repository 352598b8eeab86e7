//! A leaf: rows in the order of their keys.
//!
//! ```text
//!   0  CRC-32C                    4
//!   4  kind (1)                   1
//!   5  stamp width w              1   0 to 6: bytes of each row's stamp
//!   6  rows n                     2   1 and more
//!   8  base stamp                 6   the smallest of the page
//!  14  prefix length              2   what all keys of the page begin with
//!  16  lower fence                2   length of the fence, a prefix of the first key
//!  18  upper fence                2   length of a prefix of the last key; the fence has one byte more:
//!  20  its last byte              1
//!  21  flags                      1   bit 0: the last leaf, which has no upper fence
//!  22  end of the rows            2   zeros from there to the page's end
//!  24  prefix
//!      hints                     4h   the heads of rows 16, 32, … once more: h = (n - 1) / 16
//!      heads                     4n   of each key, the four bytes behind the prefix; zeros where it has fewer
//!      slots                     2n   where each row begins
//!      rows
//!
//!  a row:
//!      suffix length           1, 2   bytes of the key behind the prefix, those in the head included
//!      value length × 2        1, 2   or 1 for a long value
//!      stamp                      w   minus the base stamp
//!      rest of the suffix             without the four bytes in the head
//!      value                          or, of a long one: page (4), byte in the page (2), length (8)
//! ```
//!
//! A *fence* bounds what the leaf may hold: lower fence ≤ key < upper fence. It is the shortest key
//! that parts two leaves, so the lower fence begins like the leaf's first key, and the upper one
//! like its last: neither has to be stored.
//!
//! A search goes through the hints, the heads of sixteen rows and one row: see [`search`].

pub(crate) mod builder;
mod check;
pub(crate) mod search;

use namiki_platform::Stamp;

use super::{Page, u16_at, u32_at, u64_at, varint};
use crate::identity::PageNo;
use crate::long_value::{LONG_BYTES, LongValue};
use crate::resident_page::PageRef;
use crate::row::{Key, Row, Value};

pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const HEAD_BYTES: usize = 4;
pub(crate) const SLOT_BYTES: usize = 2;
/// The distance between rows with their heads among the hints.
pub(crate) const HINT_ROWS: usize = 16;
pub(crate) const STAMP_WIDTH_MAX: usize = 6;
pub(crate) const FLAG_LAST: u8 = 1;

/// A leaf of a resident page, to look rows up in by number.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'p> {
    page: &'p Page,
    rows: usize,
    heads_at: usize,
    prefix: &'p [u8],
}

/// The offsets of a leaf's parts.
pub(crate) struct Layout {
    pub(crate) hints_at: usize,
    pub(crate) heads_at: usize,
    pub(crate) slots_at: usize,
    pub(crate) rows_at: usize,
}

impl Layout {
    /// The layout of a leaf with this number of rows, at least one.
    #[inline]
    pub(crate) fn of(rows: usize, prefix_len: usize) -> Self {
        let hints_at = HEADER_BYTES + prefix_len;
        let heads_at = hints_at + hints_of(rows) * HEAD_BYTES;
        let slots_at = heads_at + rows * HEAD_BYTES;
        Self {
            hints_at,
            heads_at,
            slots_at,
            rows_at: slots_at + rows * SLOT_BYTES,
        }
    }
}

#[inline]
pub(crate) fn hints_of(rows: usize) -> usize {
    rows.saturating_sub(1) / HINT_ROWS
}

/// A row's parts, without its head.
struct Parts<'p> {
    suffix_len: usize,
    rest: &'p [u8],
    stamp_at: usize,
    value: Value<'p>,
}

#[inline]
fn big_endian_at(page: &Page, at: usize) -> u32 {
    u32_at(page, at).swap_bytes()
}

/// The part of a suffix that is not in its head.
#[inline]
pub(crate) fn rest_of(suffix: &[u8]) -> &[u8] {
    suffix.get(HEAD_BYTES..).unwrap_or_default()
}

impl<'p> Leaf<'p> {
    /// The leaf in a page that was verified, and is one.
    #[must_use]
    #[inline]
    pub fn of(page: PageRef<'p>) -> Self {
        Self::of_bytes(page.bytes())
    }

    #[inline]
    pub(crate) fn of_bytes(page: &'p Page) -> Self {
        let rows = u16_at(page, 6) as usize;
        let prefix_len = u16_at(page, 14) as usize;
        let Layout {
            hints_at, heads_at, ..
        } = Layout::of(rows, prefix_len);
        Self {
            page,
            rows,
            heads_at,
            prefix: &page[HEADER_BYTES..hints_at],
        }
    }

    /// Number of rows, at least one.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a leaf is never empty")]
    pub fn len(&self) -> usize {
        self.rows
    }

    #[inline]
    fn head(&self, row: usize) -> u32 {
        big_endian_at(self.page, self.heads_at + row * HEAD_BYTES)
    }

    fn head_bytes(&self, row: usize) -> &'p [u8] {
        let at = self.heads_at + row * HEAD_BYTES;
        &self.page[at..at + HEAD_BYTES]
    }

    #[inline]
    fn slots_at(&self) -> usize {
        self.heads_at + self.rows * HEAD_BYTES
    }

    #[inline]
    fn slot(&self, row: usize) -> usize {
        u16_at(self.page, self.slots_at() + row * SLOT_BYTES) as usize
    }

    #[inline]
    fn stamp_width(&self) -> usize {
        self.page[5] as usize
    }

    #[inline]
    fn parts(&self, row: usize) -> Parts<'p> {
        let (suffix_len, at) = varint::read(self.page, self.slot(row));
        let (value_len, stamp_at) = varint::read(self.page, at);
        let rest_at = stamp_at + self.stamp_width();
        let value_at = rest_at + suffix_len.saturating_sub(HEAD_BYTES);
        let value = if value_len & 1 == 0 {
            Value::Inline(&self.page[value_at..value_at + value_len / 2])
        } else {
            Value::Long(long_at(self.page, value_at))
        };
        Parts {
            suffix_len,
            rest: &self.page[rest_at..value_at],
            stamp_at,
            value,
        }
    }

    #[inline]
    fn stamp(&self, at: usize) -> Stamp {
        let delta = match self.stamp_width() {
            // All rows have one stamp, as after a bulk load.
            0 => 0,
            width => stamp_delta(&self.page[at..at + width]),
        };
        Stamp(base_stamp(self.page).saturating_add(delta))
    }

    /// Row `row`, from 0.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    #[inline]
    pub fn row(&self, row: usize) -> Row<'p> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let parts = self.parts(row);
        let head = &self.head_bytes(row)[..parts.suffix_len.min(HEAD_BYTES)];
        Row {
            key: Key {
                parts: [self.prefix, head, parts.rest],
            },
            stamp: self.stamp(parts.stamp_at),
            value: parts.value,
        }
    }

    /// Whether this is the last leaf.
    pub(crate) fn is_last(&self) -> bool {
        self.page[21] & FLAG_LAST != 0
    }

    /// The smallest key that the leaf may hold, in parts: a separator in the index.
    pub(crate) fn lower_fence(&self) -> [&'p [u8]; 4] {
        self.fence(0, u16_at(self.page, 16) as usize, &[])
    }

    /// The exclusive upper bound of the leaf's keys, in parts; `None` for the last leaf.
    pub(crate) fn upper_fence(&self) -> Option<[&'p [u8]; 4]> {
        let len = u16_at(self.page, 18) as usize;
        (!self.is_last()).then(|| self.fence(self.rows - 1, len, &self.page[20..21]))
    }

    /// The first `len` bytes of a row's key, followed by `last`.
    fn fence(&self, row: usize, len: usize, last: &'p [u8]) -> [&'p [u8]; 4] {
        let mut left = len;
        let [prefix, head, rest] = self.row(row).key.parts.map(|part| {
            let part = &part[..part.len().min(left)];
            left -= part.len();
            part
        });
        [prefix, head, rest, last]
    }

    /// Bytes up to the end of the rows.
    pub(crate) fn bytes_used(&self) -> usize {
        u16_at(self.page, 22) as usize
    }

    /// Whether the bytes behind the rows are zero, as they were written. For `check`, which reads
    /// everything.
    pub(crate) fn is_padded(&self) -> bool {
        namiki_platform::bytes::is_zero(&self.page[self.bytes_used()..])
    }
}

fn stamp_delta(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |delta, byte| delta << 8 | u64::from(*byte))
}

#[inline]
pub(crate) fn base_stamp(page: &Page) -> u64 {
    u64_at(page, 8) & ((1 << 48) - 1)
}

fn long_at(page: &Page, at: usize) -> LongValue {
    LongValue::new(
        PageNo(u32_at(page, at)),
        u16_at(page, at + 4),
        u64_at(page, at + 6),
    )
}
