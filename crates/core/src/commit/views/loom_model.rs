//! Views under a model checker: a view that is opened and read while a commit runs, and two views
//! that end concurrently.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p namiki --lib --release model
//! ```
//! The record's own fields do not use the checker's atomics, so the copy of a payload during its
//! replacement is not explored here. The order of epochs, the list of views and the kept versions
//! are.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use namiki_log::EpochSource;
use namiki_platform::Stamp;
use namiki_platform::model_checker::explore;
use namiki_platform::sync::{Mutex, Ordering, sleep};

use super::{Overwritten, SeenViews, ViewState, Views};
use crate::commit::epoch::{Epochs, SlotId};
use crate::storage::arena::Arena;
use crate::storage::record::RecordRef;
use crate::table::raw_table::TableId;

const POLL: Duration = Duration::from_micros(100);

struct World {
    epochs: Epochs,
    views: Views,
    slots: [SlotId; 2],
    /// Held as the record's lock is.
    locked: Mutex<()>,
    record: RecordRef,
    _arena: Arena,
}

impl World {
    fn new() -> Arc<Self> {
        let epochs = Epochs::new(Stamp(1), Duration::MAX);
        let arena = Arena::default();
        Arc::new(Self {
            slots: [0, 1].map(|_| epochs.acquire().expect("a slot is free")),
            // Without a unit: each version is counted at once. No commit looks at the limit.
            views: Views::new(0),
            locked: Mutex::new(()),
            record: arena.record(8, 0),
            _arena: arena,
            epochs,
        })
    }

    /// Commits its stamp as the record's value, and returns it.
    fn commit(&self, committer: usize) -> Stamp {
        let slot = self.slots[committer];
        let locked = self.locked.lock();
        let (epoch, stamp) = self
            .epochs
            .register(slot, |floor| floor.max(Stamp(self.record.creation().0 + 1)));
        let writes = std::iter::once(Overwritten {
            record: self.record,
            table: TableId(0),
            key: &[],
        });
        let mut seen = SeenViews::default();
        self.views
            .keep_overwritten(&self.epochs, (slot.number(), epoch), writes, &mut seen);
        self.record.install(Some(&stamp.0.to_ne_bytes()), stamp);
        drop(locked);
        self.epochs.deregister(slot);
        stamp
    }

    /// Opens a view, and returns its stamp, too.
    fn open(&self) -> (Arc<ViewState>, Stamp) {
        let view = self.views.pin(&self.epochs, true);
        self.epochs.close(view.epoch);
        while self.epochs.finished() < view.epoch {
            sleep(POLL);
        }
        let stamp = view.known_stamp(&self.epochs);
        (view, stamp.expect("a model has few epochs"))
    }

    /// Ends a view after the record was read twice, with what it saw.
    fn read_and_end(&self, (view, stamp): &(Arc<ViewState>, Stamp)) -> (Stamp, Stamp) {
        let read = || {
            let mut value = Vec::new();
            let present = self.views.read(view, *stamp, self.record, &mut value);
            let version = present.expect("there is no limit");
            assert!(version.is_none_or(|version| value == version.0.to_ne_bytes()));
            version.unwrap_or(Stamp(0))
        };
        let seen = read();
        assert_eq!(read(), seen, "a view sees one state");
        self.views.end(view, &self.epochs);
        (*stamp, seen)
    }
}

fn assert_is_the_state(commits: &[Stamp], (stamp, seen): (Stamp, Stamp)) {
    let before = commits.iter().filter(|commit| **commit <= stamp);
    let expected = before.max().copied().unwrap_or(Stamp(0));
    assert_eq!(seen, expected, "at {stamp}, after {commits:?}");
}

#[test]
fn a_view_sees_the_last_commit_below_it() {
    explore(3, || {
        let world = World::new();
        let first = world.commit(0);
        let committer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.commit(1))
        };
        let seen = world.read_and_end(&world.open());
        let second = committer.join().expect("a commit does not fail");
        assert_is_the_state(&[first, second], seen);
        assert_eq!(world.views.bytes.load(Ordering::Relaxed), 0);
    });
}

/// The older view may see what was kept for the newer one, which ends first.
#[test]
fn what_was_kept_for_a_view_is_handed_on() {
    explore(2, || {
        let world = World::new();
        let first = world.commit(0);
        let older = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.read_and_end(&world.open()))
        };
        let newer = world.open();
        // The version that it overwrites is kept for the newer view.
        let second = world.commit(1);
        let newer = world.read_and_end(&newer);
        let older = older.join().expect("a view does not fail");
        assert_is_the_state(&[first, second], older);
        assert_is_the_state(&[first, second], newer);
        assert_eq!(world.views.bytes.load(Ordering::Relaxed), 0);
    });
}
