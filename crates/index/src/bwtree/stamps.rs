//! The rts beside each leaf: who relied on a key's absence, told to who inserts it.
//!
//! A reader raises the rts of every leaf it relied on and **then** checks that the leaf's version is
//! unchanged; an inserter swaps the head (which changes the version) and **then** reads the rts. All
//! four accesses are `SeqCst`, so they stand in one total order, and a reader that found its version
//! unchanged raised the rts before the swap, hence before the inserter's read.
//!
//! What must be shown is that this holds although keys move between leaves.
//!
//! - *Split of L into L and Q.* A reader may raise L's rts, and find L unchanged, up to the very
//!   swap that installs the split; the right half must answer for it. So `inherits(Q) = L` is noted
//!   before that swap. While the note stands, Q's rts is the larger of its own and L's; whoever
//!   inserts into Q reads both after the swap, and so after every successful raise of the unsplit
//!   L. The splitter alone removes the note, right after its swap and after raising `rts(Q)` to
//!   `rts(L)`: a reader that finds no note finds a `rts(Q)` that includes it. (Readers must not
//!   remove it: one that still asks for an old leaf of the same number could do so *before* the
//!   swap.) Later raises of L speak of the left half only; taking too much merely makes the stamp
//!   larger than need be. The splitter is pinned from before the swap until the note is gone, so
//!   L's number is not reused meanwhile, and notes never form a circle.
//! - *Merge of R into L.* Once the removal delta is on R, no check of R can succeed. `rts(L)` is raised
//!   to `rts(R)` after that and before the merge delta is swapped in; an insertion into what was R's
//!   range comes after that swap and reads L's. An insertion into R came before the removal and
//!   reads R's own rts, which stays where it was.
//! - *Reuse.* The rts of a number never decreases, so an inserter may read it without being pinned.

use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;

use super::mapping::{Mapping, PageId};
use crate::LeafVersion;
use crate::key::Key;

impl<K: Key> Mapping<K> {
    /// The counter that a new leaf with this number starts with (M4).
    pub(super) fn first_counter(&self, id: PageId) -> u64 {
        self.stamps(id)
            .map_or(0, |stamps| stamps.floor.load(Ordering::SeqCst))
    }

    /// Notes that a leaf not yet published is about to be split from `left`, or has no ancestor.
    pub(super) fn inherit(&self, leaf: PageId, left: PageId) {
        if let Some(stamps) = self.stamps(leaf) {
            stamps.inherits.store(left.0, Ordering::SeqCst);
        }
    }

    /// Called by the splitter after its swap: takes over the left leaf's rts and removes the note.
    pub(super) fn take_over_rts(&self, leaf: PageId) {
        let rts = self.resolve_rts(leaf);
        if let Some(stamps) = self.stamps(leaf) {
            stamps.rts.fetch_max(rts, Ordering::SeqCst);
            stamps.inherits.store(PageId::NONE.0, Ordering::SeqCst);
        }
    }

    /// The leaf's rts, with those it inherits.
    pub(super) fn resolve_rts(&self, leaf: PageId) -> u64 {
        // Q may be split from L which was just split from K: as many notes as splitters caught
        // between their swap and their takeover.
        let mut rts = 0;
        let mut at = leaf;
        while let Some(stamps) = self.stamps(at) {
            // The note is read before the rts: if it is gone, the rts includes what it stood for.
            let note = PageId(stamps.inherits.load(Ordering::SeqCst));
            rts = stamps.rts.load(Ordering::SeqCst).max(rts);
            if note == PageId::NONE {
                break;
            }
            at = note;
        }
        rts
    }

    /// Raises the leaf's rts to at least `rts`.
    pub(super) fn raise_rts(&self, leaf: PageId, rts: u64) {
        if let Some(stamps) = self.stamps(leaf) {
            // The common case under many readers: large enough already. A load suffices, it stands
            // in the same total order as the raise that it saw.
            if stamps.rts.load(Ordering::SeqCst) < rts {
                stamps.rts.fetch_max(rts, Ordering::SeqCst);
            }
        }
    }

    /// See [`raise_and_check`](crate::PointIndex::raise_and_check).
    pub(super) fn raise_and_check(&self, seen: LeafVersion, rts: u64, guard: &Guard) -> bool {
        let Ok(leaf) = u32::try_from(seen.leaf) else {
            return false;
        };
        self.raise_rts(PageId(leaf), rts);
        self.version(seen.leaf, guard) == Some(seen)
    }

    /// The version of a leaf now.
    pub(super) fn version(&self, leaf: u64, guard: &Guard) -> Option<LeafVersion> {
        let head = self.load(PageId(u32::try_from(leaf).ok()?), guard)?;
        let alive = head.level() == 0 && !head.is_removed();
        alive.then(|| LeafVersion {
            leaf,
            counter: head.counter(),
        })
    }
}
