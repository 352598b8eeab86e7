//! Progress of a copy, and its summary at the end.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::{Arc, Mutex};

use namiki::{BackupError, BackupOptions, BackupReport};
use namiki_terminal::interrupt;
use namiki_terminal::number_format::{bytes, counted};

use crate::failure::Failure;
use crate::progress::Progress;

/// Runs a copy, which Ctrl-C ends. `doing` is the beginning of its line.
pub(super) fn copy(
    doing: &'static str,
    rate: Option<NonZeroU64>,
    copy: impl FnOnce(&BackupOptions) -> Result<BackupReport, BackupError>,
) -> Result<BackupReport, Failure> {
    let progress = Arc::new(Mutex::new(Progress::new()));
    let shown = Arc::clone(&progress);
    let mut options = BackupOptions::default()
        .interrupt(Arc::clone(interrupt::asked()))
        .on_progress(Arc::new(move |at| {
            let Ok(mut shown) = shown.lock() else { return };
            let line = || format!("{doing}  {} of log", bytes(at.log_bytes));
            match at.log_bytes {
                0 => shown.say_of(at.segment_bytes, at.segment_bytes_total, || {
                    let total = bytes(at.segment_bytes_total);
                    format!("{doing}  {} of {total} of rows", bytes(at.segment_bytes))
                }),
                _ => shown.say(line),
            }
        }));
    if let Some(rate) = rate {
        options = options.bytes_per_second(rate);
    }
    let copied = copy(&options);
    if let Ok(mut shown) = progress.lock() {
        shown.clear();
    }
    Ok(copied?)
}

/// The summary of a copy.
pub(super) fn said(did: &str, from: &Path, to: &Path, report: &BackupReport) -> String {
    let kept = match report.files_kept {
        0 => String::new(),
        kept => format!(", {} already there", counted(kept, "file")),
    };
    let earlier = match report.earlier_kept {
        0 => String::new(),
        earlier => format!("; {} kept in addition", counted(earlier, "earlier backup")),
    };
    let clock = match report.clock_behind {
        None => String::new(),
        Some(behind) => format!(
            "; the clock is {:.0} s behind the time of an earlier backup there: one of the two is wrong, so backups dated later than \
             now are not removed for their age",
            behind.as_secs_f64()
        ),
    };
    format!(
        "{did} {} to {}, as of {}: {} of rows in {}{kept}, and {} of log, in {:.1} s{earlier}{clock}",
        from.display(),
        to.display(),
        report.stamp,
        bytes(report.segment_bytes),
        counted(report.files_copied, "file"),
        bytes(report.log_bytes),
        report.took.as_secs_f64(),
    )
}
