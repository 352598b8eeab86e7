//! Walking a segment in the order of its keys, in both directions, with faults.
//!
//! A cursor stands between two rows and is a pair of numbers: a task that waits for a page keeps
//! nothing else.
//!
//! # Invariants
//! - C1. After a fault the cursor is where it was, or where it has to go on: the same call, made
//!   again once the page is resident, gives what it would have given.
//! - C2. A cursor that goes forward never stands behind the last row of a leaf, but at the
//!   beginning of the next: so a step needs one page.

use crate::format::leaf::Leaf;
use crate::pages::Pages;
use crate::resident_page::Found;
use crate::row::Row;
use crate::segment::Segment;

/// A position between two rows of a segment. The default one is before the first row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The leaf of the row behind the cursor, by its place among the leaves; their number at the
    /// end.
    pub(crate) leaf: u32,
    /// That row, or [`LEAF_END`].
    pub(crate) row: u32,
}

/// Behind the last row of a leaf, wherever that is. Only [`Segment::prev`] stops there.
const LEAF_END: u32 = u32::MAX;

impl Segment {
    /// A cursor behind the last row, to walk back from.
    #[must_use]
    pub fn end(&self) -> Cursor {
        Cursor {
            leaf: self.leaves(),
            row: 0,
        }
    }

    /// Puts the cursor before the first row whose key is `key` or comes after it; [`Segment::next`]
    /// then returns that row. Tells whether its key is `key`. Needs the one page that
    /// [`Segment::leaf_of`] names.
    #[inline]
    pub fn position(&self, pages: &impl Pages, key: &[u8], cursor: &mut Cursor) -> Found<bool> {
        if self.leaves() == 0 {
            *cursor = self.end();
            return Found::Is(false);
        }
        let number = self.directory().leaf_of(key);
        let no = self.directory().page_of(number);
        let Some(page) = pages.page(self, no) else {
            return Found::Fault(no);
        };
        let leaf = Leaf::of(page);
        let (row, is_equal) = leaf.lower_bound(key);
        *cursor = Cursor::before(number, row, leaf.len());
        Found::Is(is_equal)
    }

    /// The first row whose key is `key` or comes after it; nothing behind the last. The cursor is
    /// behind that row then.
    ///
    /// If all keys of the leaf are below `key`, the row is in the next one, and this may fault
    /// twice. To need no page twice, call [`Segment::position`], and then [`Segment::next`].
    #[inline]
    pub fn seek<'p>(
        &self,
        pages: &'p impl Pages,
        key: &[u8],
        cursor: &mut Cursor,
    ) -> Found<Option<Row<'p>>> {
        match self.position(pages, key, cursor) {
            Found::Is(_) => self.next(pages, cursor),
            Found::Fault(page) => Found::Fault(page),
        }
    }

    /// The row behind the cursor, which moves behind it; `None` at the end.
    #[inline]
    pub fn next<'p>(&self, pages: &'p impl Pages, cursor: &mut Cursor) -> Found<Option<Row<'p>>> {
        if cursor.row == LEAF_END {
            *cursor = Cursor {
                leaf: cursor.leaf + 1,
                row: 0,
            };
        }
        if cursor.leaf >= self.leaves() {
            return Found::Is(None);
        }
        let no = self.directory().page_of(cursor.leaf);
        let Some(page) = pages.page(self, no) else {
            return Found::Fault(no);
        };
        let leaf = Leaf::of(page);
        let row = cursor.row as usize;
        *cursor = Cursor::before(cursor.leaf, row + 1, leaf.len());
        Found::Is(Some(leaf.row(row)))
    }

    /// The row before the cursor, which moves before it; `None` at the beginning.
    #[inline]
    pub fn prev<'p>(&self, pages: &'p impl Pages, cursor: &mut Cursor) -> Found<Option<Row<'p>>> {
        if cursor.row == 0 {
            if cursor.leaf == 0 {
                return Found::Is(None);
            }
            *cursor = Cursor {
                leaf: cursor.leaf.min(self.leaves()) - 1,
                row: LEAF_END,
            };
        }
        let no = self.directory().page_of(cursor.leaf);
        let Some(page) = pages.page(self, no) else {
            return Found::Fault(no);
        };
        let leaf = Leaf::of(page);
        let row = leaf.len().min(cursor.row as usize) - 1;
        cursor.row = row as u32;
        Found::Is(Some(leaf.row(row)))
    }

    /// The leaf that the next row is in, if there is one: for reading ahead.
    #[must_use]
    pub fn page_at(&self, cursor: &Cursor) -> Option<crate::PageNo> {
        let leaf = cursor.leaf + u32::from(cursor.row == LEAF_END);
        (leaf < self.leaves()).then(|| self.directory().page_of(leaf))
    }
}

impl Cursor {
    /// Before row `row` of a leaf of `rows` rows (C2).
    #[inline]
    fn before(leaf: u32, row: usize, rows: usize) -> Self {
        if row < rows {
            Self {
                leaf,
                row: row as u32,
            }
        } else {
            Self {
                leaf: leaf + 1,
                row: 0,
            }
        }
    }
}
