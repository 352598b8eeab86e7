//! Whole rounds: a run and all its crashes.

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

/// The kind of run to crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sessions shuffled on one thread: its seed reproduces every crash.
    Shuffled,
    /// Several threads, with several writes under way at a time.
    Threads,
    /// Shuffled, and one write fails. Nothing more is acknowledged after it, and the bytes that it
    /// left on the disk may surface at any later crash.
    FailedWrite,
    /// Shuffled, and the disk lacks room for all log files until most of the run is over. Writes
    /// without room are refused, and all others succeed. (A shared device is preallocated; the
    /// operations refused there are those of tables.)
    FullDisk,
    /// Shuffled, with some transactions longer than a log buffer or a log file. In every third run
    /// one of the steps of these fails.
    Large,
    /// Shuffled, on memory: blocks of 64 bytes, each of which a crash keeps or loses. Every third run
    /// has large transactions.
    ShortBlocks,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Shuffled,
        Self::Threads,
        Self::FailedWrite,
        Self::FullDisk,
        Self::Large,
        Self::ShortBlocks,
    ];
}

/// Each of these protocols, with its log in files and on one shared device.
#[must_use]
pub fn combinations(specs: Vec<ProtocolSpec>) -> Vec<(ProtocolSpec, bool)> {
    specs
        .into_iter()
        .flat_map(|spec| [(spec, false), (spec, true)])
        .collect()
}

/// The protocols among these that a test of every protocol runs under.
#[must_use]
pub fn tested_combinations() -> Vec<(ProtocolSpec, bool)> {
    combinations(ProtocolSpec::tested())
}

/// Runs `transactions` transactions and crashes them.
///
/// # Errors
/// The first mismatch, with everything needed to reproduce it.
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
    // On one kind of disk, a sync of any directory makes all earlier names durable.
    let mut disk = if seed.is_multiple_of(2) {
        SimDisk::new()
    } else {
        SimDisk::with_separate_directories()
    };
    if kind == Kind::ShortBlocks {
        disk = disk.with_blocks(64);
    }
    if kind == Kind::Threads {
        disk = disk.with_yields(seed);
        setup.group_wait_ms = Some(1);
    }
    setup.large = match kind {
        Kind::Large => true,
        Kind::ShortBlocks => seed.is_multiple_of(3),
        Kind::Shuffled | Kind::Threads | Kind::FailedWrite | Kind::FullDisk => false,
    };
    let failed = |wrong: String| format!("{kind:?}, seed {seed}, {setup:?}: {wrong}");
    let db = setup
        .open(&disk)
        .map_err(|error| failed(error.to_string()))?;
    let oracle = run_of::<K>(kind, setup, &db, &disk, &mut random, seed, transactions);
    let oracle = oracle.map_err(|error| failed(error.to_string()))?;
    if kind != Kind::FullDisk {
        oracle.check_none_refused().map_err(failed)?;
    }
    let disk_fails = match kind {
        Kind::Shuffled | Kind::Threads | Kind::ShortBlocks => false,
        Kind::FailedWrite | Kind::FullDisk => true,
        Kind::Large => is_large_with_fault(seed),
    };
    if !disk_fails {
        oracle.check_nothing_failed().map_err(failed)?;
    }
    drop(db);
    sweep::<K>(&disk, setup, &oracle, depth, seed).map_err(failed)
}

/// Runs until the planned end.
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
            // Backups would take the room that is measured.
            backs_up: kind != Kind::FullDisk,
        };
        run_shuffled::<K>(db, disk, 3, first_id, transactions, clients, random)
    };
    match kind {
        Kind::Shuffled | Kind::ShortBlocks => whole(shuffled(1, transactions, random)),
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
            // Room for the catalogue.
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

/// Whether one step of a run of large transactions fails.
fn is_large_with_fault(seed: u64) -> bool {
    seed.is_multiple_of(3)
}

/// Rejects a run that ended early.
fn whole((oracle, failure): (Oracle, Option<Failure>)) -> Result<Oracle, Failure> {
    failure.map_or(Ok(oracle), Err)
}
