//! The files of an open database's catalogue: the manifest, and the journal of the tables that are
//! not in it yet.
//!
//! A table is appended to the journal. If that is not possible (the journal is full, a write
//! failed, or one of the two files differs from the state that this opening wrote), the whole
//! manifest is replaced. The replacement has all tables, so the old journal no longer counts (table_journal.rs,
//! J3), and the next table begins another.

use std::io;
use std::path::Path;

use namiki_platform::disk::{AlignedBuf, Disk};

use crate::catalogue::kept_room;
use crate::catalogue::manifest::{Manifest, Written};
use crate::catalogue::table_journal::{self, TableJournal};
use crate::table::raw_table::TableInfo;

/// The state of the catalogue's files, as this opening has written them.
#[derive(Debug)]
pub(crate) struct CatalogueFiles {
    /// The present manifest; `None` after a failure.
    written: Option<Written>,
    /// The opening numbers that the manifest in place may have: after a failure, it may be the
    /// previous one or any that was written since.
    openings: Vec<String>,
    /// The number of times that this opening has replaced the manifest or added to its journal, or
    /// tried to. No two manifests have the same number, and none has a smaller one than the tables
    /// that were added before it.
    revision: u64,
    journal: Journal,
}

#[derive(Debug)]
enum Journal {
    /// No journal counts and has records.
    NotBegun,
    Begun(TableJournal),
    /// A journal may count, but takes no further records: its last one may be of a table that does
    /// not exist.
    GivenUp,
}

/// Why the catalogue was not written.
#[derive(Debug)]
pub(crate) enum NotWritten {
    /// Another program has begun a generation since.
    AnotherWriter,
    /// The device failed.
    Device(io::Error),
}

impl CatalogueFiles {
    /// Called after an opening has durably written this manifest, which is complete.
    pub(crate) fn announced(
        written: Written,
        manifest: &Manifest,
        disk: &dyn Disk,
        dir: &Path,
    ) -> Self {
        // The journal of an earlier opening no longer counts, whether it can be removed or not.
        let _ = disk.remove(&table_journal::path(dir));
        kept_room::keep(disk, dir, written.len_bytes);
        Self {
            written: Some(written),
            openings: vec![manifest.opening.clone()],
            revision: 0,
            journal: Journal::NotBegun,
        }
    }

    /// For a database that is not open.
    pub(crate) fn none() -> Self {
        Self {
            written: None,
            openings: Vec::new(),
            revision: 0,
            journal: Journal::GivenUp,
        }
    }

    /// Adds a table to the manifest in memory once it is durable.
    ///
    /// # Errors
    /// There is no such table then, in memory. On the disk there may be, until another is in its place.
    pub(crate) fn add_table(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        manifest: &mut Manifest,
        info: TableInfo,
    ) -> Result<(), NotWritten> {
        if self.append(disk, dir, manifest, &info) {
            manifest.tables.push(info);
            return Ok(());
        }
        let mut whole = manifest.clone();
        whole.tables.push(info);
        self.replace(disk, dir, &mut whole)?;
        *manifest = whole;
        Ok(())
    }

    /// Appends the table to the journal, which is begun if it does not exist. Returns false if the
    /// append failed: the record may be on the disk nevertheless, and the manifest has to be
    /// replaced.
    fn append(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        manifest: &Manifest,
        info: &TableInfo,
    ) -> bool {
        let Some(written) = &self.written else {
            return false;
        };
        if !is_in_place(written, disk, dir) {
            return false;
        }
        // The journal is restored only on success, and not after a panic of the disk.
        let mut journal = match std::mem::replace(&mut self.journal, Journal::GivenUp) {
            Journal::Begun(journal) => journal,
            Journal::NotBegun => {
                let len_bytes = written.len_bytes;
                match TableJournal::begin(disk, dir, manifest.continues(), len_bytes) {
                    Ok(journal) => journal,
                    Err(_) => return false,
                }
            }
            Journal::GivenUp => return false,
        };
        self.revision += 1;
        let appended = matches!(journal.append(disk, info), Ok(true));
        if appended {
            self.journal = Journal::Begun(journal);
        }
        appended
    }

    /// Replaces the manifest by one with this change, and the one in memory once that is durable.
    /// It gets an opening number of its own, so that a program that has read the previous one, in
    /// spite of the lock, can distinguish them. It may drop tables and add some: the journal no
    /// longer counts.
    ///
    /// # Errors
    /// The manifest in memory is what it was then. On the disk it may be either.
    pub(crate) fn change(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        manifest: &mut Manifest,
        change: impl FnOnce(&mut Manifest),
    ) -> Result<(), NotWritten> {
        if matches!(self.journal, Journal::GivenUp) {
            // The journal's last record may be of a table that was not created, with a name that a
            // loaded table now has. It would count with a manifest that has as many tables as the journal
            // continues: so the journal is removed before the change.
            self.replace(disk, dir, manifest)?;
            let removed = match disk.remove(&table_journal::path(dir)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => disk.sync_dir(dir),
            };
            if let Err(source) = removed {
                self.journal = Journal::GivenUp;
                return Err(NotWritten::Device(source));
            }
        }
        let mut whole = manifest.clone();
        change(&mut whole);
        whole.opening = Manifest::new_opening();
        self.replace(disk, dir, &mut whole)?;
        *manifest = whole;
        Ok(())
    }

    /// Replaces the present manifest by a complete one.
    fn replace(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        manifest: &mut Manifest,
    ) -> Result<(), NotWritten> {
        match manifest.is_still_of(&self.openings, disk, dir) {
            Ok(true) => {}
            Ok(false) => return Err(NotWritten::AnotherWriter),
            Err(source) => return Err(NotWritten::Device(source)),
        }
        self.journal = Journal::GivenUp;
        self.written = None;
        if !self.openings.contains(&manifest.opening) {
            self.openings.push(manifest.opening.clone());
        }
        self.revision += 1;
        manifest.revise(self.revision);
        let written = manifest.write(disk, dir).map_err(NotWritten::Device)?;
        kept_room::keep(disk, dir, written.len_bytes);
        self.written = Some(written);
        self.openings = vec![manifest.opening.clone()];
        self.journal = Journal::NotBegun;
        Ok(())
    }

    /// Whether the disk may have another catalogue than the manifest in memory: a change that
    /// failed, or a table that was not created. No position of the history distinguishes the two
    /// (catalogue/history.rs, H2).
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.written.is_none() || matches!(self.journal, Journal::GivenUp)
    }

    /// Writes the last manifest of the opening, and removes the journal.
    ///
    /// # Errors
    /// The catalogue is what it was then.
    pub(crate) fn close(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        manifest: &mut Manifest,
    ) -> Result<(), NotWritten> {
        self.replace(disk, dir, manifest)?;
        // It is superseded; any record left in it belongs to a creation that failed.
        let _ = disk.remove(&table_journal::path(dir));
        Ok(())
    }
}

/// Whether the manifest's file is the one that was written, by its first line and its length: the line has the
/// checksum of the rest. If that cannot be told, it is not.
fn is_in_place(written: &Written, disk: &dyn Disk, dir: &Path) -> bool {
    let Ok(file) = disk.open(&Manifest::path(dir)) else {
        return false;
    };
    let mut block = AlignedBuf::zeroed(file.block_bytes());
    file.len_bytes() == written.len_bytes
        && file
            .read_at(0, &mut block)
            .is_ok_and(|read| block[..read].starts_with(written.head.as_bytes()))
}
