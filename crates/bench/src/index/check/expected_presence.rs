//! Facts about each key that follow from past or future operations, in whatever order threads
//! execute them.

use crate::index::drawn_operations::{Choice, Operations};
use crate::index::operation_mix::Operation;

/// The key was loaded.
const LOADED: u8 = 1;
/// The key is inserted, which adds it if it is absent.
const INSERTED: u8 = 2;
/// The key is written, which makes it present.
const WRITTEN: u8 = 4;
/// The key is deleted.
const DELETED: u8 = 8;

/// The facts about each key, in one byte.
#[derive(Debug)]
pub(crate) struct Facts(Vec<u8>);

impl Facts {
    /// Collects the facts from the loaded keys and from the first operations of each thread: all of
    /// them, or as many as were executed.
    pub(crate) fn of<'a>(
        choice: &Choice,
        threads: impl Iterator<Item = (&'a Operations, u64)>,
    ) -> Self {
        let mut facts = vec![0; choice.keys.count as usize];
        for number in choice.initial_keys() {
            facts[number as usize] |= LOADED;
        }
        for (operations, executed) in threads {
            // Further executions repeat the same operations.
            let executed = executed.min(operations.len() as u64) as usize;
            for place in 0..executed {
                let fact = match operations.operation(place) {
                    Operation::Insert => INSERTED,
                    Operation::Write => WRITTEN,
                    Operation::Delete => DELETED,
                    Operation::Read | Operation::Scan | Operation::Update => continue,
                };
                facts[operations.number(place) as usize] |= fact;
            }
        }
        Self(facts)
    }

    /// Whether the key was loaded.
    pub(crate) fn is_loaded(&self, number: u64) -> bool {
        self.0[number as usize] & LOADED != 0
    }

    /// Whether the key is present from start to end.
    pub(crate) fn always_there(&self, number: u64) -> bool {
        self.0[number as usize] & (LOADED | DELETED) == LOADED
    }

    /// Whether the key is never present.
    pub(crate) fn never_there(&self, number: u64) -> bool {
        self.0[number as usize] & (LOADED | INSERTED | WRITTEN) == 0
    }

    /// Whether the key is present at the end; `None` if that depends on the order.
    pub(crate) fn there_at_the_end(&self, number: u64) -> Option<bool> {
        let facts = self.0[number as usize];
        if self.never_there(number) {
            return Some(false);
        }
        // An added key stays if nothing deletes it. An insert fails only where the key is present.
        (facts & DELETED == 0).then_some(true)
    }
}
