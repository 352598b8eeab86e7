//! All tables of a database in a folder: a file of JSON lines for each, and one that names them.
//!
//! The file of names is written last, so a folder without it belongs to an incomplete export.

use std::fs;
use std::path::Path;

use namiki::Database;
use namiki_terminal::number_format::counted;
use serde::{Deserialize, Serialize};

use super::batches::IfThere;
use super::formats::FileFormat;
use super::jsonl::VERSION;
use super::read_file::RowSource;
use super::row_file::without_mark;
use super::segments::{self, SegmentSource};
use super::write_file::export_to_file;
use crate::failure::{Failure, device};
use crate::tables::TypedTable;

/// The file of names.
const CONTENTS: &str = "tables.json";
/// Number of letters of a table's name in the name of its file.
const NAME_CHARS: usize = 60;

/// The contents of a folder.
#[derive(Serialize, Deserialize)]
pub(super) struct Contents {
    namiki: u32,
    tables: Vec<ExportedTable>,
}

#[derive(Serialize, Deserialize)]
struct ExportedTable {
    table: String,
    file: String,
    rows: u64,
    /// Whether it has columns: then it is loaded into segments.
    #[serde(default)]
    in_segments: bool,
}

/// Exports all tables.
pub(super) fn export_all(db: &Database, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(device("create", folder))?;
    let mut there = fs::read_dir(folder).map_err(device("read", folder))?;
    if there.next().is_some() {
        return Err(Failure::FolderNotEmpty(folder.to_owned()));
    }
    let mut contents = Contents {
        namiki: VERSION,
        tables: Vec::new(),
    };
    for (number, info) in db.table_infos().into_iter().enumerate() {
        let table = TypedTable::find(db, &info.name)?;
        let file = file_name(number, &info.name);
        let path = folder.join(&file);
        let rows = match info.columns() {
            Some(schema) => segments::export_from_memory(db, &table, schema, &path)?,
            None => export_to_file(db, &table, FileFormat::Jsonl, &path)?,
        };
        eprintln!("exported {} of table {:?}", counted(rows, "row"), info.name);
        contents.tables.push(ExportedTable {
            in_segments: info.columns().is_some(),
            table: info.name,
            file,
            rows,
        });
    }
    for table in db.loaded_tables() {
        let file = file_name(contents.tables.len(), &table.name);
        segments::export(db.dir(), &table, &folder.join(&file))?;
        let rows = table.rows;
        eprintln!(
            "exported {} of table {:?}",
            counted(rows, "row"),
            table.name
        );
        contents.tables.push(ExportedTable {
            table: table.name,
            file,
            rows,
            in_segments: true,
        });
    }
    let path = folder.join(CONTENTS);
    let text = serde_json::to_string_pretty(&contents)
        .map_err(|error| device("write", &path)(error.into()))?;
    fs::write(&path, text + "\n").map_err(device("write", &path))?;
    let synced = fs::File::open(&path).and_then(|file| file.sync_all());
    synced.map_err(device("write", &path))?;
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(device("write", folder))
}

/// Reads the contents of an exported folder.
pub(super) fn contents(folder: &Path) -> Result<Contents, Failure> {
    let path = folder.join(CONTENTS);
    let text = fs::read(&path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Failure::NoExport(folder.to_owned()),
        _ => device("read", &path)(source),
    })?;
    let bad = |why: String| Failure::BadLine {
        path: path.clone(),
        line: 1,
        why,
        done: 0,
    };
    let contents: Contents =
        serde_json::from_slice(without_mark(&text)).map_err(|error| bad(error.to_string()))?;
    if contents.namiki > VERSION {
        return Err(bad(format!(
            "it has version {}, and this release reads up to {VERSION}: use a newer release",
            contents.namiki
        )));
    }
    Ok(contents)
}

/// Imports all tables of a folder.
pub(super) fn import_all(
    db: &Database,
    folder: &Path,
    contents: &Contents,
    if_there: IfThere,
) -> Result<(), Failure> {
    // All headers first: a missing file prevents the import from starting.
    let (mut sources, mut segments) = (Vec::new(), Vec::new());
    for table in &contents.tables {
        // Only files of the folder, whatever the file of names contains.
        let name = Path::new(&table.file).file_name().unwrap_or_default();
        let path = folder.join(name);
        if table.in_segments {
            segments.push(SegmentSource::open(&path, table.rows)?);
        } else {
            sources.push((&table.table, RowSource::open(&path, FileFormat::Jsonl)?));
        }
    }
    for (name, mut source) in sources {
        source.import(db, name, if_there)?;
    }
    let resume = if_there == IfThere::Resume;
    segments
        .into_iter()
        .try_for_each(|source| source.import(db, resume))
}

/// The file name of a table: its number, and as much of its name as any file system accepts.
fn file_name(number: usize, table: &str) -> String {
    let plain = |char: char| match char {
        char if char.is_ascii_alphanumeric() || char == '-' => char,
        _ => '_',
    };
    let name: String = table.chars().take(NAME_CHARS).map(plain).collect();
    format!("{:04}-{name}.jsonl", number + 1)
}
