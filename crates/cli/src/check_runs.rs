//! The part of `namiki check` for the image of the tables in memory: verifies every page of every
//! run in the image list, and all rows.

use std::path::Path;
use std::sync::Arc;

use namiki::Stamp;
use namiki::files::{ImageList, RunToRead, RunVisitor, read_run};
use namiki_platform::disk::Disk;
use namiki_terminal::number_format::{bytes, counted};

use crate::failure::Failure;

/// Verifies these runs of an image, and returns the lines about them. `advance` is called with the
/// number of verified bytes.
pub(crate) fn check_runs(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    database: u128,
    list: &ImageList,
    runs: &[RunToRead<'_>],
    advance: &mut dyn FnMut(u64) -> Result<(), Failure>,
) -> Result<Vec<String>, Failure> {
    let mut lines = vec![format!("image of the tables in memory at {}", list.stamp)];
    for table in runs.chunk_by(|one, next| one.table.id == next.table.id) {
        for run in table {
            let mut visitor = Visitor {
                fixed_keys: run.table.fixed_keys,
                advance,
            };
            read_run(disk, dir, database, *run, &mut visitor)?;
        }
        let rows = table.iter().map(|run| run.listed.rows).sum();
        let length = table.iter().map(|run| run.listed.segment.len_bytes()).sum();
        lines.extend(table.first().map(|first| {
            format!(
                "  table {:?}: {}, {}, {}",
                first.table.name,
                counted(rows, "row"),
                counted(table.len() as u64, "run"),
                bytes(length)
            )
        }));
    }
    Ok(lines)
}

/// Callbacks during the verification of a run.
struct Visitor<'v> {
    fixed_keys: bool,
    advance: &'v mut dyn FnMut(u64) -> Result<(), Failure>,
}

impl RunVisitor for Visitor<'_> {
    type Error = Failure;

    fn on_progress(&mut self, bytes: u64, _: u64) -> Result<(), Failure> {
        (self.advance)(bytes)
    }

    fn on_row(&mut self, key: &[u8], _: &[u8], _: Stamp) -> Result<(), String> {
        if self.fixed_keys && key.len() != 8 {
            return Err(format!("a key of {} bytes, not of 8", key.len()));
        }
        Ok(())
    }
}
