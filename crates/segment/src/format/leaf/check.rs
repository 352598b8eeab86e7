//! Whether a page is a leaf in every byte: asked once, when it is read, so that nothing is asked of it afterwards.

use super::{
    FLAG_LAST, HEAD_BYTES, HEADER_BYTES, HINT_ROWS, LONG_BYTES, Layout, Leaf, STAMP_WIDTH_MAX,
    long_at, u16_at, varint,
};
use crate::error::Damage;
use crate::format::{PAGE_BYTES, Page};
use crate::identity::PageNo;

impl<'p> Leaf<'p> {
    /// Whether a page whose checksum is right is a leaf in every byte: after this, no access leaves the page, keys rise,
    /// the fences enclose them, and long values lie in front of the leaf.
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

    /// Whether hints, heads, slots and rows fit together. Every page that is read goes through this, so it is two passes
    /// without a question for each row: heads rise, and usual rows end where the next slot says, where they begin
    /// standing in their own. What is not so is looked at closely.
    fn check_rows(&self, no: PageNo, rows_at: usize, end: usize) -> Result<(), Damage> {
        let heads = self.page[self.heads_at..self.slots_at()]
            .as_chunks::<HEAD_BYTES>()
            .0;
        let hints = &self.page[HEADER_BYTES + self.prefix.len()..self.heads_at];
        let hints = hints.as_chunks::<HEAD_BYTES>().0;
        let hinted = heads.iter().skip(HINT_ROWS).step_by(HINT_ROWS);
        if !hints.iter().eq(hinted) {
            return Err(Damage::Contents("a hint that is not its row's head"));
        }
        if self.slot(0) != rows_at {
            return Err(GAP);
        }
        let mut is_usual = true;
        for row in 0..self.rows - 1 {
            is_usual &= self.is_usual_row(row, self.slot(row + 1));
        }
        is_usual &= self.is_usual_row(self.rows - 1, end);
        if !is_usual {
            self.check_each_row(no, end)?;
        }
        let neighbours = heads.iter().zip(&heads[1..]);
        let rises = neighbours.fold(true, |rises, (a, b)| {
            rises & (u32::from_be_bytes(*a) < u32::from_be_bytes(*b))
        });
        if !rises {
            self.check_order()?;
        }
        Ok(())
    }

    /// Whether a row ends at `row_end`, where its suffix is shorter than 128 bytes and its value in the page: what most
    /// rows are. Of one that leaves the page, the answer is no.
    #[inline]
    fn is_usual_row(&self, row: usize, row_end: usize) -> bool {
        let at = self.slot(row);
        // Looked up in the page whatever the slot says; if it lies, the row does not end where it should.
        let byte = |at: usize| self.page[at % PAGE_BYTES] as usize;
        let (len, low, high) = (byte(at), byte(at + 1), byte(at + 2));
        // The value's length takes one byte or two.
        let is_two = low >> 7;
        let value_len = low & 127 | (high * is_two) << 7;
        let is_plain = (is_two == 0) | (high.wrapping_sub(1) < 127);
        let suffix_bytes = len.max(HEAD_BYTES) - HEAD_BYTES;
        let end = at + 2 + is_two + self.stamp_width() + suffix_bytes + value_len / 2;
        // Of a short suffix, the head ends in zeros.
        let padding = u64::from(self.head(row)) << (8 * len.min(HEAD_BYTES)) & u64::from(u32::MAX);
        (len < 128)
            & is_plain
            & (value_len & 1 == 0)
            & (end == row_end)
            & (end <= PAGE_BYTES)
            & (padding == 0)
    }

    /// The same of rows with longer lengths and long values; and what is wrong.
    #[cold]
    fn check_each_row(&self, no: PageNo, end: usize) -> Result<(), Damage> {
        for row in 0..self.rows {
            let row_end = match row + 1 {
                next if next < self.rows => self.slot(next),
                _ => end,
            };
            self.check_row(no, row, row_end)?;
        }
        Ok(())
    }

    fn check_row(&self, no: PageNo, row: usize, row_end: usize) -> Result<(), Damage> {
        let at = self.slot(row);
        let bytes = self.page.get(at..row_end).ok_or(GAP)?;
        let (len, next) = varint::try_read(bytes, 0).ok_or(CUT)?;
        let (value_len, next) = varint::try_read(bytes, next).ok_or(CUT)?;
        let value_at = next + self.stamp_width() + len.saturating_sub(HEAD_BYTES);
        let is_long = value_len & 1 == 1;
        let value_bytes = if is_long { LONG_BYTES } else { value_len / 2 };
        if value_at + value_bytes != bytes.len() {
            return Err(CUT);
        }
        if is_long && value_len != 1 {
            return Err(Damage::Contents("a value's length is odd"));
        }
        // So reading it stays among the data pages.
        if is_long && !long_at(self.page, at + value_at).lies_before(no) {
            return Err(Damage::Contents(
                "a long value that is not in front of its leaf",
            ));
        }
        if len < HEAD_BYTES && self.head(row) << (8 * len as u32) != 0 {
            return Err(Damage::Contents("a head is longer than its key"));
        }
        Ok(())
    }

    /// Whether keys rise where some heads are equal, of rows that were checked otherwise.
    #[cold]
    fn check_order(&self) -> Result<(), Damage> {
        let suffix = |row: usize| {
            let (len, at) = varint::read(self.page, self.slot(row));
            let (_, stamp_at) = varint::read(self.page, at);
            let rest_at = stamp_at + self.stamp_width();
            let rest = &self.page[rest_at..rest_at + len.saturating_sub(HEAD_BYTES)];
            // Two that are equal in head and rest differ in length, where one ends within its head.
            (self.head(row), rest, len)
        };
        if (1..self.rows).all(|row| suffix(row - 1) < suffix(row)) {
            Ok(())
        } else {
            Err(Damage::Contents("its keys do not rise"))
        }
    }
}

const CUT: Damage = Damage::Contents("a row that is not as long as its lengths say");
const GAP: Damage = Damage::Contents("a row that does not begin where the one before ends");
