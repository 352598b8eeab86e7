//! The counters of an open database.

use namiki_log::LogCounters;
use namiki_platform::Epoch;

use crate::api::database::Database;
use crate::commit::engine::LockCounters;
use crate::commit::epoch::Count;

/// The number of attempts that ended in each kind of [`Conflict`](crate::Conflict).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConflictCounters {
    /// [`Conflict::WriteLocked`](crate::Conflict::WriteLocked).
    pub write_locked: u64,
    /// [`Conflict::ReadLocked`](crate::Conflict::ReadLocked).
    pub read_locked: u64,
    /// [`Conflict::ReadChanged`](crate::Conflict::ReadChanged).
    pub read_changed: u64,
    /// [`Conflict::Wounded`](crate::Conflict::Wounded).
    pub wounded: u64,
    /// [`Conflict::Phantom`](crate::Conflict::Phantom).
    pub phantom: u64,
}

impl ConflictCounters {
    /// Attempts that ended in any conflict.
    #[must_use]
    pub fn all(&self) -> u64 {
        let Self {
            write_locked,
            read_locked,
            read_changed,
            wounded,
            phantom,
        } = self;
        write_locked + read_locked + read_changed + wounded + phantom
    }
}

/// Counters of an open database, see [`Database::counters`](crate::Database::counters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commits that wrote.
    pub committed: u64,
    /// Bytes of the keys and values that these have changed; 0 without a log.
    pub changed_bytes: u64,
    /// Commits that only read.
    pub read_only: u64,
    /// Attempts that ended in a conflict.
    pub conflicts: u64,
    /// The same, by kind.
    pub conflicts_by_kind: ConflictCounters,
    /// Rounds in which a commit could not lock all that it writes: it released its locks, and tried
    /// again or met [`Conflict::WriteLocked`](crate::Conflict::WriteLocked). An algorithm that
    /// aborts on a failed lock would have this number of aborts. 0 where reads are locked: there,
    /// see `locks`.
    pub failed_locks: u64,
    /// The log's own counters; all zero without a log.
    pub log: LogCounters,
    /// Waits for locks; all zero unless reads are locked.
    pub locks: LockCounters,
    /// The current epoch.
    pub epoch: Epoch,
}

impl Database {
    /// The counts since the database was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let engine = &self.shared.engine;
        let conflicts_by_kind = ConflictCounters {
            write_locked: engine.epochs.counted(Count::WriteLocked),
            read_locked: engine.epochs.counted(Count::ReadLocked),
            read_changed: engine.epochs.counted(Count::ReadChanged),
            wounded: engine.epochs.counted(Count::Wounded),
            phantom: engine.epochs.counted(Count::Phantom),
        };
        Counters {
            committed: engine.epochs.counted(Count::Committed),
            changed_bytes: engine.epochs.counted(Count::ChangedBytes),
            read_only: engine.epochs.counted(Count::ReadOnly),
            conflicts: conflicts_by_kind.all(),
            conflicts_by_kind,
            failed_locks: engine.epochs.counted(Count::FailedLock),
            // In a forked child, a stream's lock may be held by a thread that does not exist there.
            log: (engine.log.as_ref().filter(|_| engine.is_own()))
                .map(|log| log.counters())
                .unwrap_or_default(),
            locks: engine.lock_counters(),
            epoch: engine.epochs.current(),
        }
    }
}
