//! Look-ups of one key, and of many that are sorted.

use std::ops::Range;

use namiki_platform::prefetch;

use crate::format::leaf::Leaf;
use crate::format::leaf::search::Probe;
use crate::identity::PageNo;
use crate::pages::Pages;
use crate::resident_page::{Found, PageRef};
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
    /// The row of `key`, if there is one. Needs the one page that [`Segment::leaf_of`] names.
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

    /// Groups sorted keys by the leaf that holds them, without any page: what a look-up of all of
    /// them has to read, each page once, in the order of the file. Keys that are not sorted make
    /// more groups.
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
                && self.directory().holds(leaf, key.as_ref())
            {
                at += 1;
            }
            Some(LeafKeys {
                page: self.directory().page_of(leaf),
                keys: begin..at,
            })
        })
    }

    /// Looks up sorted keys: `found` is called for those whose pages are resident, with the place
    /// of each and its row, or nothing; `fault` for the others, once for each page, with the places
    /// of its keys. So keys of one page cost one fault, and all faults are known at once. When a
    /// page has come, look up its keys again.
    ///
    /// Look-ups in resident pages run interleaved, so that their cache misses overlap.
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
        let mut window: [Option<Search<'p>>; WINDOW] = [const { None }; WINDOW];
        let mut searches = 0;
        for group in self.leaves_of(keys) {
            let Some(page) = pages.page(self, group.page) else {
                fault(group);
                continue;
            };
            prefetch_beginning(page);
            for at in group.keys {
                window[searches] = Some(Search { page, at });
                searches += 1;
                if searches == WINDOW {
                    finish(&window, keys, &mut found);
                    searches = 0;
                }
            }
        }
        finish(&window[..searches], keys, &mut found);
    }
}

/// Number of interleaved look-ups: enough for the cache misses that a processor has under way.
const WINDOW: usize = 16;

/// A key, by its place in the list, and the page of its leaf.
struct Search<'p> {
    page: PageRef<'p>,
    at: usize,
}

/// Asks for the header and the first hints and heads.
#[inline]
fn prefetch_beginning(page: PageRef<'_>) {
    prefetch(&page.bytes()[0]);
    prefetch(&page.bytes()[64]);
}

/// Takes all searches of a window one step at a time, so that what each waits for is on its way
/// while the others take theirs.
fn finish<'p, K: AsRef<[u8]>>(
    window: &[Option<Search<'p>>],
    keys: &[K],
    found: &mut impl FnMut(usize, Option<Row<'p>>),
) {
    let searches = || window.iter().flatten();
    let mut leaves: [Option<(Leaf<'p>, Probe<'_>)>; WINDOW] = [const { None }; WINDOW];
    for (search, leaf) in searches().zip(&mut leaves) {
        let this = Leaf::of(search.page);
        let probe = this.probe(keys[search.at].as_ref());
        this.prefetch_heads(&probe);
        *leaf = Some((this, probe));
    }
    let mut rows = [0; WINDOW];
    for ((leaf, probe), row) in leaves.iter().flatten().zip(&mut rows) {
        *row = leaf.first_head(probe);
        leaf.prefetch_row(*row);
    }
    let steps = leaves.iter().flatten().zip(rows);
    for (((leaf, probe), row), search) in steps.zip(searches()) {
        let (row, is_equal) = leaf.finish(probe, row);
        found(search.at, is_equal.then(|| leaf.row(row)));
    }
}
