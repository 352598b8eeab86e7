//! Covering an LSN: for a waiter, or by the flusher for tasks.

use namiki_platform::Lsn;

use crate::config::GroupResource;
use crate::error::LogError;
use crate::shared_state::Shared;
use crate::streams::Streams;

impl<H: GroupResource> Streams<H> {
    /// Returns when `lsn` and every one below it is hardened. Flushes the streams that lag.
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::NeverDrawn`].
    pub(crate) fn cover(&self, lsn: Lsn) -> Result<(), LogError> {
        loop {
            if let Some(ended) = self.covered(lsn) {
                return ended;
            }
            for (index, stream) in self.list.iter().enumerate() {
                if self.shared.horizon.lags(index, lsn) {
                    stream.harden_lsn(lsn)?;
                }
            }
        }
    }

    /// The result of waiting for `lsn`; `None` if it has to continue.
    pub(crate) fn covered(&self, lsn: Lsn) -> Option<Result<(), LogError>> {
        let Shared {
            horizon, poison, ..
        } = &*self.shared;
        if !horizon.sequencer.draws() {
            return Some(poison.check());
        }
        if horizon.covers(lsn) {
            return Some(Ok(()));
        }
        let next = Lsn(horizon.sequencer.next());
        if lsn >= next {
            return Some(Err(LogError::NeverDrawn { lsn, next }));
        }
        poison.get().map(Err)
    }
}
