//! A thread that commits large transactions beside those that are measured: what do these wait for it?

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use namiki::{Database, Error, Table};
use serde::Serialize;

use crate::error::BenchError;

/// Bytes of each value, and of what the log has beside it.
const ROW_BYTES: usize = 64 << 10;
/// More than a key, lengths and headers take.
const OVERHEAD_BYTES: usize = 64;

/// What is committed beside the measured transactions.
#[derive(Args, Debug)]
pub(super) struct BesideArgs {
    /// Beside the threads, one more commits transactions of so many MiB, one after the other, to a table of its own;
    /// its commits are not in the counts. Latencies then tell what the others wait for them
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..=1024))]
    beside_mib: Option<u16>,
}

/// What was committed beside, for a row.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct BesideRow {
    beside_mib: u16,
    beside_commits: u64,
    /// Of all of them together, from the first row that was put until the last was durable.
    beside_seconds: f64,
}

impl BesideArgs {
    /// Runs `measured` beside the large transactions, if there are to be any.
    pub(super) fn run<T>(
        &self,
        db: &Database,
        measured: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<(T, Option<BesideRow>), BenchError> {
        let Some(mib) = self.beside_mib else {
            return Ok((measured()?, None));
        };
        let table: Table<u64, [u8]> = db.table("beside")?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| commit_until(&stop, db, &table, mib));
            let measured = measured();
            stop.store(true, Ordering::Relaxed);
            let (commits, seconds) = beside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let row = BesideRow {
                beside_mib: mib,
                beside_commits: commits,
                beside_seconds: seconds,
            };
            Ok((measured?, Some(row)))
        })
    }
}

impl BesideRow {
    /// How many transactions were committed beside.
    pub(super) fn commits(&self) -> u64 {
        self.beside_commits
    }
}

/// Commits one after the other until it is to stop, one at least. Returns how many, and how long they took.
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
