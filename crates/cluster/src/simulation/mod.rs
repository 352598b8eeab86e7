//! A seeded simulation of a whole cluster: the real parts of each node on simulated disks, one thread, virtual time.
//!
//! Everything that may differ between two runs comes from the seed: which part of which node runs next, how long a message or a disk write
//! takes, what is lost, doubled or reordered, which links are cut in which direction, which node crashes at which write and what its
//! disk keeps of what was not durable, which disk is lost and whether the old one comes back later. A run has two phases: first faults, then none, in which everything has to be answered.
//!
//! What is checked (`checks.rs`), at every step: one leader in a term; logs agree on what is applied; a command is applied once; what a client was
//! told is in the log, with the outcome that it was told; the order of the log agrees with the order in time; reads return the state of a
//! prefix of the log that contains everything acknowledged before them; nodes that have applied the same have the same state; balances are
//! conserved. And at the end: every command is answered, every node has everything, and every node that has taken the place of a lost one votes.

mod checks;
mod client;
mod network;
mod node;
mod replacements;
mod world;

pub use world::{SimOptions, SimReport, run};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault_injection::Fault;

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let report = |_| run(&SimOptions::of(3)).expect("everything holds");
        assert_eq!(report(1), report(2));
    }

    /// The longest that a fault has taken is 62 seeds. Which seeds meet it changes with everything that is simulated.
    const SEEDS_OF_A_FAULT: u64 = 1000;

    /// These are met so seldom that `storage/recovery.rs` goes through them step by step.
    const STEP_BY_STEP: [Fault; 2] = [Fault::KeepCommitBeyondCut, Fault::KeepPersisted];

    /// Every fault is found by one of so many seeds.
    #[test]
    fn planted_faults_are_found() {
        let only = std::env::var("NAMIKI_SIM_FAULT").ok();
        let mut not_found = Vec::new();
        for fault in Fault::ALL {
            let is_wanted = match &only {
                Some(only) => *only == format!("{fault:?}"),
                None => !STEP_BY_STEP.contains(fault),
            };
            if !is_wanted {
                continue;
            }
            let found = (1..=SEEDS_OF_A_FAULT).find_map(|seed| {
                let mut options = SimOptions::of(seed);
                options.planted = Some(*fault);
                let result = std::panic::catch_unwind(|| run(&options));
                match result {
                    Ok(Ok(_)) => None,
                    Ok(Err(error)) => Some((seed, error)),
                    Err(_) => Some((seed, "a panic".to_owned())),
                }
            });
            match found {
                Some((seed, error)) => eprintln!("{fault:?}: seed {seed}: {error}"),
                None => not_found.push(fault),
            }
        }
        assert!(not_found.is_empty(), "not found: {not_found:?}");
    }

    #[test]
    fn seeded_clusters_lose_and_double_nothing() {
        let first = std::env::var("NAMIKI_SIM_SEED").ok();
        let first = first.map_or(1, |it| it.parse().expect("a seed is a number"));
        let count = std::env::var("NAMIKI_SIM_SEEDS").ok();
        let count: u64 = count.map_or(100, |it| it.parse().expect("a number of seeds"));
        let (mut counted, mut replacements) = (0, 0);
        for seed in first..first + count {
            let report = run(&SimOptions::of(seed));
            let report = report.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            counted += u64::from(report.counts());
            replacements += report.replacements;
        }
        eprintln!("{count} seeds, {replacements} nodes replaced");
        assert!(count < 20 || replacements > 0, "no node was replaced");
        assert!(
            counted * 2 >= count,
            "{counted} of {count} seeds had enough to do"
        );
    }
}
