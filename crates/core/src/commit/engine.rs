//! The engine: the state that all transactions of an open database share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use namiki_data::AddError;
use namiki_log::{EpochSource, GroupResource, Log};
use namiki_platform::sync::sleep;
use namiki_platform::{Epoch, Lsn, ProcessToken, Stamp, WorkerId};
use parking_lot::{Mutex, RwLock};

use crate::commit::drops::Drops;
use crate::commit::epoch::Epochs;
use crate::commit::late_changes::{ChangeRefused, LateError};
use crate::commit::latency::Latencies;
use crate::commit::live_operations::LiveOperations;
use crate::commit::removal_pause::RemovalPauses;
use crate::commit::removed_keys::RemovedKeys;
use crate::commit::room_requests::RoomRequests;
use crate::commit::views::Views;
use crate::concurrency::cc::CcProtocol;
use crate::concurrency::contention::admission::AdmissionControl;
use crate::concurrency::contention::priority::PriorityToken;
use crate::concurrency::contention::task_timer::TaskTimer;
use crate::concurrency::lock::LockWaitList;
use crate::error::{Conflict, Error};
use crate::events;
use crate::protocol_spec::{LockRelease, ProtocolSpec, WaitPolicy};
use crate::storage::free_large_buffers::{LARGE_BYTES, free_if_large};
use crate::storage::record::{RecordRef, VALUE_BYTES_MAX};
use crate::table::raw_table::{Owner, RawTable, TableId};
use crate::wal_format::encoding_primitives::RecordFormat;

/// Between two looks whether the last commit of an epoch is through: it may be waiting for the device.
const POLL: Duration = Duration::from_micros(100);
/// The number of polls without a pause before that.
const YIELDS: u32 = 64;

/// The locks that a group of commits holds until its flush, under normal lock release: each record
/// with the stamp of its new version.
#[derive(Default)]
pub(crate) struct GroupLocks {
    locked: Vec<(RecordRef, Stamp)>,
    /// `None` before the first lock.
    release: Option<GroupRelease>,
}

/// How a group publishes versions and releases their locks.
struct GroupRelease {
    publish: fn(&mut Vec<(RecordRef, Stamp)>, &LockWaitList),
    lock_wait_list: Arc<LockWaitList>,
}

impl GroupLocks {
    /// Takes a lock over from a commit. All commits of a group are of one database, and so of one protocol.
    pub(crate) fn hold<P: CcProtocol>(
        &mut self,
        record: RecordRef,
        stamp: Stamp,
        waiters: &Arc<LockWaitList>,
    ) {
        self.locked.push((record, stamp));
        self.release.get_or_insert_with(|| GroupRelease {
            publish: publish_all::<P>,
            lock_wait_list: Arc::clone(waiters),
        });
    }
}

fn publish_all<P: CcProtocol>(locked: &mut Vec<(RecordRef, Stamp)>, waiters: &LockWaitList) {
    for (record, stamp) in locked.drain(..) {
        publish::<P>(record, stamp, waiters);
    }
    free_if_large(locked, LARGE_BYTES);
}

/// Publishes a version and releases its lock.
#[inline]
pub(crate) fn publish<P: CcProtocol>(record: RecordRef, stamp: Stamp, waiters: &LockWaitList) {
    if P::publish(record, stamp) {
        waiters.wake(record);
    }
}

impl GroupResource for GroupLocks {
    fn release(&mut self) {
        if let Some(release) = &self.release {
            (release.publish)(&mut self.locked, &release.lock_wait_list);
        }
    }

    fn is_empty(&self) -> bool {
        self.locked.is_empty()
    }
}

/// The policy of lock waits, where reads are locked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) policy: WaitPolicy,
    pub(crate) longest: Duration,
}

/// The transaction settings of a database.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) spec: ProtocolSpec,
    pub(crate) format: RecordFormat,
    pub(crate) attempts_max: u32,
    pub(crate) waits: Waits,
    /// Whether a commit that writes fails.
    pub(crate) read_only: bool,
    /// In replica mode: the stamp through which the tables were recovered.
    pub(crate) replica_through: Option<Stamp>,
    /// The most memory for versions that views may still see.
    pub(crate) view_bytes_max: u64,
}

/// The outcomes of lock waits, see [`LockCounters`]. Counted by waiters, so all may share it.
#[derive(Default)]
pub(crate) struct LockCounts {
    waits: AtomicU64,
    pub(crate) group_waits: AtomicU64,
    pub(crate) wounds: AtomicU64,
    pub(crate) promotions: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    waited_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl LockCounts {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts the time of a wait, whatever its outcome.
    pub(crate) fn waited(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self::add(&self.waits, 1);
        Self::add(&self.waited_ns, ns);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    fn get(&self, admission_waits: u64) -> LockCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LockCounters {
            waits: get(&self.waits),
            group_waits: get(&self.group_waits),
            wounds: get(&self.wounds),
            promotions: get(&self.promotions),
            timeouts: get(&self.timeouts),
            admission_waits,
            waited_ns: get(&self.waited_ns),
            longest_ns: get(&self.longest_ns),
        }
    }
}

/// Statistics of lock waits under strict two-phase locking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounters {
    /// How often a transaction parked because another one held a requested lock.
    pub waits: u64,
    /// How often one waited for the flush of a group of commits that held it.
    pub group_waits: u64,
    /// How often one was wounded by an older one.
    pub wounds: u64,
    /// How often one was boosted above all others, after a wait of ten milliseconds.
    pub promotions: u64,
    /// How often a wait timed out.
    pub timeouts: u64,
    /// Admission control: how often one waited before its first lock, because transactions had been
    /// wounded and as many as there are processors held locks.
    pub admission_waits: u64,
    /// The time of all waits.
    pub waited_ns: u64,
    /// The time of the longest.
    pub longest_ns: u64,
}

/// The state that all transactions of an open database share.
pub(crate) struct Engine {
    /// The process that has the database open.
    process: ProcessToken,
    pub(crate) spec: ProtocolSpec,
    pub(crate) owner: Owner,
    pub(crate) format: RecordFormat,
    /// The log asks them, too, under release by epochs.
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) log: Option<Arc<Log<GroupLocks>>>,
    pub(crate) attempts_max: u32,
    pub(crate) waits: Waits,
    /// Whether a commit that writes fails.
    pub(crate) read_only: bool,
    /// In replica mode, where no transaction runs: the stamp through which groups are installed. Locked for writing while
    /// one is, and for reading while a view is pinned (`replica/mod.rs`).
    pub(crate) installed: Option<RwLock<Stamp>>,
    pub(crate) lock_counts: CachePadded<LockCounts>,
    /// Shared with the groups of commits, which wake waiters when they release their locks.
    pub(crate) lock_wait_list: Arc<LockWaitList>,
    pub(crate) admission: Arc<AdmissionControl>,
    pub(crate) priority: PriorityToken,
    /// All tables that were not dropped. They are kept here so that they outlive the users of the
    /// engine: transactions, and the log's groups, which `log` above drops first (record.rs, R1).
    pub(crate) raw_tables: Mutex<BTreeMap<TableId, Arc<RawTable>>>,
    pub(crate) drops: Drops,
    pub(crate) views: Views,
    /// The deleted keys that are to be taken out of the indexes.
    pub(crate) removed_keys: RemovedKeys,
    /// Held transactions, while which they are not taken out in the background.
    pub(crate) removal_pauses: RemovalPauses,
    /// Where operations are logged: the transactions that have logged some.
    pub(crate) live_operations: LiveOperations,
    pub(crate) task_timer: TaskTimer,
    pub(crate) latencies: Latencies,
    /// Commits that were refused because the disk is full.
    pub(crate) room_requests: RoomRequests,
    /// The delay of each commit, in milliseconds, because a region of a shared device is nearly
    /// full.
    slowed_ms: AtomicU32,
    log_failure_told: Once,
    closed: AtomicBool,
}

impl Engine {
    pub(crate) fn new(
        settings: Settings,
        owner: Owner,
        epochs: Arc<Epochs>,
        log: Option<Arc<Log<GroupLocks>>>,
        raw_tables: BTreeMap<TableId, Arc<RawTable>>,
    ) -> Self {
        let Settings {
            spec,
            format,
            attempts_max,
            waits,
            read_only,
            replica_through,
            view_bytes_max,
        } = settings;
        Self {
            process: ProcessToken::current(),
            spec,
            owner,
            format,
            epochs,
            log,
            attempts_max,
            waits,
            read_only,
            installed: replica_through.map(RwLock::new),
            lock_counts: CachePadded::default(),
            lock_wait_list: Arc::default(),
            admission: Arc::new(AdmissionControl::new()),
            priority: PriorityToken::new(),
            raw_tables: Mutex::new(raw_tables),
            drops: Drops::new(),
            views: Views::new(view_bytes_max),
            removed_keys: RemovedKeys::new(),
            removal_pauses: RemovalPauses::new(),
            live_operations: LiveOperations::default(),
            task_timer: TaskTimer::default(),
            latencies: Latencies::new(),
            room_requests: RoomRequests::default(),
            slowed_ms: AtomicU32::new(0),
            log_failure_told: Once::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether transactions can run: not when the database is closed, and not when its log has
    /// failed, because what they would read may not survive.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.check_usable()?;
        self.check_poison()
    }

    /// Whether views can be read: they show only durable versions, so a failed log does not matter.
    #[inline]
    pub(crate) fn check_usable(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            self.check_process()
        }
    }

    /// Whether a table is one of this opening's, and not dropped.
    #[inline]
    pub(crate) fn check_table(&self, raw_table: &RawTable) -> Result<(), Error> {
        if raw_table.owner == self.owner && !raw_table.is_dropped() {
            Ok(())
        } else {
            Err(self.not_usable(raw_table))
        }
    }

    #[cold]
    fn not_usable(&self, raw_table: &RawTable) -> Error {
        let table = raw_table.name();
        if raw_table.owner == self.owner {
            Error::TableDropped { table }
        } else {
            Error::ForeignTable { table }
        }
    }

    /// False in a forked child of the process that has the database open.
    pub(crate) fn is_own(&self) -> bool {
        self.process.is_current()
    }

    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.is_own() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    pub(crate) fn lock_counters(&self) -> LockCounters {
        self.lock_counts.get(self.admission.admission_waits())
    }

    /// The longest value that the log of a worker, or a record, can hold.
    pub(crate) fn value_bytes_max(&self, worker: WorkerId) -> usize {
        let log = self.log.as_ref();
        let of_log = log.map(|log| log.stream(worker).payload_bytes_max());
        of_log.unwrap_or(usize::MAX).min(VALUE_BYTES_MAX)
    }

    /// Whether groups of commits hold locks until they are durable.
    pub(crate) fn groups_hold_locks(&self) -> bool {
        self.spec.release == LockRelease::Normal
    }

    #[inline]
    pub(crate) fn check_poison(&self) -> Result<(), Error> {
        match self.log.as_ref().and_then(|log| log.poisoned()) {
            Some(error) => {
                self.log_failure_told
                    .call_once(|| events::log_failed(&error));
                Err(Error::LogFailed(error))
            }
            None => Ok(()),
        }
    }

    /// Yields to the holder of the requested locks. A group that is flushed asynchronously keeps
    /// its locks after the write until its flush is completed, which this does.
    ///
    /// # Errors
    /// The error of a failed log: locks may be held for ever then.
    pub(crate) fn yield_to_locks(&self) -> Result<(), Error> {
        if let Some(log) = &self.log
            && self.groups_hold_locks()
        {
            log.poll();
        }
        std::thread::yield_now();
        self.check_poison()
    }

    /// A late change of a value of this table could not be made.
    #[cold]
    pub(crate) fn not_evaluated(&self, table: TableId, error: LateError) -> Error {
        let raw_table = self.raw_tables.lock().get(&table).cloned();
        let (table, expected) = raw_table.map_or_else(
            || {
                (
                    format!("{}, which was dropped", table.0),
                    "its values".to_owned(),
                )
            },
            |raw_table| (raw_table.name(), raw_table.value_type.clone()),
        );
        match error {
            LateError::Add(AddError::Overflow) => Error::Overflow { table, expected },
            LateError::Add(AddError::Undecodable(len_bytes)) => Error::Undecodable {
                table,
                expected,
                len_bytes: len_bytes as usize,
            },
            LateError::Refused(ChangeRefused(code)) => Error::ChangeRefused { table, code },
            LateError::Absent => Error::Conflict(Conflict::ReadChanged),
            LateError::TooLong {
                len_bytes,
                max_bytes,
            } => Error::ValueTooLong {
                table,
                len_bytes,
                max_bytes,
            },
        }
    }

    /// Where operations are logged: the LSN below which the log has no operation of a transaction that has not ended. For
    /// a checkpoint, which asks for it *before* it closes the epoch that its stamp comes from, and recycles nothing at or
    /// above it. A transaction that has ended by then is registered in that epoch or in one before, so the image has it;
    /// any other is in the log from its beginning.
    pub(crate) fn oldest_operation(&self) -> Option<Lsn> {
        // First (live_operations.rs, V2).
        let next = self.next_operation()?;
        Some(self.live_operations.oldest(next))
    }

    /// Where operations are logged: the LSN of the oldest transaction that has logged any and has not ended, if there is
    /// one.
    pub(crate) fn live_operation(&self) -> Option<Lsn> {
        let next = self.next_operation()?;
        Some(self.live_operations.oldest(next)).filter(|oldest| *oldest < next)
    }

    fn next_operation(&self) -> Option<Lsn> {
        if !self.spec.logs_operations() {
            return None;
        }
        Some(self.log.as_ref()?.last_drawn().next())
    }

    /// Throttling: delays each commit that writes before it takes locks, or each transaction where
    /// reads take locks.
    pub(crate) fn slow_down(&self, milliseconds: u32) {
        self.slowed_ms.store(milliseconds, Ordering::Relaxed);
    }

    /// Waits for the throttling delay, if any. The caller must hold no locks.
    #[inline]
    pub(crate) fn wait_while_slowed(&self) {
        let milliseconds = self.slowed_ms.load(Ordering::Relaxed);
        if milliseconds > 0 {
            std::thread::sleep(Duration::from_millis(milliseconds.into()));
        }
    }

    /// Waits until no commit of an epoch that is closed runs any more.
    ///
    /// # Errors
    /// That of the log: a commit that has met a failed log may have panicked, and never end.
    pub(crate) fn wait_until_finished(&self, epoch: Epoch) -> Result<(), Error> {
        let mut looks = 0;
        while self.epochs.finished() < epoch {
            self.check_poison()?;
            if looks < YIELDS {
                std::thread::yield_now();
            } else {
                sleep(POLL);
            }
            looks += 1;
        }
        Ok(())
    }

    /// From now on, no transaction begins.
    pub(crate) fn shut(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::thread;
    use namiki_platform::WorkerId;
    use namiki_platform::model_checker::explore;

    use super::*;
    use crate::concurrency::cc::TwoPhase;
    use crate::concurrency::contention::wait_age::WaitAge;
    use crate::concurrency::lock::{LockMode, Locks, WaitContext, WaitOutcome};
    use crate::storage::arena::Arena;

    struct Context(Arc<LockWaitList>);

    impl WaitContext for Context {
        fn lock_wait_list(&self) -> &LockWaitList {
            &self.0
        }

        fn may_go_on(&self) -> bool {
            true
        }

        fn flush(&self, _: WorkerId) {
            unreachable!("the record does not say that a group has it");
        }
    }

    /// No wait ends by a timeout here: a waiter that a group's release does not wake hangs.
    #[test]
    fn a_groups_release_wakes_the_waiter_for_its_lock() {
        explore(3, || {
            let arena = Arena::default();
            let record = arena.record(8, 0);
            let waiters = Arc::new(LockWaitList::default());
            assert!(Locks::default().try_acquire(record, LockMode::EXCLUSIVE));
            let waiter = {
                let context = Context(Arc::clone(&waiters));
                thread::spawn(move || {
                    let mut locks = Locks::default();
                    if !locks.try_acquire(record, LockMode::EXCLUSIVE) {
                        let (mut age, longest) = (WaitAge::default(), Duration::MAX);
                        let waited =
                            locks.wait(record, LockMode::EXCLUSIVE, &mut age, longest, &context);
                        assert_eq!(waited, WaitOutcome::Acquired);
                    }
                    locks.release_all(&context.0);
                })
            };
            let mut group = GroupLocks::default();
            group.hold::<TwoPhase>(record, Stamp(1), &waiters);
            group.release();
            waiter.join().unwrap();
            assert!(group.is_empty());
        });
    }
}
