//! Options of loads in batches.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::report::BatchLoadProgress;

/// Called periodically while rows are loaded in batches, and at the end.
pub type OnBatchLoadProgress = Arc<dyn Fn(&BatchLoadProgress) + Send + Sync>;

/// The treatment of a row with a key that exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExistingRows {
    /// Its value is replaced.
    #[default]
    Overwrite,
    /// It stays as it is, and counts as skipped.
    Keep,
}

/// Options of a load in batches. The defaults suit most.
#[derive(Clone)]
pub struct BatchLoadOptions {
    pub(super) batch_rows: usize,
    pub(super) batch_bytes: usize,
    pub(super) existing: ExistingRows,
    pub(super) interrupt: Option<Arc<AtomicBool>>,
    pub(super) on_progress: Option<OnBatchLoadProgress>,
}

impl Default for BatchLoadOptions {
    fn default() -> Self {
        Self {
            batch_rows: 10_000,
            batch_bytes: 1 << 20,
            existing: ExistingRows::default(),
            interrupt: None,
            on_progress: None,
        }
    }
}

impl BatchLoadOptions {
    /// The most rows of a batch, at least 1. Default: 10,000.
    #[must_use]
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// The length of the keys and values of a full batch, in bytes. Default: 1 MiB. A batch that a
    /// long value makes longer has to be within
    /// [`Builder::transaction_bytes_max`](crate::Builder::transaction_bytes_max).
    #[must_use]
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// The treatment of rows that exist already. Default: they are overwritten.
    #[must_use]
    pub fn existing(mut self, existing: ExistingRows) -> Self {
        self.existing = existing;
        self
    }

    /// The load ends with [`BatchLoadStop::Interrupted`](crate::BatchLoadStop::Interrupted) soon after this becomes true.
    #[must_use]
    pub fn interrupt(mut self, asked: Arc<AtomicBool>) -> Self {
        self.interrupt = Some(asked);
        self
    }

    /// Called periodically, with the durable progress.
    #[must_use]
    pub fn on_progress(mut self, on_progress: OnBatchLoadProgress) -> Self {
        self.on_progress = Some(on_progress);
        self
    }
}

impl fmt::Debug for BatchLoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchLoadOptions")
            .field("batch_rows", &self.batch_rows)
            .field("batch_bytes", &self.batch_bytes)
            .field("existing", &self.existing)
            .finish_non_exhaustive()
    }
}
