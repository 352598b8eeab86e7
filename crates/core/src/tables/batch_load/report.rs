//! The report of a load in batches.

use std::time::Duration;

/// The durable progress of a load in batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchLoadProgress {
    /// Rows that were written.
    pub rows: u64,
    /// Rows that were skipped, because their keys existed:
    /// [`ExistingRows::Keep`](crate::ExistingRows::Keep).
    pub skipped: u64,
    /// Bytes of the keys and values that were written.
    pub bytes: u64,
    /// Batches, each a transaction.
    pub batches: u64,
    /// The time since the load began.
    pub elapsed: Duration,
}

impl BatchLoadProgress {
    /// Rows written per second.
    #[must_use]
    pub fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Bytes written per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// The result of a load in batches, or its progress when it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLoadReport<Q> {
    /// The durable part. After a stop, more may be durable.
    pub durable: BatchLoadProgress,
    /// The key of the last row that is durable, in the order of the rows: every row up to it is,
    /// too. `None` if no row is durable. A load that stopped is resumed with the rows behind it.
    pub last_key: Option<Q>,
}
