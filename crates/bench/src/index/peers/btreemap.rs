//! The standard library's `BTreeMap` behind a reader-writer lock.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, ControlFlow};

use namiki_index::IndexError;
use parking_lot::RwLock;

use super::{NO_BATCHES, StoredKey};
use crate::index::drawn_operations::Choice;
use crate::index::measured_index::Measured;

/// `parking_lot::RwLock<BTreeMap>`.
#[derive(Debug)]
pub(crate) struct LockedBTreeMap<K>(RwLock<BTreeMap<K, u64>>);

impl<K> Default for LockedBTreeMap<K> {
    fn default() -> Self {
        Self(RwLock::new(BTreeMap::new()))
    }
}

impl<K: StoredKey> Measured for LockedBTreeMap<K> {
    fn lacks(&self, choice: &Choice) -> Option<&'static str> {
        (choice.batch > 1).then_some(NO_BATCHES)
    }

    fn get(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let found = self.0.read().get(K::sought(key, &mut 0)).copied();
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
        let map = self.0.read();
        for (key, payload) in map.range::<K::Sought, _>((start, Bound::Unbounded)) {
            if visit(key.bytes(&mut [0; 8]), *payload).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn replace(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        let key = K::owned(key);
        Ok(self.0.write().insert(key, payload))
    }

    fn insert(&self, key: &[u8], payload: u64) -> Result<bool, IndexError> {
        let key = K::owned(key);
        Ok(match self.0.write().entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(payload);
                true
            }
            Entry::Occupied(_) => false,
        })
    }

    fn update(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        let mut map = self.0.write();
        let present = map.get_mut(K::sought(key, &mut 0));
        Ok(present.map(|present| std::mem::replace(present, payload)))
    }

    fn delete(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        Ok(self.0.write().remove(K::sought(key, &mut 0)))
    }

    fn len(&self) -> u64 {
        self.0.read().len() as u64
    }
}
