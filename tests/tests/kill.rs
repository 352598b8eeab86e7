//! No acknowledged payment is lost when the process is killed. (Power cuts: `power_cut.rs`.) The
//! long form is `cargo xtask kill`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use std::path::Path;

use namiki_tests::kill::{Cut, Witness, Witnessed};

const PROGRAM: &str = env!("CARGO_BIN_EXE_namiki-harness");

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    let mut all = Witnessed::default();
    for seed in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let mut witness = Witness::new(Path::new(PROGRAM), &dir.path().join("data"), seed);
        for round in 0..20 {
            let told = |why: String| -> String { format!("seed {seed}, round {round}: {why}") };
            witness.round(Cut::Kill).map_err(told).unwrap();
            // In the other rounds the next child recovers, and may be killed during that.
            if round % 2 == 1 {
                witness.check().map_err(told).unwrap();
            }
        }
        all += witness.witnessed();
    }
    println!("{all:?}");
    assert!(all.acknowledged > 500, "{all:?}");
    assert!(all.in_flight > 0, "no child was ever killed in the middle");
    assert!(all.in_checkpoint >= all.rounds / 8, "{all:?}");
    assert!(all.new_images > 0, "{all:?}");
    assert!(all.copied > 40, "{all:?}");
}
