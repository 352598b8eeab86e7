//! Pauses of the background removal of deleted keys while transactions are held.
//!
//! A transaction that has looked up an absent key depends on the key's record and on leaves of the
//! index, and a removal changes both: the transaction meets a conflict although no other one has
//! changed anything. A transaction that runs as a closure is retried. A *held* one, of
//! [`Session::begin`](crate::Session::begin) or [`Database::begin`](crate::Database::begin), has to
//! be repeated by its owner. So the background thread removes nothing while one is held.
//!
//! ```text
//!   a held transaction                     the background thread, for each batch
//!   1. counts itself as held               1. counts itself as removing
//!   2. waits until none is removing        2. stops if a transaction is held
//!   3. looks keys up                       3. removes keys
//!   4. ends, and is held no longer         4. is removing no longer
//! ```
//! Steps 1 and 2 of both are `SeqCst`: either the thread sees the held transaction and removes
//! nothing, or the transaction sees the thread and waits. So while the transaction is held, the
//! thread neither removes a key nor locks a record. Only the time of a removal changes, so no
//! argument of `removal.rs` depends on pauses.
//!
//! **Removal does not starve.** Commits do not pause: those that delete keys remove keys, whatever
//! is held, and so does every 64th commit of a session after the background thread was paused with
//! keys waiting ([`RemovalPauses::take_overdue`]). These are commits of other clients, beside which a
//! held transaction can still meet a conflict. A client that runs one held transaction after the
//! other removes keys in the same way, between them.
//!
//! Design: decision 0075

#[cfg(all(test, loom))]
mod loom_model;

use crossbeam_utils::CachePadded;
use namiki_platform::sync::{AtomicBool, Ordering, SeqCstU64 as AtomicU64, pause};

/// See above.
#[derive(Debug)]
pub(crate) struct RemovalPauses {
    /// How many transactions are held.
    held: CachePadded<AtomicU64>,
    /// How many threads remove keys in the background.
    removing: CachePadded<AtomicU64>,
    /// Keys wait for a removal that was paused.
    is_overdue: CachePadded<AtomicBool>,
}

impl RemovalPauses {
    pub(crate) fn new() -> Self {
        Self {
            held: CachePadded::new(AtomicU64::new(0)),
            removing: CachePadded::new(AtomicU64::new(0)),
            is_overdue: CachePadded::new(AtomicBool::new(false)),
        }
    }

    /// A transaction is held from now on. Waits for the batch that is being removed: that takes some
    /// microseconds, and waits for no transaction.
    pub(crate) fn begin(&self) {
        self.held.fetch_add(1, Ordering::SeqCst);
        let mut round = 0;
        // SeqCst: after the addition, see above; it pairs with the Release of `Removing`, so what
        // was removed is seen removed.
        while self.removing.load(Ordering::SeqCst) > 0 {
            pause(round);
            round += 1;
        }
    }

    /// The transaction has ended.
    pub(crate) fn end(&self) {
        self.held.fetch_sub(1, Ordering::Release);
    }

    /// Calls `remove` for one batch, unless a transaction is held.
    pub(crate) fn unless_held<T>(&self, remove: impl FnOnce() -> T) -> Option<T> {
        self.removing.fetch_add(1, Ordering::SeqCst);
        let removing = Removing(self);
        // SeqCst: after the addition, see above.
        let is_held = self.held.load(Ordering::SeqCst) > 0;
        let removed = (!is_held).then(remove);
        drop(removing);
        removed
    }

    /// Says whether keys wait because the background thread was paused.
    pub(crate) fn set_overdue(&self, is_overdue: bool) {
        // Mostly it stays as it is.
        if self.is_overdue.load(Ordering::Relaxed) != is_overdue {
            self.is_overdue.store(is_overdue, Ordering::Relaxed);
        }
    }

    /// Whether they do; the caller removes some. Then they do no longer, until the background thread
    /// or the caller says so again: a removal may be a conflict for a scan, so they are few.
    pub(crate) fn take_overdue(&self) -> bool {
        self.is_overdue.load(Ordering::Relaxed) && self.is_overdue.swap(false, Ordering::Relaxed)
    }
}

/// A thread removes keys, until this is dropped.
struct Removing<'a>(&'a RemovalPauses);

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        self.0.removing.fetch_sub(1, Ordering::Release);
    }
}
