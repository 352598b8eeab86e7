//! The part of `namiki check` for data segments: of loaded tables it verifies every page, and that
//! indexes have the keys of their tables' rows; the runs of the image are in `check_runs.rs`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki::Stamp;
use namiki::files::{
    FileNumber, ImageList, IndexDigests, LoadedTable, Manifest, SegmentFile, runs_to_read,
};
use namiki_platform::disk::Disk;
use namiki_segment::{CheckProgress, CheckVisitor};
use namiki_terminal::interrupt;
use namiki_terminal::number_format::{bytes, counted, name};

use crate::check_runs::check_runs;
use crate::failure::Failure;
use crate::progress::Progress;

/// Verifies the segments that a manifest and this image list name, except files that were verified
/// before, and prints their contents. Returns the number of bytes that were read.
pub(crate) fn check_segments(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    manifest: &Manifest,
    list: Option<&ImageList>,
    verified: &mut BTreeSet<FileNumber>,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let runs = list.map(|list| {
        let mut runs = runs_to_read(list, manifest);
        runs.retain(|run| verified.insert(run.listed.segment.file));
        runs
    });
    let runs_bytes = runs
        .iter()
        .flatten()
        .map(|run| run.listed.segment.len_bytes());
    let segments_bytes = manifest
        .loaded_tables
        .segments()
        .map(SegmentFile::len_bytes);
    let mut check = SegmentCheck {
        disk,
        dir,
        manifest,
        progress: Progress::new(),
        checked: 0,
        total: segments_bytes.chain(runs_bytes).sum(),
    };
    for table in &manifest.loaded_tables.tables {
        if !verified.insert(table.segment.file) {
            continue;
        }
        check.table(table)?;
        check.progress.clear();
        writeln!(out, "{}", describe(table)).map_err(Failure::output)?;
    }
    if let (Some(list), Some(runs)) = (list, &runs) {
        let advance = &mut |bytes| check.advance(bytes);
        let lines = check_runs(disk, dir, manifest.identity(), list, runs, advance)?;
        check.progress.clear();
        for line in lines {
            writeln!(out, "{line}").map_err(Failure::output)?;
        }
    }
    Ok(check.checked)
}

/// A verification that is running.
struct SegmentCheck<'a> {
    disk: &'a Arc<dyn Disk>,
    dir: &'a Path,
    manifest: &'a Manifest,
    progress: Progress,
    /// Bytes of verified segments, and of all.
    checked: u64,
    total: u64,
}

impl SegmentCheck<'_> {
    /// Counts bytes of verified files.
    fn advance(&mut self, checked: u64) -> Result<(), Failure> {
        self.checked += checked;
        let (done, total) = (self.checked, self.total);
        self.progress
            .say_of(done, total, || progress_line(done, total));
        Ok(interrupt::check()?)
    }

    /// Verifies the segments of a table, and that its indexes have the keys of its rows.
    fn table(&mut self, table: &LoadedTable) -> Result<(), Failure> {
        let digests = IndexDigests::new(table).map_err(|error| Failure::ManifestNonsense {
            path: Manifest::path(self.dir),
            why: format!("table {:?}: {error}", table.name),
        })?;
        let mut digests = (!table.indexes.is_empty()).then_some(digests);
        self.segment(table, &table.segment, digests.as_mut().map(Rows::OfTable))?;
        for (number, index) in table.indexes.iter().enumerate() {
            let rows = digests.as_mut().map(|it| Rows::OfIndex(it, number));
            let path = self.segment(table, &index.segment, rows)?;
            if digests.as_ref().is_some_and(|it| !it.agrees(number)) {
                return Err(Failure::IndexDiffers {
                    table: table.name.clone(),
                    index: index.name.clone(),
                    path,
                });
            }
        }
        Ok(())
    }

    /// Verifies a segment, and returns its path.
    fn segment(
        &mut self,
        table: &LoadedTable,
        segment: &SegmentFile,
        rows: Option<Rows<'_>>,
    ) -> Result<PathBuf, Failure> {
        let path = segment.file.path_of_named(&**self.disk, self.dir);
        let id = segment.id(self.manifest.identity());
        let mut visitor = Visitor {
            progress: &mut self.progress,
            checked: self.checked,
            total: self.total,
            path: &path,
            table: &table.name,
            rows,
        };
        let found = namiki_segment::check_with(self.disk, &path, id, &mut visitor)?;
        let (rows, pages) = (found.summary.rows, found.summary.pages);
        if rows != table.rows || pages != segment.pages {
            return Err(Failure::ManifestNonsense {
                path: Manifest::path(self.dir),
                why: format!(
                    "according to it {} has {} in {}, but there are {rows} in {pages}",
                    path.display(),
                    counted(table.rows, "row"),
                    counted(segment.pages.into(), "page"),
                ),
            });
        }
        self.checked += segment.len_bytes();
        Ok(path)
    }
}

/// The digest that the rows of a segment are added to.
enum Rows<'a> {
    OfTable(&'a mut IndexDigests),
    /// The entries of the index with this number.
    OfIndex(&'a mut IndexDigests, usize),
}

/// Callbacks during the verification of a segment.
struct Visitor<'a> {
    progress: &'a mut Progress,
    checked: u64,
    total: u64,
    path: &'a Path,
    table: &'a str,
    rows: Option<Rows<'a>>,
}

impl CheckVisitor for Visitor<'_> {
    type Error = Failure;

    fn on_progress(&mut self, now: CheckProgress) -> Result<(), Failure> {
        let total = self.total;
        let done = u64::from(now.pages_done) * namiki_segment::PAGE_BYTES as u64;
        let done = self.checked + done;
        self.progress
            .say_of(done, total, || progress_line(done, total));
        Ok(interrupt::check()?)
    }

    fn wants_rows(&self) -> bool {
        self.rows.is_some()
    }

    fn on_row(&mut self, key: &[u8], value: &[u8], _: Stamp) -> Result<(), Failure> {
        let is_one = match &mut self.rows {
            Some(Rows::OfTable(digests)) => digests.add_row(key, value),
            Some(Rows::OfIndex(digests, number)) => {
                digests.add_entry(*number, key);
                true
            }
            None => true,
        };
        if is_one {
            return Ok(());
        }
        Err(Failure::RowNonsense {
            table: self.table.to_owned(),
            path: self.path.to_owned(),
        })
    }
}

fn progress_line(done: u64, total: u64) -> String {
    format!("checked {} of {} of segments", bytes(done), bytes(total))
}

/// One line about a loaded table.
pub(crate) fn describe(table: &LoadedTable) -> String {
    let key = table.schema.key().iter();
    let key: Vec<_> = key
        .map(|place| name(&table.schema.columns()[*place].name))
        .collect();
    let indexes = table.indexes.iter().map(|index| {
        format!(
            "; index {:?} over {}, {}",
            index.name,
            name(&index.columns.join(", ")),
            bytes(index.segment.len_bytes())
        )
    });
    format!(
        "table {:?} in segments: {} by {}, {}{}",
        table.name,
        counted(table.rows, "row"),
        key.join(", "),
        bytes(table.segment.len_bytes()),
        indexes.collect::<String>(),
    )
}
