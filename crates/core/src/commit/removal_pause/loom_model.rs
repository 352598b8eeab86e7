//! Pauses under a model checker: a transaction is held while two threads remove keys in the background.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p namiki --lib --release model
//! ```

use std::sync::Arc;

use loom::thread;
use namiki_platform::model_checker::explore;
use namiki_platform::sync::{AtomicU64, Ordering};

use super::RemovalPauses;

/// The pauses, and how many changes an index has seen. Each access is relaxed: only the pauses order
/// them.
struct World {
    pauses: RemovalPauses,
    changes: AtomicU64,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            pauses: RemovalPauses::new(),
            changes: AtomicU64::new(0),
        })
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// A removal in two steps, as it locks a record first.
    fn remove(&self) {
        self.pauses.unless_held(|| {
            self.changes.fetch_add(1, Ordering::Relaxed);
            self.changes.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// What a held transaction sees first, and when it is about to end. `begin`: as it has to.
    fn look_twice(&self, begin: impl FnOnce(&RemovalPauses)) -> [u64; 2] {
        begin(&self.pauses);
        let seen = [(); 2].map(|()| {
            let changes = self.changes();
            thread::yield_now();
            changes
        });
        self.pauses.end();
        seen
    }
}

fn a_held_transaction_beside_removals(
    removers: usize,
    begin: impl Fn(&RemovalPauses) + Copy + Send + Sync + 'static,
) {
    explore(3, move || {
        let world = World::new();
        let removers: Vec<_> = (0..removers)
            .map(|_| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.remove())
            })
            .collect();
        let [first, last] = world.look_twice(begin);
        assert_eq!(first, last, "a key was removed under a held transaction");
        assert_eq!(first % 2, 0, "half of a removal was seen");
        for remover in removers {
            remover.join().expect("a removal does not fail");
        }
        // None is held, so it is not paused.
        let before = world.changes();
        world.remove();
        assert_eq!(world.changes(), before + 2, "it was paused");
    });
}

#[test]
fn nothing_is_removed_under_a_held_transaction() {
    a_held_transaction_beside_removals(1, RemovalPauses::begin);
    a_held_transaction_beside_removals(2, RemovalPauses::begin);
}

#[test]
#[should_panic(expected = "held transaction")]
fn a_transaction_that_does_not_wait_is_found() {
    a_held_transaction_beside_removals(1, |pauses| {
        pauses.held.fetch_add(1, Ordering::SeqCst);
    });
}
