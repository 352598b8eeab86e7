//! The two pointers of deltas that change after their delta was published.
//!
//! All other pointers are written once. These two are apart from the nodes, so that loom can check
//! them.
//!
//! # Invariants
//! - L1. A [`Link`] leads to the same content for ever: to a chain, and then perhaps to that chain
//!   consolidated. Only the thread that published the delta changes it, once (trap "the swap succeeds
//!   only under segment ownership").
//! - L2. [`Updates`] names ever newer nodes until it is frozen, and never changes again.
//!
//! Paper: bwtree §5.4, figures 19 and 20

use std::ptr;
use std::sync::atomic::Ordering;

use namiki_platform::sync::AtomicPtr;

/// The next pointer of a delta.
pub(super) struct Link<T>(AtomicPtr<T>);

impl<T> Link<T> {
    pub(super) fn new(below: *const T) -> Self {
        Self(AtomicPtr::new(below.cast_mut()))
    }

    /// The node below. `Acquire` pairs with the `Release` of [`cut`](Self::cut): a reader that sees
    /// the consolidated node sees its contents.
    #[inline]
    pub(super) fn below(&self) -> *mut T {
        self.0.load(Ordering::Acquire)
    }

    /// Replaces the chain `below` by `consolidated`, if the delta still lies on that chain. It does for
    /// the thread that published the delta, once (L1).
    pub(super) fn cut(&self, below: *mut T, consolidated: *mut T) -> bool {
        // `Release` pairs with the `Acquire` of `below`. No other thread stores here (L1).
        self.0
            .compare_exchange(below, consolidated, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// The view of a chain's node that a cut needs.
pub(super) trait Chained: Copy {
    /// `None` at the end of the chain, a base node.
    fn below(self) -> Option<Self>;

    /// The number of a delta, for the paper's counting modulo N.
    fn number(self) -> u8;
}

/// Whether the chain below `seam`, which the seam's writer is to consolidate, is worth that: not while
/// another writer is still working on the lower segment.
///
/// Trap "writer 2N may walk the old N.next while writer N swaps it": both pointers lead to the same content
/// (L1), so the result is right either way; but the work would be done twice. If writer N is
/// descheduled, the chain grows for as long, so writer 3N no longer waits for it.
pub(super) fn worth_cutting<N: Chained>(seam: N, every: u8) -> bool {
    let (mut steps, mut pending) = (0, false);
    let mut node = seam;
    while let Some(below) = node.below() {
        // The seam itself is skipped: its own chain below is always still there.
        pending |= steps > 0 && node.number().is_multiple_of(every) && below.below().is_some();
        node = below;
        steps += 1;
    }
    !pending || steps > 2 * usize::from(every) + 1
}

/// Where a split delta that is the head of its page keeps the newest delta below it.
pub(super) struct Updates<T>(AtomicPtr<T>);

/// Set in the pointer once nothing more may be put there.
const FROZEN: usize = 1;

impl<T> Updates<T> {
    pub(super) fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// A pointer that is written once: a merge delta keeps the chain it took over here.
    pub(super) fn fixed(to: *const T) -> Self {
        Self(AtomicPtr::new(to.cast_mut()))
    }

    /// The newest delta, or null before the first one.
    ///
    /// `SeqCst`: in a chain under a split delta this is the page's head, see `leaf_stamps.rs`.
    #[inline]
    pub(super) fn newest(&self) -> *mut T {
        self.0
            .load(Ordering::SeqCst)
            .map_addr(|address| address & !FROZEN)
    }

    /// Whether the split delta is about to be replaced.
    pub(super) fn is_frozen(&self) -> bool {
        self.0.load(Ordering::SeqCst).addr() & FROZEN != 0
    }

    /// Makes `new` the newest if `old` is the newest and the pointer is not frozen.
    pub(super) fn push(&self, old: *mut T, new: *mut T) -> bool {
        self.0
            .compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    /// Freezes the pointer at `newest`. False if another node is the newest; true also if another
    /// thread has frozen it: the first of them may replace the split delta.
    pub(super) fn freeze(&self, newest: *mut T) -> bool {
        let frozen = newest.map_addr(|address| address | FROZEN);
        match self
            .0
            .compare_exchange(newest, frozen, Ordering::SeqCst, Ordering::SeqCst)
        {
            Ok(_) => true,
            Err(found) => found == frozen,
        }
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_model;
