//! The records that a transaction has just looked up: what is read is often written next.

use crate::record::RecordRef;
use crate::space::TableId;

/// How many are remembered.
const RECENT: usize = 8;
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

/// The records looked up last, by table and key.
#[derive(Default)]
pub(crate) struct Recent {
    found: [Option<Found>; RECENT],
    /// How many were ever noted; each took the place of the one [`RECENT`] before it.
    noted: usize,
}

impl Recent {
    /// Forgets all.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.noted = 0;
    }

    /// Remembers a record in place of the one that was remembered longest.
    #[inline]
    pub(crate) fn note(&mut self, table: TableId, key: &[u8], record: RecordRef) {
        if let Some(key) = ShortKey::of(key) {
            self.found[self.noted % RECENT] = Some(Found { key, table, record });
            self.noted += 1;
        }
    }

    /// The key's record, if it is remembered.
    #[inline]
    pub(crate) fn find(&self, table: TableId, key: &[u8]) -> Option<RecordRef> {
        let known = &self.found[..self.noted.min(RECENT)];
        if known.is_empty() {
            return None;
        }
        let key = ShortKey::of(key)?;
        known
            .iter()
            .flatten()
            .find(|found| found.key == key && found.table == table)
            .map(|found| found.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;

    #[test]
    fn the_last_few_are_found_by_table_and_key() {
        let arena = Arena::default();
        let mut recent = Recent::default();
        let table = TableId(1);
        let keys: Vec<Vec<u8>> = (0..10_usize).map(|i| vec![7; i * 3]).collect();
        let records: Vec<_> = keys.iter().map(|_| arena.record(8, 0)).collect();
        for (i, (key, record)) in keys.iter().zip(&records).enumerate() {
            assert_eq!(recent.find(table, key), None);
            recent.note(table, key, *record);
            let remembered = key.len() <= KEY_BYTES_MAX;
            assert_eq!(recent.find(table, key), remembered.then_some(*record));
            assert_eq!(recent.find(TableId(2), key), None);
            if remembered && i >= RECENT {
                assert_eq!(recent.find(table, &keys[i - RECENT]), None);
                assert_eq!(recent.find(table, &keys[i - 1]), Some(records[i - 1]));
            }
        }
        recent.clear();
        assert!(keys.iter().all(|key| recent.find(table, key).is_none()));
    }
}
