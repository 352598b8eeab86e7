//! Whole rounds: a run, and all its crashes.

use std::io::ErrorKind;

use namiki::{Database, ProtocolSpec};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::{Fault, Step};
use namiki_platform::seeded_random::Random;

use super::workload::{Acknowledge, Clients, Failure};
use super::{
    Depth, LOG_FILE_BYTES, Oracle, Setup, Sweep, Tables, run_shuffled, run_threads, sweep,
};
use crate::key_encoding::{Numbered, Spelling, Spelt};

/// What kind of run is crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sessions shuffled on one thread: every crash of it comes back with its seed.
    Shuffled,
    /// Threads, and several writes under way at a time.
    Threads,
    /// Shuffled, and a write fails somewhere: nothing more is acknowledged then, and what the write
    /// left on the disk may come to light at any later crash.
    FailedWrite,
    /// Shuffled, and the disk has no room for all of the log's files until most of the run is over: what has no
    /// room is refused, and whatever has goes on. (A shared device has its room; what is refused there is tables.)
    FullDisk,
    /// Shuffled, with transactions that are longer than a log buffer or a log file among small ones; in every third run
    /// one of the steps that these take fails.
    Large,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Shuffled,
        Self::Threads,
        Self::FailedWrite,
        Self::FullDisk,
        Self::Large,
    ];
}

/// Each of these protocols, in files of its own and on one shared device.
#[must_use]
pub fn combinations(specs: Vec<ProtocolSpec>) -> Vec<(ProtocolSpec, bool)> {
    specs
        .into_iter()
        .flat_map(|spec| [(spec, false), (spec, true)])
        .collect()
}

/// Those of the protocols that a test of every protocol runs under.
#[must_use]
pub fn tested_combinations() -> Vec<(ProtocolSpec, bool)> {
    combinations(ProtocolSpec::tested())
}

/// Runs `transactions` transactions and crashes them.
///
/// # Errors
/// What was found wrong, with all that is needed to see it again.
pub fn round(
    kind: Kind,
    (spec, shared): (ProtocolSpec, bool),
    seed: u64,
    transactions: u64,
    depth: Depth,
) -> Result<Sweep, String> {
    let mut random = Random::seeded(seed);
    let setup = Setup::of_run(seed, spec, shared, &mut random);
    match setup.keys {
        Spelling::Plain => round_of::<u64>(kind, setup, random, seed, transactions, depth),
        Spelling::Long => round_of::<Spelt>(kind, setup, random, seed, transactions, depth),
    }
}

fn round_of<K: Numbered>(
    kind: Kind,
    mut setup: Setup,
    mut random: Random,
    seed: u64,
    transactions: u64,
    depth: Depth,
) -> Result<Sweep, String> {
    // On the one, the sync of any directory makes all names durable that were given before.
    let mut disk = if seed.is_multiple_of(2) {
        SimDisk::new()
    } else {
        SimDisk::with_separate_directories()
    };
    if kind == Kind::Threads {
        disk = disk.with_yields(seed);
        setup.group_wait_ms = Some(1);
    }
    setup.large = kind == Kind::Large;
    let failed = |wrong: String| format!("{kind:?}, seed {seed}, {setup:?}: {wrong}");
    let db = setup
        .open(&disk)
        .map_err(|error| failed(error.to_string()))?;
    let oracle = run_of::<K>(kind, setup, &db, &disk, &mut random, seed, transactions);
    let oracle = oracle.map_err(|error| failed(error.to_string()))?;
    if oracle.refused() > 0 && kind != Kind::FullDisk {
        return Err(failed("a disk with room has refused commits".to_owned()));
    }
    let disk_fails = match kind {
        Kind::Shuffled | Kind::Threads => false,
        Kind::FailedWrite | Kind::FullDisk => true,
        Kind::Large => is_large_with_fault(seed),
    };
    if !disk_fails {
        oracle.check_nothing_failed().map_err(failed)?;
    }
    drop(db);
    sweep::<K>(&disk, setup, &oracle, depth, seed).map_err(failed)
}

/// The run itself, up to what is planned to end it.
fn run_of<K: Numbered>(
    kind: Kind,
    setup: Setup,
    db: &Database,
    disk: &SimDisk,
    random: &mut Random,
    seed: u64,
    transactions: u64,
) -> Result<Oracle, Failure> {
    let shuffled = |first_id, transactions, random: &mut Random| {
        let clients = Clients {
            acknowledge: Acknowledge::WhenDurable,
            large: setup.large,
            // They would take the room that is measured.
            backs_up: kind != Kind::FullDisk,
        };
        run_shuffled::<K>(db, disk, 3, first_id, transactions, clients, random)
    };
    match kind {
        Kind::Shuffled => whole(shuffled(1, transactions, random)),
        Kind::Threads => run_threads::<K>(db, disk, 5, transactions / 4, seed),
        Kind::FailedWrite => {
            let fault = Fault::once(Step::Write, 3 + random.below(25), ErrorKind::Other);
            disk.inject(if random.chance(0.5) {
                fault.torn(seed)
            } else {
                fault
            });
            Ok(shuffled(1, transactions, random).0)
        }
        Kind::Large if is_large_with_fault(seed) => {
            let steps = [
                Step::Append,
                Step::Sync,
                Step::Rename,
                Step::SyncDir,
                Step::Write,
            ];
            let step = steps[random.index(steps.len())];
            disk.inject(Fault::once(step, random.below(4), ErrorKind::Other));
            Ok(shuffled(1, transactions, random).0)
        }
        Kind::Large => whole(shuffled(1, transactions, random)),
        Kind::FullDisk => {
            Tables::<K>::of(db)?;
            let files = 1 + random.below(u64::from(setup.streams));
            // And the catalogue.
            disk.set_capacity(Some(files * LOG_FILE_BYTES + (8 << 10)));
            let refused = transactions * 2 / 3;
            let mut oracle = whole(shuffled(1, refused, random))?;
            disk.set_capacity(None);
            let rest = shuffled(1 + refused, transactions - refused, random);
            oracle.absorb(whole(rest)?);
            Ok(oracle)
        }
    }
}

/// Whether one of the steps of a run of large transactions fails.
fn is_large_with_fault(seed: u64) -> bool {
    seed.is_multiple_of(3)
}

/// A run that nothing should have ended early.
fn whole((oracle, failure): (Oracle, Option<Failure>)) -> Result<Oracle, Failure> {
    failure.map_or(Ok(oracle), Err)
}
