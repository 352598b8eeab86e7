//! The records that a transaction has just looked up: what is read is often written next.

use crate::record::RecordRef;
use crate::space::TableId;

/// How many are remembered.
const RECENT: usize = 4;
/// Longer keys are not remembered.
const KEY_BYTES_MAX: usize = 24;

#[derive(Clone, Copy)]
struct Found {
    record: RecordRef,
    table: TableId,
    len: u8,
    key: [u8; KEY_BYTES_MAX],
}

/// The records looked up last, by table and key.
#[derive(Default)]
pub(crate) struct Recent {
    found: [Option<Found>; RECENT],
    next: usize,
}

impl Recent {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        if self.next != 0 {
            *self = Self::default();
        }
    }

    /// Remembers a record in place of the one that was remembered longest.
    pub(crate) fn note(&mut self, table: TableId, key: &[u8], record: RecordRef) {
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        let found = self.found[self.next % RECENT].insert(Found {
            record,
            table,
            len: key.len() as u8,
            key: [0; KEY_BYTES_MAX],
        });
        match key.first_chunk::<8>() {
            // No call to copy the most frequent length.
            Some(eight) if key.len() == 8 => found.key[..8].copy_from_slice(eight),
            _ => found.key[..key.len()].copy_from_slice(key),
        }
        // Not 0 once something is remembered; the place does not depend on where it wraps around.
        self.next = self.next % RECENT + RECENT + 1;
    }

    /// The key's record, if it is remembered.
    pub(crate) fn find(&self, table: TableId, key: &[u8]) -> Option<RecordRef> {
        let is = |found: &&Found| {
            found.table == table && found.key.get(..usize::from(found.len)) == Some(key)
        };
        self.found
            .iter()
            .flatten()
            .find(is)
            .map(|found| found.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;

    #[test]
    fn the_last_few_are_found_by_table_and_key() {
        let arena = Arena::new();
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
