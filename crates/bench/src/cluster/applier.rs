//! The applier alone, in this process: what installing a group's changes costs, without a view, with one, and with views that are
//! opened again and again.
//!
//! A follower looks up every key ([`Replica::apply`]); the leader has the records in its locks
//! ([`HeldLocks::install`](namiki::replica::HeldLocks::install)). While a view is open, the first change of a row after its
//! opening keeps the version before. So a view that has kept every row costs little more, and the dearest groups follow an
//! opening: one view for the whole run has few of them, and views that are opened anew after some groups have many.
//!
//! Paper: raft-pwal §3.3

use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki::replica::{GroupTransaction, Replica};
use namiki::{Stamp, TableId};
use namiki_platform::machine::Machine;
use namiki_platform::seeded_random::Random;
use serde::Serialize;

use super::workload::key_of;
use crate::error::BenchError;
use crate::interrupt;
use crate::result_writer::{Cell, Row};

/// Rows that each command changes: two accounts.
const ROWS_PER_COMMAND: u64 = 2;
/// Groups between two openings of a view.
const GROUPS_PER_VIEW: u64 = 20;

/// The views that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenViews {
    /// None.
    None,
    /// One, for the whole run.
    One,
    /// One, which is opened anew after [`GROUPS_PER_VIEW`].
    Anew,
}

/// What installs the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Installs {
    /// The changes of another node's groups.
    Apply,
    /// Those of its own groups: their locks have the records.
    Locks,
}

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApplierRun {
    pub(super) installs: Installs,
    pub(super) views: OpenViews,
    /// Commands of a group.
    pub(super) group_size: u32,
    pub(super) accounts: u64,
    pub(super) length: Duration,
    pub(super) seed: u64,
    pub(super) round: u32,
}

/// The keys are a stable contract: new ones may be added, none is renamed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ApplierRow<'a> {
    pub(super) installs: &'static str,
    /// Whether a view was open.
    pub(super) view: bool,
    /// Which: `none`, `one` for the whole run, or one that was opened `anew` again and again.
    pub(super) views: &'static str,
    pub(super) group_size: u32,
    pub(super) rows_per_group: u64,
    pub(super) accounts: u64,
    pub(super) groups: u64,
    /// The mean time of installing a group, in microseconds.
    pub(super) us_per_group: f64,
    pub(super) seed: u64,
    pub(super) round: u32,
    pub(super) machine: &'a Machine,
}

impl Row for ApplierRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let ns_per_row = 1e3 * self.us_per_group / self.rows_per_group as f64;
        vec![
            ("installs", Cell::key(self.installs)),
            ("view", Cell::key(self.views)),
            ("group", Cell::key(self.group_size)),
            ("accounts", Cell::key(self.accounts)),
            ("groups", Cell::count(self.groups)),
            ("us per group", Cell::measure(self.us_per_group)),
            ("ns per row", Cell::measure(ns_per_row)),
        ]
    }
}

impl ApplierRun {
    /// The combinations that are compared.
    pub(super) fn combinations(self) -> Vec<Self> {
        let installs = [Installs::Apply, Installs::Locks];
        let with_views = installs.into_iter().flat_map(|installs| {
            [OpenViews::None, OpenViews::One, OpenViews::Anew].map(|views| Self {
                installs,
                views,
                ..self
            })
        });
        with_views.collect()
    }

    fn rows_per_group(&self) -> u64 {
        ROWS_PER_COMMAND * u64::from(self.group_size)
    }

    /// Loads the accounts, and installs groups for the length of the run.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if a group has more rows than there are accounts.
    pub(super) fn run<'a>(&self, machine: &'a Machine) -> Result<ApplierRow<'a>, BenchError> {
        let rows = self.rows_per_group();
        if rows > self.accounts {
            return Err(BenchError::Usage(format!(
                "a group of {} commands changes {rows} accounts: raise --accounts",
                self.group_size
            )));
        }
        let replica = Arc::new(Replica::in_memory().map_err(BenchError::Open)?);
        let mut measured = Measured::begin(replica, self)?;
        measured.load(self.accounts)?;
        let begin = Instant::now();
        let mut view = None;
        while begin.elapsed() < self.length || measured.groups == 0 {
            interrupt::check()?;
            let is_due = match self.views {
                OpenViews::None => false,
                OpenViews::One => view.is_none(),
                OpenViews::Anew => measured.groups.is_multiple_of(GROUPS_PER_VIEW),
            };
            if is_due {
                // The one before ends first.
                drop(view.take());
                view = Some(measured.replica.view()?);
            }
            measured.install_next(self)?;
        }
        Ok(ApplierRow {
            installs: match self.installs {
                Installs::Apply => "apply",
                Installs::Locks => "locks",
            },
            view: self.views != OpenViews::None,
            views: match self.views {
                OpenViews::None => "none",
                OpenViews::One => "one",
                OpenViews::Anew => "anew",
            },
            group_size: self.group_size,
            rows_per_group: rows,
            accounts: self.accounts,
            groups: measured.groups,
            us_per_group: measured.time.as_secs_f64() * 1e6 / measured.groups as f64,
            seed: self.seed,
            round: self.round,
            machine,
        })
    }
}

/// A replica, and the time of its groups.
struct Measured {
    replica: Arc<Replica>,
    table: TableId,
    stamp: Stamp,
    random: Random,
    changes: Vec<u8>,
    groups: u64,
    time: Duration,
}

impl Measured {
    fn begin(replica: Arc<Replica>, run: &ApplierRun) -> Result<Self, BenchError> {
        let table = replica.create_table("accounts", true).map_err(failed)?;
        Ok(Self {
            replica,
            table,
            stamp: Stamp(0),
            random: Random::seeded(run.seed),
            changes: Vec::new(),
            groups: 0,
            time: Duration::ZERO,
        })
    }

    fn load(&mut self, accounts: u64) -> Result<(), BenchError> {
        const AT_ONCE: u64 = 10_000;
        for first in (0..accounts).step_by(AT_ONCE as usize) {
            interrupt::check()?;
            let group = self.group(first..accounts.min(first + AT_ONCE))?;
            // Only its changes are needed.
            drop(group);
            self.replica
                .apply(self.stamp, &self.changes)
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Executes the next group, over these accounts.
    fn group(
        &mut self,
        accounts: impl IntoIterator<Item = u64>,
    ) -> Result<GroupTransaction, BenchError> {
        self.stamp = Stamp(self.stamp.0 + 1);
        let value = self.stamp.0.to_le_bytes();
        let mut group = self.replica.begin_group();
        for account in accounts {
            let slot = group.lock(self.table, &key_of(account)).map_err(failed)?;
            group.write(slot, Some(&value)).map_err(failed)?;
        }
        self.changes.clear();
        group.encode_changes(&mut self.changes);
        Ok(group)
    }

    /// Executes a group of transfers between accounts, each of them in one, and measures its installation.
    fn install_next(&mut self, run: &ApplierRun) -> Result<(), BenchError> {
        let rows = run.rows_per_group();
        let stretch = run.accounts / rows;
        // One account from each stretch of the keys.
        let random = &mut self.random;
        let mut accounts: Vec<u64> = (0..rows)
            .map(|row| row * stretch + random.below(stretch))
            .collect();
        for at in (1..accounts.len()).rev() {
            accounts.swap(at, random.below(at as u64 + 1) as usize);
        }
        let group = self.group(accounts)?;
        let (stamp, changes) = (self.stamp, &self.changes);
        let applied = match run.installs {
            Installs::Apply => {
                drop(group);
                let begin = Instant::now();
                let applied = self.replica.apply(stamp, changes);
                self.time += begin.elapsed();
                applied
            }
            Installs::Locks => {
                let locks = group.seal();
                let begin = Instant::now();
                let applied = locks.install(stamp, changes);
                self.time += begin.elapsed();
                applied
            }
        };
        self.groups += 1;
        let applied = applied.map_err(failed)?.rows as u64;
        if applied != rows {
            let why = format!("a group changes {rows} rows, and {applied} were applied");
            return Err(BenchError::Check(why));
        }
        Ok(())
    }
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Check(format!("the replica refused a group: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_installs_whole_groups() {
        let machine = Machine::describe(std::path::Path::new("."));
        let run = ApplierRun {
            installs: Installs::Apply,
            views: OpenViews::None,
            group_size: 50,
            accounts: 1000,
            length: Duration::ZERO,
            seed: 1,
            round: 1,
        };
        let runs = run.combinations();
        let rows = runs.iter().map(|run| run.run(&machine).unwrap());
        let rows: Vec<_> = rows.map(|row| (row.installs, row.views)).collect();
        let expected = [
            ("apply", "none"),
            ("apply", "one"),
            ("apply", "anew"),
            ("locks", "none"),
            ("locks", "one"),
            ("locks", "anew"),
        ];
        assert_eq!(rows, expected);
        let too_few = ApplierRun {
            accounts: 99,
            ..run
        };
        assert!(matches!(too_few.run(&machine), Err(BenchError::Usage(_))));
    }
}
