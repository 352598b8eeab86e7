//! Certifying an epoch: by a waiter, or by the flusher for tasks and polls.
//!
//! One thread at a time leads; the others wait for it, check again, and the next takes over. So
//! there is one epoch marker for an epoch, however many wait for it, and none where nothing was
//! committed since the last. The thread that closes the log leads until that is done: another
//! waiter for an epoch, such as a transaction that has only read, finds the log closed, or
//! poisoned; it never finds a stream that refuses its marker.

use namiki_platform::Epoch;
use namiki_platform::sync::pause;

use crate::config::GroupResource;
use crate::error::LogError;
use crate::horizon::epoch_horizon::EpochHorizon;
use crate::streams::Streams;

impl<H: GroupResource> Streams<H> {
    /// Returns when commits of `epoch` may be acknowledged. An epoch marker that is needed goes to
    /// the stream `home` if there is room for it.
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::Closed`]; [`LogError::RegionFull`],
    /// [`LogError::DiskFull`] or [`LogError::NotPrepared`] if no stream has a place for a marker.
    pub(crate) fn certify(
        &self,
        epochs: &EpochHorizon,
        epoch: Epoch,
        home: usize,
    ) -> Result<(), LogError> {
        loop {
            if epochs.source.finished() >= epoch {
                let _wake = WakeOnDrop(self);
                // Each waiter by itself: each flush that is waited for wakes all of them.
                self.harden_epoch(epochs, epoch)?;
            }
            if epochs.certifies(epoch) {
                return Ok(());
            }
            self.shared.poison.check()?;
            // Dropped when this one no longer leads.
            let _wake = WakeOnDrop(self);
            if let Some(_leading) = epochs.lead() {
                epochs.source.close(epoch);
                self.certify_closed(epochs, epoch, home)?;
            }
        }
    }

    /// The same for an epoch that is closed, by the leader.
    fn certify_closed(
        &self,
        epochs: &EpochHorizon,
        epoch: Epoch,
        home: usize,
    ) -> Result<(), LogError> {
        let mut round = 0;
        while epochs.source.finished() < epoch {
            // A registered commit has not been appended yet; that may take a flush, but none of
            // ours.
            if epochs.certifies(epoch) {
                return Ok(());
            }
            self.shared.poison.check()?;
            pause(round);
            round += 1;
        }
        self.harden_epoch(epochs, epoch)?;
        if epochs.certifies_nothing(epoch) {
            return Ok(());
        }
        let mut full = Ok(());
        for at in 0..self.list.len() {
            let written =
                self.list[(home + at) % self.list.len()].write_epoch_marker(epochs, epoch);
            match written {
                Err(error) if error.is_refusal() => full = Err(error),
                written => return written,
            }
        }
        full
    }

    /// Refuses further commits, hardens all that were accepted, and sees to it that nothing is
    /// being written.
    ///
    /// # Errors
    /// The error that poisoned the log.
    pub(crate) fn close(&self) -> Result<(), LogError> {
        // Dropped when this one no longer leads.
        let _wake = WakeOnDrop(self);
        let epochs = self.shared.epochs.as_ref();
        let leading = epochs.map(|epochs| {
            self.list.iter().for_each(|stream| stream.refuse());
            loop {
                if let Some(leading) = epochs.lead() {
                    break leading;
                }
            }
        });
        let mut result = epochs.map_or(Ok(()), |epochs| self.certify_the_rest(epochs));
        for stream in &self.list {
            result = result.and(stream.close());
        }
        if let (Ok(()), Some(epochs)) = (&result, epochs) {
            epochs.end();
        }
        drop(leading);
        result
    }

    /// Certifies the epochs of commits that were accepted, by the leader: what is acknowledged
    /// after this has to survive although the seal may never be written.
    fn certify_the_rest(&self, epochs: &EpochHorizon) -> Result<(), LogError> {
        let Some(last) = epochs.uncertified() else {
            return Ok(());
        };
        epochs.source.close(last);
        // Without room for it, no waiter can be acknowledged any more: as if the device had failed.
        let certified = self.certify_closed(epochs, last, 0);
        certified.map_err(|error| self.shared.poison.set(error))
    }

    /// Hardens whatever the streams hold of `epoch` and before, in which no commit is registered
    /// any more.
    fn harden_epoch(&self, epochs: &EpochHorizon, epoch: Epoch) -> Result<(), LogError> {
        for (index, stream) in self.list.iter().enumerate() {
            if epochs.lags(index, epoch) {
                stream.harden_epoch(epoch)?;
            }
        }
        Ok(())
    }
}

/// When this is dropped, the tasks are woken that wait for an announcement of any stream.
struct WakeOnDrop<'a, H: GroupResource>(&'a Streams<H>);

impl<H: GroupResource> Drop for WakeOnDrop<'_, H> {
    fn drop(&mut self) {
        for stream in &self.0.list {
            drop(stream.wake_on_drop());
        }
    }
}
