//! Epochs under a model checker, with the orderings that they have for real; but the checker takes a sequentially
//! consistent load or store for one with acquire or release, and cannot tell where only the first would do.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p namiki --lib --release model
//! ```

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use namiki_log::EpochSource;
use namiki_platform::model_checker::explore;
use namiki_platform::sync::{Ordering, SeqCstU64 as AtomicU64};
use namiki_platform::{Epoch, Stamp};

use super::{Epochs, SlotId};

/// The epochs, and for each committer how many commits it has appended.
struct World {
    epochs: Epochs,
    slots: [SlotId; 2],
    appended: [AtomicU64; 2],
}

impl World {
    fn new() -> Arc<Self> {
        let epochs = Epochs::new(Stamp(1), Duration::MAX);
        Arc::new(Self {
            slots: [0, 1].map(|_| epochs.acquire().expect("a slot is free")),
            appended: [0, 1].map(|_| AtomicU64::new(0)),
            epochs,
        })
    }

    /// Commits `TIMES` times; returns each commit's epoch and stamp.
    fn commit<const TIMES: usize>(&self, committer: usize) -> [(Epoch, Stamp); TIMES] {
        let slot = self.slots[committer];
        std::array::from_fn(|before| {
            let registered = self.epochs.register(slot, |floor| floor);
            // Only the end of the registration makes it visible.
            self.appended[committer].store(before as u64 + 1, Ordering::Relaxed);
            self.epochs.deregister(slot);
            registered
        })
    }

    /// The epoch that is finished, and how many commits of each one sees then.
    fn finished(&self) -> (Epoch, [u64; 2]) {
        let finished = self.epochs.finished();
        let seen = [0, 1].map(|committer| self.appended[committer].load(Ordering::Relaxed));
        (finished, seen)
    }
}

/// No commit is still to come in an epoch that was reported finished.
fn assert_none_is_missing((finished, seen): (Epoch, [u64; 2]), commits: [&[(Epoch, Stamp)]; 2]) {
    for (seen, commits) in seen.into_iter().zip(commits) {
        for (epoch, _) in &commits[seen as usize..] {
            assert!(
                *epoch > finished,
                "{finished} was reported finished, with a commit of {epoch} to come"
            );
        }
    }
}

#[test]
fn no_epoch_with_registrations_is_finished() {
    explore(2, || {
        let world = World::new();
        let committers = [0, 1].map(|committer| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.commit::<1>(committer))
        });
        world.epochs.close(Epoch(1));
        let told = world.finished();
        let commits = committers.map(|committer| committer.join().unwrap());
        assert_none_is_missing(told, [&commits[0], &commits[1]]);
        // In the end, what is closed is finished.
        assert_eq!(world.epochs.finished(), Epoch(1));
    });
}

/// A committer that registers again in the next epoch has left the previous one.
#[test]
fn a_committer_that_continues_is_seen_in_its_epoch() {
    explore(3, || {
        let world = World::new();
        let committer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.commit::<2>(0))
        };
        for epoch in [1, 2] {
            world.epochs.close(Epoch(epoch));
        }
        let told = world.finished();
        let commits = committer.join().unwrap();
        assert_none_is_missing(told, [&commits, &[]]);
    });
}

/// A thread that learns from another one that an epoch is finished sees all its commits.
#[test]
fn an_epoch_found_finished_elsewhere_is_seen_complete() {
    explore(2, || {
        let world = World::new();
        world.epochs.close(Epoch(1));
        let committer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.commit::<1>(0))
        };
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.epochs.close(Epoch(2));
                world.epochs.finished();
            })
        };
        let told = world.finished();
        other.join().unwrap();
        assert_none_is_missing(told, [&committer.join().unwrap(), &[]]);
    });
}

/// The stamps of an epoch are below the floor of the next, whichever thread closes it.
#[test]
fn stamps_lie_on_their_epochs_side_of_a_floor() {
    explore(3, || {
        let world = World::new();
        let committer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.commit::<2>(0))
        };
        world.epochs.close(Epoch(1));
        // The publisher of the floor may not have recorded it yet: then this is a lower one.
        let early = world.epochs.floor_after(Epoch(1));
        let commits = committer.join().unwrap();
        let floor = world.epochs.floor_after(Epoch(1));
        for (epoch, stamp) in commits {
            assert!(
                epoch == Epoch(1) || stamp >= early,
                "{stamp} of {epoch}, floor {early}"
            );
            assert_eq!(
                epoch > Epoch(1),
                stamp >= floor,
                "{stamp} of {epoch}, floor {floor}"
            );
        }
    });
}
