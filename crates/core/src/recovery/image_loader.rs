//! Loading the image of the tables in memory, before the log is replayed.
//!
//! Runs are read by several threads, each run by one. Every page is checked as it is read, and every run against what the
//! image list says of it. Rows become versions with the stamps of the commits that wrote them, so whatever the log has
//! of them later wins, and nothing else does.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use namiki_platform::Stamp;
use namiki_segment::{CheckProgress, CheckVisitor, PAGE_BYTES, SegmentError, check_with};
use smallvec::SmallVec;

use super::replay_context::Replay;
use super::run_on_threads::on_threads;
use crate::catalogue::image_list::{ImageList, ListedRun};
use crate::catalogue::manifest::Manifest;
use crate::error::OpenError;
use crate::image::row_buffer::RowBuffer;
use crate::image::stored_keys::KeyJoiner;
use crate::table::raw_table::{Loaded, TableInfo};

/// How many rows are loaded together, so that their cache misses overlap.
const ROWS_TOGETHER: usize = 64;
/// Rows up to so many bytes are put together; a longer one is loaded from where it lies.
const BYTES_TOGETHER: usize = 64 << 10;

/// An image to begin with.
#[derive(Clone, Copy)]
pub(crate) struct ImageToLoad<'a> {
    /// The database's directory.
    pub(crate) dir: &'a Path,
    pub(crate) list: &'a ImageList,
}

impl ImageToLoad<'_> {
    /// The bytes of its files.
    pub(super) fn len_bytes(&self, manifest: &Manifest) -> u64 {
        let runs = runs_of(self.list, manifest);
        runs.iter().map(|run| run.listed.segment.len_bytes()).sum()
    }
}

/// A run of a table that there is.
struct RunToLoad<'a> {
    table: &'a TableInfo,
    listed: &'a ListedRun,
    /// Where the next run of the table begins.
    end: Option<&'a [u8]>,
}

/// Runs of tables that were dropped since (I9) are left out.
fn runs_of<'a>(list: &'a ImageList, manifest: &'a Manifest) -> Vec<RunToLoad<'a>> {
    let mut runs = Vec::new();
    for listed in &list.tables {
        let Some(table) = manifest.table(listed.id) else {
            continue;
        };
        let ends = listed.runs.iter().skip(1).map(|run| Some(&*run.from));
        let ends = ends.chain([None]);
        runs.extend(listed.runs.iter().zip(ends).map(|(listed, end)| RunToLoad {
            table,
            listed,
            end,
        }));
    }
    runs
}

impl Replay<'_, '_> {
    /// Loads all rows of an image.
    pub(super) fn image(
        &self,
        image: ImageToLoad<'_>,
        manifest: &Manifest,
    ) -> Result<(), OpenError> {
        let runs = runs_of(image.list, manifest);
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), OpenError> {
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let loaded = self.run(image.dir, run);
                if loaded.is_err() {
                    // No thread need begin another.
                    next.store(runs.len(), Ordering::Relaxed);
                }
                loaded?;
            }
            Ok(())
        };
        on_threads(self.threads.clamp(1, runs.len().max(1)), work)
    }

    fn run(&self, dir: &Path, run: &RunToLoad<'_>) -> Result<(), OpenError> {
        let (listed, path) = (run.listed, run.listed.segment.file.rows_path(dir));
        let mut rows = RunRows {
            replay: self,
            run,
            path: &path,
            joiner: KeyJoiner::default(),
            pages_done: 0,
            batch: RowBuffer::default(),
            rows: 0,
            bytes: 0,
            rows_told: 0,
            last_key: Vec::new(),
        };
        let id = listed.segment.id(self.identity);
        match check_with(self.disk, &path, id, &mut rows) {
            Ok(report) => rows.finish(report.summary.pages),
            Err(Stopped::Segment(source)) => Err(OpenError::Image {
                table: run.table.name.clone(),
                path: path.clone(),
                source,
            }),
            Err(Stopped::Open(error)) => Err(error),
        }
    }
}

/// Why a run was not read to its end.
enum Stopped {
    Segment(SegmentError),
    Open(OpenError),
}

impl From<SegmentError> for Stopped {
    fn from(error: SegmentError) -> Self {
        Self::Segment(error)
    }
}

/// The rows of one run on their way into the table.
struct RunRows<'r, 'a, 't> {
    replay: &'r Replay<'a, 't>,
    run: &'r RunToLoad<'r>,
    path: &'r Path,
    joiner: KeyJoiner,
    pages_done: u32,
    batch: RowBuffer,
    rows: u64,
    bytes: u64,
    /// Of the rows, how many the progress was told of.
    rows_told: u64,
    last_key: Vec<u8>,
}

impl CheckVisitor for RunRows<'_, '_, '_> {
    type Error = Stopped;

    fn on_progress(&mut self, now: CheckProgress) -> Result<(), Stopped> {
        let pages = u64::from(now.pages_done - self.pages_done);
        let rows = self.rows - self.rows_told;
        (self.pages_done, self.rows_told) = (now.pages_done, self.rows);
        let told = self.replay.progress.advance_image(pages * PAGE_BYTES as u64, rows);
        told.map_err(Stopped::Open)
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn on_row(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), Stopped> {
        let mut joiner = std::mem::take(&mut self.joiner);
        let loaded = match joiner.join(key, value) {
            Ok((key, value)) => self.row(key, value, stamp),
            Err(why) => Err(self.wrong(why.to_owned())),
        };
        self.joiner = joiner;
        loaded.map_err(Stopped::Open)
    }
}

impl RunRows<'_, '_, '_> {
    fn row(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), OpenError> {
        if stamp > self.run.listed.stamp || stamp == Stamp(0) {
            let of = self.run.listed.stamp;
            return Err(self.wrong(format!("a row of {stamp} is in a run of {of}")));
        }
        if self.rows == 0 && key < &*self.run.listed.from {
            return Err(self.wrong("its first key is before its beginning".to_owned()));
        }
        let row_bytes = key.len() + value.len();
        self.rows += 1;
        self.bytes += row_bytes as u64;
        if row_bytes > BYTES_TOGETHER {
            self.load_batch()?;
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
            let value = Some(value);
            return self.load(&[Loaded { key, value, stamp }]);
        }
        self.batch.push(key, value, stamp);
        if self.batch.len() == ROWS_TOGETHER || self.batch.bytes() > BYTES_TOGETHER {
            self.load_batch()?;
        }
        Ok(())
    }

    fn load_batch(&mut self) -> Result<(), OpenError> {
        let batch = std::mem::take(&mut self.batch);
        let rows: SmallVec<[Loaded<'_>; ROWS_TOGETHER]> = batch.rows().collect();
        if let Some(last) = batch.last_key() {
            self.last_key.clear();
            self.last_key.extend_from_slice(last);
        }
        let loaded = self.load(&rows);
        drop(rows);
        self.batch = batch;
        self.batch.clear();
        loaded
    }

    fn load(&self, rows: &[Loaded<'_>]) -> Result<(), OpenError> {
        let loaded = self.replay.tables.load(self.run.table.id, rows);
        loaded.map_err(|(_, why)| self.wrong(why))
    }

    /// Once all rows were visited, in a file of so many pages.
    fn finish(mut self, pages: u32) -> Result<(), OpenError> {
        self.load_batch()?;
        self.replay.progress.advance_image(0, self.rows - self.rows_told)?;
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

    fn wrong(&self, why: String) -> OpenError {
        OpenError::ImageRows {
            table: self.run.table.name.clone(),
            path: self.path.to_owned(),
            why,
        }
    }
}
