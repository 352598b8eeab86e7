//! The plan of a report: its experiments, and how long and how often each of their runs is.
//!
//! The standard length has a budget of time. A run with a length in seconds gets what the other
//! runs leave of it: less where there are more points, and what one experiment saves goes to the
//! next. Where even the shortest runs do not fit, each point has two instead of three. Experiments
//! none of whose sentences can be tested on this machine run once. Transactions that log to a disk
//! have fewer records.

use std::time::{Duration, Instant};

use super::definition::{Experiment, Figure, Runs};
use super::experiment_runner::RunArgs;
use crate::error::BenchError;

/// The length of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportLength {
    /// As short as possible: nothing is judged.
    Quick,
    /// Within the budget.
    Standard,
    /// The papers' sizes, as the figures have them alone.
    Full,
}

/// The standard length without clusters, in seconds: 20 minutes with some reserve.
const BUDGET: f64 = 1150.0;
/// Runs of each point in a standard report; if the budget is too small for them; and where no
/// sentence can be tested.
const REPEAT: u32 = 3;
const REPEAT_LEAST: u32 = 2;
const REPEAT_UNTESTABLE: u32 = 1;
/// Records of transactions that log to a disk, in a standard report: loading a million into it takes
/// longer than the run.
const RECORDS_ON_DISK: u64 = 100_000;
/// The shortest and longest run within the budget, in seconds, and the steps between.
const SECONDS_MIN: f64 = 0.2;
const SECONDS_MAX: f64 = 2.0;
const SECONDS_STEP: f64 = 0.05;
/// Seconds to load a run's records or keys and to check its results, before any has been run.
const SETUP: f64 = 1.1;
/// Seconds of a query, of a cluster with its start, and of a run with a number of transactions.
const OF_QUERY: f64 = 3.0;
const OF_CLUSTER: f64 = 8.0;
const OF_TRANSACTIONS: f64 = 4.0;
/// Seconds of a run that only writes, in a standard report, and what its warm-up and its files take
/// beside them.
const OF_WRITES: f64 = 0.25;
const SETUP_OF_WRITES: f64 = 0.35;

/// An experiment with the figures that show its runs.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) experiment: &'static Experiment,
    pub(crate) figures: Vec<&'static Figure>,
}

/// Each experiment once, in the order of its first figure.
pub(crate) fn jobs(figures: impl Iterator<Item = &'static Figure>) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for figure in figures {
        let same = |job: &&mut Job| std::ptr::eq(job.experiment, figure.experiment);
        match jobs.iter_mut().find(same) {
            Some(job) => job.figures.push(figure),
            None => jobs.push(Job {
                experiment: figure.experiment,
                figures: vec![figure],
            }),
        }
    }
    jobs
}

impl Job {
    /// Whether this machine has the cores that some sentence needs.
    fn is_testable(&self, cores: usize) -> bool {
        let mut claims = self.figures.iter().flat_map(|figure| figure.claims);
        claims.any(|claim| usize::from(claim.cores_min) <= cores)
    }

    /// Whether the budget decides the length of its runs.
    fn is_timed(&self) -> bool {
        matches!(
            self.experiment.runs,
            Runs::Transactions { .. } | Runs::Index { .. }
        )
    }

    /// Whether it only writes: its files are ready soon, and short runs suffice.
    fn is_writes(&self) -> bool {
        matches!(self.experiment.runs, Runs::Writes { .. })
    }

    /// Whether loading all records takes long.
    fn is_on_disk(&self) -> bool {
        matches!(self.experiment.runs, Runs::Transactions { .. })
            && self.experiment.device == "file"
    }

    fn is_cluster(&self) -> bool {
        matches!(self.experiment.runs, Runs::Cluster { .. })
    }
}

/// The experiments of a report that remain, and what the previous ones have cost.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    args: &'a RunArgs,
    length: ReportLength,
    cores: usize,
    /// Runs of each point in a standard report.
    repeat: u32,
    /// The numbers of runs of the experiments that remain.
    jobs: Vec<(&'a Job, usize)>,
    /// Seconds of the budget that have passed.
    spent: f64,
    /// Timed runs that are over, and the seconds that they took beside their length.
    timed: usize,
    setup: f64,
    begun: Instant,
}

impl<'a> Plan<'a> {
    /// The plan of these experiments.
    ///
    /// # Errors
    /// The parameters make no sense for one of them.
    pub(crate) fn new(
        args: &'a RunArgs,
        length: ReportLength,
        jobs: &'a [Job],
        cores: usize,
    ) -> Result<Self, BenchError> {
        let mut plan = Self {
            args,
            length,
            cores,
            repeat: REPEAT,
            jobs: Vec::new(),
            spent: 0.0,
            timed: 0,
            setup: 0.0,
            begun: Instant::now(),
        };
        for job in jobs {
            let repeat = plan.repeat(job);
            let runs = args.run_count(job.experiment, &job.figures, cores, repeat)?;
            plan.jobs.push((job, runs));
        }
        plan.fit();
        Ok(plan)
    }

    /// Reduces the runs of each point if those that remain do not fit the budget.
    fn fit(&mut self) {
        let is_fixed = self.args.repeat.is_some() || self.length != ReportLength::Standard;
        let planned = self.left_without_clusters() + self.spent;
        if is_fixed || self.repeat == REPEAT_LEAST || planned <= BUDGET {
            return;
        }
        let cores = self.cores;
        for (job, runs) in &mut self.jobs {
            if job.is_testable(cores) {
                *runs = *runs * REPEAT_LEAST as usize / REPEAT as usize;
            }
        }
        self.repeat = REPEAT_LEAST;
    }

    fn repeat(&self, job: &Job) -> u32 {
        match self.length {
            ReportLength::Standard => {
                let default = if job.is_testable(self.cores) {
                    self.repeat
                } else {
                    REPEAT_UNTESTABLE
                };
                self.args.repeat.unwrap_or(default)
            }
            ReportLength::Quick | ReportLength::Full => self.args.repeat(),
        }
    }

    /// Seconds that a timed run takes beside its length.
    fn setup(&self) -> f64 {
        if self.timed == 0 {
            SETUP
        } else {
            self.setup / self.timed as f64
        }
    }

    /// The length of the next timed runs.
    fn seconds(&self) -> f64 {
        let runs_of = |is: fn(&Job) -> bool| {
            let jobs = self.jobs.iter().filter(move |(job, _)| is(job));
            jobs.map(|(_, runs)| *runs as f64).sum::<f64>()
        };
        let fixed = self
            .jobs
            .iter()
            .filter(|(job, _)| !job.is_timed() && !job.is_cluster());
        let fixed: f64 = fixed
            .map(|(job, runs)| self.of_run(job) * *runs as f64)
            .sum();
        let left = BUDGET - self.spent - fixed;
        let each = left / runs_of(Job::is_timed).max(1.0) - self.setup();
        let steps = (each.clamp(SECONDS_MIN, SECONDS_MAX) / SECONDS_STEP + 1e-9).floor();
        steps * SECONDS_STEP
    }

    /// The next experiment's parameters, and the seconds that one of its runs takes.
    pub(crate) fn next(&self) -> Option<(&'a Job, RunArgs, f64)> {
        let (job, _) = *self.jobs.first()?;
        let mut args = self.args.clone();
        if self.length == ReportLength::Standard {
            args.repeat = Some(self.repeat(job));
            if job.is_on_disk() {
                args.records = args.records.or(Some(RECORDS_ON_DISK));
            }
            if args.seconds.is_none() {
                let seconds = match job.experiment.runs {
                    _ if job.is_timed() => Some(self.seconds()),
                    Runs::Writes { .. } => Some(OF_WRITES),
                    _ => None,
                };
                args.seconds = seconds.map(Duration::from_secs_f64);
            }
        }
        Some((job, args, self.of_run(job)))
    }

    /// The seconds that a run takes.
    fn of_run(&self, job: &Job) -> f64 {
        let given = self.args.seconds.map(|length| length.as_secs_f64());
        match (given, self.length) {
            _ if job.is_cluster() => OF_CLUSTER,
            _ if job.is_writes() => self.of_writes(given, job),
            _ if !job.is_timed() => OF_QUERY,
            (Some(seconds), _) => seconds + self.setup(),
            (None, ReportLength::Standard) => self.seconds() + self.setup(),
            (None, ReportLength::Full) => OF_TRANSACTIONS,
            (None, ReportLength::Quick) => SETUP,
        }
    }

    fn of_writes(&self, given: Option<f64>, job: &Job) -> f64 {
        let default = match (self.length, &job.experiment.runs) {
            (ReportLength::Full, Runs::Writes { seconds, .. }) => f64::from(*seconds),
            _ => OF_WRITES,
        };
        given.unwrap_or(default) + SETUP_OF_WRITES
    }

    /// The seconds that all remaining runs take.
    pub(crate) fn left(&self) -> f64 {
        self.left_of(|_| true)
    }

    fn left_without_clusters(&self) -> f64 {
        self.left_of(|job| !job.is_cluster())
    }

    fn left_of(&self, is: fn(&Job) -> bool) -> f64 {
        let jobs = self.jobs.iter().filter(|(job, _)| is(job));
        jobs.map(|(job, runs)| self.of_run(job) * *runs as f64)
            .sum()
    }

    /// An experiment begins.
    pub(crate) fn begins(&mut self) {
        self.begun = Instant::now();
    }

    /// The experiment is over that [`next`](Self::next) returned, with these parameters.
    pub(crate) fn ends(&mut self, args: &RunArgs) {
        let elapsed = self.begun.elapsed().as_secs_f64();
        self.took(elapsed, args.seconds.map(|length| length.as_secs_f64()));
    }

    fn took(&mut self, elapsed: f64, seconds: Option<f64>) {
        if self.jobs.is_empty() {
            return;
        }
        let (job, runs) = self.jobs.remove(0);
        if !job.is_cluster() {
            self.spent += elapsed;
        }
        if let Some(seconds) = seconds.filter(|_| job.is_timed()) {
            self.timed += runs;
            self.setup += (elapsed - seconds * runs as f64).max(0.0);
        }
        self.fit();
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::super::catalogue::figures;
    use super::*;

    fn args(flags: &[&str]) -> RunArgs {
        let command = RunArgs::augment_args(clap::Command::new("report"));
        let matches = command.try_get_matches_from([&["report"], flags].concat());
        RunArgs::from_arg_matches(&matches.unwrap()).unwrap()
    }

    fn without_clusters() -> Vec<Job> {
        jobs(figures().filter(|figure| figure.paper != "raft-pwal"))
    }

    /// The time that a plan takes if its runs have this setup, in seconds.
    fn total(plan: &mut Plan<'_>, setup: f64) -> f64 {
        let mut total = 0.0;
        while let Some((job, args, _)) = plan.next() {
            let runs = plan.jobs[0].1 as f64;
            let seconds = args.seconds.map(|length| length.as_secs_f64());
            let each = if job.is_timed() {
                seconds.unwrap() + setup
            } else {
                plan.of_run(job)
            };
            total += each * runs;
            plan.took(each * runs, seconds);
        }
        total
    }

    #[test]
    fn experiments_run_once_for_all_their_figures() {
        let all = jobs(figures());
        let of_jobs: usize = all.iter().map(|job| job.figures.len()).sum();
        assert_eq!(of_jobs, figures().count());
        assert!(all.len() < of_jobs);
        for (at, job) in all.iter().enumerate() {
            let mut others = all[..at].iter();
            assert!(others.all(|other| !std::ptr::eq(other.experiment, job.experiment)));
        }
    }

    /// Also if setting up takes longer than was thought, and with every number of cores.
    #[test]
    fn a_standard_report_fits_its_budget() {
        let (jobs, args) = (without_clusters(), args(&[]));
        for (cores, setup) in [(2, 0.3), (2, 1.2), (2, 1.8), (8, 0.8)] {
            let mut plan = Plan::new(&args, ReportLength::Standard, &jobs, cores).unwrap();
            assert!(plan.left() <= BUDGET + 1.0, "{}", plan.left());
            let total = total(&mut plan, setup);
            assert!(total <= 20.0 * 60.0, "{cores} cores: {total} s");
            assert!(plan.next().is_none() && plan.left() == 0.0);
        }
    }

    #[test]
    fn what_setting_up_saves_makes_runs_longer() {
        let (jobs, args) = (without_clusters(), args(&[]));
        let lengths = [0.1, 1.2].map(|setup| {
            let mut plan = Plan::new(&args, ReportLength::Standard, &jobs, 2).unwrap();
            let first = plan.jobs[0].1 as f64;
            let (_, given, _) = plan.next().unwrap();
            let seconds = given.seconds.unwrap().as_secs_f64();
            plan.took((seconds + setup) * first, Some(seconds));
            plan.next().unwrap().1.seconds.unwrap()
        });
        assert!(lengths[0] > lengths[1], "{lengths:?}");
    }

    #[test]
    fn sentences_that_need_more_cores_are_run_once() {
        let (jobs, args) = (without_clusters(), args(&[]));
        let mut plan = Plan::new(&args, ReportLength::Standard, &jobs, 2).unwrap();
        let mut repeats = Vec::new();
        while let Some((job, args, _)) = plan.next() {
            repeats.push((job.figures[0].slug(), args.repeat()));
            plan.took(0.0, None);
        }
        assert!(
            repeats.contains(&("tictoc-pwal-7".to_owned(), 3)),
            "{repeats:?}"
        );
        assert!(
            repeats.contains(&("tictoc-pwal-11".to_owned(), 1)),
            "{repeats:?}"
        );
    }

    #[test]
    fn logs_on_a_disk_have_fewer_records() {
        let (jobs, args) = (without_clusters(), args(&[]));
        for (length, is_fewer) in [(ReportLength::Standard, true), (ReportLength::Full, false)] {
            let mut plan = Plan::new(&args, length, &jobs, 2).unwrap();
            while let Some((job, args, _)) = plan.next() {
                let (figure, records) = (job.figures[0], args.records);
                // Figure 2 only writes.
                let is_on_disk = figure.paper == "pwal" && figure.number > 2;
                assert_eq!(records.is_some(), is_fewer && is_on_disk);
                plan.took(0.0, None);
            }
        }
    }

    #[test]
    fn given_parameters_are_kept() {
        let jobs = jobs(figures().filter(|figure| figure.paper == "tictoc-pwal"));
        let given = args(&["--seconds", "0.5", "--repeat", "7"]);
        for length in [ReportLength::Standard, ReportLength::Full] {
            let plan = Plan::new(&given, length, &jobs, 2).unwrap();
            let (_, args, _) = plan.next().unwrap();
            assert_eq!(args.flags(), given.flags());
        }
        let full = args(&[]);
        let plan = Plan::new(&full, ReportLength::Full, &jobs, 2).unwrap();
        assert_eq!(plan.next().unwrap().1.flags(), full.flags());
    }
}
