//! `scc::TreeIndex`: a B+-tree with lock-free reads.

use std::ops::{Bound, ControlFlow};

use namiki_index::IndexError;
use scc::{Guard, TreeIndex};

use super::{NO_BATCHES, StoredKey};
use crate::index::drawn_operations::Choice;
use crate::index::measured_index::Measured;
use crate::index::operation_mix::Operation;

/// `scc::TreeIndex`.
#[derive(Debug)]
pub(crate) struct SccTree<K: StoredKey>(TreeIndex<K, u64>);

impl<K: StoredKey> Default for SccTree<K> {
    fn default() -> Self {
        Self(TreeIndex::new())
    }
}

/// The reason why it does not support updates.
const NO_UPDATES: &str = "it cannot set the payload of a key only if it is there";

impl<K: StoredKey> Measured for SccTree<K> {
    fn lacks(&self, choice: &Choice) -> Option<&'static str> {
        if choice.mix.has(Operation::Update) {
            return Some(NO_UPDATES);
        }
        if choice.mix.has(Operation::Write) && choice.returning {
            return Some("its write does not say what it replaced");
        }
        (choice.batch > 1).then_some(NO_BATCHES)
    }

    fn get(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let found = self
            .0
            .peek_with(K::sought(key, &mut 0), |_, payload| *payload);
        Ok(found)
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        _most: u64,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let mut number = 0;
        let start = K::bound(start, &mut number);
        let guard = Guard::new();
        let range = (start, Bound::Unbounded);
        for (key, payload) in self.0.range::<K::Sought, _>(range, &guard) {
            if visit(key.bytes(&mut [0; 8]), *payload).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn put(&self, key: &[u8], payload: u64) -> Result<(), IndexError> {
        self.0.upsert_sync(K::owned(key), payload);
        Ok(())
    }

    /// Never called: see `lacks`.
    fn replace(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        self.put(key, payload).map(|()| None)
    }

    fn insert(&self, key: &[u8], payload: u64) -> Result<bool, IndexError> {
        Ok(self.0.insert_sync(K::owned(key), payload).is_ok())
    }

    /// Never called: see `lacks`.
    fn update(&self, _key: &[u8], _payload: u64) -> Result<Option<u64>, IndexError> {
        Ok(None)
    }

    fn delete(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let mut removed = None;
        // The condition reads the payload, which is removed if the condition holds.
        let was_there = self.0.remove_if_sync(K::sought(key, &mut 0), |payload| {
            removed = Some(*payload);
            true
        });
        Ok(removed.filter(|_| was_there))
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}
