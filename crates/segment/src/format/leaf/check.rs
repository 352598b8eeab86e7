//! Whether a page is a leaf in every byte: asked once, when it is read, so that nothing is asked of
//! it afterwards.

use super::{
    FLAG_LAST, HEAD_BYTES, HEADER_BYTES, HINT_ROWS, LONG_BYTES, Layout, Leaf, SLOT_BYTES,
    STAMP_WIDTH_MAX, long_at, u16_at, varint,
};
use crate::error::Damage;
use crate::format::{PAGE_BYTES, Page};
use crate::identity::PageNo;

/// The part of a key after the prefix, in the order of its comparison: two that are equal in head
/// and rest differ in length, where one ends within its head.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Suffix<'p> {
    head: u32,
    rest: &'p [u8],
    len: usize,
}

impl<'p> Leaf<'p> {
    /// Whether a page whose checksum is right is a leaf in every byte: after this, no access leaves
    /// the page, keys rise, the fences enclose them, and long values lie in front of the leaf.
    pub(crate) fn check(no: PageNo, page: &'p Page) -> Result<Self, Damage> {
        let rows = u16_at(page, 6) as usize;
        let prefix_len = u16_at(page, 14) as usize;
        let width = page[5] as usize;
        let end = u16_at(page, 22) as usize;
        let rows_at = Layout::of(rows, prefix_len).rows_at;
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
        leaf.check_rows(no, rows_at, end)?;
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

    /// Whether hints, heads, slots and rows fit together. Every page that is read goes through
    /// this, so the usual row is one that needs few questions, and none of them waits for the row
    /// before: both lengths take a byte, its head differs from the one before, and where it begins
    /// is in its slot.
    fn check_rows(&self, no: PageNo, rows_at: usize, end: usize) -> Result<(), Damage> {
        let slots_at = self.slots_at();
        let heads_at = self.heads_at;
        let heads = self.page[heads_at..slots_at].as_chunks::<HEAD_BYTES>().0;
        let slots = &self.page[slots_at..slots_at + self.rows * SLOT_BYTES];
        let slots = slots.as_chunks::<SLOT_BYTES>().0;
        let hints = &self.page[HEADER_BYTES + self.prefix.len()..heads_at];
        let hints = hints.as_chunks::<HEAD_BYTES>().0;
        let hinted = heads.iter().skip(HINT_ROWS).step_by(HINT_ROWS);
        if !hints.iter().eq(hinted) {
            return Err(Damage::Contents("a hint that is not its row's head"));
        }
        let begin_of = |slot: &[u8; SLOT_BYTES]| usize::from(u16::from_le_bytes(*slot));
        if slots.first().map(begin_of) != Some(rows_at) {
            return Err(GAP);
        }
        let ends = slots.iter().skip(1).map(begin_of).chain([end]);
        let mut before = None;
        for ((head, slot), row_end) in heads.iter().zip(slots).zip(ends) {
            let this = self.check_row(no, begin_of(slot), row_end, *head)?;
            if before.is_some_and(|before| before >= this) {
                return Err(Damage::Contents("its keys do not rise"));
            }
            before = Some(this);
        }
        Ok(())
    }

    /// Whether the row at `at` ends at `row_end`.
    #[inline]
    fn check_row(
        &self,
        no: PageNo,
        at: usize,
        row_end: usize,
        head: [u8; HEAD_BYTES],
    ) -> Result<Suffix<'p>, Damage> {
        let row = self.page.get(at..row_end).ok_or(GAP)?;
        let (len, value_len, stamp_at) = match *row {
            [len, value_len, ..] if (len | value_len) < 128 => {
                (usize::from(len), usize::from(value_len), 2)
            }
            _ => {
                let (len, next) = varint::try_read(row, 0).ok_or(CUT)?;
                let (value_len, next) = varint::try_read(row, next).ok_or(CUT)?;
                (len, value_len, next)
            }
        };
        let rest_at = stamp_at + self.stamp_width();
        let value_at = rest_at + len.saturating_sub(HEAD_BYTES);
        let is_long = value_len & 1 == 1;
        let value_bytes = if is_long { LONG_BYTES } else { value_len / 2 };
        if value_at + value_bytes != row.len() {
            return Err(CUT);
        }
        if is_long {
            if value_len != 1 {
                return Err(Damage::Contents("a value's length is odd"));
            }
            // So reading it stays among the data pages.
            if !long_at(self.page, at + value_at).lies_before(no) {
                return Err(Damage::Contents(
                    "a long value that is not in front of its leaf",
                ));
            }
        }
        let head = u32::from_be_bytes(head);
        if len < HEAD_BYTES && head << (8 * len as u32) != 0 {
            return Err(Damage::Contents("a head is longer than its key"));
        }
        let rest = &row[rest_at..value_at];
        Ok(Suffix { head, rest, len })
    }
}

const CUT: Damage = Damage::Contents("a row that is not as long as its lengths say");
const GAP: Damage = Damage::Contents("a row that does not begin where the one before ends");
