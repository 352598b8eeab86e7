//! Loading the image of the tables in memory, before the log is replayed.
//!
//! Runs are read by several threads, each run by one, and verified as they are read (`image/run_reader.rs`). Rows become
//! versions with the stamps of the commits that wrote them, so whatever the log has of them later wins, and nothing else
//! does.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use namiki_platform::Stamp;
use smallvec::SmallVec;

use super::apply::Tables;
use super::progress::Progress;
use super::replay_context::Replay;
use super::run_on_threads::on_threads;
use crate::catalogue::image_list::ImageList;
use crate::catalogue::manifest::Manifest;
use crate::error::OpenError;
use crate::image::row_buffer::RowBuffer;
use crate::image::run_reader::{RunToRead, RunVisitor, read_run, runs_to_read};
use crate::table::raw_table::{Loaded, TableId};

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
        let runs = runs_to_read(self.list, manifest);
        runs.iter().map(|run| run.listed.segment.len_bytes()).sum()
    }
}

impl Replay<'_, '_> {
    /// Loads all rows of an image.
    pub(super) fn image(
        &self,
        image: ImageToLoad<'_>,
        manifest: &Manifest,
    ) -> Result<(), OpenError> {
        let runs = runs_to_read(image.list, manifest);
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), OpenError> {
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let loaded = self.run(image.dir, *run);
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

    fn run(&self, dir: &Path, run: RunToRead<'_>) -> Result<(), OpenError> {
        let mut loader = RunLoader {
            table: run.table.id,
            tables: self.tables,
            progress: self.progress,
            batch: RowBuffer::default(),
        };
        read_run(self.disk, dir, self.identity, run, &mut loader)?;
        loader.load_batch().map_err(|why| OpenError::ImageRows {
            table: run.table.name.clone(),
            path: run.listed.segment.file.rows_path(dir),
            why,
        })
    }
}

/// Takes the rows of one run to their table.
struct RunLoader<'r, 'p, 't> {
    table: TableId,
    tables: &'r Tables<'t>,
    progress: &'r Progress<'p>,
    batch: RowBuffer,
}

impl RunVisitor for RunLoader<'_, '_, '_> {
    type Error = OpenError;

    fn on_progress(&mut self, bytes: u64, rows: u64) -> Result<(), OpenError> {
        self.progress.advance_image(bytes, rows)
    }

    fn on_row(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), String> {
        if key.len() + value.len() > BYTES_TOGETHER {
            let value = Some(value);
            return self.load(&[Loaded { key, value, stamp }]);
        }
        self.batch.push(key, value, stamp);
        if self.batch.len() == ROWS_TOGETHER || self.batch.bytes() > BYTES_TOGETHER {
            self.load_batch()?;
        }
        Ok(())
    }
}

impl RunLoader<'_, '_, '_> {
    fn load_batch(&mut self) -> Result<(), String> {
        let rows: SmallVec<[Loaded<'_>; ROWS_TOGETHER]> = self.batch.rows().collect();
        self.load(&rows)?;
        drop(rows);
        self.batch.clear();
        Ok(())
    }

    fn load(&self, rows: &[Loaded<'_>]) -> Result<(), String> {
        let loaded = self.tables.load(self.table, rows);
        loaded.map_err(|(_, why)| why)
    }
}
