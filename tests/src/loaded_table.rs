//! A small table with two indexes that is loaded into segments, and its expected contents, for
//! tests of loads.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki::files::{LoadedTable, Manifest, SegmentFile, image_dir};
use namiki::query::{Column, ColumnType, Datum, Schema};
use namiki::{Database, LoadError, LoadOptions, NewTable};
use namiki_data::columns::{key_codec, row_codec};
use namiki_platform::disk::sim::Step;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_segment::{Cursor, Found, MemoryPages, Segment};

/// The directory of the databases.
pub const DIR: &str = "/db";
/// The name of the table.
pub const TABLE: &str = "parts";

/// The disk operations of a load, and of opening a loaded table: each may fail.
pub const STEPS: [Step; 7] = [
    Step::Append,
    Step::Sync,
    Step::Write,
    Step::Create,
    Step::SyncDir,
    Step::Rename,
    Step::Read,
];

/// The table: a key of two columns, text, and indexes over the text and over an amount that repeats.
#[must_use]
pub fn parts() -> NewTable {
    let columns = vec![
        Column::new("group", ColumnType::I64),
        Column::new("name", ColumnType::Text),
        Column::new("price", ColumnType::Decimal { scale: 2 }),
        Column::new("number", ColumnType::U64),
    ];
    let schema = Schema::new(columns, &["group", "number"]).unwrap();
    NewTable::new(TABLE, schema)
        .index("by_name", &["name"])
        .index("by_price", &["price", "name"])
}

/// The first rows of the table, in the order of the key.
pub fn rows(count: u64) -> impl Iterator<Item = Vec<Datum>> + Clone {
    (0..count).map(|row| {
        vec![
            Datum::I64(row as i64 / 7 - 3),
            Datum::Text(format!("part {}", row * 7_919 % 1_009)),
            Datum::Decimal {
                unscaled: i128::from(row % 5) * 125 - 250,
                scale: 2,
            },
            Datum::U64(row % 7),
        ]
    })
}

/// Rows from a source that cannot fail.
pub fn sound(
    rows: impl IntoIterator<Item = Vec<Datum>>,
) -> impl Iterator<Item = Result<Vec<Datum>, Infallible>> {
    rows.into_iter().map(Ok)
}

/// Loads this number of rows, with an external sort.
///
/// # Errors
/// The error of the load.
pub fn load(db: &Database, count: u64) -> Result<LoadedTable, LoadError> {
    let options = LoadOptions::default().sort_bytes(1);
    db.load_sorted_with(&parts(), sound(rows(count)), &options)
}

/// The files in the folder `image`; empty if there is no such folder.
#[must_use]
pub fn image_files(disk: &SimDisk) -> Vec<PathBuf> {
    let files = disk.list(&image_dir(Path::new(DIR))).unwrap_or_default();
    files.into_iter().map(|file| file.path).collect()
}

/// Compares the loaded tables of the database with the table of `expected` rows, or with none.
/// Returns the mismatch, if there is one. A file that the manifest does not name is a mismatch,
/// too.
#[must_use]
pub fn wrong_loaded_table(disk: &SimDisk, expected: Option<u64>) -> Option<String> {
    let manifest = Manifest::read(disk, Path::new(DIR)).unwrap().unwrap();
    let tables = &manifest.loaded_tables.tables;
    let named: Vec<PathBuf> = manifest
        .loaded_tables
        .segments()
        .map(|segment| segment.file.path_of_named(disk, Path::new(DIR)))
        .collect();
    let files = image_files(disk);
    if files != named {
        return Some(format!("the files are {files:?}, and named are {named:?}"));
    }
    let Some(count) = expected else {
        return (!tables.is_empty()).then(|| format!("{} tables", tables.len()));
    };
    let [table] = &tables[..] else {
        return Some(format!("{} tables", tables.len()));
    };
    let database = manifest.identity();
    if table.name != TABLE || table.rows != count {
        return Some(format!("{} with {} rows", table.name, table.rows));
    }
    let mut expected: Vec<_> = rows(count).map(|row| entry(&table.schema, &row)).collect();
    expected.sort();
    if entries(disk, &table.segment, database) != expected {
        return Some("other rows".to_owned());
    }
    table.indexes.iter().find_map(|index| {
        let schema = index.schema(&table.schema).unwrap();
        let columns = schema.columns().iter();
        let places: Vec<usize> = columns
            .map(|column| table.schema.column(&column.name).unwrap())
            .collect();
        let of_index = |row: Vec<Datum>| {
            let values: Vec<Datum> = places.iter().map(|place| row[*place].clone()).collect();
            entry(&schema, &values)
        };
        let mut expected: Vec<_> = rows(count).map(of_index).collect();
        expected.sort();
        (entries(disk, &index.segment, database) != expected)
            .then(|| format!("other entries of {}", index.name))
    })
}

fn entry(schema: &Schema, row: &[Datum]) -> (Vec<u8>, Vec<u8>) {
    (
        key_codec::encode(schema, row).unwrap(),
        row_codec::encode(schema, row).unwrap(),
    )
}

/// All keys and values of a segment.
fn entries(disk: &SimDisk, segment: &SegmentFile, database: u128) -> Vec<(Vec<u8>, Vec<u8>)> {
    let path = segment.file.path_of_named(disk, Path::new(DIR));
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let segment = Arc::new(Segment::open(&disk, &path, segment.id(database)).unwrap());
    let pages = MemoryPages::load(&segment).unwrap();
    let mut cursor = Cursor::default();
    let mut found = segment.seek(&pages, b"", &mut cursor);
    let mut entries = Vec::new();
    while let Found::Is(Some(row)) = found {
        let value = row.value.inline().unwrap().to_vec();
        entries.push((row.key.to_vec(), value));
        found = segment.next(&pages, &mut cursor);
    }
    entries
}
