//! The order in which a campaign crashes runs of every protocol on every layout, and the depth of
//! each.
//!
//! One *pass* visits each combination once. A campaign with a fixed number of passes makes all of
//! them alike. A campaign with a time limit begins with a shallow pass, so that it visits each
//! combination early. Each further pass is twice as deep as the one before, up to the requested
//! depth.

use namiki::ProtocolSpec;

use super::{Depth, Kind, Sweep, combinations, round};

/// How a campaign visits the combinations.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of the first pass; each pass uses the next one.
    pub seed: u64,
    /// Transactions in each run.
    pub transactions: u64,
    /// The depth of each run.
    pub depth: Depth,
    /// Whether the first passes are shallow.
    pub deepens: bool,
}

/// The visit of a combination in a pass: six runs, one of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    /// The protocol, and whether its log lies on one shared device.
    pub combination: (ProtocolSpec, bool),
    /// The pass, from 0.
    pub pass: u64,
    /// The seed of the pass: a plan that does not deepen repeats this visit with it.
    pub seed: u64,
    /// Transactions in each run.
    pub transactions: u64,
    /// The depth of each run.
    pub depth: Depth,
    /// The seed of the visit's runs.
    of_run: u64,
}

impl Plan {
    /// Number of visits in a pass.
    #[must_use]
    pub fn visits_of_a_pass() -> u64 {
        combinations(ProtocolSpec::all_durable()).len() as u64
    }

    /// Visit number `number`, from 0; there is no last one.
    ///
    /// # Panics
    /// If there is no protocol.
    #[must_use]
    pub fn visit(&self, number: u64) -> Visit {
        let combinations = combinations(ProtocolSpec::all_durable());
        let count = combinations.len() as u64;
        let pass = number / count;
        let seed = self.seed.wrapping_add(pass);
        // The last pass may be cut short, so each begins with another combination.
        let begins = if self.deepens { seed % count } else { 0 };
        let which = (begins + number % count) % count;
        // An eighth, a quarter, a half, the whole.
        let less = if self.deepens {
            3_u64.saturating_sub(pass)
        } else {
            0
        };
        let at_least = |whole: u64| (whole >> less).max(whole.min(4));
        Visit {
            combination: combinations[which as usize],
            pass,
            seed,
            transactions: at_least(self.transactions),
            depth: Depth {
                subsets: at_least(self.depth.subsets),
                ..self.depth
            },
            // Odd, so that a choice by the parity of a run's number meets the other layout in the
            // next pass.
            of_run: seed.wrapping_mul(count | 1).wrapping_add(which),
        }
    }
}

impl Visit {
    /// Runs and crashes these kinds of runs.
    ///
    /// # Errors
    /// The first mismatch.
    pub fn make(&self, kinds: &[Kind]) -> Result<Sweep, String> {
        let mut all = Sweep::default();
        for &kind in kinds {
            let depth = match kind {
                // Such a run differs little from the others.
                Kind::FullDisk => Depth {
                    events: self.depth.events * 0.1,
                    ..self.depth
                },
                // Crashes of such a run take long.
                Kind::Large | Kind::ShortBlocks => Depth {
                    events: self.depth.events * 0.3,
                    ..self.depth
                },
                _ => self.depth,
            };
            all += round(
                kind,
                self.combination,
                self.of_run,
                self.transactions,
                depth,
            )?;
        }
        Ok(all)
    }

    /// The arguments of `cargo xtask crash` that repeat this visit.
    #[must_use]
    pub fn arguments(&self) -> String {
        let (spec, shared) = self.combination;
        format!(
            "--seed {} --transactions {} --subsets {} --sectors {} --second {} --third {} --spec '{spec}' --layout {}",
            self.seed,
            self.transactions,
            self.depth.subsets,
            self.depth.sectors_each_max,
            self.depth.second,
            self.depth.third,
            layout(shared)
        )
    }
}

/// The name of a placement of the log.
#[must_use]
pub fn layout(shared: bool) -> &'static str {
    if shared { "device" } else { "files" }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan(deepens: bool) -> Plan {
        Plan {
            seed: 1_795_543_222,
            transactions: 60,
            depth: Depth::LONG,
            deepens,
        }
    }

    #[test]
    fn each_pass_visits_every_combination_with_its_own_seed() {
        for deepens in [false, true] {
            let count = Plan::visits_of_a_pass();
            let mut seeds = BTreeSet::new();
            for pass in 0..5 {
                let visits =
                    (pass * count..(pass + 1) * count).map(|number| plan(deepens).visit(number));
                let mut met = BTreeSet::new();
                for visit in visits {
                    assert_eq!(visit.pass, pass);
                    let (spec, shared) = visit.combination;
                    met.insert((spec.to_string(), shared));
                    seeds.insert(visit.of_run);
                }
                assert_eq!(met.len() as u64, count, "pass {pass}");
            }
            assert_eq!(seeds.len() as u64, 5 * count);
        }
    }

    #[test]
    fn a_soak_deepens_up_to_what_was_asked_for() {
        let count = Plan::visits_of_a_pass();
        let depths = |deepens| {
            let visits = (0..5).map(move |pass| plan(deepens).visit(pass * count));
            visits
                .map(|visit| (visit.transactions, visit.depth.subsets))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            depths(true),
            [(7, 16), (15, 32), (30, 64), (60, 128), (60, 128)]
        );
        assert_eq!(depths(false), [(60, 128); 5]);
    }

    /// The printed arguments of a visit reproduce the same runs.
    #[test]
    fn a_visit_is_repeated_by_its_seed_and_depth() {
        let visit = plan(true).visit(3 * Plan::visits_of_a_pass() / 2);
        let again = Plan {
            seed: visit.seed,
            transactions: visit.transactions,
            depth: visit.depth,
            deepens: false,
        };
        let visits = (0..Plan::visits_of_a_pass()).map(|number| again.visit(number));
        let same = visits.filter(|other| other.combination == visit.combination);
        let same: Vec<_> = same
            .map(|other| (other.of_run, other.transactions, other.depth.subsets))
            .collect();
        assert_eq!(
            same,
            [(visit.of_run, visit.transactions, visit.depth.subsets)]
        );
    }
}
