//! The claims, judged by synthetic runs: points that bear out the paper's sentences, and points
//! that refute one of them.

use std::collections::BTreeSet;

use namiki_platform::machine::Machine;

use super::super::super::judge::Verdict;
use super::super::super::outcome::{Circumstances, Outcome};
use super::super::super::run_row::RunRow;
use super::*;

const PERCENTILES: &[u16] = &[1, 50, 99];
const THREADS: &[u16] = &[1, 8, 56, 112];

/// A line, and its value at a place.
type Curve = (&'static str, fn(f64) -> f64);

const LATENCIES_OF_WRITES: &[Curve] = &[
    (BW_1, |percent| 700.0 + percent),
    (BZ_APPEND_1, |percent| 400.0 + percent),
    (BZ_IN_PLACE_1, |percent| 380.0 + percent),
    (MASS_1, |percent| 390.0 + percent),
    (OPEN_BW_1, |percent| 450.0 + percent),
    (BW_OURS_1, |percent| 420.0 + percent),
    (BW_112, |percent| 1000.0 + percent),
    (BZ_APPEND_112, |percent| 600.0 + percent),
    (BZ_IN_PLACE_112, |percent| 570.0 + percent),
    (MASS_112, |percent| 1600.0 + percent),
    (OPEN_BW_112, |percent| 650.0 + percent),
    (BW_OURS_112, |percent| 640.0 + percent),
];
const LATENCIES_OF_READS: &[Curve] = &[
    (BW_1, |percent| 600.0 + percent),
    (BZ_APPEND_1, |percent| 300.0 + percent),
    (BZ_IN_PLACE_1, |percent| 310.0 + percent),
    (MASS_1, |percent| 290.0 + percent),
    (OPEN_BW_1, |percent| 320.0 + percent),
    // No sentence is about it, though it is nearly as slow as the paper's.
    (BW_OURS_1, |percent| 590.0 + percent),
    (BW_112, |percent| 800.0 + percent),
    (BZ_APPEND_112, |percent| 400.0 + percent),
    (BZ_IN_PLACE_112, |percent| 410.0 + percent),
    (MASS_112, |percent| 390.0 + percent),
    (OPEN_BW_112, |percent| 420.0 + percent),
    (BW_OURS_112, |percent| 790.0 + percent),
];
const THROUGHPUT_OF_WRITES: &[Curve] = &[
    (BW, |threads| 1.0e6 * threads / (1.0 + threads / 100.0)),
    (BZ_APPEND, |threads| {
        1.6e6 * threads / (1.0 + threads / 100.0)
    }),
    (BZ_IN_PLACE, |threads| {
        1.7e6 * threads / (1.0 + threads / 100.0)
    }),
    (MASS, |threads| 0.5e6 * threads / (1.0 + threads / 20.0)),
    (OPEN_BW, |threads| 1.5e6 * threads / (1.0 + threads / 100.0)),
    (BW_OURS, |threads| 1.4e6 * threads / (1.0 + threads / 100.0)),
];
const THROUGHPUT_OF_READS: &[Curve] = &[
    (BW, |threads| 1.0e6 * threads),
    (BZ_APPEND, |threads| 1.5e6 * threads),
    (BZ_IN_PLACE, |threads| 1.6e6 * threads),
    (MASS, |threads| 2.0e6 * threads),
    (OPEN_BW, |threads| 1.55e6 * threads),
    (BW_OURS, |threads| 3.0e6 * threads),
];
const BEFORE_AND_AFTER: &[Curve] = &[
    (BW, |threads| 1.0e6 + threads),
    (BW_IN_CHAIN, |threads| 1.5e6 + threads),
    (BW_SPLIT_HEAD, |threads| 1.2e6 + threads),
];

/// Failed consolidations of a run with 1,000 others, and the deltas that its 1,000 operations
/// visit and their failed compare-and-swaps. A factor of 1 changes none of them.
fn counts(line: &str, threads: f64, factor: f64) -> (f64, f64, f64) {
    let misses = 10.0 * threads * factor;
    match line {
        BW => (misses, 3000.0 * factor, misses),
        BW_IN_CHAIN => (100.0 * (factor - 1.0).abs(), 3000.0, misses),
        BW_SPLIT_HEAD => (10.0, 2000.0 * factor, misses),
        MASS => (0.0, 0.0, 0.0),
        _ => (0.0, 0.0, misses),
    }
}

/// Turns counts that grow with the threads into ones that shrink from more than a half to more than a
/// fifth.
fn fewer_with_more_threads(threads: f64) -> f64 {
    if threads > 1.0 { 0.25 } else { 120.0 }
}

/// Points of a figure that bear out its sentences.
fn curves(number: u16) -> &'static [Curve] {
    match number {
        12 | 13 => LATENCIES_OF_WRITES,
        14 | 15 => LATENCIES_OF_READS,
        16 | 17 => THROUGHPUT_OF_WRITES,
        18 => THROUGHPUT_OF_READS,
        _ => BEFORE_AND_AFTER,
    }
}

/// A change that refutes a sentence: the figure, the sentence's position there, and the line whose
/// values are multiplied by a factor at each place.
type Change = (u16, usize, &'static str, fn(f64) -> f64);

const CHANGES_THAT_REFUTE: &[Change] = &[
    (12, 0, BW_1, |_| 0.5),
    (12, 1, BW_OURS_1, |_| 2.0),
    (13, 0, MASS_112, |_| 0.2),
    (13, 1, BW_112, |_| 4.0),
    (13, 1, BZ_APPEND_112, |_| 4.0),
    (13, 1, BZ_IN_PLACE_112, |_| 4.0),
    (13, 1, OPEN_BW_112, |_| 4.0),
    // It is still the highest, but by less than a tenth.
    (14, 0, BW_1, |_| 0.6),
    (14, 1, OPEN_BW_1, |_| 1.5),
    (14, 1, OPEN_BW_1, |_| 0.5),
    (15, 0, BW_112, |_| 0.6),
    (15, 1, OPEN_BW_112, |_| 1.5),
    (15, 1, OPEN_BW_112, |_| 0.5),
    (16, 0, MASS, |_| 10.0),
    (16, 1, BW, |threads| threads),
    (16, 1, BZ_APPEND, |threads| threads),
    (16, 1, BZ_IN_PLACE, |threads| threads),
    (16, 1, OPEN_BW, |threads| threads),
    // With one thread per processor, few fail; and fewer than with one thread.
    (16, 2, BW, |_| 0.02),
    (16, 2, BZ_APPEND, |_| 0.02),
    (16, 2, BZ_IN_PLACE, |_| 0.02),
    (16, 2, OPEN_BW, |_| 0.02),
    (16, 2, BW, fewer_with_more_threads),
    (16, 2, BZ_APPEND, fewer_with_more_threads),
    (16, 2, BZ_IN_PLACE, fewer_with_more_threads),
    (16, 2, OPEN_BW, fewer_with_more_threads),
    (16, 3, BW, |threads| 1.0 / threads),
    (16, 3, BZ_APPEND, |threads| 1.0 / threads),
    (16, 3, BZ_IN_PLACE, |threads| 1.0 / threads),
    (16, 3, OPEN_BW, |threads| 1.0 / threads),
    (16, 4, BZ_APPEND, |_| 0.1),
    (16, 4, BZ_IN_PLACE, |_| 0.1),
    (16, 4, OPEN_BW, |_| 0.1),
    (16, 5, BW_OURS, |_| 0.1),
    (17, 0, BW, |threads| 1.0 / threads),
    (17, 0, BZ_APPEND, |threads| 1.0 / threads),
    (17, 0, BZ_IN_PLACE, |threads| 1.0 / threads),
    (17, 0, OPEN_BW, |threads| 1.0 / threads),
    (17, 1, BZ_APPEND, |_| 0.1),
    (17, 1, BZ_IN_PLACE, |_| 0.1),
    (17, 1, OPEN_BW, |_| 0.1),
    (17, 2, BW_OURS, |_| 0.1),
    // A curve that levels off, and a straight line that falls.
    (18, 0, BW, |threads| 1.0 / (1.0 + threads / 20.0)),
    (18, 0, BZ_APPEND, |threads| 1.0 / (1.0 + threads / 20.0)),
    (18, 0, BZ_IN_PLACE, |threads| 1.0 / (1.0 + threads / 20.0)),
    (18, 0, MASS, |threads| 1.0 / (1.0 + threads / 20.0)),
    (18, 0, OPEN_BW, |threads| (200.0 - threads) / threads),
    (18, 1, MASS, |_| 0.4),
    (18, 2, BW, |_| 3.0),
    (18, 3, BW_OURS, |_| 0.1),
    // Failures become rarer with more threads, but are many; they become more, but are few.
    (19, 0, BW, fewer_with_more_threads),
    (19, 0, BW, |_| 0.05),
    // One in eleven fails.
    (19, 1, BW_IN_CHAIN, |_| 2.0),
    (19, 2, BW_IN_CHAIN, |_| 0.1),
    (20, 0, BW_SPLIT_HEAD, |_| 2.0),
    (20, 1, BW_SPLIT_HEAD, |_| 0.1),
];

/// Two runs of each point of a figure, which differ by one percent. The values of one line are
/// multiplied.
fn outcome(
    number: u16,
    (changed, factor): Curve,
    cores: u16,
    unlike_paper: Option<&str>,
) -> Outcome {
    let mut all = FIGURES.iter();
    let figure = all.find(|figure| figure.number == number).unwrap();
    let places = match figure.across {
        Across::Percentiles => PERCENTILES,
        _ => THREADS,
    };
    let mut runs = Vec::new();
    let lines = figure.line_names();
    let curves = curves(number).iter();
    for (line, value) in curves.filter(|(line, _)| lines.contains(line)) {
        for &place in places {
            let at = f64::from(place);
            let factor = if *line == changed { factor(at) } else { 1.0 };
            let (failed, visits, misses) = counts(line, at, factor);
            for (round, by) in [(1, 0.995), (2, 1.005)] {
                let value = Some(value(at) * factor * by);
                runs.push(RunRow {
                    line,
                    threads: place,
                    percentile: Some(place),
                    round,
                    operations: Some(1000),
                    operations_per_second: value,
                    latency_ns: value,
                    consolidations: Some(1000),
                    consolidations_failed: Some((failed * by) as u64),
                    delta_visits: Some((visits * by) as u64),
                    cas_misses: Some((misses * by) as u64),
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
        device: "in memory".to_owned(),
        length: "1000 operations".to_owned(),
        repeat: 2,
        command: "namiki-bench figure".to_owned(),
        unlike_paper: unlike_paper.map(ToOwned::to_owned),
    };
    Outcome::of(figure, circumstances, &runs)
}

const NO_CHANGE: Curve = ("", |_| 1.0);

#[test]
fn every_sentence_holds_on_points_that_bear_it_out() {
    for figure in FIGURES {
        outcome(figure.number, NO_CHANGE, MANY, None).assert_all_hold_beyond_spread();
    }
}

#[test]
fn every_sentence_fails_on_points_that_refute_it() {
    let mut refuted = BTreeSet::new();
    for &(number, at, line, factor) in CHANGES_THAT_REFUTE {
        let outcome = outcome(number, (line, factor), MANY, None);
        let (claim, judged) = &outcome.judged[at];
        let what = format!("{number}: {}, {line} changed: {judged:?}", claim.english);
        assert_eq!(judged.verdict, Verdict::DoesNotHold, "{what}");
        assert!(!judged.within_spread(), "{what}");
        refuted.insert((number, at));
    }
    let all = FIGURES.iter().map(|figure| figure.claims.len());
    assert_eq!(refuted.len(), all.sum::<usize>(), "each has a change");
}

#[test]
fn the_sentences_about_112_threads_need_112_processors() {
    for (number, untested) in [
        (12, 0),
        (13, 2),
        (14, 0),
        (15, 2),
        (16, 2),
        (17, 0),
        (18, 1),
        (19, 0),
        (20, 0),
    ] {
        let outcome = outcome(number, NO_CHANGE, 2, None);
        let judged = outcome.judged.iter();
        let needs_cores = judged.filter(|(_, judged)| {
            judged.verdict == Verdict::NotTestable && judged.found.starts_with("needs >= ")
        });
        assert_eq!(needs_cores.count(), untested, "figure {number}");
    }
}

#[test]
fn keys_of_other_lengths_decide_no_sentence() {
    for figure in FIGURES {
        let outcome = outcome(figure.number, NO_CHANGE, MANY, Some("needs --key-bytes 8"));
        for (_, judged) in &outcome.judged {
            assert_eq!(judged.verdict, Verdict::NotTestable, "{judged:?}");
            assert_eq!(judged.found, "needs --key-bytes 8");
        }
        assert!(!outcome.point_rows().is_empty(), "it is drawn");
    }
}
