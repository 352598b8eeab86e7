//! Release by epochs: whether what a transaction has read is durable already.
//!
//! Every version carries its creation stamp, and a stamp lies below the floor of epoch e+1 exactly if it
//! was given in e or before. So one comparison tells whether a version's epoch is durable.
//!
//! What a transaction overwrites without having read it does not count: if that is lost in a crash, the
//! new version stands all the same.

use namiki_log::Log;
use namiki_platform::{Epoch, Stamp};

use crate::commit::Awaits;
use crate::engine::{Engine, GroupLocks};
use crate::sets::Sets;

impl Engine {
    /// Whether a transaction is independent: all it has read is hardened. The frame that will carry it
    /// says through which epoch that is known, so a recovery that finds it finds what it has read.
    pub(crate) fn has_read_durably(&self, sets: &Sets) -> bool {
        let Some(log) = &self.log else { return false };
        let Some(largest) = largest_read(sets) else {
            return true;
        };
        let is_below = |epoch| largest < self.epochs.floor_after(epoch);
        is_below(log.hardened_epoch()) || is_below(log.hardened_epoch_now())
    }

    /// What a transaction that only reads waits for. It leaves no frame that could say what is hardened, so
    /// that has to be proven.
    pub(crate) fn awaits_what_was_read(&self, log: &Log<GroupLocks>, sets: &Sets) -> Awaits {
        let proven = log.proven_epoch();
        match largest_read(sets) {
            Some(largest) if largest >= self.epochs.floor_after(proven) => {
                // Whoever wrote what was read had registered before.
                let current = self.epochs.current();
                let before = Epoch(current.0 - 1);
                let is_older = largest < self.epochs.floor_after(before);
                Awaits::Epoch(None, if is_older { before } else { current })
            }
            _ => Awaits::Nothing,
        }
    }
}

/// The latest of the versions that were read.
fn largest_read(sets: &Sets) -> Option<Stamp> {
    sets.reads.iter().map(|read| read.seen.creation).max()
}
