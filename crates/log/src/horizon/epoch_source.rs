//! The interface to the engine that assigns epochs to commits.

use namiki_platform::Epoch;

/// Gives epochs to commits, and knows which are over.
pub trait EpochSource: std::fmt::Debug + Send + Sync {
    /// The epoch in which a commit that begins now is registered.
    fn current(&self) -> Epoch;

    /// The largest epoch that is closed and in which, as in all before, no commit is registered any
    /// more: each one that was has appended its record, and the caller sees what it did, or will
    /// never append it. Takes no lock, and does not touch the log.
    fn finished(&self) -> Epoch;

    /// Closes this epoch if it is the current one, so that commits register in the next. As
    /// [`EpochSource::finished`], this takes no lock.
    fn close(&self, epoch: Epoch);
}
