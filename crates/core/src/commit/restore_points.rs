//! Writes restore points to the log: the last stamp at a time.
//!
//! The time is read before the current epoch is closed, and the point's stamp is the last of that
//! epoch. So every commit that was acknowledged by that time is in the state, and none that begins
//! after the point is. No commit waits for a point: after a crash, a lost point does not exist, and
//! a surviving one is a boundary between the commits that survive.

use std::time::{SystemTime, UNIX_EPOCH};

use namiki_log::{Entry, EpochSource, Log};
use namiki_platform::{Epoch, Stamp, WorkerId};

use crate::commit::commit_path::not_appended;
use crate::commit::engine::{Engine, GroupLocks};
use crate::error::Error;
use crate::protocol_spec::LockRelease;
use crate::wal_format::restore_point::{RESTORE_POINT_BYTES, RestorePoint};

/// Writes a point for the present state to the log, durably. `None` if no slot is left for one more
/// committer.
///
/// # Errors
/// Those of a commit: the point may exist then.
pub(crate) fn mark_restore_point(
    engine: &Engine,
    log: &Log<GroupLocks>,
) -> Result<Option<RestorePoint>, Error> {
    engine.check_open()?;
    let Some(slot) = engine.epochs.acquire() else {
        return Ok(None);
    };
    let marked = last_stamp(engine).and_then(|point| {
        let stream = log.stream(WorkerId(0));
        let (epoch, stamp) = engine.epochs.register(slot, |floor| floor);
        let entry = match engine.spec.release {
            // It is of an epoch, as a commit is.
            LockRelease::EpochEarly => Entry::Commit,
            LockRelease::Normal | LockRelease::Early => Entry::Part,
        };
        let encode = |into: &mut [u8], _| point.encode(into);
        let appended = stream.append(entry, stamp, epoch, RESTORE_POINT_BYTES, encode, |_| {});
        engine.epochs.deregister(slot);
        let _flushed_below = appended.map_err(not_appended)?;
        stream.flush().map_err(Error::LogFailed)?;
        Ok(Some(point))
    });
    engine.epochs.release(slot);
    marked
}

/// Closes the current epoch, and waits until all of it has got its stamps.
fn last_stamp(engine: &Engine) -> Result<RestorePoint, Error> {
    loop {
        let time_ms = now_ms();
        let epoch: Epoch = engine.epochs.current();
        engine.epochs.close(epoch);
        engine.wait_until_finished(epoch)?;
        // Forgotten if this thread was delayed for a thousand epochs.
        if let Some(floor) = engine.epochs.known_floor_after(epoch) {
            return Ok(RestorePoint {
                stamp: Stamp(floor.0 - 1),
                time_ms,
                epoch,
            });
        }
    }
}

/// The time of the computer's clock: milliseconds since 1970 began.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
