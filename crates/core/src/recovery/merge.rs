//! Replay in the papers' order: streams merged into one.
//!
//! Paper: tictoc-pwal §3.4, pwal §4.3, Algorithm 4

use namiki_log::{CutRule, GenerationInfo, Merge, SortedRun, StreamReader, merge_by_stamp};
use namiki_platform::{Lsn, WorkerId};

use super::{Outcome, Replay, outcome};
use crate::error::OpenError;

impl Replay<'_> {
    /// Replays a generation in the papers' order.
    pub(super) fn in_order(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        match info.cut {
            CutRule::Stamp => self.in_stamp_order(info),
            CutRule::Lsn => self.in_lsn_order(info),
        }
    }

    /// Sorts each stream by stamp, and merges the streams (`tictoc-pwal` §3.4).
    fn in_stamp_order(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        let (mut runs, mut ends) = (Vec::new(), Vec::new());
        for reader in self.open_all(info)? {
            let on_frame = |bytes| self.advance(bytes, 0);
            let (run, end) = SortedRun::read_with::<OpenError>(reader, on_frame)?;
            runs.push(run);
            ends.push(end);
        }
        for commit in merge_by_stamp(&runs) {
            self.tables
                .apply(info.generation, [(commit.stamp, commit.payload)])?;
            self.advance(0, 1)?;
        }
        Ok(outcome(info, Lsn(0), 0, ends))
    }

    /// Merges the streams by log sequence number, up to the first that is missing (`pwal`
    /// Algorithm 4).
    fn in_lsn_order(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        let sealed = info.seal.as_ref().map(|seal| seal.last_lsn);
        let mut merge = Merge::by_lsn(self.open_all(info)?, info.first_lsn, sealed);
        while let Some(commit) = merge.next_record().map_err(OpenError::Log)? {
            self.tables
                .apply(info.generation, [(commit.stamp, commit.payload)])?;
            self.advance(commit.payload.len() as u64, 1)?;
        }
        let end = merge.finish().map_err(OpenError::Log)?;
        Ok(outcome(info, end.last_lsn, end.dropped, end.streams))
    }

    fn open_all(&self, info: &GenerationInfo) -> Result<Vec<StreamReader>, OpenError> {
        (0..info.streams)
            .map(|worker| self.open(info, WorkerId(worker)))
            .collect()
    }
}
