//! Fills a leaf: takes rows as long as they fit, and then writes the page.
//!
//! The size of a row depends on the page's prefix and stamp width, and both depend on all its rows.
//! They change rarely, and then the sizes are added up anew.

use namiki_platform::Stamp;

use super::{
    FLAG_LAST, HEAD_BYTES, HEADER_BYTES, HINT_ROWS, Layout, SLOT_BYTES, hints_of, rest_of,
};
use crate::format::{KIND_AT, PAGE_BYTES, Page, PageKind, common_prefix, put, varint};
use crate::key_head::head_u32;
use crate::long_value::{LONG_BYTES, LongValue};

/// The bytes of a row's value in the page.
#[derive(Clone, Copy)]
pub(crate) enum ValueBytes<'a> {
    Inline(&'a [u8]),
    Long(LongValue),
}

/// The rows of a leaf that is not written yet.
#[derive(Default)]
pub(crate) struct LeafBuilder {
    rows: Vec<RowAt>,
    /// Keys and values, one after the other.
    bytes: Vec<u8>,
    shared: Shared,
    /// Bytes that the rows take so, with heads and slots, without hints.
    rows_bytes: usize,
    stamp_min: u64,
    stamp_max: u64,
}

#[derive(Clone, Copy)]
struct RowAt {
    key_at: usize,
    key_len: usize,
    value: ValueLen,
    stamp: u64,
}

/// A row that fits, and what the page becomes with it.
pub(crate) struct Plan {
    row: RowAt,
    shared: Shared,
    rows_bytes: usize,
    stamp_min: u64,
    stamp_max: u64,
}

/// The number of a value's bytes in the page.
#[derive(Clone, Copy)]
pub(crate) enum ValueLen {
    Inline(usize),
    Long,
}

impl ValueLen {
    fn bytes(self) -> usize {
        match self {
            Self::Inline(len) => len,
            Self::Long => LONG_BYTES,
        }
    }

    /// The code in the row in place of the length.
    fn code(self) -> usize {
        match self {
            Self::Inline(len) => len * 2,
            Self::Long => 1,
        }
    }
}

/// The properties that all rows of a page share.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Shared {
    prefix_len: usize,
    stamp_width: usize,
}

impl Shared {
    /// The size of a row, with its head and slot.
    fn row_bytes(self, row: &RowAt) -> usize {
        let suffix_len = row.key_len - self.prefix_len;
        HEAD_BYTES
            + SLOT_BYTES
            + varint::len(suffix_len)
            + varint::len(row.value.code())
            + self.stamp_width
            + suffix_len.saturating_sub(HEAD_BYTES)
            + row.value.bytes()
    }
}

impl LeafBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The key of the first row. Only of a leaf that is not empty.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.rows.first().map_or(&[], |row| self.key(row))
    }

    /// The key of the last row. Only of a leaf that is not empty.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.rows.last().map_or(&[], |row| self.key(row))
    }

    fn key(&self, row: &RowAt) -> &[u8] {
        &self.bytes[row.key_at..row.key_at + row.key_len]
    }

    fn value(&self, row: &RowAt) -> &[u8] {
        let at = row.key_at + row.key_len;
        &self.bytes[at..at + row.value.bytes()]
    }

    /// The layout of the page with one more row, the key of which comes after the last one, if it
    /// fits. The first row always does.
    pub(crate) fn plan(&self, key: &[u8], value: ValueLen, stamp: Stamp) -> Option<Plan> {
        let (stamp_min, stamp_max, prefix_len) = match self.rows.first() {
            None => (stamp.0, stamp.0, key.len()),
            Some(first) => (
                self.stamp_min.min(stamp.0),
                self.stamp_max.max(stamp.0),
                // Keys rise, so what the first and the last share, all do.
                common_prefix(&self.key(first)[..self.shared.prefix_len], key),
            ),
        };
        let shared = Shared {
            prefix_len,
            stamp_width: width_of(stamp_max - stamp_min),
        };
        let before = if shared == self.shared {
            self.rows_bytes
        } else {
            self.rows.iter().map(|row| shared.row_bytes(row)).sum()
        };
        let row = RowAt {
            key_at: self.bytes.len(),
            key_len: key.len(),
            value,
            stamp: stamp.0,
        };
        let rows_bytes = before + shared.row_bytes(&row);
        let hints_bytes = hints_of(self.rows.len() + 1) * HEAD_BYTES;
        let page_bytes = HEADER_BYTES + hints_bytes + prefix_len + rows_bytes;
        (page_bytes <= PAGE_BYTES).then_some(Plan {
            row,
            shared,
            rows_bytes,
            stamp_min,
            stamp_max,
        })
    }

    /// Takes the row of a plan that was made of this builder as it is.
    pub(crate) fn push(&mut self, plan: Plan, key: &[u8], value: ValueBytes<'_>) {
        self.bytes.extend_from_slice(key);
        match value {
            ValueBytes::Inline(bytes) => self.bytes.extend_from_slice(bytes),
            ValueBytes::Long(at) => self.bytes.extend_from_slice(&at.to_bytes()),
        }
        self.rows.push(plan.row);
        self.shared = plan.shared;
        self.rows_bytes = plan.rows_bytes;
        (self.stamp_min, self.stamp_max) = (plan.stamp_min, plan.stamp_max);
    }

    /// Writes all but the checksum, and empties the builder. `lower_fence_len` bytes of the first
    /// key are the lower fence; the upper one lies before `next`, or it has no upper one.
    pub(crate) fn finish(&mut self, lower_fence_len: usize, next: Option<&[u8]>, page: &mut Page) {
        page.fill(0);
        let rows = self.rows.len();
        let prefix_len = self.shared.prefix_len;
        let width = self.shared.stamp_width;
        page[KIND_AT] = PageKind::Leaf as u8;
        page[5] = width as u8;
        put(page, 6, (rows as u16).to_le_bytes());
        page[8..14].copy_from_slice(&self.stamp_min.to_le_bytes()[..6]);
        put(page, 14, (prefix_len as u16).to_le_bytes());
        put(page, 16, (lower_fence_len as u16).to_le_bytes());
        match next {
            Some(next) => {
                let common = common_prefix(self.last_key(), next);
                put(page, 18, (common as u16).to_le_bytes());
                page[20] = next[common];
            }
            None => page[21] = FLAG_LAST,
        }
        let Layout {
            hints_at,
            heads_at,
            slots_at,
            rows_at: mut at,
        } = Layout::of(rows, prefix_len);
        page[HEADER_BYTES..hints_at].copy_from_slice(&self.last_key()[..prefix_len]);
        for (number, row) in self.rows.iter().enumerate() {
            let suffix = &self.key(row)[prefix_len..];
            let head = head_u32(suffix, 0).to_be_bytes();
            put(page, heads_at + number * HEAD_BYTES, head);
            if number > 0 && number.is_multiple_of(HINT_ROWS) {
                let hint = number / HINT_ROWS - 1;
                put(page, hints_at + hint * HEAD_BYTES, head);
            }
            put(
                page,
                slots_at + number * SLOT_BYTES,
                (at as u16).to_le_bytes(),
            );
            at = varint::write(page, at, suffix.len());
            at = varint::write(page, at, row.value.code());
            let delta = (row.stamp - self.stamp_min).to_le_bytes();
            for part in [&delta[..width], rest_of(suffix), self.value(row)] {
                page[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        }
        put(page, 22, (at as u16).to_le_bytes());
        self.rows.clear();
        self.bytes.clear();
        self.shared = Shared::default();
        self.rows_bytes = 0;
    }
}

/// Number of bytes for the number.
fn width_of(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
}
