//! Why a load in batches stopped, and its progress.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use namiki_platform::error_sentence::sentence;

use super::report::BatchLoadReport;
use crate::error::Error;

/// A load in batches has stopped. The rows that it has loaded stay, and it can be resumed.
#[derive(Clone)]
pub struct BatchLoadError<Q> {
    /// Why.
    pub stop: BatchLoadStop,
    /// Its progress: every row up to [`BatchLoadReport::last_key`] is durable. Later batches may or
    /// may not be; to resume, load all rows behind that key again.
    pub report: BatchLoadReport<Q>,
}

/// Why a load in batches stopped.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchLoadStop {
    /// A row cannot be written, or its batch did not commit, or the outcome of its commit is
    /// unknown.
    #[error("a batch could not be committed")]
    Transaction(#[source] Error),
    /// The source of the rows has failed. The rows before the failure are loaded.
    #[error("the next row cannot be had")]
    Source(#[source] Arc<dyn StdError + Send + Sync>),
    /// It was asked to stop ([`BatchLoadOptions::interrupt`](crate::BatchLoadOptions::interrupt)).
    #[error("it was interrupted")]
    Interrupted,
}

impl<Q> fmt::Debug for BatchLoadError<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sentence(self, f)
    }
}

impl<Q> fmt::Display for BatchLoadError<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.report.durable.rows + self.report.durable.skipped;
        write!(
            f,
            "the load stopped, its first {rows} rows are durable: go on behind the key of the last one"
        )
    }
}

impl<Q> StdError for BatchLoadError<Q> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.stop)
    }
}
