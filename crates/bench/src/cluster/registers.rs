//! The workload `register`: few rows, each written only by commands that name its current value.
//!
//! A command names the values of one to three rows and writes some of these rows, all with one
//! value that no other command ever writes. A value consists of the command's place in the order of
//! the values that it has seen, and of its number:
//! ```text
//!  63                         32 31            0
//! | 1 + the largest place seen  |   number      |
//! ```
//! Therefore the values of a row rise, and each identifies the command that wrote it, which lets
//! the checker derive the order of all commands. 0 stands for an absent row.

use std::collections::BTreeMap;

use namiki_client::protocol::{Command, Condition, Outcome, Write};
use namiki_platform::seeded_random::Random;
use serde::Serialize;

use super::workload::key_of;

/// The value of an absent row.
pub(super) const NOTHING: u64 = 0;
/// Maximal number of rows that a command names.
const ROWS_MAX: u64 = 3;

/// A command of this workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct RegisterWrite {
    /// Rows with their required values.
    #[serde(rename = "if")]
    pub(super) conditions: Vec<(u64, u64)>,
    /// The rows written. Each is among the conditions.
    pub(super) set: Vec<u64>,
    /// The value written.
    pub(super) value: u64,
}

impl RegisterWrite {
    /// The command in the cluster's format.
    pub(super) fn command(&self, table: u32) -> Command {
        let condition = |&(row, value): &(u64, u64)| Condition {
            table,
            key: key_of(row),
            value: (value != NOTHING).then(|| value.to_le_bytes().to_vec()),
        };
        let written = |&row: &u64| (table, key_of(row), Some(self.value.to_le_bytes().to_vec()));
        Command::Write(Box::new(Write {
            conditions: self.conditions.iter().map(condition).collect(),
            rows: self.set.iter().map(written).collect(),
        }))
    }
}

/// Decodes a row's value from the cluster's format.
pub(super) fn value_of(bytes: Option<&[u8]>) -> Option<u64> {
    match bytes {
        None => Some(NOTHING),
        Some(bytes) => Some(u64::from_le_bytes(bytes.try_into().ok()?)),
    }
}

/// A client's assumptions about the values of rows.
#[derive(Debug, Default)]
pub(super) struct Beliefs(BTreeMap<u64, u64>);

impl Beliefs {
    pub(super) fn learn(&mut self, row: u64, value: u64) {
        self.0.insert(row, value);
    }

    /// The rows that must be read before a command can name them.
    pub(super) fn unknown(&self, rows: &[u64]) -> Vec<u64> {
        let rows = rows.iter().copied();
        rows.filter(|row| !self.0.contains_key(row)).collect()
    }

    /// Creates a command over rows with known values, and assumes that it succeeds.
    pub(super) fn write(
        &mut self,
        rows: &[u64],
        number: u32,
        random: &mut Random,
    ) -> RegisterWrite {
        let held = |row: &u64| self.0.get(row).copied().unwrap_or(NOTHING);
        let conditions: Vec<(u64, u64)> = rows.iter().map(|row| (*row, held(row))).collect();
        let places = conditions.iter().map(|(_, value)| value >> 32);
        let place = 1 + places.max().unwrap_or(0);
        let value = place << 32 | u64::from(number);
        // The first row is always written. The rows that are only named must not change before the
        // command, either.
        let written = rows.iter().enumerate();
        let written = written.filter(|(at, _)| *at == 0 || random.below(2) == 0);
        let set: Vec<u64> = written.map(|(_, row)| *row).collect();
        for row in &set {
            self.0.insert(*row, value);
        }
        RegisterWrite {
            conditions,
            set,
            value,
        }
    }

    /// Discards the assumptions of a command that was not executed, or that has an unknown outcome.
    pub(super) fn forget(&mut self, write: &RegisterWrite) {
        for (row, _) in &write.conditions {
            self.0.remove(row);
        }
    }

    pub(super) fn take(&mut self, writes: &[RegisterWrite], outcomes: &[Outcome]) {
        for (write, outcome) in writes.iter().zip(outcomes) {
            if *outcome != Outcome::Done {
                self.forget(write);
            }
        }
    }
}

/// Some distinct rows.
pub(super) fn some_rows(registers: u64, random: &mut Random) -> Vec<u64> {
    let count = (1 + random.below(ROWS_MAX)).min(registers);
    let mut rows = Vec::new();
    while (rows.len() as u64) < count {
        let row = random.below(registers);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_exceeds_all_that_its_command_has_seen() {
        let mut random = Random::seeded(1);
        let mut beliefs = Beliefs::default();
        beliefs.learn(1, 7 << 32 | 3);
        beliefs.learn(2, NOTHING);
        assert_eq!(beliefs.unknown(&[1, 2, 3]), [3]);
        let write = beliefs.write(&[2, 1], 9, &mut random);
        assert_eq!(write.conditions, [(2, NOTHING), (1, 7 << 32 | 3)]);
        assert_eq!(write.value, 8 << 32 | 9);
        assert!(write.set.contains(&2));
        // The next command of the same group builds on that value.
        let next = beliefs.write(&[2], 10, &mut random);
        assert_eq!(next.conditions, [(2, write.value)]);
        beliefs.take(&[write, next], &[Outcome::Done, Outcome::ConditionFailed]);
        assert_eq!(beliefs.unknown(&[2]), [2]);
    }

    #[test]
    fn rows_of_a_command_differ() {
        let mut random = Random::seeded(2);
        for registers in [1, 2, 50] {
            let mut rows = some_rows(registers, &mut random);
            let count = rows.len();
            rows.sort_unstable();
            rows.dedup();
            assert!(rows.len() == count && rows.iter().all(|row| *row < registers));
        }
    }

    #[test]
    fn what_is_no_number_is_no_value() {
        assert_eq!(value_of(None), Some(NOTHING));
        assert_eq!(value_of(Some(&5_u64.to_le_bytes())), Some(5));
        assert_eq!(value_of(Some(&[1, 2])), None);
    }
}
