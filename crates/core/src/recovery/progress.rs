//! How far a recovery is, told now and then, and whether it is to be interrupted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::settings_and_report::{RecoveryProgress, RecoverySettings};
use crate::error::OpenError;

/// Time between two calls of [`OnProgress`](super::settings_and_report::OnProgress).
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// How far the recovery is.
pub(super) struct Progress<'a> {
    settings: &'a RecoverySettings,
    bytes_total: u64,
    bytes: AtomicU64,
    replayed: AtomicU64,
    last_told: Mutex<Instant>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(settings: &'a RecoverySettings, bytes_total: u64, began: Instant) -> Self {
        Self {
            settings,
            bytes_total,
            bytes: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
            last_told: Mutex::new(began),
        }
    }

    /// Counts what was read, reports it now and then, and stops when asked to.
    pub(super) fn advance(&self, bytes: u64, replayed: u64) -> Result<(), OpenError> {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let replayed = self.replayed.fetch_add(replayed, Ordering::Relaxed) + replayed;
        let interrupt = self.settings.interrupt.as_ref();
        if interrupt.is_some_and(|asked| asked.load(Ordering::Relaxed)) {
            return Err(OpenError::Interrupted);
        }
        if let Some(on_progress) = &self.settings.on_progress
            && let Some(mut last) = self.last_told.try_lock()
            && last.elapsed() >= PROGRESS_INTERVAL
        {
            *last = Instant::now();
            on_progress(RecoveryProgress {
                bytes,
                bytes_total: self.bytes_total,
                replayed,
            });
        }
        Ok(())
    }
    /// How many bytes were read, and how many commits replayed.
    pub(super) fn bytes_and_replayed(self) -> (u64, u64) {
        (self.bytes.into_inner(), self.replayed.into_inner())
    }
}
