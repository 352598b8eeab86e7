//! The rts of each leaf: the stamps of readers that relied on a key's absence, for the inserter of
//! that key.
//!
//! A reader raises the rts of every leaf it relied on and **then** checks that the leaf's version is
//! unchanged; an inserter swaps the head (which changes the version) and **then** reads the rts.
//! All four accesses are `SeqCst`, so they are in one total order, and a reader that found its
//! version unchanged raised the rts before the swap, hence before the inserter's read.
//!
//! It remains to be shown that this holds although keys move between leaves.
//!
//! - *Split of L into L and Q.* A reader may raise L's rts, and find L unchanged, up to the very swap that
//!   installs the split; the right half must account for it. So `inherits(Q) = L` is noted before that
//!   swap. While the note exists, Q's rts is the larger of its own and L's; an inserter into Q
//!   reads both after the swap, and so after every successful raise of the unsplit L. The splitter
//!   alone removes the note, right after its swap and after raising `rts(Q)` to `rts(L)`: a reader
//!   that finds no note finds a `rts(Q)` that includes it. (Readers must not remove it: one that
//!   still asks for an old leaf of the same number could do so *before* the swap.) Later raises of
//!   L speak of the left half only; taking too much merely makes the stamp larger than need be. The
//!   splitter is pinned from before the swap until the note is gone, so L's number is not reused in
//!   that time, and notes never form a cycle.
//! - *Merge of R into L.* Once the removal delta is on R, no check of R can succeed. `rts(L)` is raised to
//!   `rts(R)` after that and before the merge delta is swapped in; an insertion into what was R's range
//!   comes after that swap and reads L's. An insertion into R came before the removal and reads R's own
//!   rts, which stays where it was.
//! - *Reuse.* The rts of a number never decreases, so an inserter may read it without being pinned.

use std::sync::atomic::Ordering;

use namiki_platform::sync::{AtomicU32, AtomicU64, total_order};

use super::page_id::PageId;

/// A leaf's stamps.
pub(super) struct Stamps {
    /// Largest stamp of a transaction that relied on an absent key here. Never decreases.
    rts: AtomicU64,
    /// The leaf with the rts that is still to be taken over, or `NONE`.
    inherits: AtomicU32,
}

impl Stamps {
    pub(super) fn new() -> Self {
        Self {
            rts: AtomicU64::new(0),
            inherits: AtomicU32::new(PageId::NONE.0),
        }
    }
}

/// The table of each leaf's stamps: the mapping table, or a few leaves in the loom model.
pub(super) trait StampTable {
    /// `None` for a number that was never handed out.
    fn stamps(&self, leaf: PageId) -> Option<&Stamps>;

    /// Notes that a leaf not yet published is about to be split from `left`; `NONE`: it is not.
    #[inline]
    fn inherit(&self, leaf: PageId, left: PageId) {
        if let Some(stamps) = self.stamps(leaf) {
            stamps.inherits.store(left.0, Ordering::SeqCst);
        }
    }

    /// Called by the splitter after its swap: takes over the left leaf's rts and removes the note.
    #[inline]
    fn take_over_rts(&self, leaf: PageId) {
        let rts = self.resolve_rts(leaf);
        if let Some(stamps) = self.stamps(leaf) {
            stamps.rts.fetch_max(rts, Ordering::SeqCst);
            stamps.inherits.store(PageId::NONE.0, Ordering::SeqCst);
        }
    }

    /// The leaf's rts, with those it inherits.
    fn resolve_rts(&self, leaf: PageId) -> u64 {
        total_order();
        // Q may be split from L which was just split from K: as many notes as splitters caught
        // between their swap and their takeover.
        let mut rts = 0;
        let mut at = leaf;
        while let Some(stamps) = self.stamps(at) {
            // The note is read before the rts: if it is gone, the rts includes the inherited one.
            let note = PageId(stamps.inherits.load(Ordering::SeqCst));
            rts = stamps.rts.load(Ordering::SeqCst).max(rts);
            if note == PageId::NONE {
                break;
            }
            at = note;
        }
        rts
    }

    /// Raises the leaf's rts to at least `rts`. The caller then reads the version again.
    #[inline]
    fn raise_rts(&self, leaf: PageId, rts: u64) {
        if let Some(stamps) = self.stamps(leaf) {
            // The common case under many readers: large enough already. A load suffices, as it is
            // in the same total order as the raise that it saw.
            if stamps.rts.load(Ordering::SeqCst) < rts {
                stamps.rts.fetch_max(rts, Ordering::SeqCst);
            }
        }
        total_order();
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_model {
    //! Every interleaving of a reader, a structure change and an inserter. Only the swap of heads is
    //! modelled, as a swap of small numbers; the stamps are those of production.

    use std::sync::atomic::Ordering;

    use loom::sync::Arc;
    use loom::thread;
    use namiki_platform::model_checker::{AtomicU64, explore};

    use super::{PageId, StampTable, Stamps, total_order};

    const LEFT: PageId = PageId(0);
    const RIGHT: PageId = PageId(1);
    const STAMP: u64 = 7;

    const FRESH: u64 = 0;
    const INSERTED: u64 = 1;
    const CHANGED: u64 = 2;

    struct Leaves {
        stamps: [Stamps; 2],
        heads: [AtomicU64; 2],
    }

    impl Leaves {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                stamps: [Stamps::new(), Stamps::new()],
                heads: [AtomicU64::new(FRESH), AtomicU64::new(FRESH)],
            })
        }

        fn head(&self, leaf: PageId) -> u64 {
            total_order();
            self.heads[leaf.0 as usize].load(Ordering::SeqCst)
        }

        fn swap(&self, leaf: PageId, old: u64, new: u64) -> bool {
            let head = &self.heads[leaf.0 as usize];
            let swapped = head
                .compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok();
            total_order();
            swapped
        }

        /// Relies on the absence of a key in a fresh leaf.
        fn read(&self, leaf: PageId) -> bool {
            self.head(leaf) == FRESH && {
                self.raise_rts(leaf, STAMP);
                self.head(leaf) == FRESH
            }
        }
    }

    impl StampTable for Leaves {
        fn stamps(&self, leaf: PageId) -> Option<&Stamps> {
            self.stamps.get(leaf.0 as usize)
        }
    }

    /// Runs the three and checks that the inserter saw the stamp of a reader that succeeded.
    fn check(
        read: PageId,
        change: impl Fn(&Leaves) + Copy + Send + Sync + 'static,
        insert: impl Fn(&Leaves) -> u64 + Copy + Send + Sync + 'static,
    ) {
        explore(3, move || {
            let leaves = Leaves::new();
            let reader = thread::spawn({
                let leaves = leaves.clone();
                move || leaves.read(read)
            });
            let changer = thread::spawn({
                let leaves = leaves.clone();
                move || change(&leaves)
            });
            let rts = insert(&leaves);
            changer.join().unwrap();
            if reader.join().unwrap() {
                assert!(rts >= STAMP, "the insert slipped past the reader");
            }
        });
    }

    #[test]
    fn a_split_hides_no_reader_from_an_inserter() {
        let split = |leaves: &Leaves| {
            leaves.inherit(RIGHT, LEFT);
            if leaves.swap(LEFT, FRESH, CHANGED) {
                leaves.take_over_rts(RIGHT);
            } else {
                leaves.inherit(RIGHT, PageId::NONE);
            }
        };
        // The key belongs to the right half, once there is one.
        check(LEFT, split, |leaves| {
            if leaves.swap(LEFT, FRESH, INSERTED) {
                leaves.resolve_rts(LEFT)
            } else {
                assert!(leaves.swap(RIGHT, FRESH, INSERTED));
                leaves.resolve_rts(RIGHT)
            }
        });
    }

    #[test]
    fn a_merge_hides_no_reader_from_an_inserter() {
        let merge = |leaves: &Leaves| {
            if leaves.swap(RIGHT, FRESH, CHANGED) {
                leaves.raise_rts(LEFT, leaves.resolve_rts(RIGHT));
                assert!(leaves.swap(LEFT, FRESH, CHANGED));
            }
        };
        check(RIGHT, merge, |leaves| {
            if leaves.swap(RIGHT, FRESH, INSERTED) {
                leaves.resolve_rts(RIGHT)
            } else if leaves.swap(LEFT, CHANGED, INSERTED) {
                leaves.resolve_rts(LEFT)
            } else {
                // Removed and not merged yet: production helps; here the insert does not happen.
                STAMP
            }
        });
    }
}
