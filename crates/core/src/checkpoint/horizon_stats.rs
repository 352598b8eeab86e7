//! Horizons: the transactions and views for which new views and checkpoints wait, or for which log
//! and overwritten versions are kept.

use std::time::{Duration, Instant};

use namiki_log::EpochSource;
use namiki_platform::{Epoch, Lsn};

use crate::commit::engine::Engine;

/// The transactions and views for which a view, a checkpoint or the log waits, and since when; the
/// memory that is kept for the oldest view is in [`ViewStats`](crate::ViewStats). Times are sampled
/// ten times a second; without a log, never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HorizonStats {
    /// An epoch that has ended while a transaction of it still commits. A view that is opened now waits for it. Only a
    /// thread that gets no processor in the middle of a commit, or that waits for the log there, takes longer than the
    /// fraction of a millisecond.
    pub commit_since: Option<Duration>,
    /// Where operations are logged one by one: the log sequence number of the oldest transaction that has changed
    /// something and has not ended. The log is kept from there on.
    pub oldest_operation: Option<Lsn>,
    /// For how long.
    pub operation_since: Option<Duration>,
}

/// The samples so far.
#[derive(Debug, Default)]
pub(crate) struct HorizonSamples {
    epoch: Option<Since<Epoch>>,
    operation: Option<Since<Lsn>>,
}

/// Something, and when it was first seen.
#[derive(Clone, Copy, Debug)]
struct Since<T>(T, Instant);

impl<T: PartialEq> Since<T> {
    fn update(since: &mut Option<Self>, now: Option<T>) {
        *since = match (since.take(), now) {
            (Some(since), Some(now)) if since.0 == now => Some(since),
            (_, now) => now.map(|now| Self(now, Instant::now())),
        };
    }
}

impl HorizonSamples {
    /// Looks once more.
    pub(crate) fn look(&mut self, engine: &Engine) {
        let epochs = &*engine.epochs;
        // In this order: the current epoch only rises.
        let finished = EpochSource::finished(epochs);
        let is_behind = finished.0 + 1 < EpochSource::current(epochs).0;
        Since::update(&mut self.epoch, is_behind.then_some(finished));
        Since::update(&mut self.operation, engine.live_operation());
    }

    pub(crate) fn horizon(&self) -> HorizonStats {
        HorizonStats {
            commit_since: self.epoch.map(|since| since.1.elapsed()),
            oldest_operation: self.operation.map(|since| since.0),
            operation_since: self.operation.map(|since| since.1.elapsed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_seen_since_its_first_look() {
        let mut since = None;
        Since::update(&mut since, Some(3));
        let first = since.unwrap().1;
        Since::update(&mut since, Some(3));
        assert_eq!(since.unwrap().1, first);
        Since::update(&mut since, Some(4));
        assert!(since.unwrap().0 == 4 && since.unwrap().1 >= first);
        Since::update(&mut since, None);
        assert!(since.is_none());
    }
}
