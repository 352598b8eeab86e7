//! Crashes on a simulated disk, at every event of a run, with every kind of loss.
//!
//! Runs take checkpoints while transactions are open, and read views; a view shows the state of its
//! stamp.
//!
//! ```text
//!   run ──► trace of events and acknowledgements ──► for each event, for each loss: an image
//!                                                        │ open, perhaps with another Spec
//!                                                        ▼
//!                        is it what the oracle allows? ──► sometimes: more commits, crash again,
//!                                                          the recovery's own events included
//! ```
//! Invariants of every image:
//! - it opens;
//! - every transaction acknowledged before the event is there, and so is every version that an
//!   acknowledged reader saw;
//! - transactions are atomic (each writes two markers in addition to its data);
//! - each transaction is there together with the writers of the versions it read or overwrote
//!   (under release by epochs: read);
//! - the same holds for tables created while transactions ran;
//! - each key holds its last version among those kept, with the stamp of its commit;
//! - everything at or below the stamp of a view that was read before the event is there;
//! - the last backup taken before the event is there, or the one that was under way, and is the
//!   state of its stamp; so is each earlier backup; and the next one succeeds;
//! - new stamps are above all of these;
//! - after a second crash, exactly the transactions that the first recovery kept are still there.

mod backups;
mod backups_left;
mod campaign_plan;
mod checkpoints;
mod error_text;
mod oracle;
mod run_and_sweep;
mod shown_views;
mod sweep;
mod tables;
mod workload;

use std::num::{NonZeroU16, NonZeroU32};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use namiki::files::Manifest;
use namiki::{
    Builder, Database, IndexKind, Layout, Logging, OpenError, Prepare, ProtocolSpec, RecordFormat,
    ReplayOrder, TreeKind, WaitPolicy,
};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

use crate::key_encoding::Spelling;

pub use campaign_plan::{Plan, Visit, layout};
pub use oracle::{Kept, Oracle};
pub use run_and_sweep::{Kind, combinations, round, tested_combinations};
pub use sweep::{Depth, Sweep, sweep};
pub use tables::Tables;
pub use workload::{Acknowledge, Clients, Failure, run_shuffled, run_threads};

const DIR: &str = "/db";
const SHARED: &str = "/db/shared-log";
/// Small enough that a few transactions wrap around the region.
const REGION_BYTES: u64 = 24 << 10;
const LARGE_REGION_BYTES: u64 = 512 << 10;
const LOG_FILE_BYTES: u64 = 16 << 10;

/// How a database on a simulated disk is opened.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The protocol.
    pub spec: ProtocolSpec,
    /// Log streams.
    pub streams: u16,
    /// All streams on one preallocated file.
    pub shared: bool,
    /// The papers' fixed log records of 512 bytes.
    pub fixed: bool,
    /// How the log is replayed.
    pub order: ReplayOrder,
    /// Number of recovery threads.
    pub recovery_threads: u16,
    /// Milliseconds until a group is flushed; `None` for never.
    pub group_wait_ms: Option<u64>,
    /// Whether each commit closes an epoch; otherwise the first one never ends.
    pub epochs: bool,
    /// The index of every table.
    pub index: IndexKind,
    /// The key spelling of every table; an existing database keeps its own.
    pub keys: Spelling,
    /// Whether some transactions are longer than a log buffer, or than a log file.
    pub large: bool,
    /// Size limit of an image's runs. The shorter they are, the more of them the next checkpoint
    /// keeps.
    pub run_bytes: u64,
}

/// Sometimes runs of a few rows each: more files make more events, and each image takes longer.
fn run_bytes(random: &mut Random) -> u64 {
    if random.chance(0.2) { 400 } else { 32 << 20 }
}

impl Setup {
    /// Settings for the first opening of run number `run`. Consecutive runs use every tree and the
    /// hash table, then each tree together with a hash table, then all of these again with the
    /// other key spelling. The rest is random.
    #[must_use]
    pub fn of_run(run: u64, spec: ProtocolSpec, shared: bool, random: &mut Random) -> Self {
        // A single log takes one region of a shared device.
        let single = shared && is_single(spec);
        let streams = 1 + random.below(3) as u16;
        Self {
            spec,
            streams: if single { 1 } else { streams },
            shared,
            fixed: random.chance(0.2),
            order: ReplayOrder::HighestStamp,
            recovery_threads: 1,
            group_wait_ms: None,
            epochs: random.chance(0.5),
            index: index_of(run),
            keys: Spelling::of(run / (2 * KINDS)),
            large: false,
            run_bytes: run_bytes(random),
        }
    }

    /// Settings for reopening a database that was written with `self`; often different ones.
    #[must_use]
    pub fn again(self, random: &mut Random) -> Self {
        static SPECS: LazyLock<Vec<ProtocolSpec>> = LazyLock::new(ProtocolSpec::all_durable);
        let shared = self.shared && random.chance(0.5);
        // Logged reads need room in the log. Files that a crash has left open under any protocol.
        let spec = if random.chance(0.5) && !self.spec.logs_reads() {
            self.spec
        } else {
            SPECS[random.index(SPECS.len())]
        };
        // A shared device has room only for the streams it was made for, which may be the current
        // number.
        let streams = if !shared {
            1 + random.below(4) as u16
        } else if is_single(spec) {
            1
        } else {
            1 + random.below(u64::from(self.streams)) as u16
        };
        Self {
            spec,
            streams,
            shared,
            fixed: random.chance(0.1),
            order: if random.chance(0.5) {
                ReplayOrder::Merge
            } else {
                ReplayOrder::HighestStamp
            },
            recovery_threads: 1 + random.below(2) as u16,
            group_wait_ms: None,
            epochs: random.chance(0.5),
            index: index_of(random.below(2 * KINDS)),
            keys: self.keys,
            large: self.large,
            run_bytes: run_bytes(random),
        }
    }

    fn builder(self, disk: &SimDisk) -> Builder {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let some = |count: u16| NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN);
        let builder = Database::builder()
            .spec(self.spec)
            .index(self.index)
            .streams(some(self.streams))
            .disk(disk)
            // Where other threads run anyway, one more prepares the log files.
            .prepare(match self.group_wait_ms {
                Some(_) => Prepare::Background,
                None => Prepare::Inline,
            })
            .group_wait_max(
                self.group_wait_ms
                    .map_or(Duration::MAX, Duration::from_millis),
            )
            .attempts_max(NonZeroU32::MIN)
            // One thread cannot wait for itself.
            .wait_policy(match self.group_wait_ms {
                Some(_) => WaitPolicy::WoundWait,
                None => WaitPolicy::NoWait,
            })
            .epoch_length(if self.epochs {
                Duration::ZERO
            } else {
                Duration::MAX
            })
            // Groups of one are flushed synchronously, larger ones asynchronously.
            .async_flush_min_commits(NonZeroU32::MIN.saturating_add(1))
            .buffer_bytes(8 << 10)
            .log_file_bytes(LOG_FILE_BYTES)
            .image_run_bytes(self.run_bytes)
            .replay_order(self.order)
            .recovery_threads(some(self.recovery_threads));
        let builder = match NonZeroU16::new(512) {
            Some(bytes) if self.fixed => builder.record_format(RecordFormat::Fixed(bytes)),
            _ => builder,
        };
        if self.shared {
            // No background checkpoints: each run must be reproducible from its seed.
            builder
                .shared_device(SHARED, self.region_bytes())
                .checkpoint_log_bytes(u64::MAX)
        } else {
            builder
        }
    }

    fn region_bytes(self) -> u64 {
        if self.large {
            LARGE_REGION_BYTES
        } else {
            REGION_BYTES
        }
    }

    /// Number of times the streams of a shared device have wrapped around their regions: the sum
    /// over the streams that the manifest names.
    fn laps(self, disk: &SimDisk) -> Result<u64, OpenError> {
        let manifest = Manifest::read(disk, Path::new(DIR))?;
        let generations = manifest.map_or_else(Vec::new, |manifest| manifest.generations);
        let starts = generations.last().map(|info| info.starts.iter());
        let offsets = starts.into_iter().flatten().map(|start| start.offset);
        Ok(offsets.map(|offset| offset / self.region_bytes()).sum())
    }

    /// Opens the database.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn open(self, disk: &SimDisk) -> Result<Database, OpenError> {
        self.builder(disk).open(DIR)
    }
}

/// The trees, and the hash table.
const KINDS: u64 = TreeKind::ALL.len() as u64 + 1;

/// Visits every index once in `2 * KINDS` turns.
fn index_of(turn: u64) -> IndexKind {
    match TreeKind::ALL.get((turn % KINDS) as usize) {
        None => IndexKind::Hash,
        Some(tree) if (turn / KINDS).is_multiple_of(2) => IndexKind::Ordered(*tree),
        Some(tree) => IndexKind::OrderedAndHash(*tree),
    }
}

fn is_single(spec: ProtocolSpec) -> bool {
    matches!(
        spec.logging,
        Logging::Log {
            layout: Layout::Single,
            ..
        }
    )
}
