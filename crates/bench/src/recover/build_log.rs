//! The log to recover, and the expected result of its recovery.
//!
//! The engine writes the log under the requested protocol to files in memory, which are then copied
//! to the real disk: the speed of *writing* is not measured. Then the manifest and its table
//! journal are reset to their state before the database was closed, as if the machine had stopped.
//! That state is valid only while the log is complete. Nothing here may take a checkpoint
//! ([`keep_log`]), which would remove the log and leave an image that the old manifest does not
//! know.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use namiki::files::Manifest;
use namiki::{Builder, Database, ProtocolSpec, Table, WorkerId};
use namiki_platform::disk::DelayedDisk;
use namiki_platform::seeded_random::Random;

use crate::args::{RecordBytes, Switch};
use crate::error::BenchError;
use crate::interrupt;
use crate::page_cache::drop_cached;
use crate::worker_threads::{join, share, spawn};

/// The one table.
pub(super) const TABLE: &str = "records";
const LOOK_EVERY: Duration = Duration::from_millis(2);
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The amount of log to write.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogLength {
    /// Slightly more than this number of bytes.
    Bytes(u64),
    /// This number of transactions, of all streams together.
    Transactions(u64),
}

impl LogLength {
    /// Maximal number of transactions of one stream.
    fn transactions(self, stream: usize, streams: usize) -> u64 {
        match self {
            Self::Bytes(_) => u64::MAX,
            Self::Transactions(total) => share(total, stream, streams),
        }
    }

    /// Whether a log of this length is long enough.
    fn is_reached(self, bytes: u64) -> bool {
        matches!(self, Self::Bytes(wanted) if bytes >= wanted)
    }
}

impl fmt::Display for LogLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} MB", bytes >> 20),
            Self::Transactions(total) => write!(f, "{total} transactions"),
        }
    }
}

/// The parameters of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Build {
    pub(super) spec: ProtocolSpec,
    pub(super) record_bytes: RecordBytes,
    pub(super) length: LogLength,
    pub(super) records: u64,
    pub(super) streams: std::num::NonZeroU16,
    pub(super) seed: u64,
}

/// Configures a database to keep its whole log, whatever its length and however often it is
/// reopened.
pub(super) fn keep_log(builder: Builder) -> Builder {
    builder
        .checkpoint_log_bytes(u64::MAX)
        .checkpoint_at_close(None)
}

/// The log written, and its expected outcome.
pub(super) struct Built {
    /// Each record's last value, and the stamp of the commit that wrote it; 0 if no commit did.
    pub(super) oracle: Vec<(u64, u64)>,
    /// Commits in the log.
    pub(super) committed: u64,
    /// The catalogue's files before the database was closed.
    catalogue: [(PathBuf, Vec<u8>); 2],
}

impl Build {
    /// Writes the log in `dir`, which is empty.
    pub(super) fn run(&self, dir: &Path) -> Result<Built, BenchError> {
        let builder = Database::builder()
            .spec(self.spec)
            .record_format(self.record_bytes.0)
            .streams(self.streams)
            .disk(Arc::new(DelayedDisk::new(Duration::ZERO)));
        let db = keep_log(builder).open(dir)?;
        let table = db.table::<u64, u64>(TABLE)?;
        let stop = AtomicBool::new(false);
        let results = std::thread::scope(|scope| {
            let threads = spawn(scope, self.streams.get().into(), Switch::Off, |thread| {
                let written = self.write(&db, &table, thread, &stop);
                // The log must not grow without this thread.
                written.inspect_err(|_| stop.store(true, Ordering::Relaxed))
            });
            self.watch(&db, &stop, &threads);
            join(threads)
        })?;
        interrupt::check()?;
        let committed = results.iter().map(|(_, committed)| committed).sum();
        let mut oracle = vec![(0, 0); self.records as usize];
        for (written, _) in results {
            for (last, other) in oracle.iter_mut().zip(written) {
                // The version of a record with the larger stamp is newer.
                *last = other.max(*last);
            }
        }
        let read = |path: PathBuf| {
            let bytes = std::fs::read(&path).map_err(BenchError::file("read", &path))?;
            Ok::<_, BenchError>((path, bytes))
        };
        let catalogue = [
            read(Manifest::path(dir))?,
            read(Manifest::table_journal_path(dir))?,
        ];
        db.close()?;
        let built = Built {
            oracle,
            committed,
            catalogue,
        };
        Ok(built)
    }

    /// Waits until the log is long enough, or all writers have ended.
    fn watch<T>(&self, db: &Database, stop: &AtomicBool, writers: &[ScopedJoinHandle<'_, T>]) {
        let mut said = Instant::now();
        while !stop.load(Ordering::Relaxed) && !writers.iter().all(ScopedJoinHandle::is_finished) {
            let bytes = db.counters().log.frame_bytes;
            if self.length.is_reached(bytes) || interrupt::asked() {
                stop.store(true, Ordering::Relaxed);
            }
            if said.elapsed() >= PROGRESS_EVERY {
                eprintln!("writing a log: {} MB of {}", bytes >> 20, self.length);
                said = Instant::now();
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// U-1 transactions; returns stamp and value of each record's last write by this thread.
    fn write(
        &self,
        db: &Database,
        table: &Table<u64, u64>,
        thread: usize,
        stop: &AtomicBool,
    ) -> Result<(Vec<(u64, u64)>, u64), BenchError> {
        // The number of threads comes from a u16.
        let mut session = db.session_on(WorkerId(thread as u16))?;
        let mut random = Random::stream(self.seed, thread as u64);
        let mut written = vec![(0, 0); self.records as usize];
        let (mut committed, mut last) = (0, None);
        let end = self.length.transactions(thread, self.streams.get().into());
        while committed < end && !stop.load(Ordering::Relaxed) {
            let (key, value) = (random.below(self.records), random.next_u64());
            let ((), ticket) = session.transact_async(|tx| tx.put(table, &key, &value))?;
            written[key as usize] = (ticket.stamp().0, value);
            committed += 1;
            last = Some(ticket);
        }
        session.flush()?;
        if let Some(last) = last {
            session.wait(&last)?;
        }
        Ok((written, committed))
    }
}

impl Built {
    /// Resets the folder to its state at the end of the log, with an empty page cache: it has
    /// neither seals nor generations of earlier recoveries.
    pub(super) fn crash(&self, dir: &Path) -> Result<(), BenchError> {
        for (path, bytes) in &self.catalogue {
            std::fs::write(path, bytes).map_err(BenchError::file("write", path))?;
        }
        drop_cached(dir)
    }
}
