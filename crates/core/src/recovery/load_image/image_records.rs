//! The records of an image's rows, in the order of their keys.
//!
//! Rows of an image come sorted, each key once, and those that the log has changed are left out: so
//! they go into the table's index as they are, merged with the log's winners.

use std::borrow::Cow;
use std::cmp::Ordering;

use namiki_index::IndexError;

use crate::concurrency::cc::CcProtocol;
use crate::recovery::replay::kept_keys::{Hashed, Kept};
use crate::recovery::replay::log_winners::{LogWinners, SortedWinners};
use crate::storage::record::RecordRef;
use crate::table::raw_table::{Loaded, RawTable};

/// The most rows for which memory is allocated at the start: the list's number is not trusted
/// beyond this.
const ROOM_MAX: u64 = 1 << 20;

/// How many keys enter the index between two checks whether to stop.
const WATCHED_EVERY: usize = 4096;

/// The records of one run, as it is read.
pub(in crate::recovery) enum RunRecords {
    /// For a table of eight-byte keys.
    Fixed8(Vec<(u64, RecordRef)>),
    /// For a table of keys of any length.
    Variable(Vec<(Hashed, RecordRef)>),
}

impl RunRecords {
    /// For a run of about `rows` rows.
    pub(in crate::recovery) fn of(raw_table: &RawTable, rows: u64) -> Self {
        let room = rows.min(ROOM_MAX) as usize;
        if raw_table.fixed_keys {
            Self::Fixed8(Vec::with_capacity(room))
        } else {
            Self::Variable(Vec::with_capacity(room))
        }
    }

    /// Creates the record of a row, which follows the previous one.
    pub(in crate::recovery) fn push<P: CcProtocol>(
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

/// Puts the records of a table's runs, which follow each other, and those of the log's winners into
/// the table's index. Ends early if `is_stopped` returns true, which is checked periodically: the
/// index is unusable then.
pub(in crate::recovery) fn fill(
    raw_table: &RawTable,
    runs: Vec<RunRecords>,
    winners: &LogWinners,
    is_stopped: impl FnMut() -> bool,
) -> Result<(), IndexError> {
    let (mut fixed, mut variable) = (Vec::new(), Vec::new());
    for run in runs {
        match run {
            RunRecords::Fixed8(records) => fixed.push(records),
            RunRecords::Variable(records) => variable.push(records),
        }
    }
    match winners {
        LogWinners::Fixed8(winners) => {
            let rows = fixed.into_iter().flatten();
            let keys = merge(rows, winners, u64::to_be_bytes, |key| key.to_be_bytes());
            raw_table.fill(until(keys, is_stopped))
        }
        LogWinners::Variable(winners) => {
            let rows = variable.into_iter().flatten();
            let of_row = |row: Hashed| Cow::Owned(row.key.into_vec());
            let keys = merge(rows, winners, of_row, |winner| Cow::Borrowed(&*winner.key));
            raw_table.fill(until(keys, is_stopped))
        }
    }
}

/// Merges rows with winners, which have other keys, into their order.
fn merge<'w, K: Kept, B>(
    rows: impl Iterator<Item = (K, RecordRef)>,
    winners: &'w SortedWinners<K>,
    of_row: impl Fn(K) -> B,
    of_winner: impl Fn(&'w K) -> B,
) -> impl Iterator<Item = (B, RecordRef)> {
    let present = |(key, record): &'w (K, Option<RecordRef>)| Some((key, (*record)?));
    let (mut rows, mut winners) = (
        rows.peekable(),
        winners.iter().filter_map(present).peekable(),
    );
    std::iter::from_fn(move || {
        let is_row_first = match (rows.peek(), winners.peek()) {
            (Some((row, _)), Some((winner, _))) => row.cmp(winner) == Ordering::Less,
            (row, _) => row.is_some(),
        };
        if is_row_first {
            let (key, record) = rows.next()?;
            return Some((of_row(key), record));
        }
        let (key, record) = winners.next()?;
        Some((of_winner(key), record))
    })
}

/// The items, or fewer if `is_stopped` returns true.
fn until<T>(
    mut items: impl Iterator<Item = T>,
    mut is_stopped: impl FnMut() -> bool,
) -> impl Iterator<Item = T> {
    let mut passed = 0;
    std::iter::from_fn(move || {
        passed += 1;
        let is_over = passed % WATCHED_EVERY == 0 && is_stopped();
        (!is_over).then(|| items.next()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;

    use namiki_platform::Stamp;

    use super::*;
    use crate::concurrency::cc::TicToc;
    use crate::storage::index::IndexKind;
    use crate::table::raw_table::{Owner, TableId, TableInfo};

    const KEYS: u64 = 20_000;

    fn key(number: u64, fixed: bool) -> Vec<u8> {
        if fixed {
            number.to_be_bytes().to_vec()
        } else {
            // Some keys are prefixes of others.
            number.to_string().into_bytes()
        }
    }

    /// Every third key is in the image, every second one is changed by the log, and some of those are deleted by it.
    #[test]
    fn rows_and_winners_are_in_the_index_once() {
        let indexes = IndexKind::those_in_build(&["art", "hash", "art+hash"]);
        for (fixed, index) in [true, false]
            .into_iter()
            .flat_map(|fixed| indexes.iter().map(move |it| (fixed, *it)))
        {
            let info = TableInfo {
                id: TableId(0),
                name: String::new(),
                key_type: String::new(),
                value_type: String::new(),
                fixed_keys: fixed,
                inline_bytes: 8,
                layout: None,
            };
            let raw_table = RawTable::new(info, index, Owner::new()).unwrap();
            let keys: BTreeMap<_, _> = (0..KEYS)
                .map(|number| (key(number, fixed), number))
                .collect();
            let mut expected = BTreeMap::new();
            let mut runs = vec![RunRecords::of(&raw_table, 1)];
            let (mut fixed8, mut variable) = (Vec::new(), Vec::new());
            for (key, number) in &keys {
                let is_changed = number % 2 == 0;
                let stamp = Stamp(1 + u64::from(is_changed));
                let value = number.to_le_bytes();
                let row = Loaded {
                    key,
                    value: Some(&value),
                    stamp,
                };
                if is_changed {
                    let record = (number % 8 > 0).then(|| {
                        let record = raw_table.loose_record::<TicToc>();
                        RawTable::load::<TicToc>(record, &row);
                        expected.insert(key.clone(), (stamp, *number));
                        record
                    });
                    if fixed {
                        fixed8.push((*number, record));
                    } else {
                        variable.push((Hashed::keep(0, key).unwrap(), record));
                    }
                } else if number % 3 == 0 {
                    if number % 999 == 0 {
                        runs.push(RunRecords::of(&raw_table, 1));
                    }
                    let run = runs.last_mut().unwrap();
                    run.push::<TicToc>(&raw_table, &row).unwrap();
                    expected.insert(key.clone(), (stamp, *number));
                }
            }
            let winners = if fixed {
                LogWinners::Fixed8(fixed8)
            } else {
                LogWinners::Variable(variable)
            };
            fill(&raw_table, runs, &winners, || false).unwrap();
            let mut found = BTreeMap::new();
            let visit = |key: &[u8], record: RecordRef| {
                let mut value = Vec::new();
                let seen = record.copy_if(&mut value, |_| true).unwrap();
                let number = u64::from_le_bytes(value.try_into().unwrap());
                assert!(
                    found
                        .insert(key.to_vec(), (seen.creation, number))
                        .is_none()
                );
                ControlFlow::Continue(())
            };
            raw_table.for_each(visit).unwrap();
            assert!(found == expected, "{index}, fixed: {fixed}");
        }
    }
}
