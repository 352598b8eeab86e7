//! Trees that grow and shrink by levels under many threads stay sound.

use std::thread;

use super::key_shapes::{KeyShape, announce};
use super::object::OrderedObject;
use super::random_concurrent_calls::Load;
use super::reference_map::sound;
use crate::{InsertOutcome, Lookup, PointIndex};

/// All threads fill the tree and empty it again, several times, so that it gains and loses levels
/// concurrently. After each round it is empty and sound.
///
/// # Panics
/// If it is not.
pub fn churn_keeps_the_tree_sound(tree: &dyn OrderedObject, shape: KeyShape, load: Load) {
    let _announcement = announce("churn_keeps_the_tree_sound", load.seed);
    let rounds = 4;
    for round in 0..rounds {
        thread::scope(|scope| {
            for thread in 0..load.threads {
                scope.spawn(move || {
                    let mine = |n: u64| n * load.threads + thread;
                    let share = load.keys / load.threads;
                    for n in 0..share {
                        let outcome = tree.insert(&shape.key(mine(n)), n);
                        assert!(
                            matches!(outcome, Ok(InsertOutcome::Inserted(_))),
                            "{outcome:?}"
                        );
                    }
                    for n in 0..share {
                        let n = if round % 2 == 0 { n } else { share - 1 - n };
                        assert_eq!(tree.get(&shape.key(mine(n))), Ok(Lookup::Found(n)));
                        assert_eq!(tree.delete(&shape.key(mine(n))), Ok(Some(n)));
                    }
                });
            }
        });
        sound(tree);
        assert_eq!(tree.len(), 0, "round {round}");
    }
}
