//! Reads the runs of an image back, and verifies them: page by page, and against what the image list says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::disk::Disk;
use namiki_segment::{CheckProgress, CheckVisitor, PAGE_BYTES, SegmentError, check_with};

use crate::catalogue::image_list::{ImageList, ListedRun};
use crate::catalogue::manifest::Manifest;
use crate::error::OpenError;
use crate::image::read::stored_keys::KeyJoiner;
use crate::table::raw_table::TableInfo;

/// A run of an existing table.
#[derive(Clone, Copy, Debug)]
pub struct RunToRead<'a> {
    /// The table.
    pub table: &'a TableInfo,
    /// The list's entry of the run.
    pub listed: &'a ListedRun,
    /// Where the next run of the table begins, if there is one.
    pub end: Option<&'a [u8]>,
}

/// The runs of an image in the order of tables and keys. Those of tables that were dropped since are left out.
#[must_use]
pub fn runs_to_read<'a>(list: &'a ImageList, manifest: &'a Manifest) -> Vec<RunToRead<'a>> {
    let mut runs = Vec::new();
    for listed in &list.tables {
        let Some(table) = manifest.table(listed.id) else {
            continue;
        };
        let ends = listed.runs.iter().skip(1).map(|run| Some(&*run.from));
        let ends = ends.chain([None]);
        runs.extend(listed.runs.iter().zip(ends).map(|(listed, end)| RunToRead {
            table,
            listed,
            end,
        }));
    }
    runs
}

/// A visitor of the rows of a run.
pub trait RunVisitor {
    /// Why the reading ends; what is wrong with the run, too.
    type Error: From<OpenError>;

    /// Called about every megabyte and at the end, with the bytes of the file and the rows that were read since.
    ///
    /// # Errors
    /// Whatever is to end the reading.
    fn on_progress(&mut self, bytes: u64, rows: u64) -> Result<(), Self::Error>;

    /// Every row, in the order of keys.
    ///
    /// # Errors
    /// Why the table cannot have the row.
    fn on_row(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), String>;
}

/// Reads a run of a database's image and visits its rows: all of them, unless there is an error.
///
/// # Errors
/// [`OpenError::Image`] if the file is missing, damaged, or another; [`OpenError::ImageRows`] if
/// its rows do not match the list. The errors of the visitor.
pub fn read_run<V: RunVisitor>(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    database: u128,
    run: RunToRead<'_>,
    visitor: &mut V,
) -> Result<(), V::Error> {
    let path = run.listed.segment.file.rows_path(dir);
    let mut rows = RunRows {
        run,
        path,
        visitor,
        joiner: KeyJoiner::default(),
        pages_done: 0,
        rows: 0,
        rows_told: 0,
        bytes: 0,
        last_key: Vec::new(),
    };
    let (path, id) = (rows.path.clone(), run.listed.segment.id(database));
    match check_with(disk, &path, id, &mut rows) {
        Ok(report) => rows.finish(report.summary.pages),
        Err(Stopped::Segment(source)) => Err(V::Error::from(OpenError::Image {
            table: run.table.name.clone(),
            path,
            source: Box::new(source),
        })),
        Err(Stopped::Visitor(error)) => Err(error),
    }
}

/// Why a run was not read to its end.
enum Stopped<E> {
    Segment(SegmentError),
    Visitor(E),
}

impl<E> From<SegmentError> for Stopped<E> {
    fn from(error: SegmentError) -> Self {
        Self::Segment(error)
    }
}

/// The rows of one run while they are read.
struct RunRows<'r, V> {
    run: RunToRead<'r>,
    path: PathBuf,
    visitor: &'r mut V,
    joiner: KeyJoiner,
    pages_done: u32,
    rows: u64,
    /// How many of the rows were reported to the visitor.
    rows_told: u64,
    bytes: u64,
    last_key: Vec<u8>,
}

impl<V: RunVisitor> CheckVisitor for RunRows<'_, V> {
    type Error = Stopped<V::Error>;

    fn on_progress(&mut self, now: CheckProgress) -> Result<(), Self::Error> {
        let pages = u64::from(now.pages_done - self.pages_done);
        let rows = self.rows - self.rows_told;
        (self.pages_done, self.rows_told) = (now.pages_done, self.rows);
        let told = self.visitor.on_progress(pages * PAGE_BYTES as u64, rows);
        told.map_err(Stopped::Visitor)
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn on_row(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), Self::Error> {
        self.row(key, value, stamp)
            .map_err(|why| Stopped::Visitor(self.wrong(why)))
    }
}

impl<V: RunVisitor> RunRows<'_, V> {
    fn row(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), String> {
        let (key, value) = self.joiner.join(key, value)?;
        let listed = self.run.listed;
        if stamp > listed.stamp || stamp == Stamp(0) {
            return Err(format!("a row of {stamp} is in a run of {}", listed.stamp));
        }
        if self.rows == 0 && key < &*listed.from {
            return Err("its first key is before its beginning".to_owned());
        }
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
        if self.rows == listed.rows {
            self.last_key.extend_from_slice(key);
        }
        self.visitor.on_row(key, value, stamp)
    }

    /// Called once all rows were visited, with the number of the file's pages.
    fn finish(self, pages: u32) -> Result<(), V::Error> {
        let listed = self.run.listed;
        let expected = (listed.rows, listed.bytes, listed.segment.pages);
        let found = (self.rows, self.bytes, pages);
        if found != expected {
            return Err(self.wrong(format!(
                "{} rows of {} bytes in {} pages, not {} of {} in {}",
                found.0, found.1, found.2, expected.0, expected.1, expected.2
            )));
        }
        if self.run.end.is_some_and(|end| end <= &*self.last_key) {
            return Err(self.wrong("its last key is not before the next run".to_owned()));
        }
        Ok(())
    }

    fn wrong(&self, why: String) -> V::Error {
        V::Error::from(OpenError::ImageRows {
            table: self.run.table.name.clone(),
            path: self.path.clone(),
            why,
        })
    }
}
