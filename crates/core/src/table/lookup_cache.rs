//! A cache of the records that a transaction has just looked up: a key that is read is often
//! written next.

use crate::storage::record::RecordRef;
use crate::table::raw_table::{BATCH_KEYS_MAX, TableId};

/// How many are remembered: as many as are looked up together.
const CACHED_MAX: usize = BATCH_KEYS_MAX;
/// Longer keys are not remembered.
const KEY_BYTES_MAX: usize = 24;

/// A key in words, which compare without a call.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ShortKey {
    len: usize,
    words: [u64; KEY_BYTES_MAX / size_of::<u64>()],
}

impl ShortKey {
    #[inline]
    fn of(key: &[u8]) -> Option<Self> {
        let len = key.len();
        let words = match key.first_chunk() {
            Some(eight) if len == 8 => [u64::from_ne_bytes(*eight), 0, 0],
            _ => Self::words_of(key)?,
        };
        Some(Self { len, words })
    }

    fn words_of(key: &[u8]) -> Option<[u64; KEY_BYTES_MAX / size_of::<u64>()]> {
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        let (words, _) = bytes.as_chunks();
        Some(std::array::from_fn(|i| u64::from_ne_bytes(words[i])))
    }
}

#[derive(Clone, Copy)]
struct Found {
    key: ShortKey,
    table: TableId,
    record: RecordRef,
}

impl Found {
    /// Whether it is that of a key of eight bytes, the usual length.
    #[inline]
    fn is_word(&self, table: TableId, word: u64) -> bool {
        self.key.words[0] == word && self.key.len == size_of::<u64>() && self.table == table
    }
}

/// The records looked up last, by table and key.
#[derive(Default)]
pub(crate) struct LookupCache {
    found: [Option<Found>; CACHED_MAX],
    /// How many were ever noted; each took the place of the one [`CACHED_MAX`] before it.
    noted: usize,
    /// The position after the last hit: keys are mostly written in the order in which they were
    /// read.
    next: usize,
}

impl LookupCache {
    /// Clears the cache.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.noted = 0;
        self.next = 0;
    }

    /// Remembers a record in place of the one that was remembered longest.
    #[inline]
    pub(crate) fn note(&mut self, table: TableId, key: &[u8], record: RecordRef) {
        if let Some(key) = ShortKey::of(key) {
            self.found[self.noted % CACHED_MAX] = Some(Found { key, table, record });
            self.noted += 1;
        }
    }

    /// The key's record, if it is remembered.
    #[inline]
    pub(crate) fn find(&mut self, table: TableId, key: &[u8]) -> Option<RecordRef> {
        if self.noted == 0 {
            return None;
        }
        match key.as_array() {
            Some(eight) => {
                let word = u64::from_ne_bytes(*eight);
                self.find_by(|found| found.is_word(table, word))
            }
            None => self.find_any(table, key),
        }
    }

    #[inline(never)]
    fn find_any(&mut self, table: TableId, key: &[u8]) -> Option<RecordRef> {
        let key = ShortKey::of(key)?;
        self.find_by(|found| found.key == key && found.table == table)
    }

    #[inline]
    fn find_by(&mut self, is: impl Fn(&Found) -> bool) -> Option<RecordRef> {
        let known = &self.found[..self.noted.min(CACHED_MAX)];
        let is = |found: &Option<Found>| found.as_ref().is_some_and(&is);
        let expected = self.next % CACHED_MAX;
        let at = match known.get(expected) {
            Some(found) if is(found) => expected,
            _ => known.iter().position(is)?,
        };
        self.next = at + 1;
        known[at].map(|found| found.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::arena::Arena;

    #[test]
    fn the_last_few_are_found_by_table_and_key() {
        let arena = Arena::default();
        let mut lookup_cache = LookupCache::default();
        let table = TableId(1);
        let of_length = |i: usize| vec![i as u8; 1 + i % 9 * 4];
        let keys: Vec<Vec<u8>> = (0..5 * CACHED_MAX).map(of_length).collect();
        let mut noted: Vec<(&[u8], RecordRef)> = Vec::new();
        for key in &keys {
            assert_eq!(lookup_cache.find(table, key), None);
            let record = arena.record(8, 0);
            lookup_cache.note(table, key, record);
            if key.len() <= KEY_BYTES_MAX {
                noted.push((key, record));
            } else {
                assert_eq!(lookup_cache.find(table, key), None);
            }
            let (forgotten, last) = noted.split_at(noted.len().saturating_sub(CACHED_MAX));
            // In both orders.
            for (key, record) in last.iter().chain(last.iter().rev()) {
                assert_eq!(lookup_cache.find(table, key), Some(*record));
                assert_eq!(lookup_cache.find(TableId(2), key), None);
            }
            for (key, _) in forgotten {
                assert_eq!(lookup_cache.find(table, key), None);
            }
        }
        lookup_cache.clear();
        assert!(
            keys.iter()
                .all(|key| lookup_cache.find(table, key).is_none())
        );
    }

    #[test]
    fn keys_that_begin_alike_are_told_apart() {
        let arena = Arena::default();
        let mut lookup_cache = LookupCache::default();
        let table = TableId(1);
        let keys: [&[u8]; 5] = [b"", b"12345678", b"12345678\0", b"12345678a", b"12345678ab"];
        let records = keys.map(|key| {
            let record = arena.record(8, 0);
            lookup_cache.note(table, key, record);
            record
        });
        for (key, record) in keys.iter().zip(records).rev() {
            assert_eq!(lookup_cache.find(table, key), Some(record));
        }
        assert_eq!(lookup_cache.find(table, b"12345678b"), None);
        assert_eq!(lookup_cache.find(table, b"\0"), None);
    }
}
