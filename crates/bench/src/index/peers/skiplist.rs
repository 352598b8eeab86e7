//! `crossbeam-skiplist`: a lock-free skip list.
//!
//! Its insert over a present key removes that key first, so other threads temporarily see it
//! absent. This adapter stores atomic payloads instead and sets them in place. That is atomic as
//! long as no other thread adds or removes the key concurrently; mixes in which one may are left
//! out.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_skiplist::SkipMap;
use namiki_index::IndexError;

use super::{NO_BATCHES, StoredKey};
use crate::index::drawn_operations::Choice;
use crate::index::measured_index::Measured;
use crate::index::operation_mix::Operation;

/// `crossbeam_skiplist::SkipMap`.
#[derive(Debug)]
pub(crate) struct SkipList<K: StoredKey>(SkipMap<K, AtomicU64>);

impl<K: StoredKey> Default for SkipList<K> {
    fn default() -> Self {
        Self(SkipMap::new())
    }
}

impl<K: StoredKey> SkipList<K> {
    /// Adds a key. If it is present already, calls `there` with its payload.
    fn add<T>(&self, key: &[u8], payload: u64, there: impl FnOnce(&AtomicU64) -> T) -> Option<T> {
        let entry = self.0.get_or_insert(K::owned(key), AtomicU64::new(payload));
        // No payload is written twice, so an equal payload is ours.
        let ours = entry.value().load(Ordering::Relaxed) == payload;
        (!ours).then(|| there(entry.value()))
    }
}

impl<K: StoredKey> Measured for SkipList<K> {
    fn lacks(&self, choice: &Choice) -> Option<&'static str> {
        let has = |operation| choice.mix.has(operation);
        let sets = has(Operation::Write) || has(Operation::Update);
        let adds = has(Operation::Insert) || choice.initial < choice.keys.count;
        if choice.batch > 1 {
            return Some(NO_BATCHES);
        }
        (choice.threads > 1 && sets && (adds || has(Operation::Delete)))
            .then_some("it cannot set a payload in one step where others add or delete keys")
    }

    fn get(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let entry = self.0.get(K::sought(key, &mut 0));
        // Relaxed, here and below: a payload publishes no other data.
        Ok(entry.map(|entry| entry.value().load(Ordering::Relaxed)))
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        _most: u64,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let mut number = 0;
        let start = K::bound(start, &mut number);
        for entry in self.0.range::<K::Sought, _>((start, Bound::Unbounded)) {
            let payload = entry.value().load(Ordering::Relaxed);
            if visit(entry.key().bytes(&mut [0; 8]), payload).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn replace(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        if let Some(old) = self.update(key, payload)? {
            return Ok(Some(old));
        }
        Ok(self.add(key, payload, |there| there.swap(payload, Ordering::Relaxed)))
    }

    fn insert(&self, key: &[u8], payload: u64) -> Result<bool, IndexError> {
        Ok(self.add(key, payload, |_| ()).is_none())
    }

    fn update(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        let entry = self.0.get(K::sought(key, &mut 0));
        Ok(entry.map(|entry| entry.value().swap(payload, Ordering::Relaxed)))
    }

    fn delete(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        // `SkipMap::remove` returns the entry to every thread that removes it concurrently; the
        // entry knows which of them did.
        let entry = self.0.get(K::sought(key, &mut 0));
        let removed = entry.filter(|entry| entry.remove());
        Ok(removed.map(|entry| entry.value().load(Ordering::Relaxed)))
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}
