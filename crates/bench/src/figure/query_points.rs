//! The points of figures with a query: their numbers of threads and tasks, and their runs.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use namiki_exec::{Degree, Mode};
use namiki_platform::machine::Machine;

use super::definition::{Figure, QueryThreads, Sweep, Work};
use super::run_row::RunRow;
use crate::error::BenchError;
use crate::query::{Execution, FigureQueries};

/// Quick runs only show that everything works.
const QUICK_THREADS: &[u16] = &[1, 2];
const QUICK_TASKS: &[u16] = &[1, 4];

/// A query of an experiment at one point.
pub(crate) struct QueryPoint {
    pub(crate) line: &'static str,
    pub(crate) threads: u16,
    /// `None` if the executor chooses.
    pub(crate) tasks: Option<u16>,
    /// Whether other points are relative to this one.
    pub(crate) is_ordered: bool,
}

/// The requested parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) threads: &'a [u16],
    pub(crate) tasks: &'a [u16],
    pub(crate) quick: bool,
    pub(crate) is_emulated: bool,
    pub(crate) cores: usize,
}

/// The points of an experiment: every line at each number of threads or tasks, ordered execution
/// first.
pub(crate) fn query_points(sweep: Sweep, figures: &[&Figure], asked: Asked<'_>) -> Vec<QueryPoint> {
    let sorted = |numbers: &[u16]| numbers.iter().copied().collect::<BTreeSet<u16>>();
    let choose = |given: &[u16], quick: &[u16], counts: &[u16], emulated: &[u16]| {
        sorted(match given {
            [] if asked.quick => quick,
            [] if asked.is_emulated => emulated,
            [] => counts,
            given => given,
        })
    };
    let cores = u16::try_from(asked.cores).unwrap_or(u16::MAX).max(1);
    let executions: Vec<(u16, u16)> = match sweep {
        Sweep::Threads {
            tasks,
            counts,
            emulated,
        } => {
            let tasks = asked.tasks.last().copied().unwrap_or(tasks);
            let threads = choose(asked.threads, QUICK_THREADS, counts, emulated);
            threads
                .into_iter()
                .map(|threads| (threads, tasks))
                .collect()
        }
        Sweep::Tasks {
            counts,
            emulated,
            emulated_threads,
        } => {
            let all = if asked.is_emulated && !asked.quick {
                emulated_threads
            } else {
                cores
            };
            let threads = asked.threads.last().copied().unwrap_or(all);
            let tasks = choose(asked.tasks, QUICK_TASKS, counts, emulated);
            tasks.into_iter().map(|tasks| (threads, tasks)).collect()
        }
    };
    let mut points: Vec<QueryPoint> = Vec::new();
    for (threads, tasks) in executions {
        for line in figures.iter().flat_map(|figure| figure.lines) {
            let (threads, tasks) = match line.work {
                Work::OrderedQuery => (1, Some(1)),
                Work::Query(QueryThreads::One) if asked.is_emulated => continue,
                Work::Query(QueryThreads::One) => (1, Some(tasks)),
                Work::Query(QueryThreads::All) => (threads, Some(tasks)),
                Work::Query(QueryThreads::AllAdaptive) => (threads, None),
                Work::Transactions { .. }
                | Work::LogWrites { .. }
                | Work::Writes(_)
                | Work::Cluster(_)
                | Work::Index(_) => continue,
            };
            let same = |point: &QueryPoint| {
                (point.line, point.threads, point.tasks) == (line.name, threads, tasks)
            };
            if !points.iter().any(same) {
                points.push(QueryPoint {
                    line: line.name,
                    threads,
                    tasks,
                    is_ordered: matches!(line.work, Work::OrderedQuery),
                });
            }
        }
    }
    points.sort_by_key(|point| !point.is_ordered);
    points
}

impl QueryPoint {
    /// One run.
    pub(crate) fn run(
        &self,
        queries: &Rc<RefCell<FigureQueries>>,
        machine: &Machine,
        round: u32,
    ) -> Result<RunRow, BenchError> {
        let how = if self.is_ordered {
            Execution::ORDERED
        } else {
            Execution {
                mode: Mode::OutOfOrder,
                threads: self.threads.into(),
                degree: self
                    .tasks
                    .map_or(Degree::Adaptive, |tasks| Degree::Fixed(tasks.into())),
                resident_percent: 0,
                window_tasks: 0,
            }
        };
        let row = queries.borrow_mut().run(how, machine, round)?;
        Ok(RunRow {
            tasks: self.tasks,
            workload: Some(row.query),
            device: row.device,
            records: Some(row.rows),
            seed: row.seed,
            seconds: row.seconds,
            reads: Some(row.reads),
            distinct_pages: Some(row.distinct_pages),
            merged_faults: Some(row.merged_faults),
            polls: Some(row.polls),
            wake_ups: Some(row.wake_ups),
            iops: row.iops,
            cpu_us_per_io: row.cpu_us_per_io,
            cpu_percent: row.cpu_percent,
            ..RunRow::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::figures;
    use super::super::definition::Runs;
    use super::*;

    /// 0 tasks are those that the executor chooses.
    fn points(number: u16, asked: Asked<'_>) -> Vec<(&'static str, u16, u16)> {
        let mut all = figures();
        let figure = all.find(|figure| figure.paper == "oode" && figure.number == number);
        let figure = figure.unwrap();
        let Runs::Queries(sweep) = figure.experiment.runs else {
            panic!("{} is no query", figure.slug());
        };
        let points = query_points(sweep, &[figure], asked);
        points
            .iter()
            .map(|point| (point.line, point.threads, point.tasks.unwrap_or(0)))
            .collect()
    }

    const DISK: Asked<'_> = Asked {
        threads: &[],
        tasks: &[],
        quick: false,
        is_emulated: false,
        cores: 2,
    };

    #[test]
    fn ordered_execution_comes_first_and_once() {
        for (number, count) in [(2, 1 + 5), (6, 1 + 9 + 9 + 1), (9, 1 + 9 + 9)] {
            let points = points(number, DISK);
            assert_eq!(points.len(), count);
            assert_eq!(points[0], ("ordered execution", 1, 1));
            let ordered = points
                .iter()
                .filter(|(line, _, _)| line.starts_with("ordered"));
            assert_eq!(ordered.count(), 1);
        }
    }

    /// Paper: oode §3.1, §3.2
    #[test]
    fn emulated_drives_have_the_papers_threads_and_tasks() {
        let paper = Asked {
            is_emulated: true,
            ..DISK
        };
        let threads = points(3, paper);
        assert_eq!(threads.last(), Some(&("out of order", 128, 16)));
        assert_eq!(threads.len(), 1 + 8);
        let tasks = points(9, paper);
        assert_eq!(tasks.len(), 1 + 5);
        assert!(tasks[1..].iter().all(|(_, threads, _)| *threads == 128));
    }

    #[test]
    fn given_numbers_decide() {
        let given = Asked {
            threads: &[4, 1],
            tasks: &[8, 2],
            ..DISK
        };
        let threads = points(2, given);
        assert_eq!(
            threads[1..],
            [("out of order", 1, 2), ("out of order", 4, 2)]
        );
        let tasks = points(7, given);
        assert!(tasks.contains(&("out of order", 1, 8)) && tasks.contains(&("out of order", 1, 2)));
        let adaptive = tasks.iter().filter(|(_, _, tasks)| *tasks == 0);
        assert_eq!(
            adaptive.collect::<Vec<_>>(),
            [&("out of order, adaptive", 1, 0)]
        );
    }
}
