//! Opens a database, with a line on standard error about the progress of its recovery.

use std::path::Path;
use std::sync::{Arc, Mutex};

use namiki::{Builder, Database, OpenError};
use namiki_terminal::interrupt;
use namiki_terminal::number_format::{bytes, counted};

use crate::failure::Failure;
use crate::progress::Progress;
use crate::read_only_directory::{check_directory, database_in, without_manifest};

/// Opens a database with these settings; Ctrl-C ends the recovery.
pub(crate) fn open(
    settings: Builder,
    open: impl FnOnce(Builder) -> Result<Database, OpenError>,
) -> Result<Database, OpenError> {
    let progress = Arc::new(Mutex::new(Progress::new()));
    let shown = Arc::clone(&progress);
    let settings = settings
        .interrupt(Arc::clone(interrupt::asked()))
        .on_progress(Arc::new(move |at| {
            let Ok(mut shown) = shown.lock() else { return };
            let (done, total) = (
                at.bytes + at.image_bytes,
                at.bytes_total + at.image_bytes_total,
            );
            shown.say_of(done, total, || {
                let (read, commits) = (bytes(at.bytes), counted(at.replayed, "commit"));
                let image = match at.image_rows {
                    0 => String::new(),
                    rows => format!("{} of the image, ", counted(rows, "row")),
                };
                format!("recovering  {image}{read} of log, {commits}")
            });
        }));
    let opened = open(settings);
    if let Ok(mut shown) = progress.lock() {
        shown.clear();
    }
    opened
}

/// Opens an existing database read-only: nothing in its directory is changed.
pub(crate) fn to_read(dir: &Path) -> Result<Database, Failure> {
    to_read_with(Database::builder(), dir)
}

/// The same with settings.
pub(crate) fn to_read_with(settings: Builder, dir: &Path) -> Result<Database, Failure> {
    let dir = &*database_in(dir)?;
    match open(settings, |settings| settings.open_read_only(dir)) {
        Err(OpenError::Missing { .. } | OpenError::NotADatabase { .. }) => {
            Err(without_manifest(dir, &dir.join("wal"))?)
        }
        opened => Ok(opened?),
    }
}

/// Opens a database to change it; creates a missing one if `create` is set.
pub(crate) fn to_write(dir: &Path, create: bool) -> Result<Database, Failure> {
    if !create {
        check_directory(dir)?;
    }
    let settings = Database::builder().create(create);
    match open(settings, |settings| settings.open(dir)) {
        Err(OpenError::Missing { .. } | OpenError::NotADatabase { .. }) => {
            Err(without_manifest(dir, &dir.join("wal"))?)
        }
        opened => Ok(opened?),
    }
}
