//! How a view comes to its stamp, and when it may be used.

use std::sync::Arc;
use std::time::Duration;

use namiki_log::EpochSource;
use namiki_platform::Stamp;

use super::ViewState;
use crate::commit::commit_path::Awaits;
use crate::commit::engine::Engine;
use crate::commit::ticket::{self, Ticket};
use crate::error::Error;
use crate::protocol_spec::LockRelease;
use crate::sync::sleep;

/// Between two looks whether the last commit is through: it may be waiting for the device.
const POLL: Duration = Duration::from_micros(100);
/// So many looks come before, without a pause.
const YIELDS: u32 = 64;

/// Opens a view that includes every commit that was acknowledged before, and shows nothing that is not durable.
///
/// # Errors
/// [`Error::Closed`], [`Error::Forked`], [`Error::LogFailed`].
pub(crate) fn open(engine: &Engine) -> Result<(Arc<ViewState>, Stamp), Error> {
    engine.check_open()?;
    loop {
        let view = engine.views.pin(&engine.epochs);
        match make_usable(engine, &view) {
            Ok(Some(stamp)) => return Ok((view, stamp)),
            Ok(None) => engine.views.end(&view, &engine.epochs),
            Err(error) => {
                engine.views.end(&view, &engine.epochs);
                return Err(error);
            }
        }
    }
}

/// Waits until what is below the view is finished and durable. Nothing if its epoch is so long ago that its floor is
/// forgotten.
fn make_usable(engine: &Engine, view: &ViewState) -> Result<Option<Stamp>, Error> {
    engine.epochs.close(view.epoch);
    let mut looks = 0;
    while engine.epochs.finished() < view.epoch {
        // A commit that has met a failed log may have panicked, and never end.
        engine.check_open()?;
        match looks < YIELDS {
            true => std::thread::yield_now(),
            false => sleep(POLL),
        }
        looks += 1;
    }
    let Some(stamp) = view.known_stamp(&engine.epochs) else {
        return Ok(None);
    };
    let Some(log) = &engine.log else {
        return Ok(Some(stamp));
    };
    // Commits append before they deregister.
    let awaits = match engine.spec.release {
        LockRelease::Normal => {
            log.flush_all().map_err(ticket::not_acknowledged)?;
            Awaits::Nothing
        }
        // Not what is at or below the stamp alone: a commit above it may have drawn a smaller LSN.
        LockRelease::Early => Awaits::Prefix(None, log.last_drawn()),
        // Certified, not flushed: a stream that is idle writes nothing, and recovery would cut off what was shown.
        LockRelease::EpochEarly => Awaits::Epoch(None, view.epoch),
    };
    let ticket = Ticket {
        owner: engine.owner,
        stamp,
        awaits,
    };
    ticket::wait(engine, &ticket)?;
    Ok(Some(stamp))
}
