//! Loading the image of the tables in memory: in the background while the database is open, or
//! before the opening returns.
//!
//! ```text
//!   recovery: the log's winners of each table ──┐
//!                                               ├─► a table's runs, by several threads, each run by one
//!   the image list: the runs of each table ─────┘      │ the last one that is done:
//!                                                      └─► rows and winners into the table's index; it is loaded
//! ```
//! Runs are verified as they are read (`image/read/run_reader.rs`). Rows become versions with the stamps of the commits that wrote
//! them; keys that the log has changed are passed over, for their winners are later. Tables that something waits for are
//! loaded first, in the order in which that began.
//!
//! As long as nothing waits, one processor is left to what the program does: views that read right after the opening, and the
//! log that they wait for.
//!
//! Until a table is loaded, views read it from its runs (`unloaded_table.rs`). A table that cannot
//! be loaded stays unusable: waiters and readers get an error. The other tables are loaded
//! nevertheless.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use namiki_platform::disk::Disk;
use namiki_platform::{Stamp, threads};
use parking_lot::{Condvar, Mutex};

use super::image_records::{RunRecords, fill};
use super::unloaded_table::{ImageFiles, UnloadedTable};
use crate::catalogue::image_files::{FileNumber, image_dir};
use crate::catalogue::image_list::{ImageList, ListedRun};
use crate::catalogue::loaded_tables::LoadedTable;
use crate::catalogue::manifest::Manifest;
use crate::concurrency::cc::with_protocol;
use crate::error::{Error, OpenError};
use crate::events;
use crate::image::read::run_reader::{RunVisitor, read_run, runs_to_read};
use crate::protocol_spec::ConcurrencyControl;
use crate::recovery::replay::log_winners::LogWinners;
use crate::recovery::run_on_threads::on_threads;
use crate::recovery::settings_and_report::{BeforeLoad, LoadingProgress};
use crate::storage::record::VALUE_BYTES_MAX;
use crate::table::load_state::WantedTables;
use crate::table::raw_table::{Loaded, RawTable, TableId, TableInfo};

/// The image that is loaded.
#[derive(Clone, Copy)]
pub(crate) struct ImageToLoad<'a> {
    /// The database's directory.
    pub(crate) dir: &'a Path,
    pub(crate) list: &'a ImageList,
}

impl ImageToLoad<'_> {
    /// The bytes of its files.
    pub(in crate::recovery) fn len_bytes(&self, manifest: &Manifest) -> u64 {
        let runs = runs_to_read(self.list, manifest);
        runs.iter().map(|run| run.listed.segment.len_bytes()).sum()
    }
}

/// Called about every megabyte of an image with the bytes and the rows that were loaded since; its error ends the loading.
pub(in crate::recovery) type WatchLoading<'a> =
    &'a (dyn Fn(u64, u64) -> Result<(), OpenError> + Sync);

/// The tables that are loaded from an image.
pub(crate) struct ImageLoader {
    /// The concurrency control that gives the records their words.
    concurrency: ConcurrencyControl,
    before_load: Option<BeforeLoad>,
    tables: Vec<LoadingTable>,
    numbers: BTreeMap<TableId, usize>,
    queue: Mutex<Queue>,
    wanted: Arc<WantedTables>,
    /// The number of tables that are neither loaded nor abandoned.
    left: Mutex<usize>,
    all_ended: Condvar,
    is_stopped: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    rows: AtomicU64,
    bytes: AtomicU64,
    rows_total: u64,
    bytes_total: u64,
    /// Files with rows of keys that the log has deleted.
    shrunk_files: Mutex<BTreeSet<FileNumber>>,
    /// Tables that are read from their segments, and never loaded.
    in_segments: Mutex<BTreeMap<TableId, Arc<UnloadedTable>>>,
}

/// One of the tables.
struct LoadingTable {
    contents: Mutex<Contents>,
    parts: Mutex<Parts>,
}

enum Contents {
    Unloaded(Arc<UnloadedTable>),
    /// They are in the index, or the table was dropped. Views that began before may still read the
    /// runs.
    Released(Weak<UnloadedTable>),
    Failed(Error, Weak<UnloadedTable>),
}

/// The parts of a table that have been read.
struct Parts {
    /// The records of each run, in the order of the runs.
    records: Vec<Option<RunRecords>>,
    /// The number of missing parts.
    left: usize,
}

/// The parts that no thread has begun.
#[derive(Default)]
struct Queue {
    /// Tables with waiters, and others, each with the first of its parts that is to be read.
    wanted: VecDeque<(usize, usize)>,
    others: VecDeque<(usize, usize)>,
}

impl ImageLoader {
    /// For an opening without an image.
    pub(in crate::recovery) fn none(concurrency: ConcurrencyControl) -> Arc<Self> {
        Arc::new(Self::of(Vec::new(), concurrency))
    }

    /// Finds out which tables there are to load: from here on, they are not loaded. Tables of the manifest without rows and
    /// winners are.
    pub(in crate::recovery) fn new(
        disk: &Arc<dyn Disk>,
        image: ImageToLoad<'_>,
        manifest: &Manifest,
        raw_tables: &BTreeMap<TableId, Arc<RawTable>>,
        mut winners: BTreeMap<TableId, LogWinners>,
        (concurrency, before_load): (ConcurrencyControl, Option<BeforeLoad>),
    ) -> Arc<Self> {
        let files = Arc::new(ImageFiles {
            disk: Arc::clone(disk),
            dir: image.dir.to_owned(),
            database: manifest.identity(),
        });
        let mut runs = BTreeMap::<TableId, Vec<_>>::new();
        for run in runs_to_read(image.list, manifest) {
            runs.entry(run.table.id)
                .or_default()
                .push(run.listed.clone());
        }
        let tables = manifest.tables.iter().filter_map(|info| {
            let runs = runs.remove(&info.id).unwrap_or_default();
            let winners = winners.remove(&info.id);
            let winners = winners.unwrap_or_else(|| LogWinners::none(info.fixed_keys));
            let has_any = !runs.is_empty() || winners.len() > 0;
            let raw_table = raw_tables.get(&info.id).filter(|_| has_any)?;
            Some(UnloadedTable::new(raw_table, &files, info, runs, winners))
        });
        let mut loader = Self::of(tables.collect(), concurrency);
        loader.before_load = before_load;
        for (number, table) in loader.tables.iter().enumerate() {
            if let Some(table) = table.unloaded() {
                table.raw_table.load_state.begin(&loader.wanted, number);
            }
        }
        Arc::new(loader)
    }

    fn of(unloaded: Vec<UnloadedTable>, concurrency: ConcurrencyControl) -> Self {
        let runs = || {
            unloaded
                .iter()
                .flat_map(|table| (0..table.run_count()).map(|run| table.run(run).listed))
        };
        let (rows_total, bytes_total) = (
            runs().map(|run| run.rows).sum(),
            runs().map(|run| run.segment.len_bytes()).sum(),
        );
        let ids = unloaded.iter().map(|table| table.raw_table.id);
        let numbers = ids.zip(0..).collect();
        let others = (0..unloaded.len()).map(|number| (number, 0)).collect();
        let tables: Vec<_> = unloaded
            .into_iter()
            .map(|table| {
                let runs = table.run_count();
                LoadingTable {
                    parts: Mutex::new(Parts {
                        records: (0..runs).map(|_| None).collect(),
                        left: table.part_count(),
                    }),
                    contents: Mutex::new(Contents::Unloaded(Arc::new(table))),
                }
            })
            .collect();
        Self {
            concurrency,
            before_load: None,
            numbers,
            queue: Mutex::new(Queue {
                others,
                ..Queue::default()
            }),
            wanted: Arc::default(),
            left: Mutex::new(tables.len()),
            tables,
            all_ended: Condvar::new(),
            is_stopped: AtomicBool::new(false),
            threads: Mutex::default(),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            rows_total,
            bytes_total,
            shrunk_files: Mutex::default(),
            in_segments: Mutex::default(),
        }
    }

    /// Loads a table from runs that were written for it: its rows are all that it has.
    ///
    /// # Errors
    /// Why it cannot be loaded; what `watch` says.
    pub(crate) fn load_table(
        raw_table: RawTable,
        info: &TableInfo,
        runs: Vec<ListedRun>,
        files: &Arc<ImageFiles>,
        (concurrency, threads): (ConcurrencyControl, usize),
        watch: WatchLoading<'_>,
    ) -> Result<RawTable, OpenError> {
        let raw_table = Arc::new(raw_table);
        if !runs.is_empty() {
            let winners = LogWinners::none(info.fixed_keys);
            let table = UnloadedTable::new(&raw_table, files, info, runs, winners);
            let loader = Arc::new(Self::of(vec![table], concurrency));
            loader.load_now(threads, watch)?;
        }
        let raw_table = Arc::into_inner(raw_table);
        Ok(raw_table.unwrap_or_else(|| unreachable!("its loader is gone")))
    }

    /// From now on, views read this table from the segment into which it was loaded.
    pub(crate) fn read_in_segment(
        &self,
        raw_table: &Arc<RawTable>,
        info: &TableInfo,
        table: &LoadedTable,
        files: &Arc<ImageFiles>,
    ) {
        let unloaded = UnloadedTable::in_segment(raw_table, files, info, table);
        let mut in_segments = self.in_segments.lock();
        in_segments.insert(raw_table.id, Arc::new(unloaded));
    }

    /// Verifies the runs' files without reading them: that they exist and have the right length.
    ///
    /// # Errors
    /// [`OpenError::Image`], [`OpenError::ImageRows`], [`OpenError::Device`].
    pub(in crate::recovery) fn check_files(&self) -> Result<(), OpenError> {
        let unloaded: Vec<_> = self
            .tables
            .iter()
            .filter_map(LoadingTable::unloaded)
            .collect();
        let Some(files) = unloaded.first().map(|table| &table.files) else {
            return Ok(());
        };
        let (disk, dir) = (&files.disk, &*files.dir);
        let found = match disk.list(&image_dir(dir)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            found => found.map_err(|source| OpenError::Device {
                path: image_dir(dir),
                source,
            })?,
        };
        let lengths: BTreeMap<_, _> = found
            .into_iter()
            .map(|file| (file.path, file.len_bytes))
            .collect();
        for table in &unloaded {
            for run in (0..table.run_count()).map(|run| table.run(run)) {
                let segment = &run.listed.segment;
                let length = lengths.get(&segment.file.rows_path(dir));
                if length != Some(&segment.len_bytes()) {
                    // It says what is wrong.
                    read_run(disk, dir, files.database, run, &mut Unread)?;
                }
            }
        }
        Ok(())
    }

    /// Loads all tables before it returns, on `threads` threads.
    ///
    /// # Errors
    /// Why one cannot be loaded; what `watch` says.
    pub(in crate::recovery) fn load_now(
        self: &Arc<Self>,
        threads: usize,
        watch: WatchLoading<'_>,
    ) -> Result<(), OpenError> {
        let work = || {
            while let Some((number, part)) = self.take_part() {
                if let Err(error) = self.load_part(number, part, watch) {
                    // No thread need begin another.
                    *self.queue.lock() = Queue::default();
                    return Err(error);
                }
            }
            Ok(())
        };
        on_threads(self.threads_of_use(threads), work)
    }

    /// Loads the tables in the background on `threads` threads, or on this one if the system allows
    /// no other.
    pub(crate) fn start(self: &Arc<Self>, threads: usize) {
        if *self.left.lock() == 0 {
            return;
        }
        let mut started = self.threads.lock();
        for number in 0..self.threads_of_use(threads) {
            let loader = Arc::clone(self);
            // One begins at once, however few processors there are.
            let is_reserve = !started.is_empty() && number + 1 >= threads::processors().get();
            let thread = threads::start("namiki-load", move || {
                if is_reserve {
                    loader.wanted.wait_until_urgent();
                }
                loader.load_in_background();
            });
            started.extend(thread);
        }
        let is_alone = started.is_empty();
        drop(started);
        if is_alone {
            self.load_in_background();
        }
    }

    /// No more threads than there are parts to load.
    fn threads_of_use(&self, threads: usize) -> usize {
        let parts: usize = self
            .tables
            .iter()
            .map(|table| table.parts.lock().left)
            .sum();
        threads.clamp(1, parts.max(1))
    }

    fn load_in_background(&self) {
        while let Some((number, part)) = self.take_part() {
            let watch = |_, _| Ok(());
            let load = || self.load_part(number, part, &watch);
            let loaded = catch_unwind(AssertUnwindSafe(load));
            match loaded {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.fail(number, |_| error),
                Err(_panic) => self.fail(number, |table| OpenError::Device {
                    path: image_dir(&table.files.dir),
                    source: io::Error::other("a panic in the middle of loading"),
                }),
            }
        }
    }

    /// The table and the part of it that are to be loaded next.
    fn take_part(&self) -> Option<(usize, usize)> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return None;
        }
        let queue = &mut *self.queue.lock();
        while let Some(wanted) = self.wanted.next() {
            let place = queue
                .others
                .iter()
                .position(|(number, _)| *number == wanted);
            let moved = place.and_then(|place| queue.others.remove(place));
            queue.wanted.extend(moved);
        }
        let tables = if queue.wanted.is_empty() {
            &mut queue.others
        } else {
            &mut queue.wanted
        };
        let (number, part) = tables.front_mut()?;
        let taken = (*number, *part);
        *part += 1;
        if *part >= self.tables[taken.0].parts.lock().records.len() {
            tables.pop_front();
        }
        Some(taken)
    }

    /// Loads a run of a table, and the table itself if this was the last missing part.
    fn load_part(
        &self,
        number: usize,
        part: usize,
        watch: WatchLoading<'_>,
    ) -> Result<(), OpenError> {
        let loading = &self.tables[number];
        let Some(table) = loading.unloaded() else {
            return Ok(());
        };
        if let Some(before_load) = &self.before_load {
            before_load(&table.raw_table.name());
        }
        let records = if part < table.run_count() {
            Some(self.read(loading, &table, part, watch)?)
        } else {
            None
        };
        let all = {
            let parts = &mut *loading.parts.lock();
            if let Some(place) = parts.records.get_mut(part) {
                *place = records;
            }
            parts.left -= 1;
            (parts.left == 0).then(|| std::mem::take(&mut parts.records))
        };
        let Some(all) = all else {
            return Ok(());
        };
        let mut watched = Ok(());
        let is_stopped = || {
            watched = self.check_goes_on(loading).and_then(|()| watch(0, 0));
            watched.is_err()
        };
        let records = all.into_iter().flatten().collect();
        let filled = fill(&table.raw_table, records, &table.winners, is_stopped);
        watched?;
        filled.map_err(|_out_of_pages| OpenError::TableFull {
            table: table.raw_table.name(),
            index: table.raw_table.index_kind(),
        })?;
        self.end(number, &table);
        Ok(())
    }

    fn read(
        &self,
        loading: &LoadingTable,
        table: &UnloadedTable,
        part: usize,
        watch: WatchLoading<'_>,
    ) -> Result<RunRecords, OpenError> {
        let run = table.run(part);
        let mut rows = RunRows {
            loader: self,
            loading,
            table,
            watch,
            next_winner: table.winners.first_from(&run.listed.from),
            is_shrunk: false,
            records: RunRecords::of(&table.raw_table, run.listed.rows),
        };
        let ImageFiles {
            disk,
            dir,
            database,
        } = &*table.files;
        read_run(disk, dir, *database, run, &mut rows)?;
        let RunRows {
            is_shrunk, records, ..
        } = rows;
        if is_shrunk {
            self.shrunk_files.lock().insert(run.listed.segment.file);
        }
        Ok(records)
    }

    /// Whether a table still has to be loaded.
    fn check_goes_on(&self, loading: &LoadingTable) -> Result<(), OpenError> {
        let is_over = self.is_stopped.load(Ordering::Relaxed) || loading.unloaded().is_none();
        if is_over {
            Err(OpenError::Interrupted)
        } else {
            Ok(())
        }
    }

    /// A table is loaded.
    fn end(&self, number: usize, table: &Arc<UnloadedTable>) {
        let mut contents = self.tables[number].contents.lock();
        if matches!(*contents, Contents::Unloaded(_)) {
            *contents = Contents::Released(Arc::downgrade(table));
            drop(contents);
            table.raw_table.load_state.end(Ok(()));
            events::table_ready(&table.raw_table.name());
            self.one_ended();
        }
    }

    /// A table cannot be loaded. Does nothing if the loading was stopped.
    fn fail(&self, number: usize, why: impl FnOnce(&UnloadedTable) -> OpenError) {
        let mut contents = self.tables[number].contents.lock();
        let table = match &*contents {
            Contents::Unloaded(table) if !self.is_stopped.load(Ordering::Relaxed) => {
                Arc::clone(table)
            }
            _ => return,
        };
        let error = Error::TableNotLoaded {
            table: table.raw_table.name(),
            source: Arc::new(why(&table)),
        };
        *contents = Contents::Failed(error.clone(), Arc::downgrade(&table));
        drop(contents);
        self.tables[number].parts.lock().records.clear();
        events::table_not_loaded(&error);
        table.raw_table.load_state.end(Err(error));
        self.one_ended();
    }

    fn one_ended(&self) {
        let mut left = self.left.lock();
        *left -= 1;
        if *left == 0 {
            self.all_ended.notify_all();
            // Threads that have not begun end.
            self.wanted.make_urgent();
        }
    }

    /// A table was dropped: its loading ends, and no operation waits for it any more.
    pub(crate) fn forget(&self, id: TableId) {
        self.in_segments.lock().remove(&id);
        let Some(loading) = self.numbers.get(&id).map(|number| &self.tables[*number]) else {
            return;
        };
        let was = {
            let mut contents = loading.contents.lock();
            match &*contents {
                Contents::Released(_) => None,
                Contents::Failed(_, table) => {
                    *contents = Contents::Released(Weak::clone(table));
                    None
                }
                Contents::Unloaded(table) => {
                    let table = Arc::clone(table);
                    *contents = Contents::Released(Arc::downgrade(&table));
                    Some(table)
                }
            }
        };
        loading.parts.lock().records.clear();
        if let Some(table) = was {
            let dropped = Error::TableDropped {
                table: table.raw_table.name(),
            };
            table.raw_table.load_state.end(Err(dropped));
            self.one_ended();
        }
    }

    /// Ends the loading for good. Waiters for a table fail.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.wanted.make_urgent();
        // Locked until all have ended: a second caller waits for them, too.
        for thread in self.threads.lock().drain(..) {
            // It does not panic.
            let _ = thread.join();
        }
        for table in self.tables.iter().filter_map(LoadingTable::unloaded) {
            table.raw_table.load_state.end(Err(Error::Closed));
        }
        // So that no waiter is between its check and its wait.
        drop(self.left.lock());
        self.all_ended.notify_all();
    }

    /// Whether it has to end, or has ended.
    #[cfg(test)]
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Waits until all tables are loaded, except for those that were dropped.
    ///
    /// # Errors
    /// Why one is not: [`Error::TableNotLoaded`], [`Error::Closed`].
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let mut left = self.left.lock();
        if *left > 0 {
            self.wanted.make_urgent();
        }
        while *left > 0 {
            if self.is_stopped.load(Ordering::SeqCst) {
                return Err(Error::Closed);
            }
            self.all_ended.wait(&mut left);
        }
        drop(left);
        let failed = self
            .tables
            .iter()
            .find_map(|table| match &*table.contents.lock() {
                Contents::Failed(error, _) => Some(error.clone()),
                _ => None,
            });
        failed.map_or(Ok(()), Err)
    }

    /// Whether all tables are loaded, except for those that were dropped.
    pub(crate) fn is_done(&self) -> bool {
        let is_released =
            |table: &LoadingTable| matches!(*table.contents.lock(), Contents::Released(_));
        self.tables.iter().all(is_released)
    }

    /// Opens the files of loaded tables that a view still reads from their runs, because its read
    /// began before the table was loaded. Called before an image's files are removed. A file that
    /// cannot be opened is an error of that read.
    pub(crate) fn open_files_in_use(&self) {
        for table in &self.tables {
            let in_use = match &*table.contents.lock() {
                Contents::Released(table) => table.upgrade(),
                Contents::Unloaded(_) | Contents::Failed(..) => None,
            };
            if let Some(table) = in_use {
                table.open_each_run();
            }
        }
    }

    /// The rows of a table in its runs; `None` if it was loaded concurrently.
    ///
    /// # Errors
    /// [`Error::TableNotLoaded`].
    pub(crate) fn unloaded(&self, id: TableId) -> Result<Option<Arc<UnloadedTable>>, Error> {
        let Some(number) = self.numbers.get(&id) else {
            return Ok(self.in_segments.lock().get(&id).cloned());
        };
        match &*self.tables[*number].contents.lock() {
            Contents::Unloaded(table) => Ok(Some(Arc::clone(table))),
            Contents::Released(_) => Ok(None),
            Contents::Failed(error, _) => Err(error.clone()),
        }
    }

    /// The progress of the loading.
    pub(crate) fn progress(&self) -> LoadingProgress {
        let mut progress = LoadingProgress {
            tables_total: self.tables.len() as u64,
            rows: self.rows.load(Ordering::Relaxed),
            rows_total: self.rows_total,
            bytes: self.bytes.load(Ordering::Relaxed),
            bytes_total: self.bytes_total,
            ..LoadingProgress::default()
        };
        for table in &self.tables {
            match &*table.contents.lock() {
                Contents::Unloaded(_) => {}
                Contents::Released(_) => progress.tables += 1,
                Contents::Failed(..) => progress.tables_failed += 1,
            }
        }
        progress
    }

    /// The files that have rows of keys which the log has deleted, once all tables are loaded: the
    /// tables have no trace of those keys.
    pub(crate) fn take_shrunk_files(&self) -> BTreeSet<FileNumber> {
        std::mem::take(&mut *self.shrunk_files.lock())
    }
}

impl LoadingTable {
    /// Its rows, unless they are in the index.
    fn unloaded(&self) -> Option<Arc<UnloadedTable>> {
        match &*self.contents.lock() {
            Contents::Unloaded(table) => Some(Arc::clone(table)),
            Contents::Released(_) | Contents::Failed(..) => None,
        }
    }
}

/// The rows of one run on their way into records.
struct RunRows<'a> {
    loader: &'a ImageLoader,
    loading: &'a LoadingTable,
    table: &'a UnloadedTable,
    watch: WatchLoading<'a>,
    /// The first winner that is not below the next row.
    next_winner: usize,
    /// Whether the log has deleted one of the keys.
    is_shrunk: bool,
    records: RunRecords,
}

impl RunVisitor for RunRows<'_> {
    type Error = OpenError;

    fn on_progress(&mut self, bytes: u64, rows: u64) -> Result<(), OpenError> {
        self.loader.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.loader.rows.fetch_add(rows, Ordering::Relaxed);
        self.loader.check_goes_on(self.loading)?;
        (self.watch)(bytes, rows)
    }

    fn on_row(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), String> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("a value of {} bytes", value.len()));
        }
        let (raw_table, winners) = (&self.table.raw_table, &self.table.winners);
        while self.next_winner < winners.len() {
            let order = winners.cmp_key(self.next_winner, key);
            if order.is_gt() {
                break;
            }
            self.next_winner += 1;
            if order.is_eq() {
                self.is_shrunk |= winners.record(self.next_winner - 1).is_none();
                let checked = raw_table.check_key(key);
                return checked.map_err(|error| error.to_string());
            }
        }
        let row = Loaded {
            key,
            value: Some(value),
            stamp,
        };
        let records = &mut self.records;
        let pushed =
            with_protocol!(self.loader.concurrency, P => records.push::<P>(raw_table, &row));
        pushed.map_err(|error| error.to_string())
    }
}

/// Skips rows.
struct Unread;

impl RunVisitor for Unread {
    type Error = OpenError;

    fn on_progress(&mut self, _bytes: u64, _rows: u64) -> Result<(), OpenError> {
        Ok(())
    }

    fn on_row(&mut self, _key: &[u8], _value: &[u8], _stamp: Stamp) -> Result<(), String> {
        Ok(())
    }
}
