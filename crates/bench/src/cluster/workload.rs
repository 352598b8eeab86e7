//! The commands that clients send.
//!
//! Accounts come in pairs: the even one only pays, the odd one only receives, always one unit.
//! A payer's balance therefore shows how often it has paid, which distinguishes a missing payment
//! from a duplicated one.

use clap::ValueEnum;
use namiki_client::protocol::{Command, Write};
use namiki_platform::seeded_random::Random;
use namiki_platform::zipf::{Scatter, Zipf};

/// The initial balance of every account, which exceeds the payments of any run.
pub(super) const OPENING_BALANCE: u64 = 1 << 40;

/// The share of the commands of `rows` that delete.
const DELETIONS: f64 = 0.1;
/// Maximal number of commands in a batch of `register`.
const REGISTER_BATCH_MAX: u32 = 4;

/// Workloads, by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Workload {
    /// The paper's workload: every transfer in flight has its own accounts.
    Transfer,
    /// Payers and payees chosen by Zipf's law, or among few pairs.
    Payment,
    /// Each request writes one row, which belongs to the client.
    Single,
    /// Rows of any length are written and deleted, as many as there is room for.
    Rows,
    /// Few rows, each written only by commands that name its current value; every operation is
    /// recorded and checked.
    Register,
}

impl Workload {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Payment => "payment",
            Self::Single => "single",
            Self::Rows => "rows",
            Self::Register => "register",
        }
    }
}

/// The workload of a run: its sizes, and the choice of accounts.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) workload: Workload,
    pub(super) table: u32,
    /// Commands that a client sends together.
    pub(super) batch: u32,
    /// Batches in flight of a client.
    pub(super) pipeline: u32,
    /// Number of pairs of accounts, or of rows.
    pub(super) pairs: u64,
    choice: Option<(Zipf, Scatter)>,
    /// Only this many pairs are used, unless it is 0.
    hot_pairs: u64,
    /// Rows of each client's slot in the workload `rows`, and their length.
    slot_rows: u64,
    pub(super) row_bytes: usize,
}

/// The requested sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanSizes {
    pub(super) clients: u32,
    pub(super) pipeline: u32,
    pub(super) batch: u32,
    /// Number of pairs in the workload `payment`.
    pub(super) pairs: u64,
    pub(super) skew: f64,
    pub(super) hot_pairs: u64,
    /// Number of rows in the workload `register`.
    pub(super) registers: u64,
    /// Number of rows in the workload `rows`, and the length of each.
    pub(super) rows: u64,
    pub(super) row_bytes: usize,
    pub(super) seed: u64,
}

impl Plan {
    pub(super) fn new(workload: Workload, table: u32, sizes: &PlanSizes) -> Self {
        let batch = match workload {
            Workload::Register => sizes.batch.min(REGISTER_BATCH_MAX),
            _ => sizes.batch,
        };
        let slots = u64::from(sizes.clients) * u64::from(sizes.pipeline);
        let own = slots * u64::from(batch);
        let slot_rows = sizes.rows.div_ceil(slots).max(u64::from(batch));
        let pairs = match workload {
            Workload::Transfer | Workload::Single => own,
            Workload::Payment => sizes.pairs.max(sizes.hot_pairs),
            Workload::Rows => slots * slot_rows,
            Workload::Register => sizes.registers,
        };
        let choice = (workload == Workload::Payment).then(|| {
            (
                Zipf::new(pairs, sizes.skew),
                Scatter::new(pairs, sizes.seed),
            )
        });
        Self {
            workload,
            table,
            batch,
            pipeline: sizes.pipeline,
            pairs,
            choice,
            hot_pairs: sizes.hot_pairs,
            slot_rows,
            row_bytes: sizes.row_bytes,
        }
    }

    /// Number of rows that must exist before the run.
    pub(super) fn accounts(&self) -> u64 {
        match self.workload {
            Workload::Transfer | Workload::Payment => 2 * self.pairs,
            Workload::Single | Workload::Rows | Workload::Register => 0,
        }
    }

    /// The first of the pairs reserved for a client's slot.
    pub(super) fn first_pair(&self, client: u32, slot: u32) -> u64 {
        let slots = u64::from(client) * u64::from(self.pipeline) + u64::from(slot);
        slots * u64::from(self.batch)
    }

    /// The commands of a batch. `version` is the value of a single write.
    pub(super) fn commands(
        &self,
        client: u32,
        slot: u32,
        version: u64,
        random: &mut Random,
    ) -> Vec<Command> {
        let first = self.first_pair(client, slot);
        let own = first..first + u64::from(self.batch);
        match self.workload {
            Workload::Transfer => own.map(|pair| self.transfer(pair, pair)).collect(),
            Workload::Payment => {
                let mut pairs = || (self.choose(random), self.choose(random));
                let transfers = (0..self.batch).map(|_| pairs());
                transfers
                    .map(|(payer, payee)| self.transfer(payer, payee))
                    .collect()
            }
            // Its clients know the values of rows, and create their commands themselves.
            Workload::Register => Vec::new(),
            Workload::Single => own.map(|row| self.write(row, version)).collect(),
            Workload::Rows => {
                let slots = u64::from(client) * u64::from(self.pipeline) + u64::from(slot);
                let (first, from) = (slots * self.slot_rows, random.below(self.slot_rows));
                let rows =
                    (from..from + u64::from(self.batch)).map(|it| first + it % self.slot_rows);
                rows.map(|row| self.write_row(row, version, random))
                    .collect()
            }
        }
    }

    /// Writes a row, or deletes it.
    fn write_row(&self, row: u64, version: u64, random: &mut Random) -> Command {
        let value = (!random.chance(DELETIONS)).then(|| value_of(row, version, self.row_bytes));
        Command::Write(Box::new(Write {
            conditions: Vec::new(),
            rows: vec![(self.table, key_of(row), value)],
        }))
    }

    fn choose(&self, random: &mut Random) -> u64 {
        match &self.choice {
            _ if self.hot_pairs > 0 => random.below(self.hot_pairs),
            Some((zipf, scatter)) => scatter.key(zipf.rank(random) - 1),
            None => random.below(self.pairs),
        }
    }

    fn write(&self, row: u64, version: u64) -> Command {
        let value = Some(version.to_le_bytes().to_vec());
        Command::Write(Box::new(Write {
            conditions: Vec::new(),
            rows: vec![(self.table, key_of(row), value)],
        }))
    }

    fn transfer(&self, payer: u64, payee: u64) -> Command {
        Command::Transfer {
            table: self.table,
            from: 2 * payer,
            to: 2 * payee + 1,
            amount: 1,
        }
    }
}

/// The value of a row of the workload `rows`: its version, and a pattern of it.
pub(super) fn value_of(row: u64, version: u64, row_bytes: usize) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    let pattern = Random::stream(row, version).next_u64().to_le_bytes();
    let pattern = pattern.iter().copied().cycle();
    value.extend(pattern.take(row_bytes.saturating_sub(value.len())));
    value
}

/// A row's key.
pub(super) fn key_of(row: u64) -> Vec<u8> {
    row.to_be_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const SIZES: PlanSizes = PlanSizes {
        clients: 3,
        pipeline: 2,
        batch: 10,
        pairs: 50,
        skew: 0.9,
        hot_pairs: 0,
        registers: 0,
        rows: 0,
        row_bytes: 100,
        seed: 1,
    };

    fn accounts(commands: &[Command]) -> Vec<(u64, u64)> {
        let accounts = commands.iter().map(|command| match command {
            Command::Transfer { from, to, .. } => (*from, *to),
            Command::Write(_) => panic!("no transfer"),
        });
        accounts.collect()
    }

    /// Paper: raft-pwal §4.1
    #[test]
    fn transfers_in_flight_share_no_account() {
        let plan = Plan::new(Workload::Transfer, 1, &SIZES);
        let mut random = Random::seeded(1);
        let mut met = HashSet::new();
        for client in 0..3 {
            for slot in 0..2 {
                for (from, to) in accounts(&plan.commands(client, slot, 0, &mut random)) {
                    assert!(met.insert(from) && met.insert(to));
                    assert!(from.max(to) < plan.accounts());
                }
            }
        }
        assert_eq!(met.len() as u64, plan.accounts());
    }

    #[test]
    fn payers_are_even_and_payees_odd() {
        let plan = Plan::new(Workload::Payment, 1, &SIZES);
        let commands = plan.commands(0, 0, 0, &mut Random::seeded(1));
        assert_eq!(commands.len(), 10);
        for (from, to) in accounts(&commands) {
            assert!(from % 2 == 0 && to % 2 == 1 && from.max(to) < 100);
        }
    }

    #[test]
    fn a_batch_names_rows_of_its_slot_once() {
        let sizes = PlanSizes { rows: 70, ..SIZES };
        let plan = Plan::new(Workload::Rows, 1, &sizes);
        assert_eq!(plan.pairs, 72);
        let mut random = Random::seeded(1);
        for client in 0..3 {
            for slot in 0..2 {
                let commands = plan.commands(client, slot, 1, &mut random);
                let rows = commands.iter().map(|command| match command {
                    Command::Write(write) => write.rows[0].1.clone(),
                    Command::Transfer { .. } => panic!("no row"),
                });
                let rows: HashSet<Vec<u8>> = rows.collect();
                let first = 12 * u64::from(2 * client + slot);
                let own: HashSet<Vec<u8>> = (first..first + 12).map(key_of).collect();
                assert!(rows.len() == 10 && rows.is_subset(&own));
            }
        }
    }

    #[test]
    fn hot_pairs_are_the_only_ones() {
        let sizes = PlanSizes {
            hot_pairs: 1,
            ..SIZES
        };
        let plan = Plan::new(Workload::Payment, 1, &sizes);
        let commands = plan.commands(0, 0, 0, &mut Random::seeded(1));
        assert_eq!(accounts(&commands), [(0, 1); 10]);
    }
}
