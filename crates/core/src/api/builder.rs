//! The settings to open a database with.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use namiki_log::{Prepare, SequencerKind};
use namiki_platform::disk::Disk;

use crate::api::autotune::ProtocolChoice;
use crate::commit::engine::Waits;
use crate::protocol_spec::{ProtocolSpec, WaitPolicy};
use crate::recovery::{OnProgress, RecoverySettings, ReplayOrder};
use crate::storage::index::{IndexKind, IndexNotInBuild};
use crate::wal_format::record_format::RecordFormat;

/// Which index each table has, in this opening of the database.
#[derive(Clone, Default)]
pub(crate) struct Indexes {
    /// Of tables with these names.
    pub(crate) by_name: BTreeMap<String, IndexKind>,
    /// Of all others.
    pub(crate) others: IndexKind,
}

impl Indexes {
    pub(crate) fn of(&self, table: &str) -> IndexKind {
        self.by_name.get(table).copied().unwrap_or(self.others)
    }

    /// That all are in this build.
    pub(crate) fn check(&self) -> Result<(), IndexNotInBuild> {
        let mut kinds = self.by_name.values().chain([&self.others]);
        kinds.try_for_each(|kind| kind.check_in_build())
    }
}

/// How a database is to be opened. The defaults suit an embedded program.
#[derive(Clone)]
pub struct Builder {
    pub(super) protocol: ProtocolChoice,
    pub(super) disk: Option<Arc<dyn Disk>>,
    pub(super) create: bool,
    pub(super) indexes: Indexes,
    pub(super) streams: Option<NonZeroU16>,
    pub(super) group_wait_max: Duration,
    pub(super) async_flush_min_commits: Option<NonZeroU32>,
    pub(super) sequencer: SequencerKind,
    pub(super) record_format: RecordFormat,
    pub(super) buffer_bytes: usize,
    pub(super) segment_bytes: u64,
    pub(super) shared_device: Option<(PathBuf, u64)>,
    pub(super) prepare: Prepare,
    pub(super) attempts_max: u32,
    pub(super) waits: Waits,
    /// Default: 1 ms, or what was chosen.
    pub(super) epoch_length: Option<Duration>,
    pub(super) recovery: RecoverySettings,
}

impl Default for Builder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            protocol: ProtocolChoice::Fixed(ProtocolSpec::DEFAULT),
            disk: None,
            create: true,
            indexes: Indexes::default(),
            streams: None,
            group_wait_max: Duration::from_millis(1),
            async_flush_min_commits: None,
            sequencer: SequencerKind::FetchAdd,
            record_format: RecordFormat::Compact,
            buffer_bytes: 256 << 10,
            segment_bytes: 16 << 20,
            shared_device: None,
            prepare: Prepare::Background,
            attempts_max: 10_000,
            waits: Waits {
                policy: WaitPolicy::WoundWait,
                longest: Duration::from_secs(10),
            },
            epoch_length: None,
            recovery: RecoverySettings {
                threads: cores,
                order: ReplayOrder::HighestStamp,
                on_progress: None,
                interrupt: None,
            },
        }
    }
}

impl Builder {
    /// The protocol. Default: [`ProtocolSpec::DEFAULT`]. It may differ from one opening to the next.
    #[must_use]
    pub fn spec(self, spec: ProtocolSpec) -> Self {
        self.protocol(spec)
    }

    /// The protocol, or that it is to be chosen: by a short measurement of the device at every opening, for which
    /// a few small files are written and removed. [`Database::tuned_config`](crate::Database::tuned_config) tells what was chosen. Log streams and epochs
    /// are chosen too, unless they are set here.
    ///
    /// ```
    /// use namiki::{Database, Isolation, ProtocolChoice};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let auto = ProtocolChoice::Auto(Isolation::StrictlySerializable);
    /// let db = Database::builder().protocol(auto).open(dir.path().join("data"))?;
    /// assert!(db.spec().concurrency.is_strict());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn protocol(mut self, protocol: impl Into<ProtocolChoice>) -> Self {
        self.protocol = protocol.into();
        self
    }

    /// The disk. Default: direct writes where the file system of the directory allows them,
    /// buffered ones with a sync otherwise.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Whether a database is created where there is none. Default: yes.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// The index of all tables that [`Builder::table_index`] does not name. Default: the default ordered
    /// tree. Indexes are built when a database is opened, and may differ from one opening to the next. Trees
    /// other than ART need the feature `all-indexes` ([`OpenError::IndexNotInBuild`](crate::OpenError::IndexNotInBuild)).
    #[must_use]
    pub fn index(mut self, index: impl Into<IndexKind>) -> Self {
        self.indexes.others = index.into();
        self
    }

    /// The index of one table, whether it exists or is created later. A table with a hash index cannot be
    /// scanned ([`Error::Unordered`](crate::Error::Unordered)).
    #[must_use]
    pub fn table_index(mut self, table: impl Into<String>, index: impl Into<IndexKind>) -> Self {
        self.indexes.by_name.insert(table.into(), index.into());
        self
    }

    /// The number of log streams under `PWAL`. Default: one for each processor. It may differ from
    /// one opening to the next.
    #[must_use]
    pub fn streams(mut self, streams: NonZeroU16) -> Self {
        self.streams = Some(streams);
        self
    }

    /// The longest that a commit waits for its group. Default: 1 ms. `Duration::MAX` waits until the group is
    /// full, or a caller needs it flushed. A thread of the log's own flushes groups without waiters; where the
    /// system allows no such thread (`pids.max`, `RLIMIT_NPROC`), such a group stays until a call waits for it,
    /// or finds that it is overdue: one that asks for an acknowledgement, or wants a record that it has locked.
    #[must_use]
    pub fn group_wait_max(mut self, wait: Duration) -> Self {
        self.group_wait_max = wait;
        self
    }

    /// Groups of so many commits and more are flushed asynchronously, while their session goes on with the next
    /// one, where the disk can write on its own (through io_uring). Default: 32, where there are at most two
    /// streams for each processor, and never otherwise. The group is then acknowledged, and under normal lock
    /// release its records unlocked, when a thread commits on the same stream, waits, asks for an
    /// acknowledgement or wants one of the records, and in any case after [`Builder::group_wait_max`].
    ///
    /// The kernel reports the end of such a write to the thread that began it, which may be one of
    /// the program's: a call in which it sleeps then, like `epoll_wait`, may return `EINTR`, and while
    /// it is in a call that cannot be interrupted the group is not seen to have ended.
    /// `NonZeroU32::MAX` lets every thread wait for what it writes.
    #[must_use]
    pub fn async_flush_min_commits(mut self, commits: NonZeroU32) -> Self {
        self.async_flush_min_commits = Some(commits);
        self
    }

    /// How long an epoch lasts at least, while transactions end. Default: 1 ms. For tests: with
    /// `Duration::ZERO` nearly every transaction that ends closes one, and with `Duration::MAX` none does; so
    /// on one thread nothing depends on the clock. Under [`LockRelease::EpochEarly`](crate::LockRelease::EpochEarly), a waiter for an epoch
    /// closes it whatever this says, and so does every frame with commits that wait for theirs: under load, an
    /// epoch lasts about as long as a device write.
    #[must_use]
    pub fn epoch_length(mut self, length: Duration) -> Self {
        self.epoch_length = Some(length);
        self
    }

    /// How log sequence numbers are drawn where they are needed. Default: by fetch-and-add.
    #[must_use]
    pub fn sequencer(mut self, sequencer: SequencerKind) -> Self {
        self.sequencer = sequencer;
        self
    }

    /// How many bytes commits take in the log. Default: as few as possible.
    #[must_use]
    pub fn record_format(mut self, format: RecordFormat) -> Self {
        self.record_format = format;
        self
    }

    /// The length of a stream's log buffer, which bounds what one transaction can write; where operations are
    /// logged ([`LogStyle::Operations`](crate::LogStyle::Operations)), what one change can. Default: 256 KiB.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// The length of a log file. Default: 16 MiB.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Puts all streams onto one device or preallocated file, at fixed offsets of `region_bytes`
    /// (`pwal` §5.7), instead of into files of their own.
    #[must_use]
    pub fn shared_device(mut self, path: impl Into<PathBuf>, region_bytes: u64) -> Self {
        self.shared_device = Some((path.into(), region_bytes));
        self
    }

    /// The thread that makes the next log file ready: one of its own (the default), or that of the commit that
    /// needs it. The commit also does where the system allows no such thread.
    #[must_use]
    pub fn prepare(mut self, prepare: Prepare) -> Self {
        self.prepare = prepare;
        self
    }

    /// How often a transaction is run before its conflicts are reported. Default: 10,000.
    #[must_use]
    pub fn attempts_max(mut self, attempts: NonZeroU32) -> Self {
        self.attempts_max = attempts.get();
        self
    }

    /// What a transaction does when it wants a lock that another one has, under strict two-phase locking
    /// (`S2PL`). Default: it waits, and deadlocks are ruled out by age.
    #[must_use]
    pub fn wait_policy(mut self, policy: WaitPolicy) -> Self {
        self.waits.policy = policy;
        self
    }

    /// The longest that a transaction waits for one lock, under strict two-phase locking (`S2PL`), before it
    /// fails with [`Error::LockTimeout`](crate::Error::LockTimeout): the program may have forgotten about the
    /// transaction that has the lock. Default: 10 s.
    #[must_use]
    pub fn lock_wait_max(mut self, wait: Duration) -> Self {
        self.waits.longest = wait;
        self
    }

    /// How many threads recover. Default: one for each processor. Fewer where the system allows no more.
    #[must_use]
    pub fn recovery_threads(mut self, threads: NonZeroU16) -> Self {
        self.recovery.threads = usize::from(threads.get());
        self
    }

    /// In which order logs are replayed.
    #[must_use]
    pub fn replay_order(mut self, order: ReplayOrder) -> Self {
        self.recovery.order = order;
        self
    }

    /// Called now and then while the database recovers.
    #[must_use]
    pub fn on_progress(mut self, on_progress: OnProgress) -> Self {
        self.recovery.on_progress = Some(on_progress);
        self
    }

    /// Recovery ends with [`OpenError::Interrupted`](crate::OpenError::Interrupted) soon after this becomes true.
    #[must_use]
    pub fn interrupt(mut self, asked: Arc<AtomicBool>) -> Self {
        self.recovery.interrupt = Some(asked);
        self
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}
