//! Whole rounds: a run, and all its crashes.

use std::io::ErrorKind;

use namiki::Spec;
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::{Fault, Step};
use namiki_platform::random::Random;

use super::driver::Acknowledge;
use super::{Depth, Setup, Sweep, run_shuffled, run_threads, sweep};
use crate::spelling::{Numbered, Spelling, Spelt};

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
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Shuffled, Self::Threads, Self::FailedWrite];
}

/// Every protocol, in files of its own and on one shared device.
#[must_use]
pub fn combinations() -> Vec<(Spec, bool)> {
    Spec::all_durable()
        .into_iter()
        .flat_map(|spec| [(spec, false), (spec, true)])
        .collect()
}

/// Runs `transactions` transactions and crashes them.
///
/// # Errors
/// What was found wrong, with all that is needed to see it again.
pub fn round(
    kind: Kind,
    (spec, shared): (Spec, bool),
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
    let mut disk = SimDisk::new();
    if kind == Kind::Threads {
        disk = disk.with_yields(seed);
        setup.group_wait_ms = Some(1);
    }
    let failed = |wrong: String| format!("{kind:?}, seed {seed}, {setup:?}: {wrong}");
    let db = setup
        .open(&disk)
        .map_err(|error| failed(error.to_string()))?;
    let oracle = if kind == Kind::Threads {
        let threads = 5;
        run_threads::<K>(&db, &disk, threads, transactions / 4, seed)
            .map_err(|error| failed(error.to_string()))?
    } else {
        if kind == Kind::FailedWrite {
            let fault = Fault::once(Step::Write, 3 + random.below(25), ErrorKind::Other);
            disk.inject(match random.chance(0.5) {
                true => fault.torn(seed),
                false => fault,
            });
        }
        let when = Acknowledge::WhenDurable;
        let (oracle, failure) =
            run_shuffled::<K>(&db, &disk, 3, 1, transactions, when, &mut random);
        match failure {
            Some(failure) if kind == Kind::Shuffled => return Err(failed(failure.to_string())),
            _ => oracle,
        }
    };
    drop(db);
    sweep::<K>(&disk, setup, &oracle, depth, seed).map_err(failed)
}
