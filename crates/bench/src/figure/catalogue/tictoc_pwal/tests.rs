//! The claims, judged by synthetic runs: points that bear out the paper's sentences, and points
//! that refute one of them.

use std::collections::BTreeSet;

use namiki_platform::machine::Machine;

use super::super::super::judge::Verdict;
use super::super::super::outcome::{Circumstances, Outcome};
use super::super::super::run_row::RunRow;
use super::*;

/// A line, and its value at a number of threads.
type Curve = (&'static str, fn(f64) -> f64);

const READS: &str = "R-10";
const UPDATES: &str = "U-5/R-5";

const ALONE_TPS: &[Curve] = &[
    (READS, |threads| {
        // Just past a multiple of the cores.
        let uneven = [72.0, 136.0, 200.0].contains(&threads);
        threads * if uneven { 0.75e6 } else { 1.0e6 }
    }),
    (UPDATES, |threads| 0.5e6 * threads),
];
const MULTI_U1_TPS: &[Curve] = &[
    (NLR_NO_GROUP, |threads| 0.6e6 * threads),
    (NLR_GROUP, |threads| 0.9e6 * threads),
    (ELR_NO_GROUP, |threads| 1.0e6 * threads.min(8.0)),
    (ELR_GROUP, |threads| 1.2e6 * threads.min(8.0)),
    (SINGLE, |_| 0.3e6),
];
const MULTI_U10_TPS: &[Curve] = &[
    (NLR_NO_GROUP, |threads| 150e3 * threads),
    (NLR_GROUP, |threads| 100e3 * threads),
    (ELR_NO_GROUP, |threads| 160e3 * threads),
    (ELR_GROUP, |threads| 200e3 * threads),
];
const MULTI_U5R5_TPS: &[Curve] = &[
    (NLR_NO_GROUP, |threads| 300e3 * threads),
    (NLR_GROUP, |threads| 200e3 * threads),
    (ELR_NO_GROUP, |threads| 350e3 * threads.min(16.0)),
    (ELR_GROUP, |threads| 400e3 * threads.min(16.0)),
];
const MANY_U1_TPS: &[Curve] = &[
    (NLR_NO_GROUP, |threads| 180e3 * threads),
    (NLR_GROUP, |threads| 100e3 * threads),
    (ELR_NO_GROUP, |threads| 500e3 * threads.min(10.0)),
    (ELR_GROUP, |threads| 512e3 * threads.min(10.0)),
];
const MANY_U10_TPS: &[Curve] = &[
    (NLR_NO_GROUP, |threads| 150e3 * threads),
    (NLR_GROUP, |threads| 60e3 * threads),
    (ELR_NO_GROUP, |threads| 120e3 * threads.min(150.0)),
    (ELR_GROUP, |threads| 125e3 * threads.min(150.0)),
];
const MANY_U5R5_TPS: &[Curve] = &[
    (NLR_NO_GROUP, |threads| 130e3 * threads),
    (NLR_GROUP, |threads| 80e3 * threads),
    (ELR_NO_GROUP, |threads| 150e3 * threads.min(160.0)),
    (ELR_GROUP, |threads| 160e3 * threads.min(160.0)),
];
const ABORT_PERCENT: &[Curve] = &[
    (NLR_NO_GROUP, |threads| 0.10 * threads),
    (NLR_GROUP, |threads| 0.20 * threads),
    (ELR_NO_GROUP, |threads| 0.05 * threads),
    (ELR_GROUP, |threads| 0.06 * threads),
];
/// Per 100,000 transactions.
const FAILED_LOCKS: &[Curve] = &[
    (NLR_NO_GROUP, |threads| 10.0 * threads),
    (NLR_GROUP, |threads| 30.0 * threads),
    (ELR_NO_GROUP, |threads| 3.0 * threads),
    (ELR_GROUP, |threads| 2.0 * threads),
    (SINGLE, |threads| threads),
];

/// Points of a figure that bear out its sentences.
fn curves(number: u16) -> &'static [Curve] {
    match number {
        3 => ALONE_TPS,
        6 => MULTI_U1_TPS,
        7 => MULTI_U10_TPS,
        8 => MULTI_U5R5_TPS,
        10 => MANY_U1_TPS,
        11 => MANY_U10_TPS,
        12 => MANY_U5R5_TPS,
        _ => ABORT_PERCENT,
    }
}

/// The paper's machine, and numbers of threads on it.
fn machine(number: u16) -> (u16, &'static [u16]) {
    match number {
        3 => (MANY_THREADS, &[1, 64, 72, 128, 136, 192, 200, 256]),
        6..=9 => (MULTI, &[1, 8, 16, 24]),
        _ => (MANY_THREADS, &[1, 10, 64, 150, 256]),
    }
}

/// A change that refutes a sentence: the figure, the sentence's position there, and the line whose
/// values are multiplied by a factor at each number of threads.
type Change = (u16, usize, &'static str, fn(f64) -> f64);

/// It falls with the threads.
const FALLS: fn(f64) -> f64 = |threads| 1.0 / (threads * threads);

const CHANGES_THAT_REFUTE: &[Change] = &[
    (3, 0, READS, FALLS),
    (
        3,
        0,
        UPDATES,
        |threads| if threads == 128.0 { 0.4 } else { 1.0 },
    ),
    (
        3,
        1,
        READS,
        |threads| if threads > 200.0 { 0.4 } else { 1.0 },
    ),
    (
        3,
        1,
        UPDATES,
        |threads| if threads > 200.0 { 0.4 } else { 1.0 },
    ),
    (
        3,
        2,
        READS,
        |threads| if threads == 72.0 { 1.4 } else { 1.0 },
    ),
    (
        3,
        2,
        READS,
        |threads| if threads == 136.0 { 1.4 } else { 1.0 },
    ),
    (
        3,
        2,
        READS,
        |threads| if threads == 200.0 { 1.4 } else { 1.0 },
    ),
    (6, 0, ELR_NO_GROUP, |threads| threads / threads.min(8.0)),
    (6, 0, ELR_GROUP, |threads| threads / threads.min(8.0)),
    (6, 1, NLR_NO_GROUP, FALLS),
    (6, 1, NLR_GROUP, FALLS),
    (6, 2, NLR_GROUP, |_| 0.5),
    (6, 3, NLR_GROUP, |_| 2.0),
    (6, 4, SINGLE, |_| 100.0),
    (7, 0, NLR_NO_GROUP, FALLS),
    (7, 0, NLR_GROUP, FALLS),
    (7, 0, ELR_NO_GROUP, FALLS),
    (7, 0, ELR_GROUP, FALLS),
    (7, 1, NLR_GROUP, |_| 1.7),
    (7, 2, NLR_GROUP, |_| 0.3),
    (7, 2, ELR_GROUP, |_| 20.0),
    (7, 3, ELR_GROUP, |_| 0.7),
    (7, 4, ELR_GROUP, |_| 0.7),
    (7, 5, ELR_GROUP, |_| 0.7),
    (8, 0, ELR_GROUP, |_| 0.5),
    (8, 1, NLR_NO_GROUP, |_| 0.5),
    // It is the fastest from the first thread on.
    (8, 1, NLR_NO_GROUP, |_| 2.0),
    (8, 2, ELR_NO_GROUP, |threads| threads / threads.min(16.0)),
    (8, 2, ELR_GROUP, |threads| threads / threads.min(16.0)),
    (8, 3, NLR_NO_GROUP, FALLS),
    (8, 3, NLR_GROUP, FALLS),
    (8, 4, NLR_GROUP, |_| 2.0),
    (8, 5, ELR_NO_GROUP, |_| 2.0),
    (9, 0, NLR_GROUP, |_| 0.4),
    (9, 1, ELR_NO_GROUP, |_| 3.0),
    (9, 1, ELR_GROUP, |_| 5.0),
    (10, 0, NLR_NO_GROUP, |_| 0.5),
    (10, 1, NLR_NO_GROUP, |_| 2.0),
    (10, 1, ELR_GROUP, |_| 2.0),
    (10, 2, ELR_NO_GROUP, |_| 10.0),
    (10, 2, ELR_GROUP, |_| 10.0),
    (10, 3, ELR_NO_GROUP, |threads| threads / threads.min(10.0)),
    (10, 3, ELR_GROUP, |threads| threads.min(10.0) / threads),
    (10, 4, NLR_GROUP, |_| 1.5),
    (10, 4, NLR_GROUP, |_| 0.6),
    (10, 5, NLR_GROUP, FALLS),
    (11, 0, NLR_GROUP, |_| 2.0),
    (11, 1, NLR_GROUP, FALLS),
    (11, 2, ELR_NO_GROUP, |threads| threads / threads.min(150.0)),
    (11, 2, ELR_GROUP, |threads| threads / threads.min(150.0)),
    (11, 3, NLR_NO_GROUP, |_| 0.3),
    (11, 4, NLR_NO_GROUP, |_| 0.3),
    (12, 0, NLR_NO_GROUP, |_| 0.5),
    (12, 0, NLR_NO_GROUP, |_| 2.0),
    (12, 1, ELR_GROUP, |_| 0.5),
    (12, 1, ELR_GROUP, |_| 2.0),
    (12, 2, NLR_GROUP, |_| 2.0),
    (12, 3, NLR_NO_GROUP, |_| 0.5),
    (13, 0, NLR_GROUP, |_| 0.1),
];

/// The quantity whose values are changed.
#[derive(Clone, Copy, PartialEq)]
enum Changed {
    Figure,
    FailedLocks,
}

/// Two runs of each point of a figure, which differ by one percent. The values of one line, or its
/// failed locks, are multiplied.
fn outcome(number: u16, (changed, factor): Curve, of: Changed) -> Outcome {
    let mut all = FIGURES.iter();
    let figure = all.find(|figure| figure.number == number).unwrap();
    let (cores, numbers) = machine(number);
    let mut runs = Vec::new();
    for (line, value) in curves(number) {
        let failed = FAILED_LOCKS.iter().find(|(name, _)| name == line);
        for &threads in numbers {
            let at = f64::from(threads);
            let by = |it| {
                if *line == changed && of == it {
                    factor(at)
                } else {
                    1.0
                }
            };
            let value = value(at) * by(Changed::Figure);
            let failed = failed.map(|(_, failed)| failed(at) * by(Changed::FailedLocks));
            for (round, part) in [(1, 0.995), (2, 1.005)] {
                runs.push(RunRow {
                    line,
                    threads,
                    round,
                    committed: Some(100_000_000),
                    tps: Some(value * part),
                    paper_abort_rate: Some(value * part / 100.0),
                    failed_locks: failed.map(|failed| (failed * part * 1_000.0) as u64),
                    ..RunRow::default()
                });
            }
        }
    }
    let circumstances = Circumstances {
        machine: Machine {
            cores: cores.into(),
            cpu: "one".to_owned(),
            disk: "one".to_owned(),
            kernel: "one".to_owned(),
        },
        device: NVM.to_owned(),
        length: "1000 transactions".to_owned(),
        repeat: 2,
        command: "namiki-bench figure".to_owned(),
        unlike_paper: None,
    };
    Outcome::of(figure, circumstances, &runs)
}

const NO_CHANGE: Curve = ("", |_| 1.0);

#[test]
fn every_sentence_holds_on_points_that_bear_it_out() {
    for figure in FIGURES {
        outcome(figure.number, NO_CHANGE, Changed::Figure).assert_all_hold_beyond_spread();
    }
}

#[test]
fn every_sentence_fails_on_points_that_refute_it() {
    let mut refuted = BTreeSet::new();
    for &(number, at, line, factor) in CHANGES_THAT_REFUTE {
        let figure = FIGURES.iter().find(|figure| figure.number == number);
        let is_of_locks = figure.unwrap().claims[at].value.is_some();
        let (changed, unchanged) = if is_of_locks {
            (Changed::FailedLocks, Changed::Figure)
        } else {
            (Changed::Figure, Changed::FailedLocks)
        };
        for (of, expected) in [(changed, Verdict::DoesNotHold), (unchanged, Verdict::Holds)] {
            let outcome = outcome(number, (line, factor), of);
            let (claim, judged) = &outcome.judged[at];
            let what = format!("{number}, {}, {line} changed: {judged:?}", claim.english);
            assert_eq!(judged.verdict, expected, "{what}");
            assert_eq!(
                judged.found.starts_with("failed locks"),
                is_of_locks,
                "{what}"
            );
        }
        refuted.insert((number, at));
    }
    let claims: usize = FIGURES.iter().map(|figure| figure.claims.len()).sum();
    assert_eq!(refuted.len(), claims, "each has a change");
}

/// Failed locks are drawn beside figures 6 to 13, and have the scale of their own.
#[test]
fn failed_locks_are_drawn_beside_what_they_explain() {
    for figure in FIGURES {
        let outcome = outcome(figure.number, NO_CHANGE, Changed::Figure);
        let charts = outcome.charts_beside();
        if figure.number == 3 {
            assert!(charts.is_empty());
            continue;
        }
        let [(Measure::FailedLocks, chart)] = &charts[..] else {
            panic!("{}", figure.slug());
        };
        assert_eq!(chart.y_label, Measure::FailedLocks.label());
        let most = chart.series.iter().flat_map(|series| &series.points);
        let most = most
            .flatten()
            .map(|spread| spread.median)
            .fold(0.0, f64::max);
        let (_, numbers) = machine(figure.number);
        let expected = 30.0 * f64::from(*numbers.last().unwrap());
        assert!((most - expected).abs() < 0.01 * expected, "{most}");
    }
}
