//! The tables as the log says: every version of every row, by the entry that wrote it.
//!
//! The model executes the commands that clients have sent, in the order of the log, and shares no code with the nodes. The
//! order of the commands within an entry is in none of its bytes, so it is chosen such that it does not matter
//! (`value_chain.rs`): a transfer adds, and a write names the value before each row that it writes. A row that both change has one
//! order of the two that is possible.
//!
//! An entry may follow the drop of a table although its commands were executed before: its rows of that table are skipped.
//! The model keeps the rows of a dropped table, where the conditions of such commands are checked, and shows them to no read.

use std::collections::BTreeMap;

use namiki_client::protocol::{Command, ScanRange, TableEntry};

use super::value_chain::{self, RowValue, Step};
use crate::control::Control;

/// Rows with their keys.
pub(super) type KeyedRows = Vec<(Vec<u8>, Vec<u8>)>;

/// All tables.
#[derive(Default)]
pub(super) struct Model {
    /// By number, from 1.
    tables: Vec<ModelTable>,
    /// Rows that were deleted.
    pub(super) deletions: usize,
    /// Tables that were dropped.
    pub(super) drops: usize,
    /// Entries with rows of a table that was dropped before.
    pub(super) after_drop: usize,
}

struct ModelTable {
    name: String,
    eight_byte_keys: bool,
    created: u64,
    dropped: Option<u64>,
    /// The versions of each row with their entries. Of those of one entry, the last is what it leaves.
    rows: BTreeMap<Vec<u8>, Vec<(u64, RowValue)>>,
}

impl ModelTable {
    fn exists_at(&self, lsn: u64) -> bool {
        self.created <= lsn && self.dropped.is_none_or(|dropped| lsn < dropped)
    }

    fn value(&self, key: &[u8], lsn: u64) -> Option<&[u8]> {
        let versions = self.rows.get(key)?;
        let known = versions.partition_point(|(at, _)| *at <= lsn);
        versions[..known].last()?.1.as_deref()
    }

    fn values_between(
        &self,
        key: &[u8],
        from: u64,
        until: u64,
    ) -> impl Iterator<Item = Option<&[u8]>> {
        let first = std::iter::once(self.value(key, from));
        let versions = self.rows.get(key).into_iter().flatten();
        let versions = versions.filter(move |(at, _)| from < *at && *at <= until);
        first.chain(versions.map(|(_, value)| value.as_deref()))
    }
}

/// What the commands of an entry do to one row.
#[derive(Default)]
struct RowChange {
    steps: Vec<Step>,
    added: i128,
}

impl RowChange {
    /// The values of the row: the one before, the one that is left last, and those between. Writes come before what transfers add,
    /// or, if that is not possible, after it: a transfer may have brought back the value that a write names.
    fn values(self, before: RowValue) -> Result<Vec<RowValue>, String> {
        let Self { steps, added } = self;
        if added == 0 {
            return value_chain::follow(before, steps);
        }
        let add = |value: &RowValue| -> Result<RowValue, String> {
            let balance = balance(value.as_deref());
            let after = balance.map(|it| i128::from(it) + added);
            let after = after.and_then(|it| u64::try_from(it).ok());
            let after = after.ok_or_else(|| format!("{added} is added to {balance:?}"))?;
            Ok(Some(after.to_le_bytes().to_vec()))
        };
        let writes_first = |before: RowValue, steps: Vec<Step>| {
            let mut values = value_chain::follow(before, steps)?;
            let last = values.last().cloned().flatten();
            values.push(add(&last)?);
            Ok(values)
        };
        writes_first(before.clone(), steps.clone()).or_else(|why: String| {
            let Ok(after) = add(&before) else {
                return Err(why);
            };
            let values = value_chain::follow(after, steps).map_err(|_| why)?;
            Ok(std::iter::once(before).chain(values).collect())
        })
    }
}

impl Model {
    fn table(&self, table: u32) -> Option<&ModelTable> {
        self.tables.get((table as usize).checked_sub(1)?)
    }

    /// Applies an entry without a payload.
    pub(super) fn control(&mut self, lsn: u64, control: &Control) {
        match control {
            Control::CreateTable {
                name,
                eight_byte_keys,
            } if self.number_at(name, lsn).is_none() => self.tables.push(ModelTable {
                name: name.clone(),
                eight_byte_keys: *eight_byte_keys,
                created: lsn,
                dropped: None,
                rows: BTreeMap::new(),
            }),
            Control::DropTable { table } => {
                let dropped = self.tables.get_mut((*table as usize).wrapping_sub(1));
                if let Some(table) = dropped.filter(|it| it.dropped.is_none()) {
                    table.dropped = Some(lsn);
                    self.drops += 1;
                }
            }
            Control::ClearTable { table } => {
                let cleared = self.tables.get_mut((*table as usize).wrapping_sub(1));
                if let Some(table) = cleared.filter(|it| it.dropped.is_none()) {
                    table.dropped = Some(lsn);
                    let successor = ModelTable {
                        name: table.name.clone(),
                        eight_byte_keys: table.eight_byte_keys,
                        created: lsn,
                        dropped: None,
                        rows: BTreeMap::new(),
                    };
                    self.tables.push(successor);
                    self.drops += 1;
                }
            }
            _ => {}
        }
    }

    /// Applies the commands of an entry that were executed.
    pub(super) fn group<'c>(
        &mut self,
        lsn: u64,
        commands: impl Iterator<Item = &'c Command>,
    ) -> Result<(), String> {
        let mut changes: BTreeMap<(u32, Vec<u8>), RowChange> = BTreeMap::new();
        for command in commands {
            match command {
                Command::Transfer {
                    table,
                    from,
                    to,
                    amount,
                } => {
                    let amount = i128::from(*amount);
                    for (account, added) in [(from, -amount), (to, amount)] {
                        let key = account.to_be_bytes().to_vec();
                        changes.entry((*table, key)).or_default().added += added;
                    }
                }
                Command::Write(write) => {
                    let of_row = |table: u32, key: &[u8]| {
                        let mut rows = write.rows.iter();
                        rows.find(|it| it.0 == table && it.1 == key)
                    };
                    for it in &write.conditions {
                        let after = of_row(it.table, &it.key).map(|(_, _, value)| value);
                        let key = (it.table, it.key.clone());
                        changes.entry(key).or_default().steps.push(Step {
                            before: it.value.clone(),
                            after: after.unwrap_or(&it.value).clone(),
                        });
                    }
                }
            }
        }
        let mut is_after_drop = false;
        for ((number, key), change) in changes {
            let table = self.tables.get_mut((number as usize).wrapping_sub(1));
            let table = table.ok_or_else(|| {
                format!("entry {lsn} changes table {number}, which was never created")
            })?;
            is_after_drop |= !table.exists_at(lsn);
            let before = table.value(&key, lsn).map(<[u8]>::to_vec);
            let values = change.values(before).map_err(|why| {
                format!("entry {lsn} changes row {key:?} of table {number}: {why}")
            })?;
            // The first is the one before.
            let values = values.into_iter().skip(1).map(|value| (lsn, value));
            let versions = table.rows.entry(key).or_default();
            let known = versions.len();
            versions.extend(values);
            let deleted = versions[known..].iter().filter(|it| it.1.is_none());
            self.deletions += deleted.count();
        }
        self.after_drop += usize::from(is_after_drop);
        Ok(())
    }

    /// The table with this name after an entry.
    pub(super) fn number_at(&self, name: &str, lsn: u64) -> Option<u32> {
        let is_it = |it: &ModelTable| it.name == name && it.exists_at(lsn);
        let place = self.tables.iter().position(is_it)?;
        Some(place as u32 + 1)
    }

    /// The table that was created by the entry that cleared this one.
    pub(super) fn successor(&self, table: u32) -> Option<u32> {
        let cleared = self.table(table)?;
        self.number_at(&cleared.name, cleared.dropped?)
    }

    /// The tables after an entry.
    pub(super) fn tables_at(&self, lsn: u64) -> Vec<TableEntry> {
        let tables = (1..).zip(&self.tables);
        let tables = tables.filter(|(_, it)| it.exists_at(lsn));
        let entries = tables.map(|(table, it)| TableEntry {
            table,
            name: it.name.clone(),
            eight_byte_keys: it.eight_byte_keys,
        });
        entries.collect()
    }

    /// The entry that has dropped a table.
    pub(super) fn dropped_at(&self, table: u32) -> Option<u64> {
        self.table(table)?.dropped
    }

    /// Whether a table may have been missing at some moment between these entries.
    pub(super) fn may_miss(&self, table: u32, from: u64, until: u64) -> bool {
        self.table(table).is_none_or(|it| {
            it.created > from || it.dropped.is_some_and(|dropped| dropped <= until)
        })
    }

    /// A row after an entry. `Err` without the table.
    pub(super) fn row(&self, table: u32, key: &[u8], lsn: u64) -> Result<Option<&[u8]>, String> {
        Ok(self.existing(table, lsn)?.value(key, lsn))
    }

    fn existing(&self, number: u32, lsn: u64) -> Result<&ModelTable, String> {
        let table = self.table(number).filter(|it| it.exists_at(lsn));
        table.ok_or_else(|| format!("there is no table {number} after entry {lsn}"))
    }

    /// The rows of a range after an entry. `Err` without the table.
    pub(super) fn range(&self, range: &ScanRange, lsn: u64) -> Result<KeyedRows, String> {
        let table = self.existing(range.table, lsn)?;
        let is_in = |key: &[u8]| {
            let is_first = key == &range.from[..];
            let is_behind = key > &range.from[..] || is_first && !range.after;
            is_behind && range.until.as_deref().is_none_or(|until| key < until)
        };
        let keys = table.rows.keys().filter(|key| is_in(key));
        let rows = keys.filter_map(|key| Some((key.clone(), table.value(key, lsn)?.to_vec())));
        Ok(rows.collect())
    }

    /// The values that a row has had from one entry to another, also between the commands of the last one.
    pub(super) fn values_between(
        &self,
        table: u32,
        key: &[u8],
        from: u64,
        until: u64,
    ) -> impl Iterator<Item = Option<&[u8]>> {
        let table = self.table(table).into_iter();
        table.flat_map(move |it| it.values_between(key, from, until))
    }

    /// The sum of the balances of a table of accounts, and their number.
    pub(super) fn sum(&self, name: &str, lsn: u64) -> Option<(u64, u64)> {
        let table = self.table(self.number_at(name, lsn)?)?;
        let values = table.rows.keys().filter_map(|key| table.value(key, lsn));
        let balances: Vec<u64> = values.filter_map(|value| balance(Some(value))).collect();
        Some((balances.iter().sum(), balances.len() as u64))
    }
}

/// An account's balance.
pub(super) fn balance(value: Option<&[u8]>) -> Option<u64> {
    value?.try_into().ok().map(u64::from_le_bytes)
}

/// The tables that a command touches.
pub(super) fn tables_of(command: &Command) -> Vec<u32> {
    match command {
        Command::Transfer { table, .. } => vec![*table],
        Command::Write(write) => {
            let conditions = write.conditions.iter().map(|it| it.table);
            conditions.chain(write.rows.iter().map(|it| it.0)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_transfers_of_a_row_have_an_order() {
        let value = |it: u64| Some(it.to_le_bytes().to_vec());
        let change = |before, after, added| RowChange {
            steps: vec![Step {
                before: value(before),
                after: value(after),
            }],
            added,
        };
        let values = |first, change: RowChange| change.values(value(first)).ok();
        let of = |all: &[u64]| Some(all.iter().map(|it| value(*it)).collect::<Vec<_>>());
        assert_eq!(values(7, change(7, 20, 0)), of(&[7, 20]));
        assert_eq!(values(7, change(7, 20, 3)), of(&[7, 20, 23]));
        // The transfer comes first.
        assert_eq!(values(7, change(8, 20, 1)), of(&[7, 8, 20]));
        assert_eq!(values(7, change(9, 20, 1)), None);
        assert_eq!(values(7, change(7, 2, -3)), None);
    }
}
