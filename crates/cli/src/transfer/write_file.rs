//! Writes a table to a file, or to standard output.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use namiki::{Database, Direction};
use namiki_terminal::number_format::counted;

use super::formats::{FileFormat, writer};
use super::row_file::Target;
use crate::failure::{Failure, device};
use crate::progress::Progress;
use crate::tables::TypedTable;

/// Writes a file, which gets its name when all of it is durable. Returns the number of rows.
pub(super) fn export_to_file(
    db: &Database,
    table: &TypedTable,
    format: FileFormat,
    path: &Path,
) -> Result<u64, Failure> {
    let part = UnfinishedFile::beside(path);
    let file = File::create(&part.path).map_err(device("create", &part.path))?;
    let output = BufWriter::with_capacity(1 << 20, &file);
    let target = Target::File(part.path.clone());
    let rows = export(db, table, format, &target, Box::new(output))?;
    file.sync_all().map_err(device("write", &part.path))?;
    std::fs::rename(&part.path, path).map_err(device("rename", &part.path))?;
    Ok(rows)
}

/// A file that is removed unless it got its name.
struct UnfinishedFile {
    path: PathBuf,
}

impl UnfinishedFile {
    fn beside(path: &Path) -> Self {
        let mut name = OsString::from(path);
        name.push(".part");
        Self { path: name.into() }
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        // It does not exist any more if it was renamed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes a table. Returns the number of rows.
pub(super) fn export(
    db: &Database,
    table: &TypedTable,
    format: FileFormat,
    target: &Target,
    output: Box<dyn Write + '_>,
) -> Result<u64, Failure> {
    let mut writer = writer(format, &table.info, target, output)?;
    let mut progress = Progress::new();
    let mut rows = 0;
    let all = (Bound::Unbounded, Bound::Unbounded);
    table.pages(db, all, Direction::Forward, None, |page| {
        for (key, value) in &page.rows {
            writer.row(key, value)?;
        }
        rows += page.rows.len() as u64;
        progress.say(|| format!("exported {}", counted(rows, "row")));
        Ok(())
    })?;
    writer.finish()?;
    Ok(rows)
}
