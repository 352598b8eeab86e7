//! Replay in the papers' order: streams merged into one.
//!
//! Paper: tictoc-pwal §3.4, pwal §4.3, Algorithm 4

use namiki_log::{
    CutRule, GenerationInfo, LogRecord, Merge, SortedRun, StreamReader, durable_epoch,
    merge_by_stamp,
};
use namiki_platform::{Epoch, WorkerId};
use smallvec::SmallVec;

use super::replay_context::{Last, Outcome, Replay, outcome};
use crate::error::OpenError;

/// Commits with changes that are looked up together.
const BATCH_COMMITS_MAX: usize = 64;

impl Replay<'_, '_> {
    /// Replays a generation in the papers' order.
    pub(in crate::recovery) fn in_order(
        &self,
        info: &GenerationInfo,
    ) -> Result<Outcome, OpenError> {
        match info.cut {
            CutRule::Stamp | CutRule::Epoch => self.in_stamp_order(info),
            CutRule::Lsn => self.in_lsn_order(info),
        }
    }

    /// Sorts each stream by stamp, and merges the streams (`tictoc-pwal` §3.4). Commits that do not
    /// count are known before the first one is replayed.
    fn in_stamp_order(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        let (mut runs, mut ends) = (Vec::new(), Vec::new());
        for reader in self.open_all(info)? {
            let on_frame = |bytes| self.advance(bytes, 0);
            let (run, end) = SortedRun::read_with::<OpenError>(reader, on_frame)?;
            runs.push(run);
            ends.push(end);
        }
        let epoch = match (info.cut, &info.seal) {
            (CutRule::Epoch, Some(seal)) => seal.durable_epoch,
            (CutRule::Epoch, None) => durable_epoch(&ends),
            (CutRule::Stamp | CutRule::Lsn, _) => Epoch(0),
        };
        let (mut dropped, mut in_image) = (0, 0);
        let counts = |record: &LogRecord<'_>| {
            if self.is_in_image(record.stamp) {
                in_image += 1;
                return false;
            }
            let counts = (info.cut != CutRule::Epoch || record.counts_through(epoch))
                && !info.is_beyond(record.stamp);
            dropped += u64::from(!counts);
            counts
        };
        let mut commits = merge_by_stamp(&runs)
            .filter(counts)
            .map(|it| (it.stamp, it.payload));
        loop {
            let batch: SmallVec<[_; BATCH_COMMITS_MAX]> =
                commits.by_ref().take(BATCH_COMMITS_MAX).collect();
            if batch.is_empty() {
                break;
            }
            let count = batch.len() as u64;
            self.tables.apply(info.generation, batch)?;
            self.advance(0, count)?;
        }
        drop(commits);
        let last = Last {
            epoch,
            ..Last::default()
        };
        Ok(outcome(info, last, (dropped, in_image), ends))
    }

    /// Merges the streams by log sequence number, up to the first missing one (`pwal` Algorithm 4)
    /// of those that were not recycled.
    fn in_lsn_order(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        let sealed = info.seal.as_ref().map(|seal| seal.last_lsn);
        let mut merge = Merge::by_lsn(self.open_all(info)?, info.complete_lsn(), sealed);
        let (mut in_image, mut beyond) = (0, 0);
        while let Some(commit) = merge.next_record().map_err(OpenError::Log)? {
            let is_beyond = info.is_beyond(commit.stamp);
            let is_replayed = !self.is_in_image(commit.stamp) && !is_beyond;
            if is_beyond {
                beyond += 1;
            } else if is_replayed {
                self.tables
                    .apply(info.generation, [(commit.stamp, commit.payload)])?;
            } else {
                in_image += 1;
            }
            self.advance(commit.payload.len() as u64, is_replayed.into())?;
        }
        let end = merge.finish_with::<OpenError>(|bytes| self.advance(bytes, 0))?;
        let last = Last {
            lsn: end.last_lsn,
            ..Last::default()
        };
        Ok(outcome(
            info,
            last,
            (end.dropped + beyond, in_image),
            end.streams,
        ))
    }

    pub(in crate::recovery) fn open_all(
        &self,
        info: &GenerationInfo,
    ) -> Result<Vec<StreamReader>, OpenError> {
        (0..info.streams)
            .map(|worker| self.open(info, WorkerId(worker)))
            .collect()
    }
}
