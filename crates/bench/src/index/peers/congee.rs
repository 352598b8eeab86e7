//! `congee`: an adaptive radix tree with optimistic lock coupling, over keys of eight bytes.

use std::ops::ControlFlow;

use congee::Congee;
use namiki_index::IndexError;

use super::{NO_BATCHES, StoredKey};
use crate::index::drawn_operations::Choice;
use crate::index::measured_index::Measured;
use crate::key_encoding::CORE_BYTES;

/// Entries that a scan fetches per call.
const FETCHED_MAX: u64 = 1024;

/// `congee::Congee`.
#[derive(Default)]
pub(crate) struct CongeeTree(Congee<usize, usize>);

const _: () = assert!(usize::BITS == u64::BITS);

fn number(key: &[u8]) -> usize {
    u64::owned(key) as usize
}

/// Maps the failure to allocate a node.
fn out_of_memory<T, E>(outcome: Result<T, E>) -> Result<T, IndexError> {
    outcome.map_err(|_| IndexError::OutOfPages)
}

impl Measured for CongeeTree {
    fn lacks(&self, choice: &Choice) -> Option<&'static str> {
        if choice.keys.bytes != CORE_BYTES {
            return Some("its keys have eight bytes");
        }
        (choice.batch > 1).then_some(NO_BATCHES)
    }

    fn get(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let found = self.0.get(&number(key), &self.0.pin());
        Ok(found.map(|payload| payload as u64))
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        most: u64,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let mut start = start.map_or(0, number);
        let mut entries = vec![(0, 0); most.min(FETCHED_MAX) as usize];
        let guard = self.0.pin();
        loop {
            // The end is exclusive; the greatest number is never used.
            let count = self.0.range(&start, &usize::MAX, &mut entries, &guard);
            for (key, payload) in &entries[..count] {
                if visit(&key.to_be_bytes(), *payload as u64).is_break() {
                    return Ok(());
                }
            }
            if count < entries.len() {
                return Ok(());
            }
            start = entries[count - 1].0 + 1;
        }
    }

    fn replace(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        let guard = self.0.pin();
        let old = self.0.insert(number(key), payload as usize, &guard);
        Ok(out_of_memory(old)?.map(|old| old as u64))
    }

    fn insert(&self, key: &[u8], payload: u64) -> Result<bool, IndexError> {
        let keep = |there: Option<usize>| there.unwrap_or(payload as usize);
        let guard = self.0.pin();
        let old = self.0.compute_or_insert(number(key), keep, &guard);
        Ok(out_of_memory(old)?.is_none())
    }

    fn update(&self, key: &[u8], payload: u64) -> Result<Option<u64>, IndexError> {
        let set = |_| Some(payload as usize);
        let guard = self.0.pin();
        let old = self.0.compute_if_present(&number(key), set, &guard);
        Ok(old.map(|(old, _)| old as u64))
    }

    fn delete(&self, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let old = self.0.remove(&number(key), &self.0.pin());
        Ok(old.map(|old| old as u64))
    }

    fn len(&self) -> u64 {
        let mut count = 0;
        // It refuses no key of eight bytes, and a scan of all keys has no start key to refuse.
        let _ = self.scan(None, u64::MAX, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        });
        count
    }
}
