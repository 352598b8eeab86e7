//! What a client knows of the tables, and the commands and reads that it makes up.
//!
//! Accounts are opened once, and only transfers change them. Items come and go: each command names their values before, and
//! each value is written once. Their tables are cleared now and then: dropped, and created under another number.

use std::collections::BTreeMap;

use namiki_client::protocol::{Command, Condition, Outcome, ScanRange, Write};
use namiki_platform::seeded_random::Random;

use super::model::{KeyedRows, tables_of};
use super::value_chain::RowValue;

/// The table of accounts.
pub(super) const ACCOUNTS_TABLE: &str = "accounts";
/// Initial balance of every account.
pub(super) const OPENING_BALANCE: u64 = 100;
/// The table of items with keys of eight bytes.
const CELLS_TABLE: &str = "cells";
/// The tables of items.
const ITEM_TABLES: [&str; 2] = ["items", CELLS_TABLE];
/// All tables.
pub(super) const TABLES: [&str; 3] = [ACCOUNTS_TABLE, ITEM_TABLES[0], ITEM_TABLES[1]];
/// Items of a table.
const ITEMS: u64 = 24;

/// Whether every key of a table has eight bytes.
pub(super) fn has_eight_byte_keys(name: &str) -> bool {
    name != ITEM_TABLES[0]
}

/// What a client knows.
#[derive(Clone)]
pub(super) struct Workload {
    client: u64,
    accounts: u64,
    /// Numbers of tables.
    numbers: BTreeMap<&'static str, u32>,
    /// The items that it takes to be there.
    items: BTreeMap<(u32, Vec<u8>), Vec<u8>>,
    /// Values that it has made up.
    values: u64,
}

impl Workload {
    pub(super) fn new(client: u64, accounts: u64) -> Self {
        Self {
            client,
            accounts,
            numbers: BTreeMap::new(),
            items: BTreeMap::new(),
            values: 0,
        }
    }

    /// The knowledge of another client, which makes up values of its own.
    pub(super) fn of_successor(&self, client: u64) -> Self {
        Self {
            client,
            values: 0,
            ..self.clone()
        }
    }

    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub(super) fn know_table(&mut self, name: &str, number: u32) {
        if let Some(name) = TABLES.into_iter().find(|it| *it == name) {
            self.numbers.insert(name, number);
        }
    }

    /// There is no such table any more, or perhaps not.
    pub(super) fn forget_table(&mut self, number: u32) {
        self.numbers.retain(|_, known| *known != number);
        self.items.retain(|(table, _), _| *table != number);
    }

    /// A command of this client, or of the holder of its session before, has this outcome.
    pub(super) fn know_outcome(&mut self, command: &Command, outcome: Outcome) {
        match (outcome, command) {
            (Outcome::NoSuchTable, command) => {
                for table in tables_of(command) {
                    self.forget_table(table);
                }
            }
            (Outcome::Done, Command::Write(write)) => {
                for (table, key, value) in &write.rows {
                    self.know_row(*table, key.clone(), value.clone());
                }
            }
            _ => {}
        }
    }

    pub(super) fn know_row(&mut self, table: u32, key: Vec<u8>, value: RowValue) {
        match value {
            Some(value) => self.items.insert((table, key), value),
            None => self.items.remove(&(table, key)),
        };
    }

    /// All rows of a table.
    pub(super) fn know_rows(&mut self, table: u32, rows: &KeyedRows) {
        self.items.retain(|(of, _), _| *of != table);
        for (key, value) in rows {
            self.know_row(table, key.clone(), Some(value.clone()));
        }
    }

    /// Opens all accounts.
    pub(super) fn open_accounts(&self, table: u32) -> Vec<Command> {
        let open = (0..self.accounts).map(|account| {
            let key = account.to_be_bytes().to_vec();
            let value = OPENING_BALANCE.to_le_bytes().to_vec();
            write([(table, key, None, Some(value))])
        });
        open.collect()
    }

    /// A transfer between two accounts.
    pub(super) fn transfer(&self, table: u32, random: &mut Random) -> Command {
        let from = random.below(self.accounts);
        Command::Transfer {
            table,
            from,
            to: (from + 1 + random.below(self.accounts - 1)) % self.accounts,
            amount: 1 + random.below(60),
        }
    }

    /// A command that makes, changes, deletes or moves an item.
    pub(super) fn change_item(&mut self, random: &mut Random) -> Option<Command> {
        let (table, key) = self.any_item(random)?;
        let before = self.items.get(&(table, key.clone())).cloned();
        let after = match &before {
            Some(_) if random.chance(0.6) => None,
            _ => Some(self.new_value(random)),
        };
        let mut rows = vec![(table, key.clone(), before.clone(), after)];
        let other = self.any_item(random).filter(|it| *it != (table, key));
        if let Some((table, key)) = other.filter(|_| random.chance(0.4)) {
            let known = self.items.get(&(table, key.clone())).cloned();
            let after = match random.below(3) {
                // A condition alone.
                0 => known.clone(),
                // A row that was deleted moves.
                1 if rows[0].3.is_none() => Some(self.new_value(random)),
                _ => None,
            };
            rows.push((table, key, known, after));
        }
        Some(write(rows))
    }

    /// A transfer between items, which are no accounts if they are there at all.
    pub(super) fn transfer_items(&self, random: &mut Random) -> Option<Command> {
        let from = random.below(ITEMS);
        Some(Command::Transfer {
            table: self.number(CELLS_TABLE)?,
            from,
            to: (from + 1 + random.below(ITEMS - 1)) % ITEMS,
            amount: 1,
        })
    }

    /// A number of a table of items, to be cleared.
    pub(super) fn any_item_table(&self, random: &mut Random) -> Option<u32> {
        self.number(ITEM_TABLES[random.index(ITEM_TABLES.len())])
    }

    fn any_item(&self, random: &mut Random) -> Option<(u32, Vec<u8>)> {
        let name = ITEM_TABLES[random.index(ITEM_TABLES.len())];
        let table = self.number(name)?;
        // Mostly one that other clients seldom change.
        let item = if random.chance(0.8) {
            random.below(ITEMS / 4) * 4 + self.client % 4
        } else {
            random.below(ITEMS)
        };
        Some((table, item_key(name, item)))
    }

    /// One that is written once.
    fn new_value(&mut self, random: &mut Random) -> Vec<u8> {
        self.values += 1;
        let width = random.index(80);
        format!("{}.{:<width$}", self.client, self.values).into_bytes()
    }

    /// Keys of accounts and items that are read together.
    pub(super) fn keys(&self, random: &mut Random) -> Vec<(u32, Vec<u8>)> {
        let mut keys = Vec::new();
        if let Some(table) = self.number(ACCOUNTS_TABLE) {
            keys.extend((0..self.accounts).map(|it| (table, it.to_be_bytes().to_vec())));
        }
        for name in ITEM_TABLES {
            if let Some(table) = self.number(name).filter(|_| random.chance(0.3)) {
                keys.extend((0..ITEMS).map(|item| (table, item_key(name, item))));
            }
        }
        keys
    }

    /// A range that is read, or counted.
    pub(super) fn range(&self, random: &mut Random) -> Option<ScanRange> {
        let name = TABLES[random.index(TABLES.len())];
        let mut range = ScanRange {
            table: self.number(name)?,
            ..ScanRange::default()
        };
        if random.chance(0.3) {
            range.from = item_key(name, random.below(ITEMS));
            range.after = random.chance(0.5);
            let until = item_key(name, random.below(ITEMS));
            range.until = random.chance(0.5).then_some(until);
        }
        // Some are counted alone.
        range.rows_max = match random.below(4) {
            0 => 0,
            1 => 1 + random.below(ITEMS) as u32,
            _ => 1000,
        };
        Some(range)
    }
}

/// Whether a group opens the accounts.
pub(super) fn opens_accounts(commands: &[Command]) -> bool {
    let opening = OPENING_BALANCE.to_le_bytes();
    let opens = |row: &(u32, Vec<u8>, RowValue)| row.2.as_deref() == Some(&opening);
    matches!(commands, [Command::Write(write), ..] if write.rows.iter().any(opens))
}

fn item_key(table: &str, item: u64) -> Vec<u8> {
    if has_eight_byte_keys(table) {
        item.to_be_bytes().to_vec()
    } else {
        format!("{item:<width$}", width = 1 + 3 * item as usize % 40).into_bytes()
    }
}

/// A write of rows with their values before; one that keeps its value is a condition alone.
fn write(rows: impl IntoIterator<Item = (u32, Vec<u8>, RowValue, RowValue)>) -> Command {
    let mut write = Write::default();
    for (table, key, before, after) in rows {
        let value = before.clone();
        let condition = Condition {
            table,
            key: key.clone(),
            value,
        };
        write.conditions.push(condition);
        if before != after {
            write.rows.push((table, key, after));
        }
    }
    Command::Write(Box::new(write))
}
