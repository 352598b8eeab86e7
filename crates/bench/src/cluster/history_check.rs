//! Checks the history of a run, and saves it on request or after a failure.

use std::path::{Path, PathBuf};

use super::fault_context::FaultEvent;
use super::history::{self, About, Recorder};
use super::result_row::HistoryResult;
use super::run::Run;
use crate::error::BenchError;

impl Run<'_> {
    /// The description of the run in its history.
    fn about(&self) -> About {
        About {
            registers: self.sizes.registers,
            nodes: self.shape.nodes,
            clients: self.sizes.clients,
            fault: self.fault.to_string(),
            seed: self.sizes.seed,
        }
    }

    /// The file for a history: the requested one, or a temporary file for one that was not
    /// requested.
    fn history_of_failure(&self) -> PathBuf {
        let failed = format!("namiki-history-{}.jsonl", std::process::id());
        let failed = std::env::temp_dir().join(failed);
        self.history.map_or(failed, Path::to_owned)
    }

    /// Keeps the incomplete history of a failed run. The caller reports the failure.
    pub(super) fn keep_unfinished(&self, recorder: &Recorder, faults: &[FaultEvent]) {
        let path = self.history_of_failure();
        match recorder.write(&path, &self.about(), faults) {
            Ok(()) => eprintln!("what clients saw until then is kept in {}", path.display()),
            Err(error) => eprintln!("{}", error.with_causes()),
        }
    }

    /// Checks the history. Keeps it on request, or if the check fails.
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
