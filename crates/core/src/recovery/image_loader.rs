//! Loading the image of the tables in memory, before the log is replayed.
//!
//! Runs are read by several threads, each run by one, and verified as they are read (`image/run_reader.rs`). Rows become
//! versions with the stamps of the commits that wrote them, so whatever the log has of them later wins, and nothing else
//! does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use namiki_platform::Stamp;
use namiki_platform::disk::Disk;
use parking_lot::Mutex;

use super::image_records::{ImageRecords, RunRecords};
use super::progress::Progress;
use super::run_on_threads::on_threads;
use crate::catalogue::image_list::ImageList;
use crate::catalogue::manifest::Manifest;
use crate::concurrency::cc::with_protocol;
use crate::error::OpenError;
use crate::image::run_reader::{RunToRead, RunVisitor, read_run, runs_to_read};
use crate::protocol_spec::ConcurrencyControl;
use crate::storage::record::VALUE_BYTES_MAX;
use crate::table::raw_table::{Loaded, RawTable, TableId};

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

/// Loads images into tables.
pub(super) struct ImageLoader<'a> {
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) raw_tables: &'a BTreeMap<TableId, Arc<RawTable>>,
    /// The concurrency control that gives the records their words.
    pub(super) concurrency: ConcurrencyControl,
    pub(super) threads: usize,
    pub(super) progress: &'a Progress<'a>,
}

impl ImageLoader<'_> {
    /// Makes records of all rows of an image. No tree leads to them yet.
    pub(super) fn load(
        &self,
        image: ImageToLoad<'_>,
        manifest: &Manifest,
    ) -> Result<ImageRecords, OpenError> {
        let runs = runs_to_read(image.list, manifest);
        let next = AtomicUsize::new(0);
        let loaded = Mutex::new(Vec::new());
        let work = || -> Result<(), OpenError> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(run) = runs.get(number) else {
                    return Ok(());
                };
                let records = self.run(image.dir, manifest.identity(), *run);
                if records.is_err() {
                    // No thread need begin another.
                    next.store(runs.len(), Ordering::Relaxed);
                }
                loaded.lock().push((number, records?));
            }
        };
        on_threads(self.threads.clamp(1, runs.len().max(1)), work)?;
        let mut loaded = loaded.into_inner();
        loaded.sort_unstable_by_key(|(number, _)| *number);
        let mut records = ImageRecords::new();
        for (number, run) in loaded {
            let (table, listed) = (runs[number].table.id, runs[number].listed);
            let of_table = records.entry(table).or_default();
            of_table.push((listed.segment.file, run));
        }
        Ok(records)
    }

    fn run(&self, dir: &Path, database: u128, run: RunToRead<'_>) -> Result<RunRecords, OpenError> {
        let Some(raw_table) = self.raw_tables.get(&run.table.id) else {
            unreachable!("all tables of the manifest were made")
        };
        let mut rows = RunRows {
            raw_table,
            concurrency: self.concurrency,
            progress: self.progress,
            records: RunRecords::of(raw_table, run.listed.rows),
        };
        read_run(self.disk, dir, database, run, &mut rows)?;
        Ok(rows.records)
    }
}

/// The rows of one run on their way into records.
struct RunRows<'a> {
    raw_table: &'a RawTable,
    concurrency: ConcurrencyControl,
    progress: &'a Progress<'a>,
    records: RunRecords,
}

impl RunVisitor for RunRows<'_> {
    type Error = OpenError;

    fn on_progress(&mut self, bytes: u64, rows: u64) -> Result<(), OpenError> {
        self.progress.advance_image(bytes, rows)
    }

    fn on_row(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), String> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("a value of {} bytes", value.len()));
        }
        let (value, records) = (Some(value), &mut self.records);
        let row = Loaded { key, value, stamp };
        let pushed = with_protocol!(self.concurrency, P => records.push::<P>(self.raw_table, &row));
        pushed.map_err(|error| error.to_string())
    }
}
