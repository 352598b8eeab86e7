//! The points of figures with an index alone: their numbers of threads, and their runs.

use std::collections::BTreeSet;
use std::time::Duration;

use namiki_index::Statistics;

use super::definition::{Figure, Line, Work};
use super::run_row::RunRow;
use crate::args::Length;
use crate::error::BenchError;
use crate::index::{FigureRun, Mix};

/// An index of an experiment at one point.
#[derive(Debug)]
pub(crate) struct IndexPoint {
    pub(crate) line: &'static str,
    pub(crate) run: FigureRun,
    /// Whether each percentile of the latencies is a row.
    each_percentile: bool,
}

/// The requested parameters, and the defaults of the experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Numbers of threads of lines without a number of their own.
    pub(crate) threads: &'a [u16],
    pub(crate) mix: Mix,
    pub(crate) keys: u64,
    pub(crate) key_bytes: usize,
    pub(crate) skew: f64,
    pub(crate) warmup: Length,
    pub(crate) timed: Length,
    pub(crate) each_percentile: bool,
    pub(crate) seed: u64,
}

/// The points of an experiment: every line at each number of threads, or at its own.
pub(crate) fn index_points(figures: &[&Figure], asked: Asked<'_>) -> Vec<IndexPoint> {
    let lines: Vec<&Line> = figures.iter().flat_map(|figure| figure.lines).collect();
    let own = lines.iter().filter_map(|line| match line.work {
        Work::Index(work) => work.threads,
        _ => None,
    });
    let numbers: BTreeSet<u16> = own.chain(asked.threads.iter().copied()).collect();
    let mut points: Vec<IndexPoint> = Vec::new();
    for threads in numbers {
        for line in &lines {
            let Work::Index(work) = line.work else {
                continue;
            };
            let is_measured = match work.threads {
                Some(own) => own == threads,
                None => asked.threads.contains(&threads),
            };
            let same = |point: &IndexPoint| (point.line, point.run.threads) == (line.name, threads);
            if !is_measured || points.iter().any(same) {
                continue;
            }
            let latency_ops = match asked.timed {
                _ if !asked.each_percentile => 0,
                Length::Operations(all) => all,
                Length::Time(_) => u64::MAX,
            };
            points.push(IndexPoint {
                line: line.name,
                run: FigureRun {
                    tree: work.tree,
                    mix: asked.mix,
                    threads,
                    keys: asked.keys,
                    key_bytes: asked.key_bytes,
                    skew: asked.skew,
                    warmup: asked.warmup,
                    timed: asked.timed,
                    latency_ops,
                    seed: asked.seed,
                },
                each_percentile: asked.each_percentile,
            });
        }
    }
    points
}

/// The length of a run, in words.
pub(crate) fn length_text(length: Option<Duration>, operations: u64) -> String {
    match length {
        Some(length) => format!("{} s a run", length.as_secs_f64()),
        None => format!("{operations} operations"),
    }
}

/// The keys, in words.
pub(crate) fn keys_text(keys: u64, key_bytes: usize, skew: f64) -> String {
    let keys = format!("{keys} keys of {key_bytes} bytes");
    if skew > 0.0 {
        format!("{keys} drawn by Zipf's law with s = {skew}")
    } else {
        keys
    }
}

impl IndexPoint {
    /// One run, with a row, or one for each percentile.
    pub(crate) fn run(&self) -> Result<Vec<RunRow>, BenchError> {
        let results = self.run.run()?;
        let both = results.stats.as_ref().zip(results.stats_before.as_ref());
        // Of the timed operations alone.
        let count = |of: fn(&Statistics) -> u64| Some(of(both?.0) - of(both?.1));
        let row = RunRow {
            workload: Some(self.run.mix.to_string()),
            spec: Some(self.run.tree.to_string()),
            device: "memory".to_owned(),
            records: Some(self.run.keys),
            key_bytes: Some(self.run.key_bytes),
            seed: self.run.seed,
            seconds: results.seconds,
            operations: Some(results.ops),
            operations_per_second: results.mops.map(|mops| mops * 1e6),
            cas_misses: count(|of| of.cas_misses),
            consolidations: count(|of| of.consolidations),
            consolidations_failed: count(|of| of.consolidations_failed),
            delta_visits: count(|of| of.delta_visits),
            ..RunRow::default()
        };
        if !self.each_percentile {
            return Ok(vec![row]);
        }
        let latencies = results.latency_ns.iter();
        let latencies = latencies.flat_map(|curve| curve.at_whole_percents());
        let rows = latencies.map(|(percentile, ns)| RunRow {
            percentile: Some(percentile),
            latency_ns: Some(ns),
            ..row.clone()
        });
        Ok(rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::figures;
    use super::*;

    /// The lines and the numbers of threads of these figures' points.
    fn points(numbers: &[u16], each_percentile: bool) -> Vec<IndexPoint> {
        let of_paper = figures().filter(|figure| figure.paper == "bwtree");
        let figures: Vec<&Figure> = of_paper
            .filter(|figure| numbers.contains(&figure.number))
            .collect();
        let asked = Asked {
            threads: &[1, 2, 4],
            mix: "write=100".parse().unwrap(),
            keys: 1000,
            key_bytes: 8,
            skew: 0.0,
            warmup: Length::Operations(0),
            timed: Length::Operations(2000),
            each_percentile,
            seed: 42,
        };
        index_points(&figures, asked)
    }

    /// Paper: bwtree §5.2
    #[test]
    fn points_are_each_index_at_each_number_of_threads() {
        let sixteen = points(&[16], false);
        assert_eq!(sixteen.len(), 6 * 3);
        let first: Vec<u16> = sixteen[..7].iter().map(|point| point.run.threads).collect();
        assert_eq!(first, [1, 1, 1, 1, 1, 1, 2]);
        assert!(sixteen.iter().all(|point| point.run.latency_ops == 0));
    }

    /// Paper: bwtree §5.3.1
    #[test]
    fn figures_of_latencies_have_the_papers_numbers_of_threads() {
        let threads = |numbers: &[u16]| {
            let points = points(numbers, true);
            assert!(points.iter().all(|point| point.run.latency_ops == 2000));
            let threads = points.iter().map(|point| point.run.threads);
            threads.collect::<Vec<_>>()
        };
        assert_eq!(threads(&[12]), [1; 6]);
        assert_eq!(threads(&[15]), [112; 6]);
        let both = [[1; 6], [112; 6]].concat();
        assert_eq!(threads(&[13]), both, "growth needs both");
        assert_eq!(
            threads(&[12, 13]),
            both,
            "the lines of one thread are shared"
        );
    }

    #[test]
    fn a_run_with_latencies_has_a_row_for_each_percentile() {
        let points = points(&[13], true);
        let rows = points[0].run().unwrap();
        let percentiles: Vec<u16> = rows.iter().filter_map(|row| row.percentile).collect();
        assert_eq!(percentiles.len(), 21);
        assert_eq!((percentiles[0], percentiles[20]), (1, 99));
        let rising = rows.windows(2);
        assert!(
            rising
                .into_iter()
                .all(|two| two[0].latency_ns <= two[1].latency_ns)
        );
        assert!(rows.iter().all(|row| row.operations == Some(2000)));
    }

    #[test]
    fn a_run_for_throughput_is_one_row() {
        let rows = points(&[16], false)[6].run().unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].operations, rows[0].latency_ns), (Some(2000), None));
        assert!(rows[0].operations_per_second > Some(0.0));
        assert!(rows[0].consolidations.is_some());
    }

    /// Paper: bwtree §5.4, figures 19 and 20
    #[test]
    fn a_row_has_the_counts_of_its_run_alone() {
        let points = points(&[20], false);
        let trees: Vec<String> = points.iter().map(|it| it.run.tree.to_string()).collect();
        assert_eq!(trees[..2], ["bwtree-paper", "bwtree-paper-splithead"]);
        let reads = FigureRun {
            mix: "read=100".parse().unwrap(),
            warmup: Length::Operations(20_000),
            ..points[0].run
        };
        let point = IndexPoint {
            line: "",
            run: reads,
            each_percentile: false,
        };
        let rows = point.run().unwrap();
        let visits = rows[0].delta_visits.unwrap();
        // Readers shorten a chain once it has four deltas; the load and the warm-up visited many more.
        assert!((1..=3 * 2000).contains(&visits), "{visits}");
        assert_eq!(rows[0].cas_misses, Some(0));
    }
}
