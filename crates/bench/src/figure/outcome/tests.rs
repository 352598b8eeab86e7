//! Verdicts, reasons, counts and numbers of figures that were measured so.

use super::super::catalogue::figures;
use super::super::html_page::{Head, page};
use super::super::svg_chart::escaped;
use super::super::svg_chart::{NARROW, WIDE, nothing_is_cut};
use super::*;

const HEAD: Head<'_> = Head {
    command: "namiki-bench report",
    caution: None,
    remaining: 0,
};
const THREADS: [u16; 9] = [1, 2, 4, 8, 10, 16, 24, 64, 256];

/// Two runs of each point of a figure, which differ by a fraction.
fn measured(
    figure: &'static Figure,
    value: fn(usize, u16) -> f64,
    part: f64,
    met_locks: u64,
) -> Outcome {
    let mut runs = Vec::new();
    for (at, line) in figure.line_names().into_iter().enumerate() {
        for threads in THREADS {
            for round in [1, 2] {
                let value = value(at, threads) * (1.0 + part * f64::from(round));
                runs.push(RunRow {
                    line,
                    threads,
                    tasks: Some(threads),
                    second: Some(threads),
                    percentile: Some(threads),
                    operations_per_second: Some(value),
                    latency_ns: Some(value),
                    operations: Some(1000),
                    consolidations: Some(100_000),
                    consolidations_failed: Some(value as u64),
                    delta_visits: Some(value as u64),
                    mean_rtt_ms: Some(value / 1e3),
                    leader_cpu_percent: Some(value.sqrt()),
                    groups_on_their_way: Some(2.0),
                    round,
                    committed: Some(100_000),
                    relative_seconds: Some(value),
                    relative_iops: Some(value),
                    cpu_percent: Some(value.sqrt()),
                    tps: Some(value),
                    paper_abort_rate: Some(value / 1e6),
                    cas_misses: Some(value as u64),
                    met_locks: Some(met_locks),
                    failed_locks: Some(0),
                    flushes: Some(7),
                    ..RunRow::default()
                });
            }
        }
    }
    Outcome::of(figure, Circumstances::synthetic(256), &runs)
}

/// Orders that the papers do not claim, and runs that differ by more than their medians.
#[test]
fn only_claims_that_do_not_hold_have_a_paragraph() {
    let orders: [fn(usize, u16) -> f64; 4] = [
        |line, threads| 1000.0 * (line + 1) as f64 * f64::from(threads),
        |line, threads| 1e6 / (line + 1) as f64 / f64::from(threads),
        |line, _| 1000.0 + line as f64,
        |_, _| 1000.0,
    ];
    let (mut known, mut undecided, mut unknown) = (0, 0, 0);
    for figure in figures() {
        for order in orders {
            for part in [0.001, 0.3] {
                let outcome = measured(figure, order, part, 0);
                let text = outcome.text();
                for (claim, judged) in &outcome.judged {
                    let why = outcome.why_not(claim, judged);
                    let is_open =
                        matches!(judged.verdict, Verdict::DoesNotHold | Verdict::Undecided);
                    assert_eq!(why.is_some(), is_open, "{judged:?}");
                    let Some(why) = why else { continue };
                    assert!(text.contains(&format!("    why: {why}\n")), "{text}");
                    assert!(!outcome.beside(claim, judged).is_empty());
                    let reason = claim.why_not.as_ref();
                    known += usize::from(reason.is_some_and(|it| why.contains(it.text)));
                    undecided += usize::from(judged.within_spread());
                    unknown += usize::from(why == NO_REASON);
                }
                let rows = outcome.claim_rows();
                let whys = rows.iter().filter_map(|row| row.why_not.clone());
                let whys: Vec<String> = whys.collect();
                let page = page(&[outcome], &HEAD);
                assert!(whys.iter().all(|why| page.contains(&escaped(why))));
            }
        }
    }
    assert!(known > 0 && undecided > 0 && unknown > 0);
}

/// If one in ten commits meets a lock, the text must not say that few do.
#[test]
fn a_reason_is_not_given_where_counts_speak_against_it() {
    let slowest: fn(usize, u16) -> f64 =
        |line, threads| 1000.0 * (line + 1) as f64 * f64::from(threads);
    let mut all = figures();
    let seven = all.find(|figure| figure.slug() == "tictoc-pwal-7").unwrap();
    for (met_locks, said) in [(10, true), (10_000, false)] {
        let outcome = measured(seven, slowest, 0.001, met_locks);
        let text = outcome.text();
        assert!(text.contains("    does not hold here: "), "{text}");
        assert_eq!(text.contains("at most one in a hundred"), said, "{text}");
        assert_eq!(text.contains(NO_REASON), !said, "{text}");
    }
}

#[test]
fn one_run_of_each_point_is_not_judged() {
    let mut all = figures();
    let seven = all.find(|figure| figure.slug() == "tictoc-pwal-7").unwrap();
    let twice = measured(seven, |line, _| 1000.0 + line as f64, 0.001, 0);
    let runs = twice.runs.iter().filter(|run| run.round == 1);
    let once: Vec<RunRow> = runs.cloned().collect();
    let once = Outcome::of(seven, twice.circumstances.clone(), &once);
    let text = once.text();
    assert!(
        text.contains("    not judged (a point has one run"),
        "{text}"
    );
    assert!(!text.contains("    holds"), "{text}");
    assert!(!text.contains("    does not hold"), "{text}");
    let rows = once.claim_rows();
    assert!(rows.iter().all(|row| row.verdict == Verdict::NotJudged));
    let page = page(&[once], &HEAD);
    assert!(page.contains("<span class=\"verdict\">not judged</span>"));
}

/// The counts of the page, of the text and of the claims' rows are the same, and none of them
/// counts what is ours.
#[test]
fn verdicts_are_counted_alike_everywhere() {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for part in [0.001, 0.3] {
        for figure in figures() {
            let outcome = measured(figure, |line, _| 1000.0 + 90.0 * line as f64, part, 0);
            let rows = outcome.claim_rows();
            let of_paper = rows.iter().filter(|row| !row.sentence.is_empty());
            let text = outcome.text();
            let mut cells = String::new();
            let mut expected = String::new();
            for verdict in Verdict::ALL {
                let number = of_paper
                    .clone()
                    .filter(|row| row.verdict == verdict)
                    .count();
                assert_eq!(outcome.number_of(verdict), number);
                if number > 0 {
                    seen.insert(verdict.text());
                    cells.push_str(&format!("<td class=\"n\">{number}</td>"));
                    let comma = if expected.is_empty() { "" } else { ", " };
                    expected.push_str(&format!("{comma}{number} {}", verdict.text()));
                }
            }
            assert!(expected.is_empty() || text.contains(&expected), "{text}");
            let page = page(&[outcome], &HEAD);
            let name = format!("<a href=\"#{}\">", figure.slug());
            let row = page.lines().find(|line| line.contains(&name)).unwrap();
            assert!(row.ends_with(&format!("{cells}</tr>")), "{row}");
        }
    }
    let expected = [
        "does not hold here",
        "holds",
        "not testable here",
        "undecided",
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn no_chart_is_cut() {
    let orders: [fn(usize, u16) -> f64; 3] = [
        |line, threads| 1000.0 * (line + 1) as f64 * f64::from(threads),
        |line, _| 10_f64.powi(line as i32 - 3),
        |_, _| 0.0,
    ];
    for figure in figures() {
        for order in orders {
            let chart = measured(figure, order, 0.001, 0).chart();
            for width in [WIDE, NARROW] {
                nothing_is_cut(&chart.element(width));
            }
        }
    }
}

/// The multiple of pwal's figure 7 is in its page, its text, its row and its chart.
#[test]
fn the_papers_numbers_stand_beside_the_curves() {
    let seven = figures().find(|figure| figure.slug() == "pwal-7").unwrap();
    let times: fn(usize, u16) -> f64 = |line, _| if line == 0 { 3890.0 } else { 1000.0 };
    let outcome = measured(seven, times, 0.0, 0);
    let words = "paper 3.23×, here 3.89× (P-WAL : WAL at 16)";
    assert!(outcome.text().contains(words));
    let mark = outcome
        .chart()
        .remarks
        .into_iter()
        .find_map(|it| it.mark)
        .unwrap();
    assert_eq!((mark.series, mark.value), (0, 3230.0));
    let numbers: Vec<f64> = outcome
        .claim_rows()
        .iter()
        .flat_map(|row| row.paper_numbers.iter().map(|number| number.paper))
        .collect();
    assert_eq!(numbers, [3.23]);
    let page = page(&[outcome], &HEAD);
    assert!(page.contains(&format!("<p class=\"papers\">{words}</p>")));
}
