//! Consolidation within a chain, the paper's proposal (a).
//!
//! The deltas of a page are numbered. A delta with a number that is 0 modulo N is a *seam*: its writer
//! consolidates what lies below the seam and swaps the seam's next pointer:
//!
//! ```text
//!   head --> 6 --> 5 --> 4 --> 3 --> 2 --> 1 --> base                      (N = 4)
//!   head --> 6 --> 5 --> 4 --> base'                3 --> … --> base retired
//! ```
//! Writers continue at the head at the same time: they cannot make this swap fail, nor does it make
//! theirs fail. Only one writer works on each segment. Otherwise every writer past the threshold
//! tries to consolidate, and all but one of them fail.
//!
//! # Invariants
//! - C1. A seam's next pointer is swapped by the thread that published the seam, and once (L1 in
//!   `mutable_delta_pointers.rs`; trap "the swap succeeds only under segment ownership"). That thread is
//!   pinned from before the seam is published until after the swap. So a thread that takes the seam
//!   out of the tree, by a whole consolidation or as the writer of the next seam, frees it only
//!   after the swap.
//! - C2. Nothing in a delta above depends on the form of the chain below: length, version, fences
//!   and sibling are the same before and after. Its addresses are advice (N7), and its key bytes
//!   are its own (`node.rs`, N3).
//! - C3. A delta above a structure change that may be half done does not act as a seam: the
//!   change's trace must stay until the parent knows, and deltas above point to it. Its writer
//!   consolidates at the head, which completes the change first. No change comes to lie below a
//!   seam later.
//! - C4. A writer that finds the page too large also consolidates at the head: to split it, the
//!   head must change.
//!
//! A slab (`openbw`) would be retired with its last delta; our deltas are nodes of their own.
//!
//! Paper: bwtree §5.4 (a), figure 19

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;

use super::BwTree;
use super::consolidate::{Consolidated, consolidated};
use super::mutable_delta_pointers::worth_cutting;
use super::node::{NodeRef, OwnedNode};
use super::structure_change_types::{Below, Resize};
use super::variant::Variant;

impl<K: Key, V: Variant> BwTree<K, V> {
    /// Consolidates the chain below a delta that this thread has just published. Called once for
    /// each.
    pub(super) fn consolidate_below(
        &self,
        seam: NodeRef<'_, K, V>,
        resize: Resize,
        guard: &Guard,
    ) -> Below {
        let every = self.chain_max(seam.level());
        if seam.smo().is_some() {
            return Below::NeedsHead;
        }
        let Some(below) = seam.next() else {
            unreachable!("a delta lies on something")
        };
        if below.depth() == 0 || !worth_cutting(seam, every) {
            return Below::Done;
        }
        match consolidated(below, self.len_max(seam.level(), resize)) {
            Consolidated::Base(base) => {
                self.cut_below(seam, below, base, guard);
                Below::Done
            }
            Consolidated::TooLarge(_) => Below::NeedsHead,
        }
    }

    /// Installs a base node in place of the chain that it was consolidated from. A failure would break
    /// C1, and is counted as that of any other consolidation.
    pub(super) fn cut_below(
        &self,
        seam: NodeRef<'_, K, V>,
        below: NodeRef<'_, K, V>,
        base: OwnedNode<K, V>,
        guard: &Guard,
    ) {
        let event = if self.mapping.cut_below(seam, below, base, guard) {
            Event::Consolidation
        } else {
            Event::FailedConsolidation
        };
        self.counters.add(event);
    }
}
