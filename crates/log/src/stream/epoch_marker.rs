//! Hardening epochs, and the frame without records that certifies one.

use namiki_platform::Epoch;

use super::Stream;
use crate::config::GroupResource;
use crate::error::LogError;
use crate::horizon::epoch_horizon::EpochHorizon;
use crate::log_target::log_room::Grant;

impl<H: GroupResource> Stream<H> {
    /// The epoch that a frame closes which is sealed now. Under the stream's lock.
    pub(super) fn close_epoch(&self) -> Epoch {
        let epochs = self.shared.epochs.as_ref();
        epochs.map_or(Epoch(0), |epochs| epochs.seals(self.index))
    }

    /// Hardens what the stream holds of `epoch` and before, in which no commit is registered any
    /// more. The caller wakes tasks.
    pub(crate) fn harden_epoch(&self, epoch: Epoch) -> Result<(), LogError> {
        let state = self.state.lock();
        let through = if state.buffers.filling().epoch_min <= epoch.0 {
            state.appended
        } else {
            state.batches.under_way().unwrap_or(0)
        };
        self.harden_through(state, through)
    }

    /// Writes a frame, without records if need be, so that `epoch` is certified; everything of that
    /// epoch and of those before is hardened in all streams. Does nothing if it becomes certified
    /// first. The caller wakes tasks.
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::Closed`]; [`LogError::RegionFull`] and
    /// [`LogError::DiskFull`], after which another stream may have room.
    pub(crate) fn write_epoch_marker(
        &self,
        epochs: &EpochHorizon,
        epoch: Epoch,
    ) -> Result<(), LogError> {
        let mut state = self.state.lock();
        loop {
            if epochs.certifies(epoch) {
                return Ok(());
            }
            self.check_poison()?;
            if state.ended {
                return Err(LogError::Closed);
            }
            if state.has_turn {
                state = self.prepared.wait(state);
                continue;
            }
            let end = state.buffers.filling().used;
            state = match state.batches.under_way() {
                Some(through) => self.join(state, through)?,
                None if state.target.fits(end, Grant::Deletions) => self.lead(state)?,
                None => self.make_room(state, end)?,
            };
        }
    }
}
