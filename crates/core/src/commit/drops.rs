//! Dropping tables while transactions run: how those are found that must not commit, and when the last one has.
//!
//! A transaction has used a table without a lock on it, so a drop cannot wait for a lock. Instead:
//!
//! ```text
//!   a drop                                   a commit
//!   1. marks the table                       1. registers in the epoch
//!   2. counts the drop                       2. compares the count with the one at its beginning;
//!   3. closes the epoch e                       if it differs, looks whether it has used a marked table
//!   4. waits until e is finished             3. appends to the log, unlocks, deregisters
//! ```
//! All of these are `SeqCst`. A commit that registers in e and does not see the count is waited for in 4; one that
//! registers later sees it, and fails. So after 4 no change of the table is under way, and none will come, although no
//! transaction has done more than to load one word that is hardly ever written.
//!
//! A transaction that has only read the table fails, too, if it is not registered by then: it would have to come before
//! the drop, and may have read what came after it.
//!
//! A transaction keeps the tables in memory that it has used (`AccessSet::use_table`), until the next one on the same
//! session begins and sees the count.

use std::time::Duration;

use namiki_log::EpochSource;
use namiki_platform::sync::{AtomicBool, Ordering, SeqCstU64 as AtomicU64, sleep};

use crate::commit::epoch::Epochs;

/// Between two looks whether the last commit is through: it may be waiting for the device.
const POLL: Duration = Duration::from_micros(100);

/// How many tables were dropped since the database was opened, failed drops included.
#[derive(Debug)]
pub(crate) struct Drops(AtomicU64);

impl Drops {
    /// None.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Makes all transactions fail that have used the table and are not committing yet, and waits for those that are.
    /// `dropped` is the table's mark.
    ///
    /// # Errors
    /// What `check` says while it waits: a commit that has met a failed log may have panicked, and never end. The table is
    /// as before then.
    pub(crate) fn shut_out<E>(
        &self,
        dropped: &AtomicBool,
        epochs: &Epochs,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        dropped.store(true, Ordering::SeqCst);
        self.0.fetch_add(1, Ordering::SeqCst);
        let epoch = EpochSource::current(epochs);
        epochs.advance();
        while epochs.finished() < epoch {
            if let Err(error) = check() {
                dropped.store(false, Ordering::SeqCst);
                return Err(error);
            }
            sleep(POLL);
        }
        Ok(())
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::thread;
    use namiki_platform::Stamp;
    use namiki_platform::model_checker::explore;

    use super::*;
    use crate::commit::epoch::SlotId;

    struct World {
        epochs: Epochs,
        drops: Drops,
        dropped: AtomicBool,
        /// Set once the table is dropped.
        gone: AtomicBool,
    }

    impl World {
        /// Uses the table and commits, unless it is dropped. Returns whether it committed.
        fn transact(&self, slot: SlotId) -> bool {
            let seen = self.drops.count();
            if self.dropped.load(Ordering::Acquire) {
                return false;
            }
            self.epochs.register(slot, |floor| floor);
            let commits = self.drops.count() == seen || !self.dropped.load(Ordering::Acquire);
            if commits {
                assert!(
                    !self.gone.load(Ordering::Relaxed),
                    "a commit after the drop"
                );
            }
            self.epochs.deregister(slot);
            commits
        }
    }

    #[test]
    fn no_commit_follows_a_drop() {
        explore(3, || {
            let epochs = Epochs::new(Stamp(1), Duration::MAX);
            let slots = [0, 1].map(|_| epochs.acquire().expect("a slot is free"));
            let world = Arc::new(World {
                epochs,
                drops: Drops::new(),
                dropped: AtomicBool::new(false),
                gone: AtomicBool::new(false),
            });
            let committers = slots.map(|slot| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.transact(slot))
            });
            let shut = world
                .drops
                .shut_out(&world.dropped, &world.epochs, || Ok::<_, ()>(()));
            shut.unwrap();
            world.gone.store(true, Ordering::Relaxed);
            for committer in committers {
                committer.join().unwrap();
            }
            assert!(!world.transact(slots[0]));
        });
    }
}
