//! Guard of the locks and reservations that a commit holds between locking its writes and handing
//! them over. If it is dropped before that, it releases all of them.
//!
//! ```text
//!   WritesLocked ──► Registered ──► Kept ──► HandedOver
//!   unlock           + deregister   + let views end that keep too much      nothing to clean up
//! ```
//! Every early return of the commit path, and a panic, cleans up by the drop of the guard: a commit that fails leaves no
//! locked record and no registration. From [`CommitGuard::hand_over`] on, the locks are released early, or are the
//! group's, or the transaction's end releases them (S2PL); the registration is ended by the commit path itself, and after
//! a panic with the transaction's slot.

use std::cell::Cell;
use std::marker::PhantomData;

use namiki_platform::{Epoch, Stamp};

use crate::commit::access_set::AccessSet;
use crate::commit::engine::Engine;
use crate::commit::epoch::SlotId;
use crate::concurrency::cc::{CcProtocol, Checks};

/// The progress of the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    /// The writes are locked.
    WritesLocked,
    /// It is also registered in an epoch.
    Registered,
    /// The versions that it overwrites are kept for views, too.
    Kept,
    /// The locks were handed over.
    HandedOver,
}

/// A commit with locked writes.
pub(super) struct CommitGuard<'c, P: CcProtocol> {
    engine: &'c Engine,
    slot: SlotId,
    pub(super) access_set: &'c mut AccessSet,
    reached: Cell<Reached>,
    protocol: PhantomData<P>,
}

impl<'c, P: CcProtocol> CommitGuard<'c, P> {
    /// All writes of the access set are locked.
    #[inline]
    pub(super) fn locked(engine: &'c Engine, slot: SlotId, access_set: &'c mut AccessSet) -> Self {
        Self {
            engine,
            slot,
            access_set,
            reached: Cell::new(Reached::WritesLocked),
            protocol: PhantomData,
        }
    }

    /// Registers the commit in the current epoch, and takes its stamp.
    #[inline]
    pub(super) fn register(&self) -> (Epoch, Stamp) {
        let access_set = &*self.access_set;
        self.reached.set(Reached::Registered);
        (self.engine.epochs).register(self.slot, |floor| stamp_of::<P>(access_set, floor))
    }

    /// Keeps the overwritten versions that a view may see.
    #[inline]
    pub(super) fn keep_overwritten<C: Checks>(&mut self, epoch: Epoch) {
        self.reached.set(Reached::Kept);
        if C::KEEP_FOR_VIEWS {
            let (views, epochs) = (&self.engine.views, &self.engine.epochs);
            let (overwritten, seen) = self.access_set.overwritten();
            let committer = (self.slot.number(), epoch);
            views.keep_overwritten(epochs, committer, overwritten, seen);
        }
    }

    /// Called before the first version is installed: from here on the commit counts.
    #[inline]
    pub(super) fn hand_over(&self) {
        self.reached.set(Reached::HandedOver);
    }

    #[cold]
    fn clean_up(&self) {
        // Under S2PL, the transaction's end unlocks.
        if !P::LOCKS_READS {
            unlock_writes::<P>(self.access_set);
        }
        if self.reached.get() >= Reached::Registered {
            self.engine.epochs.deregister(self.slot);
        }
        if self.reached.get() == Reached::Kept {
            self.engine.views.commit_refused(&self.engine.epochs);
        }
    }
}

impl<P: CcProtocol> Drop for CommitGuard<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if self.reached.get() != Reached::HandedOver {
            self.clean_up();
        }
    }
}

/// Unlocks the writes of a failed commit. Their records keep their versions.
pub(super) fn unlock_writes<P: CcProtocol>(access_set: &AccessSet) {
    for write in &access_set.writes {
        P::unlock(write.record, write.before);
    }
}

fn stamp_of<P: CcProtocol>(access_set: &AccessSet, floor: Stamp) -> Stamp {
    let reads = access_set.reads.iter().map(|read| read.seen.from);
    let writes = access_set
        .writes
        .iter()
        .map(|write| P::write_floor(write.record, write.before));
    reads.chain(writes).fold(floor, Stamp::max)
}
