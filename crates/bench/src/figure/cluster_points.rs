//! The points of figures with a cluster: their numbers of workers, and their runs.

use std::collections::BTreeSet;
use std::time::Duration;

use namiki_platform::machine::Machine;

use super::definition::{ClusterWork, Figure, Work};
use super::run_row::RunRow;
use crate::cluster::{FigureRun, Wan};
use crate::error::BenchError;
use crate::interrupt;
use crate::run_folder::Place;

/// Length of the warm-up. With emulated distances, queues take longer to fill.
const WARMUP: Duration = Duration::from_secs(1);
const FAR_WARMUP: Duration = Duration::from_secs(2);
/// Quick runs only show that everything works.
const QUICK_WORKERS: &[u16] = &[1, 2];
const QUICK_LENGTH: Duration = Duration::from_secs(1);
const QUICK_CLIENTS: u32 = 2;

/// A cluster of an experiment at one point.
#[derive(Debug)]
pub(crate) struct ClusterPoint {
    pub(crate) line: &'static str,
    pub(crate) run: FigureRun,
    /// Whether each second is a row.
    each_second: bool,
}

/// The requested parameters, and the defaults of the experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Requested numbers of workers, if any.
    pub(crate) workers: &'a [u16],
    pub(crate) default_workers: &'a [u16],
    pub(crate) length: Duration,
    pub(crate) each_second: bool,
    pub(crate) quick: bool,
    pub(crate) seed: u64,
}

/// The length of a run.
pub(crate) fn length(given: Option<Duration>, default_seconds: u16, quick: bool) -> Duration {
    let default = if quick {
        QUICK_LENGTH
    } else {
        Duration::from_secs(default_seconds.into())
    };
    given.unwrap_or(default)
}

/// The points of an experiment: every line at each number of workers.
pub(crate) fn cluster_points(figures: &[&Figure], asked: Asked<'_>) -> Vec<ClusterPoint> {
    let workers = match asked.workers {
        [] if asked.quick => QUICK_WORKERS,
        [] => asked.default_workers,
        given => given,
    };
    let workers: BTreeSet<u16> = workers.iter().copied().collect();
    let mut points: Vec<ClusterPoint> = Vec::new();
    for workers in workers {
        for line in figures.iter().flat_map(|figure| figure.lines) {
            let Work::Cluster(work) = line.work else {
                continue;
            };
            let same =
                |point: &ClusterPoint| (point.line, point.run.workers) == (line.name, workers);
            if work.workers.is_some_and(|only| only != workers) || points.iter().any(same) {
                continue;
            }
            points.push(ClusterPoint {
                line: line.name,
                run: asked.run(work, workers),
                each_second: asked.each_second,
            });
        }
    }
    points
}

impl Asked<'_> {
    fn run(&self, work: ClusterWork, workers: u16) -> FigureRun {
        let (clients, pipeline) = if self.quick {
            (QUICK_CLIENTS, 1)
        } else {
            (work.clients, work.pipeline)
        };
        let warmup = match work.wan {
            // If each second is observed, all of them count.
            _ if self.quick || self.each_second => Duration::ZERO,
            Wan::None => WARMUP,
            Wan::Japan | Wan::JapanInHandler => FAR_WARMUP,
        };
        FigureRun {
            workers,
            group_size: work.group_size,
            groups_in_flight: work.groups_in_flight,
            wan: work.wan,
            clients,
            pipeline,
            warmup,
            length: self.length,
            seed: self.seed,
        }
    }
}

impl ClusterPoint {
    /// One run, with a row, or one for each second.
    pub(crate) fn run(&self, place: &Place, machine: &Machine) -> Result<Vec<RunRow>, BenchError> {
        let dir = place.scratch()?;
        let result = self.run.run(dir.path(), machine)?;
        interrupt::check()?;
        let FigureRun {
            workers,
            group_size,
            ..
        } = self.run;
        let groups = u64::from(self.run.clients) * u64::from(self.run.pipeline);
        let per_worker = result
            .tps
            .map(|tps| tps / f64::from(workers) / f64::from(group_size));
        let has_floor = result.floor_ms > 0.0;
        let row = RunRow {
            workload: Some("transfer".to_owned()),
            device: "file".to_owned(),
            seed: self.run.seed,
            seconds: result.seconds,
            committed: Some(result.acknowledged),
            tps: result.tps,
            cpu_percent: result.cpu_percent,
            group_size: Some(group_size),
            in_flight: Some(groups * u64::from(group_size)),
            mean_rtt_ms: result.mean_rtt_ms,
            floor_ms: has_floor.then_some(result.floor_ms),
            groups_on_their_way: per_worker
                .filter(|_| has_floor)
                .map(|groups| groups * result.floor_ms / 1e3),
            ..RunRow::default()
        };
        if !self.each_second {
            return Ok(vec![row]);
        }
        let seconds = (1..).zip(&result.leader_cpu_percent);
        let rows = seconds.map(|(second, percent)| RunRow {
            second: Some(second),
            leader_cpu_percent: Some(*percent),
            ..row.clone()
        });
        Ok(rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::figures;
    use super::super::definition::Runs;
    use super::*;

    fn points(numbers: &[u16], workers: &[u16], quick: bool) -> Vec<ClusterPoint> {
        let of_paper = figures().filter(|figure| figure.paper == "raft-pwal");
        let figures: Vec<&Figure> = of_paper
            .filter(|figure| numbers.contains(&figure.number))
            .collect();
        let Runs::Cluster {
            workers: default_workers,
            seconds,
            each_second,
        } = figures[0].experiment.runs
        else {
            panic!("{} has no cluster", figures[0].slug());
        };
        let asked = Asked {
            workers,
            default_workers,
            length: length(None, seconds, quick),
            each_second,
            quick,
            seed: 42,
        };
        cluster_points(&figures, asked)
    }

    /// Paper: raft-pwal §4.2
    #[test]
    fn points_are_each_group_size_at_each_number_of_workers() {
        let two = points(&[2], &[], false);
        assert_eq!(two.len(), 5 * 4);
        let sizes: Vec<u32> = two[..5].iter().map(|point| point.run.group_size).collect();
        assert_eq!(sizes, [1, 1, 5_000, 10_000, 20_000]);
        let waiting = two
            .iter()
            .filter(|point| point.run.groups_in_flight == Some(1));
        assert_eq!(waiting.count(), 4);
        assert!(two.iter().all(|point| point.run.wan == Wan::None));
        assert_eq!(points(&[2, 3], &[], false).len(), two.len());
    }

    #[test]
    fn figures_with_distances_share_the_runs_without() {
        let five = points(&[5], &[], false);
        let far = five.iter().filter(|point| point.run.wan == Wan::Japan);
        assert_eq!((far.count(), five.len()), (5 * 4, 8 * 4));
        assert_eq!(points(&[2, 3, 5, 6], &[], false).len(), 10 * 4);
        assert_eq!(points(&[5], &[3], true).len(), 8);
    }

    #[test]
    fn a_line_of_one_number_of_workers_has_no_other() {
        let four = points(&[4], &[], false);
        let lines: Vec<&str> = four.iter().map(|point| point.line).collect();
        assert_eq!(lines, ["1 worker", "2 workers", "4 workers", "8 workers"]);
        assert!(four.iter().all(|point| point.run.warmup.is_zero()));
        assert_eq!(points(&[4], &[30, 3], false).len(), 1);
    }
}
