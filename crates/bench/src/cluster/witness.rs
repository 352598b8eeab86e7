//! An external witness of acknowledged commands, which determines the required content of the
//! tables.
//!
//! For each account, it counts the acknowledged transfers and those with unknown outcomes. At the
//! end every balance is read from the leader and compared.

use std::collections::HashMap;

use namiki_client::protocol::{Command, Outcome};

use super::workload::{OPENING_BALANCE, Plan, Workload, value_of};

/// The acknowledged commands.
#[derive(Debug)]
pub(super) struct Witness {
    workload: Workload,
    /// By row: the number of an account's transfers, or the last version of a row.
    acknowledged: Vec<u64>,
    /// Transfers of an account with unknown outcomes, or a version that may be present.
    unknown: HashMap<u64, u64>,
    /// Length of a row of the workload `rows`.
    row_bytes: usize,
    /// Rows that clients have written and not deleted.
    present: u64,
    /// Number of executed commands.
    pub(super) done: u64,
    /// Number of refused commands, for example because of an insufficient balance.
    pub(super) rejected: u64,
    /// Number of commands with unknown outcomes.
    pub(super) unresolved: u64,
}

/// The result of the comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Acknowledged, but absent.
    pub(super) lost: u64,
    /// Present more often than acknowledged, or present but never sent.
    pub(super) duplicated: u64,
    /// Rows that are missing, or hold invalid values.
    pub(super) damaged: u64,
    sum: u128,
}

impl Witness {
    pub(super) fn new(plan: &Plan) -> Self {
        let rows = match plan.workload {
            Workload::Transfer | Workload::Payment => plan.accounts(),
            Workload::Single | Workload::Rows => plan.pairs,
            // The history of all operations is a stronger check.
            Workload::Register => 0,
        };
        let acknowledged = vec![0; usize::try_from(rows).unwrap_or(0)];
        Self {
            workload: plan.workload,
            acknowledged,
            unknown: HashMap::new(),
            row_bytes: plan.row_bytes,
            present: plan.accounts(),
            done: 0,
            rejected: 0,
            unresolved: 0,
        }
    }

    /// Number of rows to compare.
    pub(super) fn rows(&self) -> u64 {
        self.acknowledged.len() as u64
    }

    /// Bytes of the keys and values that the tables have to hold; 0 for `register`, which has few rows.
    pub(super) fn bytes_present(&self) -> u64 {
        let value_bytes = match self.workload {
            Workload::Rows => self.row_bytes,
            _ => size_of::<u64>(),
        };
        self.present * (size_of::<u64>() + value_bytes) as u64
    }

    /// Records an acknowledged group.
    pub(super) fn acknowledge(&mut self, commands: &[Command], outcomes: &[Outcome]) {
        for (command, outcome) in commands.iter().zip(outcomes) {
            if *outcome != Outcome::Done {
                self.rejected += 1;
                continue;
            }
            self.done += 1;
            match command {
                Command::Transfer { from, to, .. } => {
                    for account in [from, to] {
                        if let Some(count) = self.acknowledged.get_mut(*account as usize) {
                            *count += 1;
                        }
                    }
                }
                Command::Write(_) => {
                    if let Some((row, version)) = write_of(command)
                        && let Some(last) = self.acknowledged.get_mut(row as usize)
                    {
                        let was_there = *last != 0;
                        // A row of `rows` has one writer, which waits for each answer: a deleted one has no version.
                        *last = match self.workload {
                            Workload::Rows => version,
                            _ => version.max(*last),
                        };
                        self.present += u64::from(*last != 0);
                        self.present -= u64::from(was_there);
                    }
                }
            }
        }
    }

    /// Records a group that the client has given up on.
    pub(super) fn give_up(&mut self, commands: &[Command]) {
        for command in commands {
            self.unresolved += 1;
            match command {
                Command::Transfer { from, to, .. } => {
                    for account in [from, to] {
                        *self.unknown.entry(*account).or_default() += 1;
                    }
                }
                Command::Write(_) => {
                    if let Some((row, version)) = write_of(command) {
                        self.unknown.insert(row, version);
                    }
                }
            }
        }
    }

    /// Compares a row with its required content.
    pub(super) fn compare(&self, row: u64, value: Option<&[u8]>, findings: &mut Findings) {
        let Some(&acknowledged) = self.acknowledged.get(row as usize) else {
            return;
        };
        if self.workload == Workload::Rows {
            return self.compare_row(row, acknowledged, value, findings);
        }
        let bytes = value.map(<[u8; 8]>::try_from).transpose();
        let Ok(number) = bytes.map(|bytes| bytes.map(u64::from_le_bytes)) else {
            findings.damaged += 1;
            return;
        };
        let unknown = self.unknown.get(&row).copied().unwrap_or(0);
        let moved = match (self.workload, number) {
            (Workload::Single, version) => version.unwrap_or(0),
            (_, None) => {
                findings.damaged += 1;
                return;
            }
            (_, Some(balance)) => {
                findings.sum += u128::from(balance);
                let moved = if row.is_multiple_of(2) {
                    OPENING_BALANCE.checked_sub(balance)
                } else {
                    balance.checked_sub(OPENING_BALANCE)
                };
                let Some(moved) = moved else {
                    findings.damaged += 1;
                    return;
                };
                moved
            }
        };
        let most = match self.workload {
            Workload::Single => acknowledged.max(unknown),
            _ => acknowledged + unknown,
        };
        // A transfer has two accounts, and is counted at its payer.
        let counts = self.workload == Workload::Single || row.is_multiple_of(2);
        let (lost, duplicated) = (
            acknowledged.saturating_sub(moved),
            moved.saturating_sub(most),
        );
        if counts {
            findings.lost += lost;
            findings.duplicated += duplicated;
        } else if lost + duplicated > 0 {
            findings.damaged += 1;
        }
    }

    /// Compares a row of the workload `rows`.
    fn compare_row(
        &self,
        row: u64,
        acknowledged: u64,
        value: Option<&[u8]>,
        findings: &mut Findings,
    ) {
        let version = value.map_or(Some(0), |value| {
            let version = u64::from_le_bytes(value.first_chunk().copied()?);
            (value == value_of(row, version, self.row_bytes)).then_some(version)
        });
        match version {
            None => findings.damaged += 1,
            Some(found) if found == acknowledged => {}
            Some(found) if self.unknown.get(&row) == Some(&found) => {}
            // Deleted, or an earlier version.
            Some(found) if found < acknowledged => findings.lost += 1,
            Some(_) => findings.duplicated += 1,
        }
    }

    /// Whether the total of all balances is unchanged, once all rows are compared.
    pub(super) fn is_conserved(&self, findings: &Findings) -> bool {
        let opened = u128::from(OPENING_BALANCE) * u128::from(self.rows());
        let has_money = matches!(self.workload, Workload::Transfer | Workload::Payment);
        !has_money || findings.sum == opened
    }
}

/// The row that a command writes, and its new version; 0 for a deleted one.
fn write_of(command: &Command) -> Option<(u64, u64)> {
    let Command::Write(write) = command else {
        return None;
    };
    let (_, key, value) = write.rows.first()?;
    let row = u64::from_be_bytes(key.as_slice().try_into().ok()?);
    let version = match value {
        Some(value) => u64::from_le_bytes(value.first_chunk().copied()?),
        None => 0,
    };
    Some((row, version))
}

#[cfg(test)]
mod tests {
    use namiki_platform::seeded_random::Random;

    use super::super::workload::PlanSizes;
    use super::*;

    fn plan(workload: Workload) -> Plan {
        let sizes = PlanSizes {
            clients: 1,
            pipeline: 1,
            batch: 3,
            pairs: 3,
            skew: 0.0,
            hot_pairs: 0,
            registers: 0,
            rows: 3,
            row_bytes: 20,
            seed: 1,
        };
        Plan::new(workload, 1, &sizes)
    }

    fn witness_of_a_group(workload: Workload) -> Witness {
        let plan = plan(workload);
        let commands = plan.commands(0, 0, 5, &mut Random::seeded(1));
        let mut witness = Witness::new(&plan);
        witness.acknowledge(&commands, &vec![Outcome::Done; commands.len()]);
        witness
    }

    fn findings(witness: &Witness, rows: &[i64]) -> (Findings, bool) {
        let mut findings = Findings::default();
        for (row, change) in rows.iter().enumerate() {
            let balance = OPENING_BALANCE.wrapping_add_signed(*change);
            let value = balance.to_le_bytes();
            witness.compare(row as u64, Some(&value), &mut findings);
        }
        let conserved = witness.is_conserved(&findings);
        (findings, conserved)
    }

    fn is(lost: u64, duplicated: u64, damaged: u64, found: &Findings) -> bool {
        (found.lost, found.duplicated, found.damaged) == (lost, duplicated, damaged)
    }

    #[test]
    fn what_was_acknowledged_is_there_once() {
        let witness = witness_of_a_group(Workload::Transfer);
        assert_eq!((witness.rows(), witness.bytes_present()), (6, 6 * 16));
        let (found, conserved) = findings(&witness, &[-1, 1, -1, 1, -1, 1]);
        assert!(is(0, 0, 0, &found) && conserved);
    }

    #[test]
    fn lost_and_doubled_transfers_are_told_apart() {
        let witness = witness_of_a_group(Workload::Transfer);
        let (found, conserved) = findings(&witness, &[-1, 1, 0, 0, -3, 3]);
        assert!(is(1, 2, 2, &found) && conserved, "{found:?}");
    }

    #[test]
    fn half_a_transfer_does_not_conserve_money() {
        let witness = witness_of_a_group(Workload::Transfer);
        let (found, conserved) = findings(&witness, &[-1, 0, -1, 1, -1, 1]);
        assert!(is(0, 0, 1, &found) && !conserved, "{found:?}");
    }

    #[test]
    fn an_unknown_transfer_may_be_there_or_not() {
        let plan = plan(Workload::Transfer);
        let commands = plan.commands(0, 0, 0, &mut Random::seeded(1));
        let mut witness = Witness::new(&plan);
        witness.give_up(&commands);
        assert!(is(0, 0, 0, &findings(&witness, &[-1, 1, 0, 0, 0, 0]).0));
        assert!(is(0, 1, 1, &findings(&witness, &[-2, 2, 0, 0, 0, 0]).0));
    }

    #[test]
    fn a_missing_account_is_damage() {
        let witness = witness_of_a_group(Workload::Transfer);
        let mut found = Findings::default();
        witness.compare(0, None, &mut found);
        witness.compare(1, Some(&[1, 2, 3]), &mut found);
        assert!(is(0, 0, 2, &found));
    }

    #[test]
    fn a_row_has_its_last_value_or_none() {
        let plan = plan(Workload::Rows);
        let write = |version: u64, deletes: bool| {
            let value = (!deletes).then(|| value_of(1, version, 20));
            vec![Command::Write(Box::new(namiki_client::protocol::Write {
                conditions: Vec::new(),
                rows: vec![(1, super::super::workload::key_of(1), value)],
            }))]
        };
        let mut witness = Witness::new(&plan);
        let compare = |witness: &Witness, value: Option<Vec<u8>>| {
            let mut found = Findings::default();
            witness.compare(1, value.as_deref(), &mut found);
            (found.lost, found.duplicated, found.damaged)
        };
        assert_eq!(compare(&witness, None), (0, 0, 0));
        assert_eq!(witness.bytes_present(), 0);
        witness.acknowledge(&write(4, false), &[Outcome::Done]);
        witness.acknowledge(&write(5, false), &[Outcome::Done]);
        assert_eq!(witness.bytes_present(), 8 + 20);
        assert_eq!(compare(&witness, Some(value_of(1, 5, 20))), (0, 0, 0));
        assert_eq!(compare(&witness, Some(value_of(1, 4, 20))), (1, 0, 0));
        assert_eq!(compare(&witness, Some(value_of(2, 5, 20))), (0, 0, 1));
        assert_eq!(compare(&witness, None), (1, 0, 0));
        witness.acknowledge(&write(6, true), &[Outcome::Done]);
        assert_eq!(witness.bytes_present(), 0);
        assert_eq!(compare(&witness, None), (0, 0, 0));
        assert_eq!(compare(&witness, Some(value_of(1, 5, 20))), (0, 1, 0));
        witness.give_up(&write(7, false));
        assert_eq!(compare(&witness, Some(value_of(1, 7, 20))), (0, 0, 0));
    }

    #[test]
    fn a_single_row_has_its_last_version() {
        let witness = witness_of_a_group(Workload::Single);
        for (version, expected) in [(5_u64, (0, 0)), (3, (2, 0)), (6, (0, 1))] {
            let mut found = Findings::default();
            witness.compare(0, Some(&version.to_le_bytes()), &mut found);
            assert_eq!((found.lost, found.duplicated), expected);
        }
    }
}
