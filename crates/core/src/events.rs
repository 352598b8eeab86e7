//! Events of a database for the program's own log: rare ones, through the crate `tracing`, if the
//! feature of that name is on.
//!
//! Single transactions cause no events: [`Database::stats`](crate::Database::stats) counts them.
//! Without the feature, these functions are empty.

use std::path::Path;

use namiki_log::{LogError, RemovedFiles};
use namiki_platform::Stamp;

use crate::error::{Conflict, Error};
use crate::protocol_spec::ProtocolSpec;

/// One function for each event: its level, what it is given, what it says.
macro_rules! events {
    ($($(#[$doc:meta])* $level:ident $name:ident($($field:ident: $type:ty),*) => $says:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name($($field: $type),*) {
            #[cfg(feature = "tracing")]
            tracing::$level!(target: "namiki", $($field = %$field,)* $says);
            #[cfg(not(feature = "tracing"))]
            {
                $(let _ = $field;)*
            }
        }
    )*};
}

events! {
    /// A table was created.
    info table_created(table: &str) => "table created";
    /// It was dropped.
    info table_dropped(table: &str) => "table dropped";
    /// It was cleared.
    info table_cleared(table: &str) => "table cleared";
    /// It was renamed.
    info table_renamed(table: &str, to: &str) => "table renamed";
    /// It was loaded into segments.
    info table_loaded(table: &str, rows: u64) => "table loaded into segments";
    /// A table of the image can be used by transactions.
    info table_ready(table: &str) => "table loaded into memory";
    /// One cannot be.
    error table_not_loaded(error: &Error) => "a table cannot be loaded from the image";
    /// The log has failed: no transaction commits any more.
    error log_failed(error: &LogError) => "the log has failed; open the database again to recover";
    /// The catalogue was not written.
    error catalogue_not_written(error: &Error) => "the catalogue could not be written";
    /// A checkpoint was taken.
    info checkpoint_taken(stamp: Stamp, rows: u64, bytes: u64) => "checkpoint taken";
    /// A checkpoint was not taken.
    warn checkpoint_failed(error: &Error) => "no checkpoint was taken; the log goes on to grow";
    /// The backup that follows the database is not up to date.
    warn followed_backup_failed(error: &dyn std::error::Error) => "the backup that follows the database was not taken";
    /// The computer's clock was set back since an earlier backup, or was ahead then.
    warn clock_behind_backup(seconds: f64) => "the clock is behind the time of an earlier backup in the directory: one of the two is wrong";
    /// A transaction gave up.
    warn gave_up(attempts: u32, conflict: &Conflict) => "a transaction gave up after conflicts";
}

/// A database is open. `replayed` and `undone` count transactions.
pub(crate) fn opened(dir: &Path, spec: ProtocolSpec, was_closed: bool, replayed: u64, undone: u64) {
    #[cfg(feature = "tracing")]
    {
        let dir = dir.display();
        if was_closed {
            tracing::info!(target: "namiki", %dir, %spec, replayed, "database opened");
        } else {
            tracing::warn!(target: "namiki", %dir, %spec, replayed, undone, "database opened after a crash");
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (dir, spec, was_closed, replayed, undone);
}

/// Files of the log that are superfluous were removed, or some could not be.
pub(crate) fn superfluous_removed(removed: &RemovedFiles) {
    #[cfg(feature = "tracing")]
    {
        let RemovedFiles { files, bytes, .. } = removed;
        if *files > 0 {
            tracing::info!(target: "namiki", files, bytes, "superfluous log files removed");
        }
        for (path, error) in &removed.failed {
            let path = path.display();
            tracing::warn!(target: "namiki", %path, %error, "a superfluous log file could not be removed");
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = removed;
}

/// A database is closed, or could not be closed in order.
pub(crate) fn closed(dir: &Path, done: &Result<(), Error>) {
    #[cfg(feature = "tracing")]
    {
        let dir = dir.display();
        match done {
            Ok(()) => tracing::info!(target: "namiki", %dir, "database closed"),
            Err(error) => {
                tracing::error!(target: "namiki", %dir, %error, "database not closed in order");
            }
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (dir, done);
}
