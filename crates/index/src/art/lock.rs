//! The version lock of a node: readers look without it and check afterwards, writers take it.
//!
//! ```text
//!  63                            2      1        0
//! |  version                     | obsolete | locked |
//! ```
//!
//! # Invariants
//! - L1. The words of a node change only while its lock is held, and each change of them is followed by a
//!   release with a new version. So a reader that read the same version before and after reading the words
//!   has read one state.
//! - L2. Locks are only ever *tried*, against the version seen before: a thread that loses releases all it
//!   holds and restarts. So deadlocks are impossible in any order of locks.
//! - L3. An obsolete node stays obsolete and its words do not change again.
//!
//! Paper: bwtree §2 (its reference 3 is ART), with optimistic lock coupling

use std::sync::atomic::Ordering;

use namiki_platform::sync::{AtomicU64, fence, wait};

const LOCKED: u64 = 1;
const OBSOLETE: u64 = 2;
const ONE_VERSION: u64 = 4;

/// See the module.
pub(super) struct Lock(AtomicU64);

impl Lock {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Waits until the lock is free and returns the version. `None`: the node is obsolete.
    #[inline]
    pub(super) fn read(&self) -> Option<u64> {
        // `Acquire` pairs with the `Release` of the last unlock: the words are as new as the version.
        let mut version = self.0.load(Ordering::Acquire);
        let mut turn = 0;
        while version & LOCKED != 0 {
            wait(turn);
            turn += 1;
            version = self.0.load(Ordering::Acquire);
        }
        (version & OBSOLETE == 0).then_some(version)
    }

    /// Whether the words read since `read` returned this version are of one state.
    #[inline]
    pub(super) fn check(&self, version: u64) -> bool {
        // The fence pairs with that of `try_lock`: a reader of a word that a writer wrote sees the lock
        // held, or a later version.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version
    }

    /// Takes the lock if the version is still this one.
    #[inline]
    pub(super) fn try_lock(&self, version: u64) -> Option<Locked<'_>> {
        // `Acquire` pairs with the `Release` of the last unlock.
        let taken = self.0.compare_exchange(
            version,
            version | LOCKED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        // Pairs with the fence of `check`: the lock is seen before the words that follow.
        fence(Ordering::Release);
        // Made only when taken: dropping it releases the lock.
        taken.is_ok().then(|| Locked {
            lock: self,
            next: version,
        })
    }
}

/// The lock held. Released when dropped, with the version that was before unless told otherwise.
#[must_use]
pub(super) struct Locked<'a> {
    lock: &'a Lock,
    next: u64,
}

impl Locked<'_> {
    /// The words have changed, or what the node is asked for has.
    #[inline]
    pub(super) fn changed(&mut self) {
        self.next = self.next.wrapping_add(ONE_VERSION);
    }

    /// The node is no longer part of the tree.
    #[inline]
    pub(super) fn obsolete(&mut self) {
        self.changed();
        self.next |= OBSOLETE;
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.0.store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_noticed_and_a_lock_alone_is_not() {
        let lock = Lock::new();
        let version = lock.read();
        assert_eq!(version, Some(0));
        drop(lock.try_lock(0));
        assert!(lock.check(0));
        let mut held = lock.try_lock(0);
        assert!(!lock.check(0), "locked");
        assert!(lock.try_lock(0).is_none());
        if let Some(held) = &mut held {
            held.changed();
        }
        drop(held);
        assert!(!lock.check(0));
        let Some(now) = lock.read() else {
            panic!("not obsolete")
        };
        let mut held = lock.try_lock(now);
        if let Some(held) = &mut held {
            held.obsolete();
        }
        drop(held);
        assert_eq!(lock.read(), None);
    }
}
