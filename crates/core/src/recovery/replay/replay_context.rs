//! The replay of a generation: its input and its outcome.
//!
//! The algorithms are in `parallel_replay.rs`, `merge.rs` and `aries.rs`.

use std::path::Path;
use std::sync::Arc;

use namiki_log::{GenerationEnd, GenerationInfo, StreamEnd, StreamReader};
use namiki_platform::disk::Disk;
use namiki_platform::{Epoch, Lsn, Stamp, WorkerId};

use super::apply::Tables;
use crate::error::OpenError;
use crate::recovery::progress::Progress;

/// Replaying one generation after the other into the same tables.
pub(in crate::recovery) struct Replay<'a, 't> {
    pub(in crate::recovery) disk: &'a Arc<dyn Disk>,
    pub(in crate::recovery) wal_dir: &'a Path,
    pub(in crate::recovery) identity: u128,
    pub(in crate::recovery) tables: &'a Tables<'t>,
    /// Every commit with a stamp at or below this one is in the image; 0 without an image.
    pub(in crate::recovery) image_stamp: Stamp,
    pub(in crate::recovery) threads: usize,
    pub(in crate::recovery) progress: &'a Progress<'a>,
}

/// The outcome of one generation.
pub(in crate::recovery) struct Outcome {
    pub(in crate::recovery) seal: GenerationEnd,
    /// The end of each stream.
    pub(in crate::recovery) ends: Vec<StreamEnd>,
    pub(in crate::recovery) largest_lsn: Lsn,
    pub(in crate::recovery) dropped: u64,
    /// Commits that the image has.
    pub(in crate::recovery) in_image: u64,
    /// Transactions with changes that were undone.
    pub(in crate::recovery) undone: u64,
    pub(in crate::recovery) torn: u32,
}

impl Replay<'_, '_> {
    pub(in crate::recovery) fn open(
        &self,
        info: &GenerationInfo,
        worker: WorkerId,
    ) -> Result<StreamReader, OpenError> {
        StreamReader::open(
            Arc::clone(self.disk),
            self.wal_dir,
            self.identity,
            info,
            worker,
        )
        .map_err(OpenError::Log)
    }

    /// Whether the image has a commit with this stamp.
    pub(in crate::recovery) fn is_in_image(&self, stamp: Stamp) -> bool {
        stamp <= self.image_stamp
    }

    /// See [`Progress::advance`].
    pub(in crate::recovery) fn advance(&self, bytes: u64, replayed: u64) -> Result<(), OpenError> {
        self.progress.advance(bytes, replayed)
    }
}

/// The last position that counts in a generation: by the rule of its cut, one of the two or
/// neither.
#[derive(Clone, Copy, Default)]
pub(in crate::recovery) struct Last {
    pub(in crate::recovery) lsn: Lsn,
    pub(in crate::recovery) epoch: Epoch,
}

pub(in crate::recovery) fn outcome(
    info: &GenerationInfo,
    last: Last,
    (dropped, in_image): (u64, u64),
    ends: impl IntoIterator<Item = StreamEnd>,
) -> Outcome {
    let mut outcome = Outcome {
        seal: GenerationEnd {
            last_sequences: Vec::new(),
            last_lsn: last.lsn,
            durable_epoch: last.epoch,
            // A sealed generation may have had frames beyond its seal, which we do not see.
            max_stamp: info.seal.as_ref().map_or(Stamp(0), |seal| seal.max_stamp),
        },
        ends: Vec::new(),
        largest_lsn: last.lsn,
        dropped,
        in_image,
        undone: 0,
        torn: 0,
    };
    for end in ends {
        outcome.seal.last_sequences.push(end.last_sequence);
        outcome.seal.max_stamp = outcome.seal.max_stamp.max(end.max_stamp);
        outcome.largest_lsn = outcome.largest_lsn.max(end.last_lsn);
        outcome.torn += u32::from(end.torn);
        outcome.ends.push(end);
    }
    outcome
}
