//! Cancellation, rate limit and progress of a copy, checked after each piece.

use std::sync::atomic::Ordering;
use std::time::Instant;

use namiki_platform::ProcessToken;

use crate::backup::error::BackupError;
use crate::backup::options_and_reports::{BackupOptions, BackupProgress};
use crate::error::Error;
use crate::image::pace::{Pace, pause};

/// Checks for cancellation, limits the rate and reports progress while files are copied.
pub(super) struct GoOn<'a> {
    options: &'a BackupOptions,
    /// Fails if the source is about to close.
    is_open: &'a dyn Fn() -> Result<(), BackupError>,
    pace: Pace,
    /// A forked child copies nothing: its parent does.
    process: ProcessToken,
    pub(super) progress: BackupProgress,
}

impl<'a> GoOn<'a> {
    pub(super) fn new(
        options: &'a BackupOptions,
        is_open: &'a dyn Fn() -> Result<(), BackupError>,
    ) -> Self {
        Self {
            options,
            is_open,
            pace: Pace::new(options.bytes_per_second, Instant::now()),
            process: ProcessToken::current(),
            progress: BackupProgress::default(),
        }
    }

    /// Fails once the copy has to end.
    pub(super) fn check(&self) -> Result<(), BackupError> {
        if !self.process.is_current() {
            return Err(Error::Forked.into());
        }
        let interrupt = self.options.interrupt.as_ref();
        if interrupt.is_some_and(|asked| asked.load(Ordering::Relaxed)) {
            return Err(BackupError::Interrupted);
        }
        (self.is_open)()
    }

    /// Bytes of a segment were copied.
    pub(super) fn copied_segment(&mut self, bytes: u64) -> Result<(), BackupError> {
        self.progress.segment_bytes += bytes;
        self.copied(bytes)
    }

    /// Bytes of log were copied.
    pub(super) fn copied_log(&mut self, bytes: u64) -> Result<(), BackupError> {
        self.progress.log_bytes += bytes;
        self.copied(bytes)
    }

    fn copied(&mut self, bytes: u64) -> Result<(), BackupError> {
        if let Some(on_progress) = &self.options.on_progress {
            on_progress(self.progress);
        }
        self.check()?;
        let length = self.pace.written(bytes, Instant::now());
        pause(length, || self.check())
    }
}
