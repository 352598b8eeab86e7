//! Getting a lock that somebody else may have, under strict two-phase locking.
//!
//! Before a transaction waits, its worker's group of commits is flushed, and if it is a group that has the lock,
//! that one is, too: nobody waits for a lock while others wait for a group that nobody flushes (the deadlock
//! rules of `tictoc-pwal` §3.2.2).
//!
//! Paper: pwal §5.4

use std::time::Instant;

use namiki_log::Stream;

use crate::engine::{Engine, GroupLocks, LockCounts};
use crate::error::{Conflict, Error};
use crate::lock::{Locked, Locks, Waited};
use crate::record::RecordRef;
use crate::spec::WaitPolicy;

/// How often a lock is tried again before the transaction goes to sleep: most are held for a moment only.
const SPINS: u32 = 128;

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
    record: RecordRef,
    wanted: Locked,
) -> Result<(), Error> {
    match locks.try_acquire(record, wanted) {
        true => Ok(()),
        false => acquire_slowly(engine, stream, locks, record, wanted),
    }
}

#[cold]
fn acquire_slowly(
    engine: &Engine,
    stream: Option<&Stream<GroupLocks>>,
    locks: &mut Locks,
    record: RecordRef,
    wanted: Locked,
) -> Result<(), Error> {
    for _ in 0..SPINS {
        if locks.try_acquire(record, wanted) {
            return Ok(());
        }
        if Locks::group_on(record).is_some() {
            break;
        }
        std::hint::spin_loop();
    }
    if let Some(stream) = stream
        && stream.has_pending()
    {
        stream.flush().map_err(Error::LogFailed)?;
        if locks.try_acquire(record, wanted) {
            return Ok(());
        }
    }
    if engine.waits.policy == WaitPolicy::NoWait {
        return Err(Error::Conflict(match wanted.has(Locked::EXCLUSIVE) {
            true => Conflict::WriteLocked,
            false => Conflict::ReadLocked,
        }));
    }
    let longest = engine.waits.longest;
    loop {
        let may_go_on = || engine.check_open().is_ok();
        let began = Instant::now();
        let waited = locks.wait(record, wanted, longest, may_go_on);
        let counts = &engine.lock_counts;
        if !matches!(waited, Waited::HeldByGroup(_)) {
            LockCounts::add(&counts.waits, 1);
            LockCounts::add(&counts.waited_ns, began.elapsed().as_nanos() as u64);
        }
        match waited {
            Waited::Acquired => return Ok(()),
            Waited::HeldByGroup(worker) => {
                LockCounts::add(&counts.group_waits, 1);
                if let Some(log) = &engine.log {
                    log.stream(worker).flush().map_err(Error::LogFailed)?;
                }
                if locks.try_acquire(record, wanted) {
                    return Ok(());
                }
            }
            Waited::Wounded => {
                LockCounts::add(&counts.wounds, 1);
                return Err(Error::Conflict(Conflict::Wounded));
            }
            Waited::TimedOut => {
                LockCounts::add(&counts.timeouts, 1);
                return Err(Error::LockTimeout {
                    waited_ms: longest.as_millis() as u64,
                });
            }
            Waited::Stopped => engine.check_open()?,
        }
    }
}
