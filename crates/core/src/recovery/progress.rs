//! Progress of a recovery, reported periodically, and its interruption.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::settings_and_report::{RecoveryProgress, RecoverySettings};
use crate::error::OpenError;

/// Time between two calls of [`OnProgress`](super::settings_and_report::OnProgress).
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The most that may have to be read, in bytes.
pub(in crate::recovery) struct Totals {
    pub(in crate::recovery) log: u64,
    pub(in crate::recovery) image: u64,
}

/// The progress of the recovery.
pub(in crate::recovery) struct Progress<'a> {
    settings: &'a RecoverySettings,
    totals: Totals,
    bytes: AtomicU64,
    replayed: AtomicU64,
    image_bytes: AtomicU64,
    image_rows: AtomicU64,
    last_told: Mutex<Instant>,
}

impl<'a> Progress<'a> {
    pub(in crate::recovery) fn new(
        settings: &'a RecoverySettings,
        totals: Totals,
        began: Instant,
    ) -> Self {
        Self {
            settings,
            totals,
            bytes: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
            image_bytes: AtomicU64::new(0),
            image_rows: AtomicU64::new(0),
            last_told: Mutex::new(began),
        }
    }

    /// Counts the bytes that were read of the log, reports them periodically, and stops on request.
    pub(in crate::recovery) fn advance(&self, bytes: u64, replayed: u64) -> Result<(), OpenError> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.replayed.fetch_add(replayed, Ordering::Relaxed);
        self.report()
    }

    /// The same for the image.
    pub(in crate::recovery) fn advance_image(
        &self,
        bytes: u64,
        rows: u64,
    ) -> Result<(), OpenError> {
        self.image_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.image_rows.fetch_add(rows, Ordering::Relaxed);
        self.report()
    }

    fn report(&self) -> Result<(), OpenError> {
        let interrupt = self.settings.interrupt.as_ref();
        if interrupt.is_some_and(|asked| asked.load(Ordering::Relaxed)) {
            return Err(OpenError::Interrupted);
        }
        if let Some(on_progress) = &self.settings.on_progress
            && let Some(mut last) = self.last_told.try_lock()
            && last.elapsed() >= PROGRESS_INTERVAL
        {
            *last = Instant::now();
            on_progress(self.now());
        }
        Ok(())
    }

    /// The progress so far.
    pub(in crate::recovery) fn now(&self) -> RecoveryProgress {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RecoveryProgress {
            bytes: of(&self.bytes),
            bytes_total: self.totals.log,
            replayed: of(&self.replayed),
            image_bytes: of(&self.image_bytes),
            image_bytes_total: self.totals.image,
            image_rows: of(&self.image_rows),
        }
    }
}
