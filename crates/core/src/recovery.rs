//! Recovery: reading the logs back into the tables.
//!
//! Every generation of the log says by itself which of its commits count (its [`CutRule`]): under
//! normal lock release all that are whole; under early release those below the first log sequence
//! number that is missing, because a later one may depend on it. A generation that recovery has
//! read is **sealed** in the manifest before anything new is written, so what was cut off can never
//! come back, and the stamps of the next generation begin above every stamp in it, cut off or not.
//!
//! Two ways to replay, which give the same tables:
//! - [`ReplayOrder::Merge`] is the papers': streams are merged into one order, that of stamps or
//!   that of log sequence numbers, and each change overwrites what was there.
//! - [`ReplayOrder::HighestStamp`] needs no order: stamps rise with every version of a key, so the
//!   version with the highest stamp wins, whoever comes first. Streams are replayed in parallel, and
//!   nothing is sorted. Where the cut is not known yet, frames help: each says up to which log
//!   sequence number everything was durable when it was written, and only what lies above the
//!   highest of these has to wait.
//!
//! Deleted keys stay as absent records until all is replayed, or a late insert would resurrect them.
//!
//! Paper: tictoc-pwal §3.4, pwal §4.3

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namiki_log::{
    CutRule, GenerationInfo, LogRecord, Merge, Seal, SortedRun, StreamEnd, StreamReader,
    harden_tail, merge_by_stamp,
};
use namiki_platform::disk::Disk;
use namiki_platform::{Generation, Lsn, Stamp, WorkerId};
use parking_lot::Mutex;

use crate::cc::TicToc;
use crate::codec::Changes;
use crate::error::OpenError;
use crate::manifest::Manifest;
use crate::space::{Space, TableId};

/// In which order logs are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayOrder {
    /// In no order: of each key, the version with the highest stamp wins.
    #[default]
    HighestStamp,
    /// In the papers' order: by stamp under normal lock release, by log sequence number under early
    /// release. On one thread.
    Merge,
}

/// How a recovery went.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct RecoveryReport {
    /// Commits that were replayed.
    pub replayed: u64,
    /// Commits that were whole in the log but not acknowledged, and depended on some that were
    /// lost: cut off.
    pub dropped: u64,
    /// Bytes of log that were read.
    pub bytes: u64,
    /// Streams that ended in a torn frame.
    pub torn: u32,
    /// Generations of the log.
    pub generations: u32,
    /// Whether the database had been closed in order.
    pub closed: bool,
    /// The largest stamp found.
    pub max_stamp: Stamp,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// How far a recovery is.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryProgress {
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of log files there are; some may be unused.
    pub bytes_total: u64,
    /// Commits replayed.
    pub replayed: u64,
}

/// Called now and then during a recovery.
pub type OnProgress = Arc<dyn Fn(RecoveryProgress) + Send + Sync>;

/// How to recover.
#[derive(Clone)]
pub(crate) struct RecoverySettings {
    pub(crate) threads: usize,
    pub(crate) order: ReplayOrder,
    pub(crate) on_progress: Option<OnProgress>,
    pub(crate) interrupt: Option<Arc<AtomicBool>>,
}

/// What recovery found: the report, and the seals of the generations that had none.
pub(crate) struct Recovered {
    pub(crate) report: RecoveryReport,
    pub(crate) seals: Vec<(Generation, Seal)>,
    pub(crate) next_lsn: Lsn,
}

/// Time between two calls of [`OnProgress`].
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Replays all generations of the manifest into the tables.
pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    wal_dir: &Path,
    manifest: &Manifest,
    spaces: &[Arc<Space>],
    settings: &RecoverySettings,
) -> Result<Recovered, OpenError> {
    let began = Instant::now();
    let replay = Replay {
        disk,
        wal_dir,
        identity: manifest.identity(),
        spaces,
        settings,
        bytes_total: bytes_total(&**disk, wal_dir, manifest),
        bytes: AtomicU64::new(0),
        replayed: AtomicU64::new(0),
        deletes: AtomicBool::new(false),
        last_progress: Mutex::new(began),
    };
    let mut report = RecoveryReport {
        generations: manifest.generations.len() as u32,
        closed: manifest.closed,
        ..RecoveryReport::default()
    };
    let mut seals = Vec::new();
    let mut next_lsn = Lsn(1);
    for generation in &manifest.generations {
        let outcome = match settings.order {
            ReplayOrder::HighestStamp => replay.in_no_order(generation)?,
            ReplayOrder::Merge => replay.in_order(generation)?,
        };
        report.dropped += outcome.dropped;
        report.torn += outcome.torn;
        report.max_stamp = report.max_stamp.max(outcome.seal.max_stamp);
        next_lsn = next_lsn
            .max(generation.first_lsn)
            .max(outcome.largest_lsn.next());
        if generation.seal.is_none() {
            // What the crash left readable need not be durable; what a seal counts has to be.
            for (worker, end) in (0..).map(WorkerId).zip(&outcome.ends) {
                harden_tail(disk, wal_dir, generation, worker, end).map_err(OpenError::Log)?;
            }
            seals.push((generation.generation, outcome.seal));
        }
    }
    if replay.deletes.load(Ordering::Relaxed) {
        for space in spaces {
            space
                .unhook_absent()
                .expect("an index can remove the keys that it holds");
        }
    }
    report.replayed = replay.replayed.into_inner();
    report.bytes = replay.bytes.into_inner();
    report.seconds = began.elapsed().as_secs_f64();
    Ok(Recovered {
        report,
        seals,
        next_lsn,
    })
}

/// How many bytes of log there may be to read; only for the progress report.
fn bytes_total(disk: &dyn Disk, wal_dir: &Path, manifest: &Manifest) -> u64 {
    let streams = manifest
        .generations
        .iter()
        .map(|g| g.streams)
        .max()
        .unwrap_or(0);
    (0..streams)
        .filter_map(|worker| disk.list(&wal_dir.join(format!("{worker:04}"))).ok())
        .flatten()
        .map(|file| file.len_bytes)
        .sum()
}

struct Replay<'a> {
    disk: &'a Arc<dyn Disk>,
    wal_dir: &'a Path,
    identity: u128,
    spaces: &'a [Arc<Space>],
    settings: &'a RecoverySettings,
    bytes_total: u64,
    bytes: AtomicU64,
    replayed: AtomicU64,
    deletes: AtomicBool,
    last_progress: Mutex<Instant>,
}

/// What one generation came to.
struct Outcome {
    seal: Seal,
    /// Of each stream.
    ends: Vec<StreamEnd>,
    largest_lsn: Lsn,
    dropped: u64,
    torn: u32,
}

/// A commit that waits for the cut to be known.
struct Waiting {
    lsn: Lsn,
    stamp: Stamp,
    payload: Box<[u8]>,
}

/// What one stream came to.
struct StreamOutcome {
    worker: WorkerId,
    end: StreamEnd,
    waiting: Vec<Waiting>,
    /// Commits above a seal's cut.
    dropped: u64,
    /// Commits replayed.
    replayed: u64,
}

impl Replay<'_> {
    fn open(&self, info: &GenerationInfo, worker: WorkerId) -> Result<StreamReader, OpenError> {
        StreamReader::open(
            Arc::clone(self.disk),
            self.wal_dir,
            self.identity,
            info,
            worker,
        )
        .map_err(OpenError::Log)
    }

    fn apply(&self, generation: Generation, stamp: Stamp, payload: &[u8]) -> Result<(), OpenError> {
        let undecodable = |why: String| OpenError::Undecodable {
            generation,
            stamp,
            why,
        };
        for change in Changes::new(payload) {
            let change = change.map_err(|error| undecodable(error.to_string()))?;
            let TableId(table) = change.table;
            let space = self.spaces.get(table as usize).ok_or_else(|| {
                undecodable(format!("it changes table {table}, which there is not"))
            })?;
            if change.value.is_none() {
                self.deletes.store(true, Ordering::Relaxed);
            }
            space
                .load::<TicToc>(change.key, change.value, stamp)
                .map_err(|error| undecodable(error.to_string()))?;
        }
        Ok(())
    }

    /// Counts what was read, reports it now and then, and stops when asked to.
    fn advance(&self, bytes: u64, replayed: u64) -> Result<(), OpenError> {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let replayed = self.replayed.fetch_add(replayed, Ordering::Relaxed) + replayed;
        if self
            .settings
            .interrupt
            .as_ref()
            .is_some_and(|asked| asked.load(Ordering::Relaxed))
        {
            return Err(OpenError::Interrupted);
        }
        if let Some(on_progress) = &self.settings.on_progress
            && let Some(mut last) = self.last_progress.try_lock()
            && last.elapsed() >= PROGRESS_INTERVAL
        {
            *last = Instant::now();
            on_progress(RecoveryProgress {
                bytes,
                bytes_total: self.bytes_total,
                replayed,
            });
        }
        Ok(())
    }

    /// Replays a generation's streams in parallel.
    fn in_no_order(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        let safe_below = AtomicU64::new(info.first_lsn.0);
        let next = AtomicU64::new(0);
        let streams = Mutex::new(Vec::new());
        let run = || loop {
            let worker = next.fetch_add(1, Ordering::Relaxed);
            if worker >= u64::from(info.streams) {
                return Ok(());
            }
            let outcome = self.stream(info, WorkerId(worker as u16), &safe_below)?;
            streams.lock().push(outcome);
        };
        let threads = self
            .settings
            .threads
            .clamp(1, usize::from(info.streams.max(1)));
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
            let mut result = run();
            for other in others {
                let joined = other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(joined);
            }
            result
        })?;
        let mut streams = streams.into_inner();
        streams.sort_unstable_by_key(|stream| stream.worker);

        let mut dropped = streams.iter().map(|stream| stream.dropped).sum();
        let mut replayed = streams.iter().map(|stream| stream.replayed).sum();
        let last_lsn = match (info.cut, &info.seal) {
            (CutRule::Stamp, _) => Lsn(0),
            (CutRule::Lsn, Some(seal)) => seal.last_lsn,
            (CutRule::Lsn, None) => {
                let waiting = streams.iter().flat_map(|stream| &stream.waiting);
                last_without_gap(
                    Lsn(safe_below.into_inner()),
                    waiting.map(|commit| commit.lsn),
                )
            }
        };
        for commit in streams.iter().flat_map(|stream| &stream.waiting) {
            if commit.lsn > last_lsn {
                dropped += 1;
                continue;
            }
            self.apply(info.generation, commit.stamp, &commit.payload)?;
            self.advance(0, 1)?;
            replayed += 1;
        }
        if info.cut == CutRule::Lsn {
            let expected = last_lsn.0 + 1 - info.first_lsn.0;
            if replayed != expected {
                let generation = info.generation;
                return Err(OpenError::MissingCommits {
                    generation,
                    expected,
                    found: replayed,
                });
            }
        }
        Ok(outcome(
            info,
            last_lsn,
            dropped,
            streams.iter().map(|stream| stream.end),
        ))
    }

    /// Replays one stream. Commits that may lie beyond the cut are returned.
    fn stream(
        &self,
        info: &GenerationInfo,
        worker: WorkerId,
        safe_below: &AtomicU64,
    ) -> Result<StreamOutcome, OpenError> {
        let mut reader = self.open(info, worker)?;
        let mut waiting = std::collections::VecDeque::<Waiting>::new();
        let (mut dropped, mut replayed_in_all) = (0, 0);
        while let Some(frame) = reader.next_frame().map_err(OpenError::Log)? {
            let header = frame.header;
            let mut replayed = 0;
            let mut apply = |stamp, payload: &[u8]| {
                replayed += 1;
                self.apply(info.generation, stamp, payload)
            };
            // Every LSN below the horizon was durable before this frame was written.
            let safe = safe_below.fetch_max(header.horizon.0, Ordering::Relaxed);
            let safe = Lsn(safe.max(header.horizon.0));
            while waiting.front().is_some_and(|commit| commit.lsn < safe) {
                let commit = waiting.pop_front().expect("there is a first");
                apply(commit.stamp, &commit.payload)?;
            }
            for LogRecord {
                stamp,
                lsn,
                payload,
                ..
            } in frame.records()
            {
                match (info.cut, &info.seal) {
                    (CutRule::Stamp, _) => apply(stamp, payload)?,
                    (CutRule::Lsn, Some(seal)) if lsn <= seal.last_lsn => apply(stamp, payload)?,
                    (CutRule::Lsn, Some(_)) => dropped += 1,
                    (CutRule::Lsn, None) if lsn < safe => apply(stamp, payload)?,
                    (CutRule::Lsn, None) => {
                        waiting.push_back(Waiting {
                            lsn,
                            stamp,
                            payload: payload.into(),
                        });
                    }
                }
            }
            replayed_in_all += replayed;
            self.advance(u64::from(header.length), replayed)?;
        }
        let (end, waiting, replayed) = (reader.end(), waiting.into(), replayed_in_all);
        Ok(StreamOutcome {
            worker,
            end,
            waiting,
            dropped,
            replayed,
        })
    }

    /// Replays a generation in the papers' order.
    fn in_order(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        match info.cut {
            CutRule::Stamp => self.in_stamp_order(info),
            CutRule::Lsn => self.in_lsn_order(info),
        }
    }

    /// Sorts each stream by stamp, and merges the streams (`tictoc-pwal` §3.4).
    fn in_stamp_order(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        let (mut runs, mut ends) = (Vec::new(), Vec::new());
        for reader in self.open_all(info)? {
            let (run, end) = SortedRun::read(reader).map_err(OpenError::Log)?;
            self.advance(end.bytes, 0)?;
            runs.push(run);
            ends.push(end);
        }
        for commit in merge_by_stamp(&runs) {
            self.apply(info.generation, commit.stamp, commit.payload)?;
            self.advance(0, 1)?;
        }
        Ok(outcome(info, Lsn(0), 0, ends))
    }

    /// Merges the streams by log sequence number, up to the first that is missing (`pwal`
    /// Algorithm 4).
    fn in_lsn_order(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        let sealed = info.seal.as_ref().map(|seal| seal.last_lsn);
        let mut merge = Merge::by_lsn(self.open_all(info)?, info.first_lsn, sealed);
        while let Some(commit) = merge.next_record().map_err(OpenError::Log)? {
            self.apply(info.generation, commit.stamp, commit.payload)?;
            self.advance(commit.payload.len() as u64, 1)?;
        }
        let end = merge.finish().map_err(OpenError::Log)?;
        Ok(outcome(info, end.last_lsn, end.dropped, end.streams))
    }

    fn open_all(&self, info: &GenerationInfo) -> Result<Vec<StreamReader>, OpenError> {
        (0..info.streams)
            .map(|worker| self.open(info, WorkerId(worker)))
            .collect()
    }
}

fn outcome(
    info: &GenerationInfo,
    last_lsn: Lsn,
    dropped: u64,
    ends: impl IntoIterator<Item = StreamEnd>,
) -> Outcome {
    let mut outcome = Outcome {
        seal: Seal {
            last_sequences: Vec::new(),
            last_lsn,
            // A sealed generation may have had frames beyond its seal, which we do not see.
            max_stamp: info.seal.as_ref().map_or(Stamp(0), |seal| seal.max_stamp),
        },
        ends: Vec::new(),
        largest_lsn: last_lsn,
        dropped,
        torn: 0,
    };
    for end in ends {
        outcome.seal.last_sequences.push(end.last_sequence);
        outcome.seal.max_stamp = outcome.seal.max_stamp.max(end.max_stamp);
        outcome.largest_lsn = outcome.largest_lsn.max(end.last_lsn);
        outcome.torn += u32::from(end.torn);
        outcome.ends.push(end);
    }
    outcome
}

/// The last LSN before the first one that is missing, when all below `safe_below` are there.
fn last_without_gap(safe_below: Lsn, found: impl Iterator<Item = Lsn>) -> Lsn {
    let mut found: Vec<Lsn> = found.filter(|lsn| *lsn >= safe_below).collect();
    found.sort_unstable();
    let mut next = safe_below;
    for lsn in found {
        if lsn != next {
            break;
        }
        next = next.next();
    }
    Lsn(next.0 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_is_before_the_first_missing_lsn() {
        let cut =
            |safe, found: &[u64]| last_without_gap(Lsn(safe), found.iter().copied().map(Lsn)).0;
        assert_eq!(cut(1, &[]), 0);
        assert_eq!(cut(1, &[3, 1, 2]), 3);
        assert_eq!(cut(1, &[2, 3]), 0);
        assert_eq!(cut(5, &[4, 5, 7]), 5);
        assert_eq!(cut(5, &[3, 4]), 4);
    }
}
