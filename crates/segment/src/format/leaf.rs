//! A leaf: rows in the order of their keys.
//!
//! ```text
//!   0  CRC-32C                    4
//!   4  kind (1)                   1
//!   5  stamp width w              1   0 to 6: bytes of each row's stamp
//!   6  rows n                     2   1 and more
//!   8  base stamp                 6   the smallest of the page
//!  14  prefix length              2   what all keys of the page begin with
//!  16  lower fence                2   the fence is so many bytes of the first key
//!  18  upper fence                2   the fence is so many bytes of the last key, and one byte more:
//!  20  its last byte              1
//!  21  flags                      1   bit 0: the last leaf, which has no upper fence
//!  22  end of the rows            2   zeros from there to the page's end
//!  24  heads                     4n   of each key, the four bytes behind the prefix; zeros where it has fewer
//!      slots                     2n   where each row begins
//!      prefix
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
//! A *fence* bounds what the leaf may hold: lower fence ≤ key < upper fence. It is the shortest key that parts two
//! leaves, so the lower fence begins like the leaf's first key, and the upper one like its last: neither has to be
//! stored.
//!
//! A search touches the heads, which lie side by side, and then one row. Two keys with the same head differ behind it,
//! or in their lengths.

use std::cmp::Ordering;

use namiki_platform::Stamp;

use super::{PAGE_BYTES, Page, u16_at, u32_at, u64_at, varint};
use crate::error::Damage;
use crate::identity::PageNo;
use crate::long_value::{LONG_BYTES, LongValue};
use crate::resident_page::PageRef;
use crate::row::{Key, Row, Value};

pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const HEAD_BYTES: usize = 4;
pub(crate) const SLOT_BYTES: usize = 2;
pub(crate) const STAMP_WIDTH_MAX: usize = 6;
pub(crate) const FLAG_LAST: u8 = 1;

/// A leaf of a resident page, to look rows up in by number.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'p> {
    page: &'p Page,
    rows: usize,
    prefix: &'p [u8],
}

/// A row's parts, without its head.
struct Parts<'p> {
    suffix_len: usize,
    rest: &'p [u8],
    stamp_at: usize,
    value: Value<'p>,
}

/// The first four bytes of a suffix, as a number that compares like them.
#[inline]
pub(crate) fn head_of(suffix: &[u8]) -> u32 {
    if let Some(head) = suffix.first_chunk::<HEAD_BYTES>() {
        return u32::from_be_bytes(*head);
    }
    let mut head = [0; HEAD_BYTES];
    head[..suffix.len()].copy_from_slice(suffix);
    u32::from_be_bytes(head)
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
        let prefix_at = HEADER_BYTES + rows * (HEAD_BYTES + SLOT_BYTES);
        let prefix_len = u16_at(page, 14) as usize;
        Self {
            page,
            rows,
            prefix: &page[prefix_at..prefix_at + prefix_len],
        }
    }

    /// How many rows there are: one at least.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a leaf is never empty")]
    pub fn len(&self) -> usize {
        self.rows
    }

    #[inline]
    fn head(&self, row: usize) -> u32 {
        let heads = &self.page[HEADER_BYTES..];
        let at = row * HEAD_BYTES;
        u32::from_be_bytes([heads[at], heads[at + 1], heads[at + 2], heads[at + 3]])
    }

    fn head_bytes(&self, row: usize) -> &'p [u8] {
        let at = HEADER_BYTES + row * HEAD_BYTES;
        &self.page[at..at + HEAD_BYTES]
    }

    #[inline]
    fn slot(&self, row: usize) -> usize {
        u16_at(
            self.page,
            HEADER_BYTES + self.rows * HEAD_BYTES + row * SLOT_BYTES,
        ) as usize
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
        let width = self.stamp_width();
        let mut delta = [0; 8];
        delta[..width].copy_from_slice(&self.page[at..at + width]);
        Stamp(base_stamp(self.page).saturating_add(u64::from_le_bytes(delta)))
    }

    /// Row `row`, from 0.
    ///
    /// # Panics
    /// If there are not so many.
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

    /// The number of the first row whose key is `key` or comes after it, and whether it is `key`. The number of rows
    /// if there is none.
    #[must_use]
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> (usize, bool) {
        let Some(suffix) = key.strip_prefix(self.prefix) else {
            let row = if key < self.prefix { 0 } else { self.rows };
            return (row, false);
        };
        let head = head_of(suffix);
        let mut row = self.first_head(head);
        // Of one head there are few rows, but where keys differ late.
        if row + 8 < self.rows && self.head(row + 8) == head {
            return self.lower_bound_among(row, suffix, head);
        }
        while row < self.rows && self.head(row) == head {
            match self.compare_behind_head(row, suffix) {
                Ordering::Less => row += 1,
                other => return (row, other.is_eq()),
            }
        }
        (row, false)
    }

    /// The same among the rows from `first` on that have this head.
    #[cold]
    fn lower_bound_among(&self, first: usize, suffix: &[u8], head: u32) -> (usize, bool) {
        let (mut low, mut high) = (first, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.head(middle).cmp(&head);
            match found.then_with(|| self.compare_behind_head(middle, suffix)) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// The first row whose head is not below `head`. Without a branch that depends on the keys, because the processor
    /// could not predict it.
    #[inline]
    fn first_head(&self, head: u32) -> usize {
        let (mut first, mut len) = (0, self.rows);
        while len > 1 {
            let half = len / 2;
            first = if self.head(first + half - 1) < head {
                first + half
            } else {
                first
            };
            len -= half;
        }
        first + usize::from(self.head(first) < head)
    }

    /// Compares a row's suffix with another one that has the same head.
    #[inline]
    fn compare_behind_head(&self, row: usize, suffix: &[u8]) -> Ordering {
        let (len, at) = varint::read(self.page, self.slot(row));
        let (_, stamp_at) = varint::read(self.page, at);
        let rest_at = stamp_at + self.stamp_width();
        let rest = &self.page[rest_at..rest_at + len.saturating_sub(HEAD_BYTES)];
        // Equal heads of suffixes that both end in them differ in length alone.
        rest.cmp(rest_of(suffix)).then(len.cmp(&suffix.len()))
    }

    /// Whether this is the last leaf.
    pub(crate) fn is_last(&self) -> bool {
        self.page[21] & FLAG_LAST != 0
    }

    /// The smallest key that the leaf may hold: a separator in the index.
    pub(crate) fn lower_fence(&self) -> Vec<u8> {
        let mut fence = self.row(0).key.to_vec();
        fence.truncate(u16_at(self.page, 16) as usize);
        fence
    }

    /// The key that all keys of the leaf are below; none if it is the last one.
    pub(crate) fn upper_fence(&self) -> Option<Vec<u8>> {
        if self.is_last() {
            return None;
        }
        let mut fence = self.row(self.rows - 1).key.to_vec();
        fence.truncate(u16_at(self.page, 18) as usize);
        fence.push(self.page[20]);
        Some(fence)
    }

    /// Whether a page whose checksum is right is a leaf in every byte: after this, no access leaves the page, keys rise,
    /// the fences enclose them, and long values lie in front of the leaf.
    pub(crate) fn check(no: PageNo, page: &'p Page) -> Result<Self, Damage> {
        let rows = u16_at(page, 6) as usize;
        let prefix_len = u16_at(page, 14) as usize;
        let width = page[5] as usize;
        let end = u16_at(page, 22) as usize;
        let rows_at = HEADER_BYTES + rows * (HEAD_BYTES + SLOT_BYTES) + prefix_len;
        if rows == 0 {
            return Err(Damage::Contents("a leaf without rows"));
        }
        if width > STAMP_WIDTH_MAX || page[21] & !FLAG_LAST != 0 {
            return Err(Damage::Contents("a header that no leaf has"));
        }
        if rows_at > end || end > PAGE_BYTES {
            return Err(Damage::Contents("its rows do not fit the page"));
        }
        let leaf = Self::of_bytes(page);
        let mut at = rows_at;
        let mut before: Option<(u32, usize, &[u8])> = None;
        for row in 0..rows {
            if leaf.slot(row) != at {
                return Err(Damage::Contents(
                    "a row that does not begin where the one before ends",
                ));
            }
            let body = &page[..end];
            let (suffix_len, next) = varint::try_read(body, at).ok_or(CUT)?;
            let (value_len, next) = varint::try_read(body, next).ok_or(CUT)?;
            let rest_at = next + width;
            let value_at = rest_at + suffix_len.saturating_sub(HEAD_BYTES);
            at = value_at
                + match value_len {
                    1 => LONG_BYTES,
                    odd if odd & 1 == 1 => return Err(Damage::Contents("a value's length is odd")),
                    even => even / 2,
                };
            if at > end {
                return Err(CUT);
            }
            // So reading it stays among the data pages.
            if value_len == 1 && !long_at(page, value_at).lies_before(no) {
                return Err(Damage::Contents(
                    "a long value that is not in front of its leaf",
                ));
            }
            let this = (leaf.head(row), suffix_len, &page[rest_at..value_at]);
            if suffix_len < HEAD_BYTES
                && this.0.trailing_zeros() < 8 * (HEAD_BYTES - suffix_len) as u32
            {
                return Err(Damage::Contents("a head is longer than its key"));
            }
            let rises = |(head, len, rest): (u32, usize, &[u8])| {
                (head, rest, len) < (this.0, this.2, this.1)
            };
            if !before.is_none_or(rises) {
                return Err(Damage::Contents("its keys do not rise"));
            }
            before = Some(this);
        }
        if at != end {
            return Err(Damage::Contents("bytes behind its last row"));
        }
        let first_len = prefix_len + varint::read(page, leaf.slot(0)).0;
        let last_len = prefix_len + varint::read(page, leaf.slot(rows - 1)).0;
        let (lower, upper) = (u16_at(page, 16) as usize, u16_at(page, 18) as usize);
        if lower > first_len || upper > last_len {
            return Err(Damage::Contents("a fence is longer than its key"));
        }
        if !leaf.is_last() {
            let next = leaf.row(rows - 1).key.byte(upper);
            // The fence has to come after the last key.
            if next.is_some_and(|next| next >= page[20]) {
                return Err(Damage::Contents(
                    "its last key is not below its upper fence",
                ));
            }
        }
        Ok(leaf)
    }

    /// Bytes up to the end of the rows.
    pub(crate) fn bytes_used(&self) -> usize {
        u16_at(self.page, 22) as usize
    }

    /// Whether the bytes behind the rows are zero, as they were written. For `check`, which reads everything.
    pub(crate) fn is_padded(&self) -> bool {
        namiki_platform::bytes::is_zero(&self.page[self.bytes_used()..])
    }
}

const CUT: Damage = Damage::Contents("a row that leaves the page");

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
