//! A node's version: its lock, the change under way, and counters of changes.
//!
//! ```text
//!  63        32 31       8  7..5    4       3         2          1         0
//! |  vsplit    |  vinsert  |     | root | deleted | splitting | inserting | locked |
//! ```
//!
//! A reader reads the version when no writer is inserting or splitting, reads the node, and reads
//! the version again: if it is the same, everything that was read is of one instant. A writer locks
//! the node first. The lock alone disturbs no reader; it suffices to replace a payload, which is
//! one store. Before any other change a writer announces it, and unlocking increments the counter.
//!
//! # Invariants
//! - V1. A node's content, except payloads, is written by the holder of the lock only, and after
//!   `inserting` or `splitting` was set.
//! - V2. `vsplit` changes whenever the range of keys changes that the node is responsible for, when the
//!   node stops or begins to be a root, and when it is deleted.
//! - V3. A deleted node is never locked for a change again: a thread that locks it checks that bit.
//!
//! A carry out of `vinsert` goes into `vsplit`, which is harmless: it makes readers search again.
//!
//! Paper: bwtree §2.5

use std::sync::atomic::Ordering;

use namiki_platform::sync::{AtomicU64, fence, wait};

const LOCKED: u64 = 1;
const INSERTING: u64 = 1 << 1;
const SPLITTING: u64 = 1 << 2;
const DELETED: u64 = 1 << 3;
const ROOT: u64 = 1 << 4;
const INSERT_SHIFT: u32 = 8;
const SPLIT_SHIFT: u32 = 32;
const CHANGING: u64 = INSERTING | SPLITTING;

/// The version word of one node.
#[derive(Debug)]
pub(super) struct Version(AtomicU64);

/// A version in which no writer was changing the node. Does not tell whether the lock was held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen(u64);

impl Seen {
    #[inline]
    pub(super) fn is_root(self) -> bool {
        self.0 & ROOT != 0
    }

    #[inline]
    pub(super) fn is_deleted(self) -> bool {
        self.0 & DELETED != 0
    }

    /// Whether the node is responsible for the same keys in both versions, and in the tree in both.
    #[inline]
    pub(super) fn same_range(self, other: Self) -> bool {
        (self.0 ^ other.0) >> SPLIT_SHIFT == 0 && (self.0 | other.0) & DELETED == 0
    }
}

impl Version {
    pub(super) fn new(root: bool) -> Self {
        Self(AtomicU64::new(if root { ROOT } else { 0 }))
    }

    /// The version, once no writer is changing the node.
    #[inline]
    pub(super) fn stable(&self) -> Seen {
        let mut turn = 0;
        loop {
            // `Acquire` pairs with the `Release` of an unlocking: all that was changed is seen.
            let now = self.0.load(Ordering::Acquire);
            if now & CHANGING == 0 {
                return Seen(now & !LOCKED);
            }
            wait(turn);
            turn += 1;
        }
    }

    /// Whether everything that was read since `seen` is of one instant.
    #[inline]
    pub(super) fn unchanged(&self, seen: Seen) -> bool {
        // Pairs with the fence in `Locked::announce`: if anything read since is newer than `seen`,
        // then so is the word.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) & !LOCKED == seen.0
    }

    /// Locks the node, waiting for the current holder.
    #[inline]
    pub(super) fn lock(&self) -> Locked<'_> {
        let mut turn = 0;
        loop {
            let now = self.0.load(Ordering::Relaxed);
            if now & LOCKED == 0
                && self
                    .0
                    // `Acquire` pairs with the `Release` of the unlocking before.
                    .compare_exchange_weak(now, now | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Locked {
                    version: self,
                    now: now | LOCKED,
                };
            }
            wait(turn);
            turn += 1;
        }
    }

    /// Locks the node if it is still as it was seen and not locked. Never waits, so it may be called with
    /// other locks held.
    #[inline]
    pub(super) fn try_lock(&self, seen: Seen) -> Option<Locked<'_>> {
        let now = seen.0 | LOCKED;
        self.0
            // `Acquire` as in `lock`.
            .compare_exchange(seen.0, now, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Locked { version: self, now })
    }
}

/// The lock of a node, held. Dropping it unlocks, with a new version if something was announced.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    version: &'a Version,
    /// The next value of the word, except for the counters.
    now: u64,
}

impl Locked<'_> {
    /// The version that a reader saw just before the lock was taken.
    #[inline]
    pub(super) fn seen(&self) -> Seen {
        Seen(self.now & !LOCKED)
    }

    /// Announces that entries will be added or removed.
    #[inline]
    pub(super) fn inserting(&mut self) {
        self.announce(INSERTING);
    }

    /// Announces that the node's range will change, too.
    #[inline]
    pub(super) fn splitting(&mut self) {
        self.announce(SPLITTING);
    }

    #[inline]
    fn announce(&mut self, what: u64) {
        self.now |= what;
        self.version.0.store(self.now, Ordering::Relaxed);
        // Pairs with the fence in `unchanged`.
        fence(Ordering::Release);
    }

    /// The node counts as deleted once it is unlocked.
    #[inline]
    pub(super) fn delete(&mut self) {
        self.announce(SPLITTING);
        self.now |= DELETED;
    }

    /// Sets whether the node is the root of its layer once it is unlocked.
    #[inline]
    pub(super) fn set_root(&mut self, root: bool) {
        self.announce(SPLITTING);
        self.now = self.now & !ROOT | if root { ROOT } else { 0 };
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut now = self.now & !(LOCKED | CHANGING);
        if self.now & INSERTING != 0 {
            now = now.wrapping_add(1 << INSERT_SHIFT);
        }
        if self.now & SPLITTING != 0 {
            now = now.wrapping_add(1 << SPLIT_SHIFT);
        }
        // Pairs with the `Acquire` of the thread that takes or locks the version next.
        self.version.0.store(now, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_payload_disturbs_no_reader_and_the_rest_does() {
        let version = Version::new(true);
        let seen = version.stable();
        drop(version.lock());
        assert!(version.unchanged(seen));
        let mut locked = version.lock();
        assert!(version.unchanged(seen));
        locked.inserting();
        assert!(!version.unchanged(seen));
        drop(locked);
        assert!(!version.unchanged(seen));
        assert!(seen.same_range(version.stable()));
        let mut locked = version.lock();
        locked.set_root(false);
        drop(locked);
        assert!(!seen.same_range(version.stable()));
        assert!(!version.stable().is_root());
        assert!(version.try_lock(seen).is_none());
        version.lock().delete();
        assert!(version.stable().is_deleted());
    }
}
