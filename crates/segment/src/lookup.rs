//! Look-ups of one key, and of many that are sorted.

use std::ops::Range;

use crate::format::leaf::Leaf;
use crate::identity::PageNo;
use crate::pages::Pages;
use crate::resident_page::Found;
use crate::row::Row;
use crate::segment::Segment;

/// The keys of a sorted list that one leaf holds, if any row has them: see [`Segment::leaves_of`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafKeys {
    /// The page of the leaf.
    pub page: PageNo,
    /// The keys, by their places in the list.
    pub keys: Range<usize>,
}

impl Segment {
    /// The row of `key`; nothing if there is none. Needs the one page that [`Segment::leaf_of`] names.
    #[inline]
    pub fn get<'p>(&self, pages: &'p impl Pages, key: &[u8]) -> Found<Option<Row<'p>>> {
        if self.leaves() == 0 {
            return Found::Is(None);
        }
        let no = self.directory().page_of(self.directory().leaf_of(key));
        let Some(page) = pages.page(self, no) else {
            return Found::Fault(no);
        };
        let leaf = Leaf::of(page);
        let (row, is_equal) = leaf.lower_bound(key);
        Found::Is(is_equal.then(|| leaf.row(row)))
    }

    /// Groups sorted keys by the leaf that holds them, without any page: what a look-up of all of them has to read, each
    /// page once, in the order of the file. Keys that are not sorted make more groups.
    pub fn leaves_of<'k, K: AsRef<[u8]>>(
        &'k self,
        keys: &'k [K],
    ) -> impl Iterator<Item = LeafKeys> + 'k {
        let mut at = 0;
        std::iter::from_fn(move || {
            if self.leaves() == 0 {
                return None;
            }
            let first = keys.get(at)?.as_ref();
            let leaf = self.directory().leaf_of(first);
            let begin = at;
            at += 1;
            while let Some(key) = keys.get(at)
                && self.is_in_leaf(leaf, key.as_ref())
            {
                at += 1;
            }
            Some(LeafKeys {
                page: self.directory().page_of(leaf),
                keys: begin..at,
            })
        })
    }

    /// Whether the leaf holds the key, if any does.
    fn is_in_leaf(&self, leaf: u32, key: &[u8]) -> bool {
        let directory = self.directory();
        directory.cmp_fence(leaf, key).is_le()
            && (leaf + 1 == directory.len() || directory.cmp_fence(leaf + 1, key).is_gt())
    }

    /// Looks up sorted keys: `found` is called for those whose pages are resident, with the place of each and its row,
    /// or nothing if there is none; `fault` for the others, once for each page, with the places of its keys. So keys of
    /// one page cost one fault, and all faults are known at once. When a page has come, look up its keys again.
    pub fn get_many<'p, K: AsRef<[u8]>>(
        &self,
        pages: &'p impl Pages,
        keys: &[K],
        mut found: impl FnMut(usize, Option<Row<'p>>),
        mut fault: impl FnMut(LeafKeys),
    ) {
        if self.leaves() == 0 {
            (0..keys.len()).for_each(|at| found(at, None));
            return;
        }
        for group in self.leaves_of(keys) {
            let Some(page) = pages.page(self, group.page) else {
                fault(group);
                continue;
            };
            let leaf = Leaf::of(page);
            for at in group.keys {
                let (row, is_equal) = leaf.lower_bound(keys[at].as_ref());
                found(at, is_equal.then(|| leaf.row(row)));
            }
        }
    }
}
