//! No acknowledged payment is lost, whether the process is killed or the power is cut. The long
//! forms are `cargo xtask kill` and `cargo xtask kill --power`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use namiki_tests::kill::{Cut, PowerCut, Witness};

const PROGRAM: &str = env!("CARGO_BIN_EXE_namiki-kill");

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    let _alone = one_at_a_time();
    let mut acknowledged = 0;
    let mut in_flight = 0;
    for seed in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let mut witness = Witness::new(Path::new(PROGRAM), &dir.path().join("data"), seed);
        for round in 0..20 {
            let told = |why: String| -> String { format!("seed {seed}, round {round}: {why}") };
            witness.round(Cut::Kill).map_err(told).unwrap();
            // The others are recovered by the next child, which may be killed at that.
            if round % 2 == 1 {
                witness.check().map_err(told).unwrap();
            }
        }
        acknowledged += witness.witnessed().acknowledged;
        in_flight += witness.witnessed().in_flight;
    }
    println!("{acknowledged} payments acknowledged, {in_flight} more in flight");
    assert!(acknowledged > 500, "{acknowledged}");
    assert!(in_flight > 0, "no child was ever killed in the middle");
}

/// One test at a time, so that they take no processor from each other's children: some are killed
/// after so many payments, and have to come that far.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file system to cut the power of; nothing, with the reason printed, where that is impossible.
fn power_cut() -> Option<PowerCut> {
    let why = match PowerCut::new() {
        Ok(disk) => return Some(disk),
        Err(why) => why,
    };
    println!("skipped: the power cannot be cut here ({why})");
    let required = std::env::var_os("NAMIKI_REQUIRE_POWERCUT").is_some();
    assert!(!required, "the power has to be cut, but: {why}");
    None
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let _alone = one_at_a_time();
    let Some(disk) = power_cut() else { return };
    let dir = disk.path().join("data");
    let mut witness = Witness::new(Path::new(PROGRAM), &dir, 77);
    for round in 0..12 {
        let told = |why: String| -> String { format!("round {round}: {why}") };
        // What a kill left, and a recovery has read, must survive the cut after it.
        witness.round(Cut::Kill).map_err(told).unwrap();
        if round % 2 == 0 {
            witness.check().map_err(told).unwrap();
        }
        witness.round(Cut::Power(&disk)).map_err(told).unwrap();
        disk.restore().map_err(told).unwrap();
        if round % 3 != 0 {
            witness.check().map_err(told).unwrap();
        }
    }
    let seen = witness.witnessed();
    println!("{seen:?}");
    assert!(seen.acknowledged > 50, "{seen:?}");
}

/// The control: without the sync, a power cut loses what a kill does not.
#[test]
fn a_missing_sync_is_found_by_a_power_cut() {
    let _alone = one_at_a_time();
    let Some(disk) = power_cut() else { return };
    let dir = disk.path().join("data");
    let mut witness = Witness::new(Path::new(PROGRAM), &dir, 78).of_forgetful_children();
    for _ in 0..4 {
        witness.round(Cut::Kill).unwrap();
        witness.check().unwrap();
    }
    for _ in 0..20 {
        if witness.round(Cut::Power(&disk)).is_err() {
            // It could not open what the power cut before had left.
            return;
        }
        disk.restore().unwrap();
        if let Err(why) = witness.check() {
            println!("found: {why}");
            return;
        }
    }
    panic!("a missing sync was not found");
}
