//! Writes one table as segments: its rows as they come, and then each of its indexes.
//!
//! ```text
//!   row ──► key and value ──────────────► the table's segment
//!    └────► key of each index ──► sort ──► the index's segment, when all rows are there
//! ```
//! Each segment is synced when it is finished. The files count only once a manifest names them: until then, the end of
//! the writer removes them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_data::columns::key_codec::EncodeError;
use namiki_data::columns::{Datum, Schema, key_codec, row_codec};
use namiki_exec::statistics::StatisticsBuilder;
use namiki_platform::Stamp;
use namiki_platform::disk::Disk;
use namiki_segment::{KEY_BYTES_MAX, SegmentError, SegmentId, Writer};

use crate::catalogue::image_files::{FileNumber, image_dir};
use crate::catalogue::loaded_tables::{
    LoadedIndex, LoadedTable, definition_contradiction, index_schema,
};
use crate::catalogue::segment_file::SegmentFile;
use crate::image::new_files::NewFiles;
use crate::loaded_tables::external_sort::ExternalSort;
use crate::loaded_tables::load_error::LoadError;

/// The creation stamp of loaded rows: before every transaction.
const LOADED: Stamp = Stamp(0);

/// A table to be loaded.
#[derive(Clone, Debug)]
pub struct NewTable {
    pub(crate) name: String,
    pub(crate) schema: Schema,
    /// Names of indexes, and the columns of each.
    pub(crate) indexes: Vec<(String, Vec<String>)>,
}

impl NewTable {
    /// A table with these columns, and no index but its key.
    #[must_use]
    pub fn new(name: &str, schema: Schema) -> Self {
        Self {
            name: name.to_owned(),
            schema,
            indexes: Vec::new(),
        }
    }

    /// With an index over these columns, the first of which decides first.
    #[must_use]
    pub fn index(mut self, name: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned());
        self.indexes.push((name.to_owned(), columns.collect()));
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns and its key.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Its indexes: the name of each, and the names of the columns that it is over.
    pub fn indexes(&self) -> impl Iterator<Item = (&str, &[String])> {
        let indexes = self.indexes.iter();
        indexes.map(|(name, columns)| (&**name, &columns[..]))
    }

    /// Why there can be no such table; `None` if there can.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let indexes: Vec<_> = self.indexes().collect();
        let columns = self.schema.columns().iter().map(|column| &*column.name);
        let named = indexes.iter().map(|(name, _)| *name).chain(columns);
        let control = |name: &str| name.chars().any(char::is_control);
        match std::iter::once(&*self.name)
            .chain(named)
            .find(|name| control(name))
        {
            Some(name) => Some(format!("has the name {name:?}, with a control character")),
            None => definition_contradiction(&self.name, &self.schema, &indexes),
        }
    }

    /// The number of its files.
    pub(crate) fn files(&self) -> u32 {
        1 + self.indexes.len() as u32
    }
}

/// The destination and the identity of a table's files.
pub(crate) struct Target<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) dir: &'a Path,
    /// The database's.
    pub(crate) identity: u128,
    /// The first of the table's files; those of its indexes follow.
    pub(crate) first_file: FileNumber,
    /// Makes the identities of the segments differ from those of all loads before, some of which were not finished.
    pub(crate) salt: u32,
    /// Memory for sorting, all indexes together.
    pub(crate) sort_bytes: usize,
}

/// A table that is being written.
pub(crate) struct TableWriter<'a> {
    table: &'a NewTable,
    target: Target<'a>,
    rows: SegmentWriter,
    row_count: u64,
    statistics: StatisticsBuilder,
    indexes: Vec<Index>,
    files: NewFiles,
    key: Vec<u8>,
    value: Vec<u8>,
    values: Vec<Datum>,
}

struct Index {
    schema: Schema,
    /// For each of its columns, that of the table.
    column_numbers: Vec<usize>,
    sort: ExternalSort,
}

impl<'a> TableWriter<'a> {
    pub(crate) fn new(table: &'a NewTable, target: Target<'a>) -> Result<Self, LoadError> {
        let mut files = NewFiles::on(target.disk);
        let rows = SegmentWriter::new(&target, 0, &mut files)?;
        let sort_bytes = target.sort_bytes / table.indexes.len().max(1);
        let mut indexes = Vec::new();
        for (number, (name, columns)) in (1..).zip(&table.indexes) {
            let schema = index_schema(&table.schema, columns);
            let schema = schema.map_err(|error| LoadError::Definition {
                why: format!("has an index {name:?} that cannot be: {error}"),
            })?;
            let columns = schema.columns().iter();
            let column_numbers = columns.filter_map(|column| table.schema.column(&column.name));
            indexes.push(Index {
                column_numbers: column_numbers.collect(),
                sort: ExternalSort::new(Arc::clone(target.disk), target.path(number), sort_bytes),
                schema,
            });
        }
        Ok(Self {
            table,
            target,
            rows,
            row_count: 0,
            statistics: StatisticsBuilder::new(&table.schema),
            indexes,
            files,
            key: Vec::new(),
            value: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Adds a row: the values of all columns.
    pub(crate) fn push(&mut self, row: &[Datum]) -> Result<(), LoadError> {
        self.encode(row).map_err(|source| LoadError::Row {
            table: self.table.name.clone(),
            row: self.row_count + 1,
            source,
        })?;
        self.check_key(None, &self.key)?;
        self.rows
            .push(&self.key, &self.value)
            .map_err(|error| match error {
                SegmentError::KeysOutOfOrder { .. } => LoadError::OutOfOrder {
                    table: self.table.name.clone(),
                    row: self.row_count + 1,
                },
                other => other.into(),
            })?;
        for (number, (name, _)) in self.table.indexes.iter().enumerate() {
            let index = &self.indexes[number];
            self.values.clear();
            self.values
                .extend(index.column_numbers.iter().map(|place| row[*place].clone()));
            let key = key_codec::encode(&index.schema, &self.values);
            let key = key.map_err(|source| LoadError::Row {
                table: self.table.name.clone(),
                row: self.row_count + 1,
                source,
            })?;
            self.check_key(Some(name), &key)?;
            self.indexes[number].sort.push(&key)?;
        }
        self.statistics.add(row);
        self.row_count += 1;
        Ok(())
    }

    /// Whether a segment can hold this key of the row, or of its entry in an index. Checked before
    /// the key is sorted, which loses the row.
    fn check_key(&self, index: Option<&str>, key: &[u8]) -> Result<(), LoadError> {
        if key.len() <= KEY_BYTES_MAX {
            return Ok(());
        }
        Err(LoadError::KeyTooLong {
            table: self.table.name.clone(),
            index: index.map(str::to_owned),
            row: self.row_count + 1,
            bytes: key.len(),
            bytes_max: KEY_BYTES_MAX,
        })
    }

    fn encode(&mut self, row: &[Datum]) -> Result<(), EncodeError> {
        self.key = key_codec::encode(&self.table.schema, row)?;
        row_codec::encode_into(&self.table.schema, row, &mut self.value)
    }

    /// Rows so far.
    pub(crate) fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Writes the rest: the end of the rows, and the indexes. `on_entry` is called with the name of
    /// the index and the number of its entries so far, and ends the load with its error. The files
    /// are durable under their first names then.
    pub(crate) fn finish(
        mut self,
        on_entry: &mut dyn FnMut(&str, u64) -> Result<(), LoadError>,
    ) -> Result<(LoadedTable, NewFiles), LoadError> {
        let segment = self.rows.finish()?;
        let mut indexes = Vec::new();
        let sorts = std::mem::take(&mut self.indexes);
        for ((number, index), (name, columns)) in (1..).zip(sorts).zip(&self.table.indexes) {
            let mut sorted = index.sort.finish(&mut || on_entry(name, 0))?;
            let mut writer = SegmentWriter::new(&self.target, number, &mut self.files)?;
            let mut entries = 0;
            while let Some(key) = sorted.next()? {
                writer.push(key, &[])?;
                entries += 1;
                on_entry(name, entries)?;
            }
            let segment = writer.finish()?;
            indexes.push(LoadedIndex {
                name: name.clone(),
                columns: columns.clone(),
                segment,
            });
        }
        let dir = image_dir(self.target.dir);
        let synced = self.target.disk.sync_dir(&dir);
        synced.map_err(|source| LoadError::device(&dir, source))?;
        let table = LoadedTable {
            name: self.table.name.clone(),
            schema: self.table.schema.clone(),
            rows: self.row_count,
            segment,
            statistics: self.statistics.finish(),
            indexes,
        };
        Ok((table, self.files))
    }
}

impl Target<'_> {
    /// The file of the rows (0) or of an index (from 1).
    fn file(&self, number: u32) -> FileNumber {
        FileNumber(self.first_file.0 + number)
    }

    fn path(&self, number: u32) -> PathBuf {
        self.file(number).new_path(self.dir)
    }
}

/// A segment that is being written.
struct SegmentWriter {
    writer: Writer,
    file: FileNumber,
    id: SegmentId,
}

impl SegmentWriter {
    fn new(target: &Target<'_>, number: u32, files: &mut NewFiles) -> Result<Self, LoadError> {
        let (file, path) = (target.file(number), target.path(number));
        let id = SegmentId::new(
            target.identity,
            u64::from(target.salt) << 32 | u64::from(file.0),
        );
        let writer = Writer::create(target.disk, &path, id)?;
        files.add(path);
        Ok(Self { writer, file, id })
    }

    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), SegmentError> {
        self.writer.push(key, value, LOADED)
    }

    fn finish(self) -> Result<SegmentFile, LoadError> {
        let summary = self.writer.finish()?;
        Ok(SegmentFile {
            file: self.file,
            identity: format!("{:016x}", self.id.number),
            pages: summary.pages,
        })
    }
}
