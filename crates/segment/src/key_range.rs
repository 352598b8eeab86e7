//! The rows of a range of keys, with faults.

use std::ops::{Bound, Range};

use crate::pages::Pages;
use crate::read::cursor::Cursor;
use crate::resident_page::Found;
use crate::row::Row;
use crate::segment::Segment;

/// Goes through the rows of a range of keys in their order. Made by [`Segment::range`].
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// The position to begin at, until the cursor is there.
    lower: Option<Bound<Vec<u8>>>,
    upper: Bound<Vec<u8>>,
    /// The one leaf whose rows have to be compared with the upper bound: those before are below it.
    last_leaf: u32,
    cursor: Cursor,
}

impl Segment {
    /// The rows with keys in a range.
    #[must_use]
    pub fn range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> KeyRange {
        let leaf_of = |bound: Bound<&[u8]>, unbounded| match bound {
            _ if self.leaves() == 0 => 0,
            Bound::Unbounded => unbounded,
            Bound::Included(key) | Bound::Excluded(key) => self.directory().leaf_of(key),
        };
        let last_leaf = leaf_of(upper, self.leaves().saturating_sub(1));
        // If the bounds cross, no row is in the range.
        let is_crossed = leaf_of(lower, 0) > last_leaf;
        KeyRange {
            lower: (!is_crossed).then(|| lower.map(<[u8]>::to_vec)),
            upper: upper.map(<[u8]>::to_vec),
            last_leaf,
            cursor: if is_crossed {
                self.end()
            } else {
                Cursor::default()
            },
        }
    }
}

impl KeyRange {
    /// The next row; `None` at the end. After a fault, the same call continues from there.
    pub fn next<'p>(&mut self, segment: &Segment, pages: &'p impl Pages) -> Found<Option<Row<'p>>> {
        if let Some(lower) = &self.lower {
            if let Bound::Included(key) | Bound::Excluded(key) = lower {
                match segment.position(pages, key, &mut self.cursor) {
                    Found::Fault(page) => return Found::Fault(page),
                    Found::Is(true) if matches!(lower, Bound::Excluded(_)) => {
                        // Its page has just been there.
                        if let Found::Fault(page) = segment.next(pages, &mut self.cursor) {
                            return Found::Fault(page);
                        }
                    }
                    Found::Is(_) => {}
                }
            }
            self.lower = None;
        }
        if self.cursor.leaf > self.last_leaf {
            return Found::Is(None);
        }
        let before = self.cursor;
        let row = match segment.next(pages, &mut self.cursor) {
            Found::Is(Some(row)) => row,
            other => return other,
        };
        let is_within = before.leaf < self.last_leaf
            || match &self.upper {
                Bound::Unbounded => true,
                Bound::Included(upper) => row.key.cmp_bytes(upper).is_le(),
                Bound::Excluded(upper) => row.key.cmp_bytes(upper).is_lt(),
            };
        if !is_within {
            self.cursor = segment.end();
            return Found::Is(None);
        }
        Found::Is(Some(row))
    }

    /// The pages that this may still need, side by side, for reading ahead: leaves of the range,
    /// and the value pages between them.
    #[must_use]
    pub fn pages_left(&self, segment: &Segment) -> Range<u32> {
        let first = match &self.lower {
            Some(Bound::Included(key) | Bound::Excluded(key)) if segment.leaves() > 0 => {
                segment.directory().leaf_of(key)
            }
            _ => self.cursor.leaf,
        };
        if first > self.last_leaf || first >= segment.leaves() {
            return 0..0;
        }
        segment.directory().pages_between(first, self.last_leaf)
    }
}
