//! Bulk load of a table into segments, as an atomic operation.
//!
//! ```text
//!   reserve the name and the numbers of files → write the table's segment, sort and write its indexes, each synced
//!   → make their names durable → replace the manifest by one that names them → give them their lasting names
//! ```
//! The replacement is what makes the table be there: a crash before it leaves files that the next
//! opening removes, and one after it leaves the whole table. (For the purpose of lasting names, see
//! image_files.rs.) The catalogue is locked only at the beginning and at the end, so transactions
//! and other loads run concurrently.

use std::error::Error as StdError;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use namiki_data::columns::Datum;

use crate::api::database::{Database, Shared};
use crate::catalogue::catalogue_files::NotWritten;
use crate::catalogue::image_files::{FileNumber, image_dir};
use crate::catalogue::loaded_tables::LoadedTable;
use crate::catalogue::manifest::Manifest;
use crate::error::Error;
use crate::events;
use crate::image::new_files::NewFiles;
use crate::live::catalogue::Catalogue;
use crate::loaded_tables::load_error::LoadError;
use crate::loaded_tables::table_writer::{NewTable, TableWriter, Target};
use crate::tables::reserved_name::ReservedName;

/// The number of rows or entries between two checks of the clock, the interrupt and the database.
const ROWS_BETWEEN_CHECKS: u64 = 1024;
/// Time between two calls of [`OnLoadProgress`].
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Called periodically while a table is loaded.
pub type OnLoadProgress = Arc<dyn Fn(LoadProgress<'_>) + Send + Sync>;

/// The progress of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress<'a> {
    /// The table.
    pub table: &'a str,
    /// The index that is being written, after all rows; `None` while rows are written.
    pub index: Option<&'a str>,
    /// Rows, or entries of the index, written so far.
    pub written: u64,
    /// The total number; `None` while rows are written.
    pub total: Option<u64>,
}

/// Options of a load. The defaults suit most.
#[derive(Clone)]
pub struct LoadOptions {
    sort_bytes: usize,
    interrupt: Option<Arc<AtomicBool>>,
    on_progress: Option<OnLoadProgress>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            sort_bytes: 1 << 30,
            interrupt: None,
            on_progress: None,
        }
    }
}

impl LoadOptions {
    /// The memory that sorting the entries of all indexes may take, in bytes. Entries beyond it are
    /// sorted in parts and merged, through files: an entry takes its key and 16 bytes more. Two
    /// fifths of the memory are for keys, and as much for the rest of entries. Default: 1 GiB. At
    /// least 64 KiB for each index are used, and at most 10 GiB; merging takes up to 8 MiB in
    /// addition.
    #[must_use]
    pub fn sort_bytes(mut self, bytes: usize) -> Self {
        self.sort_bytes = bytes;
        self
    }

    /// The load ends with [`LoadError::Interrupted`] soon after this becomes true.
    #[must_use]
    pub fn interrupt(mut self, asked: Arc<AtomicBool>) -> Self {
        self.interrupt = Some(asked);
        self
    }

    /// Called periodically.
    #[must_use]
    pub fn on_progress(mut self, on_progress: OnLoadProgress) -> Self {
        self.on_progress = Some(on_progress);
        self
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("sort_bytes", &self.sort_bytes)
            .finish_non_exhaustive()
    }
}

/// Loaded tables.
impl Database {
    /// Loads a new table from rows that are sorted by its key, each a value for every column. The
    /// load is atomic: when this returns, the table is durable; if it fails, or the process ends
    /// before, the table does not exist.
    ///
    /// A source of rows reports a failure with an error, which ends the load: rows that merely end
    /// early would look like a complete table.
    ///
    /// A loaded table lies on the disk, not in memory, and is read there by [`Database::query`]. [`Database::table`] takes it
    /// into memory, where transactions change it, if it fits ([`Builder::loaded_tables_bytes_max`](crate::Builder::loaded_tables_bytes_max))
    /// and has no indexes. The types are those of its key's columns and `[u8]`, which are rows by
    /// [`encode_row`](crate::query::encode_row).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use namiki::query::{Column, ColumnType, Datum, Schema};
    /// use namiki::{Database, NewTable};
    ///
    /// let db = Database::open(dir.path().join("data"))?;
    /// let columns = vec![
    ///     Column::new("id", ColumnType::I64),
    ///     Column::new("name", ColumnType::Text),
    /// ];
    /// let nations = NewTable::new("nations", Schema::new(columns, &["id"])?).index("by_name", &["name"]);
    /// let file = "0,Algeria\n1,Argentina\n2,Brazil\n";
    /// let rows = file.lines().map(|line| -> Result<_, String> {
    ///     let (id, name) = line.split_once(',').ok_or("a line without a comma")?;
    ///     let id = id.parse().map_err(|_| format!("{id} is no number"))?;
    ///     Ok(vec![Datum::I64(id), Datum::Text(name.to_owned())])
    /// });
    /// let loaded = db.load_sorted(&nations, rows)?;
    /// assert_eq!(loaded.rows, 3);
    /// # let schema = nations.schema();
    ///
    /// // Without an index, it could be changed:
    /// # let nations = NewTable::new("others", schema.clone());
    /// # let rows = [Ok::<_, String>(vec![Datum::I64(0), Datum::Text("Algeria".to_owned())])];
    /// # db.load_sorted(&nations, rows)?;
    /// let nations = db.table::<i64, [u8]>(nations.name())?;
    /// db.transact(|tx| tx.delete(&nations, &0))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load_sorted<E: Into<Box<dyn StdError + Send + Sync>>>(
        &self,
        table: &NewTable,
        rows: impl IntoIterator<Item = Result<Vec<Datum>, E>>,
    ) -> Result<LoadedTable, LoadError> {
        self.load_sorted_with(table, rows, &LoadOptions::default())
    }

    /// [`Database::load_sorted`] with settings.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load_sorted_with<E: Into<Box<dyn StdError + Send + Sync>>>(
        &self,
        table: &NewTable,
        rows: impl IntoIterator<Item = Result<Vec<Datum>, E>>,
        options: &LoadOptions,
    ) -> Result<LoadedTable, LoadError> {
        let shared = &*self.shared;
        let load = Load::begin(shared, table, options)?;
        let dir = image_dir(&shared.dir);
        let made = shared.disk.create_dir_all(&dir);
        made.map_err(|source| LoadError::device(&dir, source))?;
        let mut writer = TableWriter::new(table, load.target())?;
        let mut ticker = Ticker::new(&load);
        for row in rows {
            load.check_process()?;
            let row = row.map_err(|source| LoadError::Source {
                table: table.name.clone(),
                row: writer.row_count() + 1,
                source: Arc::from(source.into()),
            })?;
            writer.push(&row)?;
            ticker.tick(None, writer.row_count(), None)?;
        }
        let total = writer.row_count();
        let (described, files) =
            writer.finish(&mut |index, written| ticker.tick(Some(index), written, Some(total)))?;
        load.announce(described, files)
    }

    /// The tables that lie in segments, in the order of their loads: those that were loaded and not
    /// taken into memory since. Empty in a forked child of the process that opened the database.
    #[must_use]
    pub fn loaded_tables(&self) -> Vec<LoadedTable> {
        let shared = &*self.shared;
        if !shared.engine.is_own() {
            return Vec::new();
        }
        shared
            .catalogue
            .lock()
            .manifest
            .loaded_tables
            .tables
            .clone()
    }
}

/// A running load.
struct Load<'a> {
    /// Released at the end.
    _reserved: ReservedName<'a>,
    shared: &'a Shared,
    table: &'a NewTable,
    options: &'a LoadOptions,
    identity: u128,
    first_file: FileNumber,
    salt: u32,
}

impl<'a> Load<'a> {
    fn begin(
        shared: &'a Shared,
        table: &'a NewTable,
        options: &'a LoadOptions,
    ) -> Result<Self, LoadError> {
        if let Some(why) = table.contradiction() {
            return Err(LoadError::Definition { why });
        }
        let is_own = shared.engine.check_process();
        is_own.map_err(|_| LoadError::Forked)?;
        if shared.engine.read_only {
            return Err(LoadError::ReadOnly);
        }
        let mut catalogue = shared.catalogue.lock();
        let name = &table.name;
        if catalogue.closed.is_some() {
            return Err(LoadError::Closed);
        }
        let taken = || name.clone();
        if catalogue.ids.get(name.as_str()).is_some() {
            return Err(LoadError::InMemory { table: taken() });
        }
        if catalogue.manifest.loaded_tables.table(name).is_some() {
            return Err(LoadError::AlreadyLoaded { table: taken() });
        }
        let first_file = catalogue.manifest.loaded_tables.next_file;
        let next_file = first_file.0.checked_add(table.files());
        let next_file = next_file.ok_or_else(|| LoadError::Definition {
            why: "would need a file number beyond 2^32".to_owned(),
        })?;
        let reserved = ReservedName::reserve(shared, &mut catalogue, name);
        let reserved = reserved.ok_or_else(|| LoadError::BeingLoaded { table: taken() })?;
        catalogue.manifest.loaded_tables.next_file = FileNumber(next_file);
        Ok(Self {
            shared,
            table,
            options,
            _reserved: reserved,
            identity: catalogue.manifest.identity(),
            first_file,
            // The standard library's hash keys come from the operating system's random numbers.
            salt: RandomState::new().hash_one(first_file) as u32,
        })
    }

    fn target(&self) -> Target<'a> {
        Target {
            disk: &self.shared.disk,
            dir: &self.shared.dir,
            identity: self.identity,
            first_file: self.first_file,
            salt: self.salt,
            sort_bytes: self.options.sort_bytes,
        }
    }

    /// Fails in a forked child: the row before, or a call of the program's own, may have forked.
    fn check_process(&self) -> Result<(), LoadError> {
        let is_own = self.shared.engine.check_process();
        is_own.map_err(|_| LoadError::Forked)
    }

    /// Fails once the load is to end.
    fn check(&self) -> Result<(), LoadError> {
        let interrupt = self.options.interrupt.as_ref();
        if interrupt.is_some_and(|asked| asked.load(Ordering::Relaxed)) {
            return Err(LoadError::Interrupted);
        }
        match self.shared.engine.check_open() {
            Err(Error::Forked) => Err(LoadError::Forked),
            Err(Error::Closed) => Err(LoadError::Closed),
            // A failed log prevents only transactions.
            _ => Ok(()),
        }
    }

    /// Publishes the table.
    fn announce(self, table: LoadedTable, files: NewFiles) -> Result<LoadedTable, LoadError> {
        self.check()?;
        let shared = self.shared;
        let mut catalogue = shared.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(LoadError::Closed);
        }
        let change = shared.begin_change(&mut catalogue, &table.name);
        let Catalogue {
            manifest,
            files: catalogue_files,
            ..
        } = &mut *catalogue;
        let (disk, dir) = (&*shared.disk, &*shared.dir);
        let before = manifest.loaded_tables.clone();
        let mut after = before.clone();
        after.tables.push(table.clone());
        if let Err(why) = catalogue_files.change(disk, dir, manifest, |it| it.loaded_tables = after)
        {
            if may_be_named(shared, &table) {
                files.keep();
            }
            return Err(not_written(shared, why));
        }
        if let Err(path) = files.rename(dir) {
            // The table is taken back. If that fails, the manifest names a file that is not there, and queries say so.
            let _ = catalogue_files.change(disk, dir, manifest, |it| it.loaded_tables = before);
            let gone = io::Error::new(
                io::ErrorKind::NotFound,
                "another program has removed it meanwhile; let one program have the database open",
            );
            return Err(LoadError::device(&path, gone));
        }
        files.keep();
        shared.in_segments.note_load(&table, change);
        events::table_loaded(&table.name, table.rows);
        Ok(table)
    }
}

/// Whether the manifest on the disk names the table although its replacement failed, or cannot be read.
fn may_be_named(shared: &Shared, table: &LoadedTable) -> bool {
    match Manifest::read_alone(&*shared.disk, &shared.dir) {
        Ok(Some(manifest)) => manifest
            .loaded_tables
            .tables
            .iter()
            .any(|named| named.segment == table.segment),
        Ok(None) => false,
        Err(_) => true,
    }
}

fn not_written(shared: &Shared, why: NotWritten) -> LoadError {
    let path = Manifest::path(&shared.dir);
    match why {
        NotWritten::AnotherWriter => LoadError::AnotherWriter { path },
        NotWritten::Device(source) => match LoadError::device(&path, source) {
            LoadError::Device { path, source } => LoadError::Manifest { path, source },
            full => full,
        },
    }
}

/// Reports progress and checks whether to continue, but not at each row.
struct Ticker<'a> {
    load: &'a Load<'a>,
    until_check: u64,
    last_told: Instant,
}

impl<'a> Ticker<'a> {
    fn new(load: &'a Load<'a>) -> Self {
        Self {
            load,
            until_check: 0,
            last_told: Instant::now(),
        }
    }

    fn tick(
        &mut self,
        index: Option<&str>,
        written: u64,
        total: Option<u64>,
    ) -> Result<(), LoadError> {
        self.load.check_process()?;
        if self.until_check > 0 {
            self.until_check -= 1;
            return Ok(());
        }
        self.until_check = ROWS_BETWEEN_CHECKS;
        self.load.check()?;
        if let Some(on_progress) = &self.load.options.on_progress
            && self.last_told.elapsed() >= PROGRESS_INTERVAL
        {
            self.last_told = Instant::now();
            on_progress(LoadProgress {
                table: &self.load.table.name,
                index,
                written,
                total,
            });
            self.load.check_process()?;
        }
        Ok(())
    }
}
