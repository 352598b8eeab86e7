//! Proving an epoch: what those do who wait for one, and the flusher for those who do not.
//!
//! One at a time does it; the others wait for that one, look again, and the next takes over. So there is
//! one mark for an epoch, however many wait for it.

use namiki_platform::Epoch;

use crate::config::Held;
use crate::epochs::EpochHorizon;
use crate::error::LogError;
use crate::log::Streams;
use crate::sync::pause;

impl<H: Held> Streams<H> {
    /// Returns when commits of `epoch` may be acknowledged. A mark that is needed goes to the stream
    /// `home` if there is room for it.
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::Closed`]; [`LogError::RegionFull`] or
    /// [`LogError::DiskFull`] if no stream has room for a mark.
    pub(crate) fn prove(
        &self,
        epochs: &EpochHorizon,
        epoch: Epoch,
        home: usize,
    ) -> Result<(), LogError> {
        loop {
            if epochs.source.finished() >= epoch {
                // Everybody by himself: each flight that is waited for wakes all of them.
                self.harden_epoch(epochs, epoch)?;
            }
            if epochs.proves(epoch) {
                return Ok(());
            }
            self.shared.poison.check()?;
            if let Some(_leading) = epochs.lead() {
                epochs.source.close(epoch);
                self.prove_closed(epochs, epoch, home)?;
            }
        }
    }

    /// The same for an epoch that is closed, by the one who leads.
    fn prove_closed(
        &self,
        epochs: &EpochHorizon,
        epoch: Epoch,
        home: usize,
    ) -> Result<(), LogError> {
        let mut round = 0;
        while epochs.source.finished() < epoch {
            // Somebody is on his way into a buffer; that may take a flush, but none of ours.
            if epochs.proves(epoch) {
                return Ok(());
            }
            self.shared.poison.check()?;
            pause(round);
            round += 1;
        }
        self.harden_epoch(epochs, epoch)?;
        let mut full = Ok(());
        for at in 0..self.list.len() {
            let marked = self.list[(home + at) % self.list.len()].mark_epoch(epochs, epoch);
            match marked {
                Err(error) if error.is_full() => full = Err(error),
                marked => return marked,
            }
        }
        full
    }

    /// Hardens whatever the streams hold of `epoch` and before, in which nobody is registered any more.
    fn harden_epoch(&self, epochs: &EpochHorizon, epoch: Epoch) -> Result<(), LogError> {
        for (index, stream) in self.list.iter().enumerate() {
            if epochs.lags(index, epoch) {
                stream.harden_epoch(epoch)?;
            }
        }
        Ok(())
    }
}
