//! The settings and the report of recovery.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use namiki_platform::Stamp;

/// The order in which logs are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayOrder {
    /// In no order: the version with the highest stamp wins for each key.
    #[default]
    HighestStamp,
    /// In the papers' order: by log sequence number where commits draw one (early release, the single log), otherwise by
    /// stamp. On one thread.
    Merge,
}

/// The report of a recovery.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct RecoveryReport {
    /// Commits that were replayed.
    pub replayed: u64,
    /// Commits that were whole in the log but not acknowledged, and depended on some that were
    /// lost: cut off. (Where operations are logged one by one: records of the log.)
    pub dropped: u64,
    /// Transactions that had neither committed nor been rolled back: their changes were undone.
    pub undone: u64,
    /// Commits of the log that were skipped, because the image has them.
    pub in_image: u64,
    /// Bytes of log that were read.
    pub bytes: u64,
    /// Rows of the image, under the log's changes: loaded in the background, or before the database
    /// was open ([`Builder::load_before_open`](crate::Builder::load_before_open)).
    pub image_rows: u64,
    /// Bytes of its files.
    pub image_bytes: u64,
    /// Streams that ended in a torn frame.
    pub torn: u32,
    /// Files of the log that were removed before the database was opened to write, because the
    /// image has their contents, and a crash or an error had left them there.
    pub removed_files: u64,
    /// Generations of the log.
    pub generations: u32,
    /// Whether the database had been closed in order.
    pub closed: bool,
    /// The largest stamp found.
    pub max_stamp: Stamp,
    /// How long it took, in seconds, without the loading in the background.
    pub seconds: f64,
}

/// The progress of a recovery. The log is read first; then the image is loaded, if that is not done
/// in the background.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryProgress {
    /// Bytes of log read.
    pub bytes: u64,
    /// Total bytes of log files, or of regions of a shared device; some may be unused.
    pub bytes_total: u64,
    /// Commits replayed.
    pub replayed: u64,
    /// Bytes of the image read.
    pub image_bytes: u64,
    /// Total bytes of the image.
    pub image_bytes_total: u64,
    /// Rows of the image loaded.
    pub image_rows: u64,
}

/// The progress of the loading of tables, see [`Database::loading`](crate::Database::loading).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadingProgress {
    /// Tables that are loaded, or were dropped before they were.
    pub tables: u64,
    /// Tables that cannot be loaded.
    pub tables_failed: u64,
    /// The number of tables to load when the database was opened.
    pub tables_total: u64,
    /// Rows of the image that were read.
    pub rows: u64,
    /// The total of these.
    pub rows_total: u64,
    /// Bytes of the image that were read.
    pub bytes: u64,
    /// The total of these.
    pub bytes_total: u64,
}

impl LoadingProgress {
    /// Whether no table is left to be loaded.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.tables + self.tables_failed == self.tables_total
    }
}

/// Called periodically during a recovery.
pub type OnProgress = Arc<dyn Fn(RecoveryProgress) + Send + Sync>;

/// For tests: called by each thread that loads tables, with the name of one before it loads a part of it.
pub(crate) type BeforeLoad = Arc<dyn Fn(&str) + Send + Sync>;

/// The settings of a recovery.
#[derive(Clone)]
pub(crate) struct RecoverySettings {
    /// Every commit with a stamp at or below this one is in the image, and skipped; 0 without an
    /// image.
    pub(crate) image_stamp: Stamp,
    pub(crate) threads: usize,
    pub(crate) order: ReplayOrder,
    pub(crate) on_progress: Option<OnProgress>,
    pub(crate) interrupt: Option<Arc<AtomicBool>>,
    /// Whether the image is loaded before the recovery ends.
    pub(crate) loads_image: bool,
    pub(crate) before_load: Option<BeforeLoad>,
    /// Whether frames that are readable after a crash are made durable: not if the opening may not
    /// write, and so seals no generation.
    pub(crate) hardens: bool,
}
