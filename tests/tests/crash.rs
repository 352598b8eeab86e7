//! Killed at any point, with torn and reordered writes: nothing acknowledged is lost, nothing partial
//! is seen, for every protocol and both layouts of the log.
//!
//! What is left out here, `cargo xtask crash` and `cargo xtask soak` do: more than one seed for each
//! protocol and layout, runs of more than 16 transactions, every event (here it is every second one, and of the other kinds
//! of runs fewer), and at each event more than 4 random subsets of what was pending (2 for the other kinds). Few images are
//! crashed a second or a third time.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use namiki::{IndexKind, LockRelease, TreeKind};
use namiki_platform::disk::SimDisk;
use namiki_platform::seeded_random::Random;
use namiki_tests::crash::{
    Acknowledge, Depth, Kind, Setup, Sweep, combinations, round, run_shuffled, sweep,
};
use namiki_tests::key_encoding::Spelling;

/// Of each run.
const TRANSACTIONS: u64 = 16;

/// Every kind's runs go on where those of the kind before ended, so that together they crash every tree,
/// with a hash table and without, over both kinds of keys.
fn rounds(kind: Kind, depth: Depth) {
    let first_seed = 1 + kind as u64 * combinations().len() as u64;
    let mut swept = Sweep::default();
    for (seed, combination) in (first_seed..).zip(combinations()) {
        let went = round(kind, combination, seed, TRANSACTIONS, depth);
        swept += went.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    println!("{kind:?}, seeds from {first_seed}: {swept:?}");
    for tree in TreeKind::ALL {
        let over = [IndexKind::Ordered(*tree), IndexKind::OrderedAndHash(*tree)];
        let crashed = over.iter().any(|index| swept.has_crashed(*index));
        assert!(crashed, "{kind:?} never crashed {tree}");
    }
    assert!(
        swept.has_crashed(IndexKind::Hash),
        "{kind:?}: no hash table"
    );
    if kind == Kind::Threads {
        // How much there is to crash depends on how the threads were scheduled.
        assert!(swept.images > 0 && swept.acknowledged > 0, "{swept:?}");
        return;
    }
    assert!(swept.checkpoints > 20 && swept.views > 50, "{swept:?}");
    assert!(swept.in_checkpoint > 500, "{swept:?}");
    if kind == Kind::FullDisk {
        assert!(swept.refused > 100, "{swept:?}");
        assert!(swept.images > 300 && swept.acknowledged > 1000, "{swept:?}");
        return;
    }
    assert!(swept.images > 2000, "{swept:?}");
    assert!(swept.in_backup > 100 && swept.copies > 20, "{swept:?}");
    assert!(swept.second > 100, "{swept:?}");
    assert!(swept.in_recovery > 100, "{swept:?}");
    assert!(swept.log_files_freed > 5, "{swept:?}");
    if depth.third > 0.0 {
        assert!(swept.third > 100, "{swept:?}");
    }
    assert!(swept.cut > 0, "nothing ever had to be cut off: {swept:?}");
    assert!(swept.acknowledged > 1000, "{swept:?}");
}

#[test]
fn every_crash_recovers_exactly_whole_acknowledged_commits() {
    rounds(Kind::Shuffled, Depth::CI);
}

#[test]
fn every_crash_of_many_threads_recovers_acknowledged_commits() {
    let depth = Depth {
        subsets: 2,
        sectors_each_max: 2,
        events: 0.25,
        second: 0.004,
        third: 0.0,
    };
    rounds(Kind::Threads, depth);
}

#[test]
fn every_crash_after_a_failed_write_recovers_what_was_acknowledged() {
    let depth = Depth {
        subsets: 2,
        sectors_each_max: 2,
        events: 0.25,
        second: 0.008,
        third: 0.0,
    };
    rounds(Kind::FailedWrite, depth);
}

#[test]
fn every_crash_on_a_full_disk_recovers_acknowledged_commits() {
    let depth = Depth {
        subsets: 2,
        sectors_each_max: 2,
        events: 0.1,
        second: 0.003,
        third: 0.0,
    };
    rounds(Kind::FullDisk, depth);
}

#[test]
fn every_crash_among_large_transactions_recovers_what_was_acknowledged() {
    let depth = Depth {
        subsets: 2,
        sectors_each_max: 2,
        events: 0.08,
        second: 0.005,
        third: 0.0,
    };
    rounds(Kind::Large, depth);
}

/// On a shared device, long enough for each stream to go round its region several times, with a checkpoint whenever half of
/// it is used.
#[test]
fn every_crash_of_rings_that_go_round_recovers_acknowledged_commits() {
    let depth = Depth {
        subsets: 1,
        sectors_each_max: 2,
        events: 0.01,
        second: 0.002,
        third: 0.0,
    };
    let mut swept = Sweep::default();
    let on_device = combinations().into_iter().filter(|(_, shared)| *shared);
    for (seed, combination) in (1000..).zip(on_device) {
        let went = round(Kind::Shuffled, combination, seed, 6 * TRANSACTIONS, depth);
        swept += went.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    println!("{swept:?}");
    let specs = combinations().len() as u64 / 2;
    assert!(swept.laps > specs, "{swept:?}");
    assert!(swept.in_checkpoint > 500 && swept.second > 100, "{swept:?}");
    assert!(swept.acknowledged > 1000, "{swept:?}");
}

/// Runs with a bug until the sweep finds it.
fn caught(when: Acknowledge, words: &str) {
    let by_epochs = when == Acknowledge::ViewsTooEarly;
    let mut combinations = combinations();
    combinations.retain(|(spec, _)| !by_epochs || spec.release == LockRelease::EpochEarly);
    for (seed, (spec, shared)) in (1..).zip(combinations.into_iter().cycle().take(48)) {
        let mut random = Random::seeded(seed);
        let setup = Setup {
            keys: Spelling::Plain,
            ..Setup::of_run(seed, spec, shared, &mut random)
        };
        let disk = SimDisk::new();
        let db = setup.open(&disk).unwrap();
        let (oracle, failure) = run_shuffled::<u64>(&db, &disk, 3, 1, 30, when, &mut random);
        assert!(failure.is_none(), "seed {seed}: {failure:?}");
        drop(db);
        let depth = Depth {
            second: 0.0,
            ..Depth::CI
        };
        if let Err(wrong) = sweep::<u64>(&disk, setup, &oracle, depth, seed) {
            println!("seed {seed}: {wrong}");
            assert!(wrong.contains(words), "{wrong}");
            return;
        }
    }
    panic!("{when:?} was not found");
}

#[test]
fn an_acknowledgement_that_came_too_early_is_found() {
    caught(Acknowledge::WritersTooEarly, "was acknowledged and is lost");
}

/// Under early lock release, a reader may have seen what is not durable yet.
#[test]
fn a_reader_acknowledged_too_early_is_found() {
    caught(Acknowledge::ReadersTooEarly, "it read, is lost");
}

/// Under release by epochs, recovery cuts off what a stream that wrote nothing has not certified.
#[test]
fn a_view_that_only_flushes_is_found() {
    caught(Acknowledge::ViewsTooEarly, "and a view at");
}
