//! The history of a run: kept where it is asked for, and where something is wrong.

use std::path::{Path, PathBuf};

use super::faults::FaultEvent;
use super::history::{self, About, Recorder};
use super::result_row::HistoryResult;
use super::run::Run;
use crate::error::BenchError;

impl Run<'_> {
    /// What a history is about.
    fn about(&self) -> About {
        About {
            registers: self.sizes.registers,
            nodes: self.shape.nodes,
            clients: self.sizes.clients,
            fault: self.fault.to_string(),
            seed: self.sizes.seed,
        }
    }

    /// Where a history is kept that was not asked for.
    fn history_of_failure(&self) -> PathBuf {
        let failed = format!("namiki-history-{}.jsonl", std::process::id());
        let failed = std::env::temp_dir().join(failed);
        self.history.map_or(failed, Path::to_owned)
    }

    /// Keeps the history of a run that has failed, as far as it goes. What the run has failed with is the caller's to tell.
    pub(super) fn keep_unfinished(&self, recorder: &Recorder, faults: &[FaultEvent]) {
        let path = self.history_of_failure();
        match recorder.write(&path, &self.about(), faults) {
            Ok(()) => eprintln!("what clients saw until then is kept in {}", path.display()),
            Err(error) => eprintln!("{}", error.with_causes()),
        }
    }

    /// Keeps the history if it is asked for, or if it is not what it must be.
    pub(super) fn check_history(
        &self,
        recorder: &Recorder,
        faults: &[FaultEvent],
    ) -> Result<HistoryResult, BenchError> {
        let checked = history::check(&recorder.operations);
        let path = match &checked {
            Ok(_) => self.history.map(Path::to_owned),
            Err(_) => Some(self.history_of_failure()),
        };
        if let Some(path) = &path {
            recorder.write(path, &self.about(), faults)?;
        }
        let violation = checked.as_ref().err().zip(path.as_ref());
        let violation = violation.map(|(story, path)| {
            let path = path.display();
            format!("what clients saw is not strictly serializable; it is kept in {path}:\n{story}")
        });
        let verdict = checked.unwrap_or_default();
        Ok(HistoryResult {
            strictly_serializable: violation.is_none(),
            operations: recorder.operations.len(),
            transactions: verdict.transactions,
            reads_from: verdict.reads_from,
            reads_overwritten: verdict.reads_overwritten,
            unknown_done: verdict.unknown_done,
            unknown_not_done: verdict.unknown_not_done,
            refused: verdict.refused,
            violation,
        })
    }
}
