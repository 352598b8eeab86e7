//! Lock acquisition under strict two-phase locking: spin, flush the group, then wait.
//!
//! Before a transaction waits, its worker's group of commits is flushed, and if a group has the lock, that one is,
//! too: no transaction waits for a lock while others wait for a group without a flush (the deadlock rules of
//! `tictoc-pwal` §3.2.2).
//!
//! Paper: pwal §5.4

use std::time::Instant;

use namiki_log::Stream;
use namiki_platform::WorkerId;

use crate::commit::engine::{Engine, GroupLocks, LockCounts};
use crate::concurrency::contention::policy::LOCK_SPINS;
use crate::concurrency::contention::wait_age::WaitAge;
use crate::concurrency::lock::{LockMode, LockWaitList, Locks, WaitContext, WaitOutcome};
use crate::error::{Conflict, Error};
use crate::protocol_spec::WaitPolicy;
use crate::storage::record::RecordRef;

/// Takes a lock, waiting for it as the database's policy says.
///
/// # Errors
/// [`Error::Conflict`]; [`Error::LockTimeout`]; those of a log that failed, and [`Error::Closed`]. The transaction
/// cannot commit then.
#[inline]
pub(crate) fn acquire(
    engine: &Engine,
    stream: Option<&Stream<GroupLocks>>,
    locks: &mut Locks,
    wait_age: &mut WaitAge,
    record: RecordRef,
    wanted: LockMode,
) -> Result<(), Error> {
    if locks.try_acquire(record, wanted) {
        Ok(())
    } else {
        acquire_slowly(engine, stream, locks, wait_age, record, wanted)
    }
}

#[cold]
fn acquire_slowly(
    engine: &Engine,
    stream: Option<&Stream<GroupLocks>>,
    locks: &mut Locks,
    wait_age: &mut WaitAge,
    record: RecordRef,
    wanted: LockMode,
) -> Result<(), Error> {
    for _ in 0..LOCK_SPINS {
        if locks.try_acquire(record, wanted) {
            return Ok(());
        }
        if Locks::group_on(record).is_some() {
            break;
        }
        std::hint::spin_loop();
    }
    if let Some(stream) = stream
        && engine.groups_hold_locks()
        && stream.has_pending()
        && stream.may_hold()
    {
        stream.flush().map_err(Error::LogFailed)?;
        if locks.try_acquire(record, wanted) {
            return Ok(());
        }
    }
    if engine.waits.policy == WaitPolicy::NoWait {
        return Err(Error::Conflict(if wanted.has(LockMode::EXCLUSIVE) {
            Conflict::WriteLocked
        } else {
            Conflict::ReadLocked
        }));
    }
    let longest = engine.waits.longest;
    let counts = &engine.lock_counts;
    let began = Instant::now();
    let waited = locks.wait(record, wanted, wait_age, longest, engine);
    counts.waited(began.elapsed());
    match waited {
        WaitOutcome::Acquired => Ok(()),
        WaitOutcome::Wounded => {
            LockCounts::add(&counts.wounds, 1);
            engine.admission.note_wound();
            Err(Error::Conflict(Conflict::Wounded))
        }
        WaitOutcome::TimedOut => {
            LockCounts::add(&counts.timeouts, 1);
            Err(Error::LockTimeout {
                waited_ms: longest.as_millis() as u64,
            })
        }
        WaitOutcome::Stopped => Err(engine.check_open().err().unwrap_or(Error::Closed)),
    }
}

impl WaitContext for Engine {
    fn lock_wait_list(&self) -> &LockWaitList {
        &self.lock_wait_list
    }

    fn may_go_on(&self) -> bool {
        self.check_open().is_ok()
    }

    fn promoted(&self) {
        LockCounts::add(&self.lock_counts.promotions, 1);
    }

    fn flush(&self, stream: WorkerId) {
        if let Some(log) = &self.log {
            LockCounts::add(&self.lock_counts.group_waits, 1);
            // A failure poisons the log, which `may_go_on` sees.
            let _ = log.stream(stream).flush();
            // If the group has the lock before its commit is in the buffer, there was nothing to flush yet.
            std::thread::yield_now();
        }
    }
}
