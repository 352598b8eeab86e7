//! Crashes at any point, with torn and reordered writes. No acknowledged transaction is lost and no
//! partial one is visible, for every protocol and both layouts of the log.
//!
//! `cargo xtask crash` and `cargo xtask soak` cover the rest: all protocols, more than one seed for
//! each protocol and layout, runs of more than 16 transactions, and every event (here every third
//! one, and fewer for the other kinds of runs). They also try more than 3 random subsets of the
//! pending writes at each event (1 or 2 for the other kinds). Few images are crashed a second or a
//! third time here.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use namiki::{IndexKind, ProtocolSpec, TreeKind};
use namiki_platform::disk::SimDisk;
use namiki_platform::seeded_random::Random;
use namiki_tests::crash::{
    Acknowledge, Depth, Kind, Setup, Sweep, combinations, round, run_shuffled, sweep,
    tested_combinations,
};
use namiki_tests::key_encoding::Spelling;

/// Transactions in each run.
const TRANSACTIONS: u64 = 16;

/// The seeds of each kind continue those of the kind before. Together the kinds crash every tree,
/// with a hash table and without, over both kinds of keys.
fn rounds(kind: Kind, depth: Depth) {
    let combinations = tested_combinations();
    let runs = combinations.len() as u64;
    let first_seed = 1 + kind as u64 * runs;
    let mut swept = Sweep::default();
    for (seed, combination) in (first_seed..).zip(combinations) {
        let went = round(kind, combination, seed, TRANSACTIONS, depth);
        swept += went.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    println!("{kind:?}, seeds from {first_seed}: {swept:?}");
    assert_reached_enough(kind, depth, runs, &swept);
}

/// Asserts that the runs had enough events of each kind to crash.
fn assert_reached_enough(kind: Kind, depth: Depth, runs: u64, swept: &Sweep) {
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
        // The amount of events depends on the scheduling of the threads.
        assert!(swept.images > 0 && swept.acknowledged > 0, "{swept:?}");
        return;
    }
    // Minima for a hundred runs, which are more than a merge makes.
    let at_least = |of_hundred: u64| of_hundred * runs / 100;
    assert!(swept.checkpoints > at_least(18), "{swept:?}");
    assert!(swept.views > at_least(45), "{swept:?}");
    assert!(swept.in_checkpoint > at_least(450), "{swept:?}");
    if kind == Kind::FullDisk {
        assert!(swept.refused > at_least(90), "{swept:?}");
        assert!(swept.images > at_least(270), "{swept:?}");
        assert!(swept.acknowledged > at_least(900), "{swept:?}");
        return;
    }
    assert!(swept.images > at_least(1800), "{swept:?}");
    assert!(swept.in_backup > at_least(90), "{swept:?}");
    assert!(swept.copies > at_least(18), "{swept:?}");
    assert!(swept.second > at_least(90), "{swept:?}");
    assert!(swept.in_recovery > at_least(90), "{swept:?}");
    assert!(swept.log_files_freed > at_least(4), "{swept:?}");
    if depth.third > 0.0 {
        assert!(swept.third > at_least(90), "{swept:?}");
    }
    assert!(swept.cut > 0, "nothing ever had to be cut off: {swept:?}");
    assert!(swept.acknowledged > at_least(900), "{swept:?}");
}

/// Crashes at a part of all events, and at a part of those of the recovery.
const fn shallow(events: f64, second: f64) -> Depth {
    Depth {
        subsets: 2,
        sectors_each_max: 2,
        events,
        second,
        third: 0.0,
    }
}

#[test]
fn every_crash_recovers_exactly_whole_acknowledged_commits() {
    rounds(Kind::Shuffled, Depth::CI);
}

#[test]
fn every_crash_of_many_threads_recovers_acknowledged_commits() {
    rounds(Kind::Threads, shallow(0.15, 0.002));
}

#[test]
fn every_crash_after_a_failed_write_recovers_what_was_acknowledged() {
    rounds(Kind::FailedWrite, shallow(0.15, 0.004));
}

#[test]
fn every_crash_on_a_full_disk_recovers_acknowledged_commits() {
    rounds(Kind::FullDisk, shallow(0.1, 0.003));
}

#[test]
fn every_crash_among_large_transactions_recovers_what_was_acknowledged() {
    rounds(Kind::Large, shallow(0.08, 0.005));
}

#[test]
fn every_crash_in_short_blocks_recovers_acknowledged_commits() {
    rounds(Kind::ShortBlocks, shallow(0.1, 0.004));
}

/// A shared device, with runs that wrap around each stream's region several times, and a checkpoint
/// whenever half of it is used.
#[test]
fn every_crash_of_rings_that_go_round_recovers_acknowledged_commits() {
    let depth = Depth {
        subsets: 1,
        sectors_each_max: 2,
        events: 0.03,
        second: 0.003,
        third: 0.0,
    };
    let mut swept = Sweep::default();
    let specs = ProtocolSpec::tested();
    let runs = specs.len() as u64;
    for (seed, spec) in (1000..).zip(specs) {
        let went = round(Kind::Shuffled, (spec, true), seed, 6 * TRANSACTIONS, depth);
        swept += went.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    println!("{swept:?}");
    assert!(swept.laps > runs, "{swept:?}");
    assert!(swept.in_checkpoint > 8 * runs, "{swept:?}");
    assert!(swept.second > runs, "{swept:?}");
    assert!(swept.acknowledged > 17 * runs, "{swept:?}");
}

/// Transactions that only read are logged in an experiment alone.
#[test]
fn every_crash_among_logged_reads_recovers_acknowledged_commits() {
    let specs = [
        "S2PL(ELR)+PWAL(16)+ARIES(reads)",
        "S2PL(NLR)+SWAL(1)+ARIES(reads)",
    ];
    let specs = specs.map(|spec| spec.parse::<ProtocolSpec>().unwrap());
    let depth = shallow(0.1, 0.003);
    let mut seeds = 2000..;
    // Large transactions write.
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Large) {
        let mut swept = Sweep::default();
        for (combination, seed) in combinations(specs.into()).into_iter().zip(&mut seeds) {
            let went = round(kind, combination, seed, TRANSACTIONS, depth);
            swept += went.unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        println!("{kind:?}: {swept:?}");
        assert!(swept.images > 0 && swept.acknowledged > 0, "{swept:?}");
    }
}

/// Runs with a planted bug until the sweep finds it, under each of these protocols, in files and on
/// a shared device.
fn assert_caught(when: Acknowledge, specs: [&str; 3], words: &str) {
    let specs = specs.map(|spec| spec.parse::<ProtocolSpec>().unwrap());
    for (spec, shared) in combinations(specs.into()) {
        let wrong = (1..=SEEDS_OF_A_BUG).find_map(|seed| {
            let wrong = sweep_with_bug(when, spec, shared, seed).err()?;
            println!("{when:?}, {spec}, shared {shared}, seed {seed}: {wrong}");
            Some(wrong)
        });
        let wrong =
            wrong.unwrap_or_else(|| panic!("{when:?} was not found under {spec}, {shared}"));
        assert!(wrong.contains(words), "{wrong}");
    }
}

const SEEDS_OF_A_BUG: u64 = 24;

fn sweep_with_bug(
    when: Acknowledge,
    spec: ProtocolSpec,
    shared: bool,
    seed: u64,
) -> Result<Sweep, String> {
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
    sweep::<u64>(&disk, setup, &oracle, depth, seed)
}

#[test]
fn an_acknowledgement_that_came_too_early_is_found() {
    let specs = [
        "TT(NLR)+PWAL(16)",
        "SILO(EPOCH)+PWAL(auto)",
        "S2PL(ELR)+SWAL(16)+ARIES",
    ];
    assert_caught(
        Acknowledge::WritersTooEarly,
        specs,
        "was acknowledged and is lost",
    );
}

/// Under early lock release, a reader may have seen versions that are not durable yet.
#[test]
fn a_reader_acknowledged_too_early_is_found() {
    let specs = [
        "TT(ELR)+PWAL(16)",
        "SILO(EPOCH)+PWAL(16)",
        "S2PL(ELR)+PWAL(auto)",
    ];
    assert_caught(Acknowledge::ReadersTooEarly, specs, "it read, is lost");
}

/// Under release by epochs, recovery truncates the commits that a stream without writes has not
/// certified. That applies to groups, because a commit that is flushed alone depends only on
/// durable versions. (Step by step: `epoch_commit_durability.rs`.)
#[test]
fn a_view_that_only_flushes_is_found() {
    let specs = [
        "TT(EPOCH)+PWAL(auto)",
        "SILO(EPOCH)+PWAL(auto)",
        "S2PL(EPOCH)+PWAL(16)",
    ];
    assert_caught(Acknowledge::ViewsTooEarly, specs, "and a view at");
}
