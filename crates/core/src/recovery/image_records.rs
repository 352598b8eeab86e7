//! The records of an image's rows, in the order of their keys.
//!
//! Rows of an image come sorted, each key once, and most often there are far more of them than keys that the log changes. So
//! they are not put into the hash table of a replay (`replay_hash_table.rs`): a key that is met in the log for the first time
//! is looked up here by a binary search, and what is here goes into the table's tree as it is.

use std::collections::BTreeMap;

use namiki_index::IndexError;

use super::kept_keys::{Hashed, Kept};
use crate::catalogue::image_files::FileNumber;
use crate::concurrency::cc::CcProtocol;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{Loaded, RawTable, TableId};

/// So many rows have room from the start; a list is not believed more.
const ROOM_MAX: u64 = 1 << 20;

/// Of each table that has rows in an image, the records of its runs, in the order of keys, and the file of each.
pub(super) type ImageRecords = BTreeMap<TableId, Vec<(FileNumber, RunRecords)>>;

/// The records of one run, as it is read.
pub(super) enum RunRecords {
    /// Of a table of keys of eight bytes.
    Fixed8(Vec<(u64, RecordRef)>),
    /// Of a table of keys of any length.
    Variable(Vec<(Hashed, RecordRef)>),
}

impl RunRecords {
    /// Of a run of about so many rows.
    pub(super) fn of(raw_table: &RawTable, rows: u64) -> Self {
        let room = rows.min(ROOM_MAX) as usize;
        if raw_table.fixed_keys {
            Self::Fixed8(Vec::with_capacity(room))
        } else {
            Self::Variable(Vec::with_capacity(room))
        }
    }

    /// Makes the record of a row, which comes after the one before.
    pub(super) fn push<P: CcProtocol>(
        &mut self,
        raw_table: &RawTable,
        row: &Loaded<'_>,
    ) -> Result<(), IndexError> {
        match self {
            Self::Fixed8(records) => push::<P, _>(records, raw_table, row),
            Self::Variable(records) => push::<P, _>(records, raw_table, row),
        }
    }
}

fn push<P: CcProtocol, K: Kept>(
    records: &mut Vec<(K, RecordRef)>,
    raw_table: &RawTable,
    row: &Loaded<'_>,
) -> Result<(), IndexError> {
    raw_table.check_key(row.key)?;
    // It is never looked for by its hash.
    let kept = K::keep(0, row.key).ok_or(IndexError::KeyLength {
        expected: 8,
        got: row.key.len(),
    })?;
    let record = raw_table.loose_record::<P>();
    RawTable::load::<P>(record, row);
    records.push((kept, record));
    Ok(())
}

/// The records of a run, and the file that it is in.
pub(super) struct SortedRun<K> {
    pub(super) file: FileNumber,
    pub(super) records: Vec<(K, RecordRef)>,
}

/// The records of all runs of a table.
pub(super) struct SortedRecords<K> {
    /// None is empty, and their keys follow each other.
    runs: Vec<SortedRun<K>>,
}

impl<K: Kept> SortedRecords<K> {
    /// Of runs whose keys follow each other.
    pub(super) fn new(mut runs: Vec<SortedRun<K>>) -> Self {
        runs.retain(|run| !run.records.is_empty());
        Self { runs }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The key's record, if there is one.
    pub(super) fn find(&self, key: &[u8]) -> Option<RecordRef> {
        let is_at_or_below = |run: &SortedRun<K>| {
            let first = run.records.first();
            first.is_some_and(|(kept, _)| kept.cmp_key(key).is_le())
        };
        let run = self.runs.partition_point(is_at_or_below).checked_sub(1)?;
        let run = &self.runs[run].records;
        let found = run.binary_search_by(|(kept, _)| kept.cmp_key(key)).ok()?;
        Some(run[found].1)
    }

    /// The runs.
    pub(super) fn into_runs(self) -> Vec<SortedRun<K>> {
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::concurrency::cc::TicToc;
    use crate::storage::index::IndexKind;
    use crate::table::raw_table::{Owner, TableInfo};

    fn raw_table(fixed_keys: bool) -> RawTable {
        let info = TableInfo {
            id: TableId(0),
            name: String::new(),
            key_type: String::new(),
            value_type: String::new(),
            fixed_keys,
            inline_bytes: 8,
        };
        RawTable::new(info, IndexKind::default(), Owner::new()).unwrap()
    }

    #[test]
    fn records_are_found_in_whichever_run_they_are() {
        let raw_table = raw_table(false);
        let runs = [&["b", "bb", "d"][..], &[], &["f"], &["h", "i"]];
        let mut expected = Vec::new();
        let sorted = SortedRecords::<Hashed>::new(
            runs.iter()
                .map(|keys| {
                    let records = keys.iter().map(|key| {
                        let record = raw_table.loose_record::<TicToc>();
                        expected.push((*key, record));
                        (Hashed::keep(0, key.as_bytes()).unwrap(), record)
                    });
                    let (file, records) = (FileNumber(1), records.collect());
                    SortedRun { file, records }
                })
                .collect(),
        );
        for (key, record) in expected {
            assert_eq!(sorted.find(key.as_bytes()), Some(record), "{key}");
        }
        for key in ["", "a", "ba", "bbb", "c", "e", "g", "hh", "j"] {
            assert_eq!(sorted.find(key.as_bytes()), None, "{key}");
        }
        assert_eq!(SortedRecords::<u64>::new(Vec::new()).find(&[0; 8]), None);
    }

    #[test]
    fn numbers_are_found_by_their_bytes() {
        let raw_table = raw_table(true);
        let numbers = [0_u64, 1, 255, 256, 1 << 40, u64::MAX];
        let records = numbers.map(|number| (number, raw_table.loose_record::<TicToc>()));
        let sorted = SortedRecords::new(vec![SortedRun {
            file: FileNumber(1),
            records: records.to_vec(),
        }]);
        for (number, record) in records {
            assert_eq!(sorted.find(&number.to_be_bytes()), Some(record));
            let other = number.wrapping_add(7);
            assert_eq!(sorted.find(&other.to_be_bytes()), None, "{other}");
        }
    }
}
