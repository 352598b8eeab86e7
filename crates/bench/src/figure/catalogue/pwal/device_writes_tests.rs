//! The claims of figure 2, judged by synthetic runs: points that bear out the paper's sentences, and
//! points that refute one of them.

use std::collections::BTreeSet;

use super::super::super::judge::Verdict;
use super::super::super::outcome::{Circumstances, Outcome};
use super::super::super::run_row::RunRow;
use super::device_writes::{FIGURE, RANDOM, RANDOM_16, SEQUENTIAL, SEQUENTIAL_16};
use super::*;

static WRITES: Figure = FIGURE;
const SIZES: &[u32] = &[512, 8192, 524_288];

/// A line, and its value at a size of blocks.
type Curve = (&'static str, fn(f64) -> f64);

/// The time of a write is a fixed part and a part for each byte; 16 writers share the second only.
const AS_CLAIMED: &[Curve] = &[
    (SEQUENTIAL, |bytes| bytes / (61.0 + bytes / 1000.0)),
    (RANDOM, |bytes| bytes / (60.0 + bytes / 1000.0)),
    (RANDOM_16, |bytes| bytes / (9.5 + bytes / 1010.0)),
    (SEQUENTIAL_16, |bytes| bytes / (9.0 + bytes / 1010.0)),
];

/// A change that refutes a sentence: the sentence's position, and the line whose values are
/// multiplied by a factor at each size.
type Change = (usize, &'static str, fn(f64) -> f64);

const CHANGES_THAT_REFUTE: &[Change] = &[
    (0, SEQUENTIAL, |bytes| 1.0 / bytes),
    (0, RANDOM, |bytes| 1.0 / bytes),
    // It falls at one step, and ends higher.
    (
        0,
        RANDOM_16,
        |bytes| if bytes == 8192.0 { 0.05 } else { 1.0 },
    ),
    (1, SEQUENTIAL, |_| 1.3),
    (1, RANDOM, |bytes| if bytes == 8192.0 { 1.3 } else { 1.0 }),
    (2, RANDOM_16, |_| 2.0),
    (2, RANDOM_16, |_| 0.5),
    // As many times as in the paper, but in the largest blocks.
    (2, RANDOM_16, |bytes| if bytes > 1e5 { 5.6 } else { 0.3 }),
    (3, RANDOM_16, |bytes| if bytes == 512.0 { 0.1 } else { 1.0 }),
    (3, SEQUENTIAL, |bytes| if bytes > 1e5 { 1.3 } else { 1.0 }),
];

/// Two runs of each point, which differ by one percent. The values of one line are multiplied.
fn outcome((changed, factor): Curve) -> Outcome {
    let mut runs = Vec::new();
    for (line, value) in AS_CLAIMED {
        for &bytes in SIZES {
            let at = f64::from(bytes);
            let factor = if *line == changed { factor(at) } else { 1.0 };
            for (round, by) in [(1, 0.995), (2, 1.005)] {
                runs.push(RunRow {
                    line,
                    threads: 1,
                    round,
                    write_bytes: Some(bytes),
                    operations: Some(1000),
                    megabytes_per_second: Some(value(at) * factor * by),
                    ..RunRow::default()
                });
            }
        }
    }
    Outcome::of(&WRITES, Circumstances::synthetic(2), &runs)
}

#[test]
fn every_sentence_holds_on_points_that_bear_it_out() {
    let outcome = outcome(("", |_| 1.0));
    outcome.assert_all_hold();
    let number = &outcome.paper_numbers(outcome.judged[2].0)[0];
    let text = number.text();
    assert!(text.starts_with("paper 6.13×, here 6."), "{text}");
    assert_eq!(number.place.map(|(_, bytes, _)| bytes), Some(512));
}

#[test]
fn every_sentence_fails_on_points_that_refute_it() {
    let mut refuted = BTreeSet::new();
    for &(at, line, factor) in CHANGES_THAT_REFUTE {
        let outcome = outcome((line, factor));
        let (claim, judged) = &outcome.judged[at];
        let what = format!("{}, {line} changed: {judged:?}", claim.english);
        assert_eq!(judged.verdict, Verdict::DoesNotHold, "{what}");
        refuted.insert(at);
    }
    assert_eq!(refuted.len(), WRITES.claims.len(), "each has a change");
}

#[test]
fn points_lie_over_the_bytes_of_a_write() {
    let outcome = outcome(("", |_| 1.0));
    let rows = serde_json::to_value(outcome.point_rows()).unwrap();
    let sizes = rows.as_array().unwrap().iter();
    let sizes: BTreeSet<u64> = sizes
        .map(|row| row["write_bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [512, 8192, 524_288]);
}
