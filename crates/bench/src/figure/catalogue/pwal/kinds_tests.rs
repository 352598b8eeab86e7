//! The claims of figures 10 and 11, judged by synthetic runs: points that bear out the paper's
//! sentences, and points that refute one of them. Reads that are not logged decide none.

use std::collections::BTreeSet;

use super::super::super::judge::Verdict;
use super::super::super::outcome::{Circumstances, Outcome};
use super::super::super::run_row::RunRow;
use super::*;

/// Values of a line at one thread and at the most.
struct Curve {
    line: &'static str,
    tps: f64,
    cas_misses: [u64; 2],
}

/// As in the paper: the gains of P-WAL, and more failures the more log records a transaction has.
const AS_CLAIMED: &[Curve] = &[
    curve(P_R10, 295e3, [0, 2_000]),
    curve(P_R5U5, 206e3, [0, 8_000]),
    curve(P_U10, 193e3, [0, 20_000]),
    curve(W_R10, 100e3, [0, 0]),
    curve(W_R5U5, 100e3, [0, 0]),
    curve(W_U10, 100e3, [0, 0]),
    curve(P_UNLOGGED, 900e3, [0, 0]),
    curve(W_UNLOGGED, 900e3, [0, 0]),
];

const fn curve(line: &'static str, tps: f64, cas_misses: [u64; 2]) -> Curve {
    Curve {
        line,
        tps,
        cas_misses,
    }
}

/// A change that refutes a sentence of a figure: the sentence's position, and the line whose values
/// are multiplied.
const CHANGES_THAT_REFUTE: &[(u16, usize, &str, f64)] = &[
    (10, 0, P_R10, 0.4),
    (10, 0, P_R10, 1.6),
    (10, 0, W_R10, 3.0),
    (10, 1, P_R5U5, 0.6),
    (10, 1, W_R5U5, 0.6),
    (10, 2, P_U10, 1.5),
    (10, 2, W_U10, 1.5),
    (10, 3, P_R10, 0.6),
    (10, 3, W_U10, 0.9),
    (11, 0, P_R10, 5.0),
    (11, 0, P_R5U5, 0.2),
    (11, 0, P_U10, 0.3),
];

/// Two runs of each point, which differ by one percent. The values of one line are multiplied.
fn outcome(number: u16, (changed, factor): (&str, f64)) -> Outcome {
    let figure = FIGURES.iter().find(|figure| figure.number == number);
    let mut runs = Vec::new();
    for curve in AS_CLAIMED {
        let factor = if curve.line == changed { factor } else { 1.0 };
        for (threads, misses) in [1, 8, 16].into_iter().zip([
            curve.cas_misses[0],
            curve.cas_misses[1] / 2,
            curve.cas_misses[1],
        ]) {
            for (round, by) in [(1, 0.995), (2, 1.005)] {
                runs.push(RunRow {
                    line: curve.line,
                    threads,
                    round,
                    committed: Some(100_000),
                    tps: Some(curve.tps * factor * by),
                    cas_misses: Some((misses as f64 * factor * by) as u64),
                    ..RunRow::default()
                });
            }
        }
    }
    Outcome::of(figure.unwrap(), Circumstances::synthetic(2), &runs)
}

#[test]
fn every_sentence_holds_on_points_that_bear_it_out() {
    for number in [10, 11] {
        outcome(number, ("", 1.0)).assert_all_hold();
    }
}

#[test]
fn every_sentence_fails_on_points_that_refute_it() {
    let mut refuted = BTreeSet::new();
    for &(number, at, line, factor) in CHANGES_THAT_REFUTE {
        let outcome = outcome(number, (line, factor));
        let (claim, judged) = &outcome.judged[at];
        let what = format!("{}, {line} changed: {judged:?}", claim.english);
        assert_eq!(judged.verdict, Verdict::DoesNotHold, "{what}");
        refuted.insert((number, at));
    }
    let figures = FIGURES.iter().filter(|it| [10, 11].contains(&it.number));
    let claims: usize = figures.map(|figure| figure.claims.len()).sum();
    assert_eq!(refuted.len(), claims, "each has a change");
}

#[test]
fn reads_that_are_not_logged_decide_nothing() {
    for number in [10, 11] {
        for line in [P_UNLOGGED, W_UNLOGGED] {
            outcome(number, (line, 0.01)).assert_all_hold();
            outcome(number, (line, 100.0)).assert_all_hold();
        }
    }
}

/// Paper: pwal §6.3.1
#[test]
fn reads_are_drawn_logged_and_not() {
    for figure in FIGURES.iter().filter(|it| (9..=11).contains(&it.number)) {
        for line in figure.lines {
            let Work::Transactions { workload, spec } = line.work else {
                panic!("{} is no transaction", line.name);
            };
            let is_logged = spec.ends_with("+ARIES(reads)");
            assert_eq!(is_logged, [P_R10, W_R10].contains(&line.name), "{spec}");
            assert_eq!(workload == R10, line.name.contains("READ 10"), "{spec}");
        }
    }
}
