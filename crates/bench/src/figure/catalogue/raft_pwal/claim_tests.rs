//! The claims, judged by synthetic runs: the paper's numbers, and numbers as measured on few
//! processors.

use super::super::super::judge::Verdict;
use super::super::super::outcome::{Circumstances, Outcome};
use super::super::super::run_row::RunRow;
use super::*;

const PLACES: [u16; 3] = [1, 10, 30];
/// Values of a line at three numbers of workers.
type Curve = (&'static str, [f64; 3]);

/// Two runs of each point of a figure, which differ by one percent.
fn outcome(number: u16, curves: &[Curve], cores: usize, more: &RunRow) -> Outcome {
    let figure = FIGURES.iter().find(|figure| figure.number == number);
    let figure = figure.unwrap();
    let mut runs = Vec::new();
    for (line, values) in curves {
        for (place, value) in PLACES.into_iter().zip(values) {
            for (round, by) in [(1, 0.995), (2, 1.005)] {
                runs.push(RunRow {
                    line,
                    threads: place,
                    second: Some(place),
                    round,
                    committed: Some(1000),
                    tps: Some(value * by),
                    mean_rtt_ms: Some(value * by),
                    leader_cpu_percent: Some(value * by),
                    ..more.clone()
                });
            }
        }
    }
    Outcome::of(figure, Circumstances::synthetic(cores), &runs)
}

const PAPER_TPS: &[Curve] = &[
    (ONE, [500.0, 5e3, 15e3]),
    (ONE_WAITING, [400.0, 4e3, 12e3]),
    (FIVE, [0.5e6, 5e6, 5.2e6]),
    (TEN, [0.6e6, 8.8e6, 9e6]),
    (TWENTY, [0.65e6, 8e6, 10e6]),
    (FAR_ONE, [500.0, 5e3, 15e3]),
    (FAR_ONE_WAITING, [60.0, 500.0, 1000.0]),
    (FAR_FIVE, [0.1e6, 2.5e6, 3.6e6]),
    (FAR_TEN, [0.2e6, 6e6, 8e6]),
    (FAR_TWENTY, [0.4e6, 8e6, 10.1e6]),
];
const PAPER_RTT: &[Curve] = &[
    (ONE_WAITING, [50.0, 20.0, 10.0]),
    (FIVE, [800.0, 60.0, 50.0]),
    (TEN, [1200.0, 70.0, 60.0]),
    (TWENTY, [1600.0, 200.0, 100.0]),
    (FAR_ONE_WAITING, [1700.0, 300.0, 105.0]),
    (FAR_FIVE, [1650.0, 90.0, 70.0]),
    (FAR_TEN, [1700.0, 100.0, 90.0]),
    (FAR_TWENTY, [1800.0, 220.0, 110.0]),
];
const PAPER_CPU: &[Curve] = &[
    (W1, [12.0; 3]),
    (W5, [45.0; 3]),
    (W8, [70.0; 3]),
    (W10, [88.0; 3]),
    (W20, [93.0; 3]),
    (W30, [95.0; 3]),
];

#[test]
fn the_papers_numbers_bear_out_its_sentences() {
    for (number, curves) in [
        (2, PAPER_TPS),
        (3, PAPER_RTT),
        (4, PAPER_CPU),
        (5, PAPER_TPS),
        (6, PAPER_RTT),
    ] {
        outcome(number, curves, PAPER_CORES.into(), &RunRow::default()).assert_all_hold();
    }
}

#[test]
fn the_papers_machines_are_needed_for_its_numbers() {
    let outcome = outcome(2, PAPER_TPS, 2, &RunRow::default());
    let untested = outcome.judged.iter().filter(|(_, judged)| {
        judged.verdict == Verdict::NotTestable && judged.found.contains("cores")
    });
    assert_eq!(untested.count(), 3);
}

#[test]
fn groups_that_do_not_wait_are_named_as_the_reason() {
    let curves: &[Curve] = &[
        (FIVE, [0.4e6, 0.4e6, 0.4e6]),
        (FAR_FIVE, [0.38e6, 0.37e6, 0.36e6]),
    ];
    for (groups, said) in [(4.0, true), (1.0, false)] {
        let more = RunRow {
            groups_on_their_way: Some(groups),
            ..RunRow::default()
        };
        let text = outcome(5, curves, 2, &more).text();
        assert!(text.contains("does not hold here"), "{text}");
        assert_eq!(
            text.contains("A worker does not wait for one group"),
            said,
            "{text}"
        );
    }
}

#[test]
fn busy_processors_are_named_as_the_reason() {
    let curves: &[Curve] = &[
        (ONE, [9e3; 3]),
        (FIVE, [0.4e6, 0.4e6, 0.3e6]),
        (TEN, [0.4e6; 3]),
        (TWENTY, [0.4e6; 3]),
    ];
    for (percent, said) in [(97.0, true), (60.0, false)] {
        let more = RunRow {
            cpu_percent: Some(percent),
            ..RunRow::default()
        };
        let text = outcome(2, curves, 2, &more).text();
        assert_eq!(text.contains(BUSY_TEXT), said, "{text}");
    }
}
