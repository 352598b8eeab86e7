//! The builder: the settings of an opening, as a program gives them.

use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use namiki_log::{Prepare, SequencerKind};
use namiki_platform::disk::Disk;

use crate::backup::followed_backup::FollowSettings;
use crate::backup::options_and_reports::BackupOptions;
use crate::protocol_spec::{ProtocolSpec, WaitPolicy};
use crate::recovery::{BeforeLoad, OnProgress, ReplayOrder};
use crate::settings::autotune::ProtocolChoice;
use crate::settings::config::{Format, Testing, Tuning};
use crate::storage::index::IndexKind;
use crate::wal_format::encoding_primitives::RecordFormat;

/// How a database is to be opened. The defaults suit an embedded program.
#[derive(Clone)]
pub struct Builder {
    pub(crate) create: bool,
    pub(crate) tuning: Tuning,
    pub(crate) format: Format,
    pub(crate) testing: Testing,
    /// Whether the tables are a replica's, which only the groups of a log change that is not the database's.
    pub(crate) is_replica: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            create: true,
            tuning: Tuning::default(),
            format: Format::default(),
            testing: Testing::default(),
            is_replica: false,
        }
    }
}

impl Builder {
    /// The protocol of this opening. Default: [`ProtocolSpec::DEFAULT`], whatever the previous
    /// opening used: no data depends on it. (The manifest records the last one for information.)
    #[must_use]
    pub fn spec(self, spec: ProtocolSpec) -> Self {
        self.protocol(spec)
    }

    /// The protocol, or `Auto` to choose it: by a short measurement of the device at every opening,
    /// for which a few small files are written and removed.
    /// [`Database::tuned_config`](crate::Database::tuned_config) returns the choice. Log streams
    /// and epochs are chosen too, unless they are set here. The chosen protocol is strictly
    /// serializable, unless [`Isolation::Serializable`](crate::Isolation::Serializable) is asked
    /// for.
    ///
    /// ```
    /// use namiki::{Database, ProtocolChoice};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let db = Database::builder()
    ///     .protocol(ProtocolChoice::AUTO)
    ///     .open(dir.path().join("data"))?;
    /// assert!(db.spec().concurrency.is_strict());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn protocol(mut self, protocol: impl Into<ProtocolChoice>) -> Self {
        self.tuning.protocol = protocol.into();
        self
    }

    /// For tests and experiments: the disk. Default: direct writes where the file system of the directory allows them,
    /// buffered ones with a sync otherwise.
    #[doc(hidden)]
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.testing.disk = Some(disk);
        self
    }

    /// Whether a database is created if none exists. Default: yes.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// How long an opening waits for a directory that another process has open, or another handle of this one, before it
    /// fails with [`OpenError::InUse`](crate::OpenError::InUse). Default: not at all.
    #[must_use]
    pub fn wait_for_directory(mut self, longest: Duration) -> Self {
        self.tuning.lock_dir_wait = longest;
        self
    }

    /// The index of all tables that [`Builder::table_index`] does not name. Default: the default ordered
    /// tree. Indexes are built when a database is opened, and may differ from one opening to the next. Trees
    /// other than ART need the feature `all-indexes` ([`OpenError::IndexNotInBuild`](crate::OpenError::IndexNotInBuild)).
    #[must_use]
    pub fn index(mut self, index: impl Into<IndexKind>) -> Self {
        self.tuning.indexes.others = index.into();
        self
    }

    /// The index of one table, whether it exists or is created later. A table with a hash index cannot be
    /// scanned ([`Error::Unordered`](crate::Error::Unordered)).
    #[must_use]
    pub fn table_index(mut self, table: impl Into<String>, index: impl Into<IndexKind>) -> Self {
        self.tuning
            .indexes
            .by_name
            .insert(table.into(), index.into());
        self
    }

    /// The number of log streams under `PWAL`. Default: one for each processor. It may differ from
    /// one opening to the next; on a [shared device](Builder::shared_device), the device must have
    /// room for their regions.
    #[must_use]
    pub fn streams(mut self, streams: NonZeroU16) -> Self {
        self.tuning.streams = Some(streams);
        self
    }

    /// The longest that a commit waits for its group. Default: 1 ms. `Duration::MAX` waits until
    /// the group is full, or a caller needs it flushed. The log's own thread flushes groups without
    /// waiters. If the system allows no such thread (`pids.max`, `RLIMIT_NPROC`), such a group
    /// stays until a call waits for it, or finds that it is overdue: a call that asks for an
    /// acknowledgement, or requests a record that the group has locked.
    #[must_use]
    pub fn group_wait_max(mut self, wait: Duration) -> Self {
        self.tuning.group_wait_max = wait;
        self
    }

    /// The smallest group of commits that is flushed asynchronously, while its session continues
    /// with the next group. Applies where the disk supports asynchronous writes (io_uring).
    /// Default: 32 if there are at most two streams for each processor; otherwise no group is. Such
    /// a group is acknowledged, and under normal lock release its records are unlocked, when a
    /// thread commits on the same stream, waits, asks for an acknowledgement or wants one of the
    /// records, and at the latest after [`Builder::group_wait_max`].
    ///
    /// The kernel reports the end of such a write to the thread that began it, which may be one of
    /// the program's: a call in which it sleeps then, like `epoll_wait`, may return `EINTR`, and while
    /// it is in a call that cannot be interrupted the group is not seen to have ended.
    /// `NonZeroU32::MAX` lets every thread wait for what it writes.
    #[must_use]
    pub fn async_flush_min_commits(mut self, commits: NonZeroU32) -> Self {
        self.tuning.async_flush_min_commits = Some(commits);
        self
    }

    /// The shortest length of an epoch while transactions end. Default: 1 ms. For tests: with
    /// `Duration::ZERO` nearly every transaction that ends closes one, and with `Duration::MAX`
    /// none does; so on one thread, runs do not depend on the clock. Under
    /// [`LockRelease::EpochEarly`](crate::LockRelease::EpochEarly), a waiter for an epoch closes it
    /// whatever this says, and so does every frame with commits that wait for theirs: under load,
    /// an epoch lasts about as long as a device write.
    #[must_use]
    pub fn epoch_length(mut self, length: Duration) -> Self {
        self.tuning.epoch_length = Some(length);
        self
    }

    /// For experiments: how log sequence numbers are drawn where they are needed. Default: by fetch-and-add.
    #[doc(hidden)]
    #[must_use]
    pub fn sequencer(mut self, sequencer: SequencerKind) -> Self {
        self.testing.sequencer = sequencer;
        self
    }

    /// The size of commits in the log. Default: as few bytes as possible.
    #[must_use]
    pub fn record_format(mut self, format: RecordFormat) -> Self {
        self.format.record_format = format;
        self
    }

    /// The most that one transaction can write, in bytes of log: its keys, values and a few bytes
    /// for each; where operations are logged
    /// ([`LogStyle::Operations`](crate::LogStyle::Operations)), the most that one change can, with
    /// what it replaces. Default: 1 GiB, of which a few bytes are the log's own; more is not
    /// possible. A larger transaction fails with
    /// [`Error::TransactionTooLarge`](crate::Error::TransactionTooLarge), and changes nothing.
    ///
    /// While it runs and commits, a large transaction takes up to four times its size of memory, and what is longer than
    /// a log file gets a log file of its own. On a shared device it takes less than half of a region.
    #[must_use]
    pub fn transaction_bytes_max(mut self, bytes: usize) -> Self {
        self.tuning.transaction_bytes_max = bytes;
        self
    }

    /// The amount of log between two checkpoints: each writes the changes since the last one to the
    /// image of the tables in memory, and frees the log before it. A checkpoint is taken after
    /// `bytes` bytes of log, but not before the log has half the size of the image. Default: 1 GiB.
    /// More log means fewer checkpoints and longer recoveries; with `u64::MAX`, checkpoints are
    /// taken only on request. On a shared device, one is also taken when half of a region is used.
    /// On every disk, one is also taken after eight openings that have left some log, because each
    /// of these has files of its own.
    ///
    /// The directory then takes up to two images, and this much log and what is written while a checkpoint is taken.
    #[must_use]
    pub fn checkpoint_log_bytes(mut self, bytes: u64) -> Self {
        self.tuning.checkpoint.log_bytes = bytes;
        self
    }

    /// Takes a checkpoint at this interval, too, if anything was committed since the last one.
    /// Default: by the log alone.
    #[must_use]
    pub fn checkpoint_interval(mut self, interval: Duration) -> Self {
        self.tuning.checkpoint.interval = Some(interval);
        self
    }

    /// Writes a restore point to the log at this interval, while there are commits: a moment, by
    /// the computer's clock, to which a backup that has the point can be restored
    /// ([`Builder::restore_to`]). A point takes one write of the log, and 25 bytes. Shorter
    /// intervals than a tenth of a second are raised to a tenth. Default: none.
    #[must_use]
    pub fn restore_points(mut self, interval: Duration) -> Self {
        self.tuning.checkpoint.restore_points = Some(interval);
        self
    }

    /// Continuous backup: a backup follows the database while it is open. It is taken into this
    /// directory at once, after each interval, and before each checkpoint, in a thread of its own,
    /// as by [`Database::backup_with`](crate::Database::backup_with). A last one is taken when the
    /// database is closed in order, so that it has every commit. Closing waits for that one, which
    /// is taken at full speed. [`Stats::backup`](crate::Stats::backup) has its age, and the error
    /// of the last failure; a failed one is retried after ten seconds at most. Shorter intervals
    /// than a tenth of a second are raised to a tenth. Default: none.
    ///
    /// With [`BackupOptions::keep`], a restore can go back to any restore point of that time,
    /// without a gap: the log is in the backup before a checkpoint frees it. Points are then
    /// written to the log each second, unless [`Builder::restore_points`] says otherwise. A
    /// checkpoint waits for the backup, but not if that fails. Changed parts of images take most of
    /// the directory's space, so longer intervals save little.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    /// use namiki::{BackupOptions, Database};
    /// use std::time::Duration;
    ///
    /// let week = BackupOptions::default().keep(Duration::from_secs(7 * 24 * 3600));
    /// let db = Database::builder()
    ///     .backup_to(&copy, Duration::from_secs(60), week)
    ///     .open(&data)?;
    /// # let accounts = db.table::<u64, i64>("accounts")?;
    /// # db.transact(|tx| tx.put(&accounts, &1, &100))?;
    /// # while db.stats().backup.is_none_or(|backup| backup.taken == 0) {
    /// #     std::thread::yield_now();
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn backup_to(
        mut self,
        dir: impl Into<PathBuf>,
        interval: Duration,
        options: BackupOptions,
    ) -> Self {
        if options.keeps_earlier() {
            let points = &mut self.tuning.checkpoint.restore_points;
            points.get_or_insert(Duration::from_secs(1));
        }
        let dir = dir.into();
        self.tuning.follow = Some(FollowSettings {
            dir,
            interval,
            options,
        });
        self
    }

    /// The rate limit of a checkpoint, in bytes of keys and values for each second, so that the
    /// device has capacity for other writes. Default: no limit. (The last checkpoint, when the
    /// database is closed, has none.)
    #[must_use]
    pub fn checkpoint_bytes_per_second(mut self, bytes: NonZeroU64) -> Self {
        self.tuning.checkpoint.bytes_per_second = Some(bytes);
        self
    }

    /// Closing the database takes a checkpoint if at least `log_bytes` bytes of log were written
    /// since the last one: the next opening then replays no log. `None`: never. Default: 16 MiB,
    /// which take less time to replay than to write.
    #[must_use]
    pub fn checkpoint_at_close(mut self, log_bytes: Option<u64>) -> Self {
        self.tuning.checkpoint.closing_log_bytes = log_bytes;
        self
    }

    /// The most memory for versions that are kept for [views](crate::Database::view), in bytes:
    /// those that transactions have overwritten since the oldest view was opened, at most one for
    /// each key and view. Beyond it, the oldest views end with
    /// [`Error::ViewExpired`](crate::Error::ViewExpired); transactions are never delayed. Default:
    /// 1 GiB.
    #[must_use]
    pub fn view_bytes_max(mut self, bytes: u64) -> Self {
        self.tuning.view_bytes_max = bytes;
        self
    }

    /// The most memory that tables may take, in bytes, that were loaded into segments
    /// ([`Database::load_sorted`](crate::Database::load_sorted)) and take part in transactions: all
    /// of them together, as estimated from their rows when each is first opened. One that would
    /// take more stays in its segment: views and queries read it, and transactions get
    /// [`Error::TableTooLarge`](crate::Error::TableTooLarge). 0 keeps all tables in their segments
    /// that are there now. A table that was opened once stays in memory, also in later openings.
    /// Default: half of the memory that the machine has available when the database is opened, or
    /// of what the process's control group may have, if that is less.
    #[must_use]
    pub fn loaded_tables_bytes_max(mut self, bytes: u64) -> Self {
        self.tuning.loaded_tables_bytes_max = Some(bytes);
        self
    }

    /// The length of a stream's log buffer, which holds the commits between two flushes. A longer
    /// commit is flushed alone. Default: 256 KiB.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.tuning.buffer_bytes = bytes;
        self
    }

    /// The length of a log file, a multiple of 4096 bytes, with room for a log buffer
    /// ([`Builder::buffer_bytes`]) and 12 KiB. Default: 16 MiB.
    ///
    /// # Errors
    /// The opening fails with [`OpenError::Settings`](crate::OpenError::Settings) if it is not, and creates nothing.
    #[must_use]
    pub fn log_file_bytes(mut self, bytes: u64) -> Self {
        self.format.log_file_bytes = bytes;
        self
    }

    /// Puts all streams onto one device or preallocated file, at fixed offsets of `region_bytes`
    /// (`pwal` §5.7), instead of into files of their own. The length of a region is a multiple of 4096.
    ///
    /// A region is a ring buffer: log that an image contains is overwritten. A checkpoint is taken
    /// when half of one is used, unless [`Builder::checkpoint_log_bytes`] says that none is; from
    /// three quarters on, commits wait, and when one is full, they are refused with
    /// [`Error::DiskFull`](crate::Error::DiskFull) until a checkpoint has freed it. So a region
    /// should hold the log of a stream for several seconds, and at least four log buffers. A
    /// transaction takes less than half a region.
    ///
    /// A file that does not exist is created, **for the number of streams of this opening**
    /// ([`Builder::streams`], by default one for each processor), and does not grow: an opening
    /// with more streams is refused, with an error that says which length it needs
    /// ([`LogError::DeviceTooSmall`](crate::LogError::DeviceTooSmall)). To use more streams later,
    /// create the file at a first opening with that number, or make it longer beforehand.
    #[must_use]
    pub fn shared_device(mut self, path: impl Into<PathBuf>, region_bytes: u64) -> Self {
        self.format.shared_device = Some((path.into(), region_bytes));
        self
    }

    /// For tests: the thread that prepares the next log file: a separate one (the default), or that
    /// of the commit that needs it. The commit also does if the system allows no such thread.
    #[doc(hidden)]
    #[must_use]
    pub fn prepare(mut self, prepare: Prepare) -> Self {
        self.testing.prepare = prepare;
        self
    }

    /// How often a transaction is run before its conflicts are reported. Default: 10,000.
    #[must_use]
    pub fn attempts_max(mut self, attempts: NonZeroU32) -> Self {
        self.tuning.attempts_max = attempts.get();
        self
    }

    /// What a transaction does when it requests a lock that another one holds, under strict
    /// two-phase locking (`S2PL`). Default: it waits, and deadlocks are ruled out by age.
    #[must_use]
    pub fn wait_policy(mut self, policy: WaitPolicy) -> Self {
        self.tuning.waits.policy = policy;
        self
    }

    /// The longest that a transaction waits for one lock, under strict two-phase locking (`S2PL`),
    /// before it fails with [`Error::LockTimeout`](crate::Error::LockTimeout): the program may have
    /// leaked the transaction that holds the lock. Default: 10 s.
    #[must_use]
    pub fn lock_wait_max(mut self, wait: Duration) -> Self {
        self.tuning.waits.longest = wait;
        self
    }

    /// The size of the page cache for segments that queries read, in bytes. Default: 256 MiB. No
    /// memory is used before the first query, which reserves the whole address space.
    #[must_use]
    pub fn page_cache_bytes(mut self, bytes: usize) -> Self {
        self.tuning.page_cache_bytes = bytes;
        self
    }

    /// Whether the tables are loaded from the image before the opening returns. Default: no, they
    /// are loaded in the background: until then, [views](crate::Database::view) read them from the
    /// image, and transactions on a table wait until it is loaded. See
    /// [`Database::loading`](crate::Database::loading).
    ///
    /// With it, a damaged file of the image fails the opening. Without it, damage in the middle of
    /// a file is found later, and every use of that table fails with
    /// [`Error::TableNotLoaded`](crate::Error::TableNotLoaded).
    #[must_use]
    pub fn load_before_open(mut self, loads: bool) -> Self {
        self.tuning.recovery.loads_image = loads;
        self
    }

    /// How many threads recover, and load tables in the background. Default: one for each processor. Fewer where the system
    /// allows no more.
    #[must_use]
    pub fn recovery_threads(mut self, threads: NonZeroU16) -> Self {
        self.tuning.recovery.threads = usize::from(threads.get());
        self
    }

    /// For experiments: in which order logs are replayed.
    #[doc(hidden)]
    #[must_use]
    pub fn replay_order(mut self, order: ReplayOrder) -> Self {
        self.testing.replay_order = order;
        self
    }

    /// For tests: the length of an image's runs; those without changes are kept. Default: 32 MiB.
    #[doc(hidden)]
    #[must_use]
    pub fn image_run_bytes(mut self, bytes: u64) -> Self {
        self.tuning.checkpoint.run_bytes = bytes;
        self
    }

    /// For tests: called before each part of a table is loaded, with the table's name.
    #[doc(hidden)]
    #[must_use]
    pub fn before_load(mut self, before_load: BeforeLoad) -> Self {
        self.testing.before_load = Some(before_load);
        self
    }

    /// Called periodically while the database recovers, and not once it is open.
    #[must_use]
    pub fn on_progress(mut self, on_progress: OnProgress) -> Self {
        self.tuning.recovery.on_progress = Some(on_progress);
        self
    }

    /// Recovery ends with [`OpenError::Interrupted`](crate::OpenError::Interrupted) soon after this becomes true.
    #[must_use]
    pub fn interrupt(mut self, asked: Arc<AtomicBool>) -> Self {
        self.tuning.recovery.interrupt = Some(asked);
        self
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("protocol", &self.tuning.protocol)
            .finish_non_exhaustive()
    }
}
