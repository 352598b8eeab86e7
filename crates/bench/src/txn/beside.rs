//! Background work during the measured transactions, to measure its cost: large transactions,
//! views, checkpoints.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use namiki::{Database, Error, Table};
use serde::Serialize;

use crate::args;
use crate::error::BenchError;

/// Bytes of each value, with its overhead in the log.
const ROW_BYTES: usize = 64 << 10;
/// Upper bound for the overhead: key, lengths and headers.
const OVERHEAD_BYTES: usize = 64;
/// Interval between checks for the end of the run.
const LOOK: Duration = Duration::from_millis(5);

/// Flags of the background work.
#[derive(Args, Debug)]
pub(super) struct BesideArgs {
    /// In an additional thread, commit transactions of this many MiB, one after the other, to a
    /// separate table. These commits are not counted; latencies show the delay of the other
    /// transactions
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..=1024))]
    beside_mib: Option<u16>,
    /// Keep a view open during the run, and replace it every S seconds
    #[arg(long, value_name = "S", value_parser = args::some_seconds)]
    view_seconds: Option<Duration>,
    /// Take checkpoints during the run, with S seconds between the end of one and the start of the
    /// next
    #[arg(long, value_name = "S", value_parser = args::seconds)]
    checkpoint_seconds: Option<Duration>,
}

/// The results of the background work, for a row.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct BesideRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    beside_mib: Option<u16>,
    beside_commits: u64,
    /// The time of all large commits together, from the first put to the durability of the last.
    beside_seconds: f64,
    views: u64,
    checkpoints: u64,
    /// Rows written by all checkpoints.
    checkpoint_rows: u64,
    /// The longest checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_seconds_max: Option<f64>,
}

impl BesideArgs {
    /// Runs `measured` together with the requested background work.
    pub(super) fn run<T>(
        &self,
        db: &Database,
        measured: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<(T, Option<BesideRow>), BenchError> {
        let Self {
            beside_mib,
            view_seconds,
            checkpoint_seconds,
        } = *self;
        if beside_mib.is_none() && view_seconds.is_none() && checkpoint_seconds.is_none() {
            return Ok((measured()?, None));
        }
        let table: Option<Table<u64, [u8]>> =
            (beside_mib.map(|_| db.table("beside"))).transpose()?;
        let stop = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let commits = (table.as_ref().zip(beside_mib))
                .map(|(table, mib)| scope.spawn(move || commit_until(stop, db, table, mib)));
            let views =
                view_seconds.map(|length| scope.spawn(move || view_until(stop, db, length)));
            let checkpoints = checkpoint_seconds
                .map(|pause| scope.spawn(move || checkpoint_until(stop, db, pause)));
            let measured = measured();
            stop.store(true, Ordering::Relaxed);
            let mut row = BesideRow {
                beside_mib,
                ..BesideRow::default()
            };
            if let Some(commits) = commits {
                let done = commits.join().map_err(|_| BenchError::Panicked)?;
                (row.beside_commits, row.beside_seconds) = done?;
            }
            if let Some(views) = views {
                row.views = views.join().map_err(|_| BenchError::Panicked)??;
            }
            if let Some(checkpoints) = checkpoints {
                let taken = checkpoints.join().map_err(|_| BenchError::Panicked)??;
                row.checkpoints = taken.count;
                row.checkpoint_rows = taken.rows;
                row.checkpoint_seconds_max = Some(taken.longest.as_secs_f64());
            }
            Ok((measured?, Some(row)))
        })
    }
}

impl BesideRow {
    /// Number of large transactions committed in the background.
    pub(super) fn commits(&self) -> u64 {
        self.beside_commits
    }
}

/// Commits one transaction after the other until told to stop, at least one. Returns the number of
/// commits and their total time.
fn commit_until(
    stop: &AtomicBool,
    db: &Database,
    table: &Table<u64, [u8]>,
    mib: u16,
) -> Result<(u64, f64), Error> {
    let rows = (usize::from(mib) << 20) / ROW_BYTES;
    let value = vec![0x5a; ROW_BYTES - OVERHEAD_BYTES];
    let mut session = db.session()?;
    let (mut commits, began) = (0, Instant::now());
    loop {
        session
            .transact(|tx| (0..rows as u64).try_for_each(|key| tx.put(table, &key, &value[..])))?;
        commits += 1;
        if stop.load(Ordering::Relaxed) {
            return Ok((commits, began.elapsed().as_secs_f64()));
        }
    }
}

/// Waits for this length, or until told to stop. Returns whether it was told to stop.
fn wait(stop: &AtomicBool, length: Duration) -> bool {
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) && began.elapsed() < length {
        std::thread::sleep(LOOK.min(length));
    }
    stop.load(Ordering::Relaxed)
}

/// Keeps a view open until told to stop. Returns the number of views.
fn view_until(stop: &AtomicBool, db: &Database, length: Duration) -> Result<u64, Error> {
    let mut views = 1;
    let mut view = db.view()?;
    while !wait(stop, length) {
        view = db.view()?;
        views += 1;
    }
    drop(view);
    Ok(views)
}

/// The checkpoints taken.
#[derive(Default)]
struct Taken {
    count: u64,
    rows: u64,
    longest: Duration,
}

/// Takes checkpoints until told to stop, at least one.
fn checkpoint_until(stop: &AtomicBool, db: &Database, pause: Duration) -> Result<Taken, Error> {
    let mut taken = Taken::default();
    loop {
        let report = db.checkpoint()?;
        taken.count += 1;
        taken.rows += report.rows;
        taken.longest = taken.longest.max(report.took);
        if wait(stop, pause) {
            return Ok(taken);
        }
    }
}
