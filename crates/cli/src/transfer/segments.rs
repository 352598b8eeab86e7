//! Files of tables with columns, both those in segments and those taken into memory: a header with
//! the columns, a row on each line, and a last line with the number of rows.
//!
//! ```text
//! {"namiki":1,"table":"nations","schema":{…},"indexes":[{"name":"by_name","columns":["name"]}]}
//! {"row":[0,"Algeria"]}
//! {"end":true,"rows":1}
//! ```
//! Integers beyond ±2⁵³, decimals and dates are strings, bytes `"0x00ff"`. Rows are in the order of
//! the table's key, as a load needs them. A load is atomic: an import that ends early leaves
//! nothing of the table.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki::files::{LoadedTable, Manifest};
use namiki::query::{ColumnType, Datum, Schema, decode_row};
use namiki::{Database, Direction, LoadOptions, NewTable, Stamp};
use namiki_platform::ErrorSentence;
use namiki_platform::disk::{Disk, ReadOnlyDisk};
use namiki_segment::{CheckProgress, CheckVisitor};
use namiki_terminal::interrupt;
use namiki_terminal::number_format::counted;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jsonl::VERSION;
use super::row_file::{BadLine, Target, without_mark};
use crate::failure::{Failure, device};
use crate::progress::Progress;
use crate::tables::TypedTable;
use crate::typed::datum::{from_hex, hex};

/// The largest integer up to which a float represents every integer exactly.
const EXACT_MAX: u64 = 1 << 53;

#[derive(Serialize, Deserialize)]
struct HeaderLine {
    namiki: u32,
    table: String,
    schema: Schema,
    indexes: Vec<Index>,
}

#[derive(Serialize, Deserialize)]
struct Index {
    name: String,
    columns: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Row { row: Vec<Value> },
    End { end: bool, rows: u64 },
}

/// Writes a table in segments of the database in `dir`.
pub(super) fn export(dir: &Path, table: &LoadedTable, path: &Path) -> Result<(), Failure> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk::new());
    let Some(manifest) = Manifest::read(&*disk, dir)? else {
        return Err(Failure::NoDatabase(dir.to_owned()));
    };
    let indexes = table.indexes.iter().map(|index| Index {
        name: index.name.clone(),
        columns: index.columns.clone(),
    });
    let segment = table.segment.file.path_of_named(&*disk, dir);
    let mut rows = RowLines {
        out: WrittenFile::begin(path, &table.name, &table.schema, indexes.collect())?,
        schema: &table.schema,
        table: &table.name,
        read_from: &segment,
        progress: Progress::new(),
    };
    let id = table.segment.id(manifest.identity());
    namiki_segment::check_with(&disk, &segment, id, &mut rows)?;
    rows.out.end().map(drop)
}

/// Writes a table in memory that has these columns. Returns the number of rows.
pub(super) fn export_from_memory(
    db: &Database,
    table: &TypedTable,
    schema: &Schema,
    path: &Path,
) -> Result<u64, Failure> {
    let mut rows = RowLines {
        out: WrittenFile::begin(path, &table.info.name, schema, Vec::new())?,
        schema,
        table: &table.info.name,
        read_from: db.dir(),
        progress: Progress::new(),
    };
    let all = (Bound::Unbounded, Bound::Unbounded);
    table.pages(db, all, Direction::Forward, None, |page| {
        let mut page = page.rows.iter();
        page.try_for_each(|(key, value)| rows.write(key, value))?;
        let done = rows.out.rows;
        let name = &table.info.name;
        let progress = &mut rows.progress;
        progress.say(|| format!("exporting table {name:?}: {}", counted(done, "row")));
        Ok(())
    })?;
    rows.out.end()
}

/// A file that such a table is written to, and its number of rows.
struct WrittenFile {
    out: BufWriter<File>,
    target: Target,
    rows: u64,
}

impl WrittenFile {
    fn begin(
        path: &Path,
        table: &str,
        schema: &Schema,
        indexes: Vec<Index>,
    ) -> Result<Self, Failure> {
        let target = Target::File(path.to_owned());
        let file = File::create(path).map_err(|error| target.failed(error))?;
        let header = HeaderLine {
            namiki: VERSION,
            table: table.to_owned(),
            schema: schema.clone(),
            indexes,
        };
        let header = serde_json::to_string(&header);
        let header = header.map_err(|error| target.failed(error.into()))?;
        let mut written = Self {
            out: BufWriter::with_capacity(1 << 20, file),
            target,
            rows: 0,
        };
        written.line(&header)?;
        Ok(written)
    }

    fn line(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(|error| self.target.failed(error))
    }

    /// Completes the file, and returns the number of rows.
    fn end(mut self) -> Result<u64, Failure> {
        self.line(&format!("{{\"end\":true,\"rows\":{}}}", self.rows))?;
        self.out
            .flush()
            .and_then(|()| self.out.get_ref().sync_all())
            .map_err(|error| self.target.failed(error))?;
        Ok(self.rows)
    }
}

/// Writes rows with columns.
struct RowLines<'a> {
    out: WrittenFile,
    schema: &'a Schema,
    table: &'a str,
    /// The file that the rows are read from.
    read_from: &'a Path,
    progress: Progress,
}

impl RowLines<'_> {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let Some(row) = decode_row(self.schema, key, value) else {
            return Err(Failure::RowNonsense {
                table: self.table.to_owned(),
                path: self.read_from.to_owned(),
            });
        };
        let row: Vec<Value> = row.iter().map(to_json).collect();
        self.out
            .line(&format!("{{\"row\":{}}}", Value::Array(row)))?;
        self.out.rows += 1;
        Ok(())
    }
}

/// Writes each row of a segment during its verification.
impl CheckVisitor for RowLines<'_> {
    type Error = Failure;

    fn on_progress(&mut self, now: CheckProgress) -> Result<(), Failure> {
        let (done, total) = (now.pages_done.into(), now.pages.into());
        let name = self.table;
        self.progress
            .say_of(done, total, || format!("exporting table {name:?}"));
        Ok(interrupt::check()?)
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn on_row(&mut self, key: &[u8], value: &[u8], _: Stamp) -> Result<(), Failure> {
        self.write(key, value)
    }
}

fn to_json(datum: &Datum) -> Value {
    match datum {
        Datum::Null => Value::Null,
        Datum::Bool(value) => (*value).into(),
        Datum::I64(number) if number.unsigned_abs() <= EXACT_MAX => (*number).into(),
        Datum::U64(number) if *number <= EXACT_MAX => (*number).into(),
        Datum::Text(text) => text.clone().into(),
        Datum::Bytes(bytes) => hex(bytes).into(),
        other => other.to_string().into(),
    }
}

fn from_json(of: ColumnType, json: &Value) -> Option<Datum> {
    match (of, json) {
        (_, Value::Null) => Some(Datum::Null),
        (ColumnType::Bool, Value::Bool(value)) => Some(Datum::Bool(*value)),
        (ColumnType::I64, Value::Number(number)) => number.as_i64().map(Datum::I64),
        (ColumnType::I64, Value::String(text)) => text.parse().ok().map(Datum::I64),
        (ColumnType::U64, Value::Number(number)) => number.as_u64().map(Datum::U64),
        (ColumnType::U64, Value::String(text)) => text.parse().ok().map(Datum::U64),
        (ColumnType::Decimal { .. } | ColumnType::LongDecimal { .. }, Value::String(text)) => {
            Datum::parse_decimal(text)?.cast(of)
        }
        (ColumnType::F64, Value::String(text)) => text.parse::<f64>().ok().map(Datum::from),
        (ColumnType::Date, Value::String(text)) => Datum::parse_date(text),
        (ColumnType::Text, Value::String(text)) => Some(Datum::Text(text.clone())),
        (ColumnType::Bytes, Value::String(text)) => from_hex(text).map(Datum::Bytes),
        _ => None,
    }
}

/// A file of such a table, after its header was read.
pub(super) struct SegmentSource {
    path: PathBuf,
    input: BufReader<File>,
    header: HeaderLine,
    rows: u64,
}

impl SegmentSource {
    /// Opens the file of a table with this number of rows.
    pub(super) fn open(path: &Path, rows: u64) -> Result<Self, Failure> {
        let file = File::open(path).map_err(device("read", path))?;
        let mut input = BufReader::with_capacity(1 << 20, file);
        let mut line = Vec::new();
        input
            .read_until(b'\n', &mut line)
            .map_err(device("read", path))?;
        let header: HeaderLine =
            serde_json::from_slice(without_mark(&line)).map_err(|error| Failure::BadLine {
                path: path.to_owned(),
                line: 1,
                why: format!("it is not a header of a table in segments: {error}"),
                done: 0,
            })?;
        Ok(Self {
            path: path.to_owned(),
            input,
            header,
            rows,
        })
    }

    /// Loads the table; with `resume`, skips an existing one.
    pub(super) fn import(self, db: &Database, resume: bool) -> Result<(), Failure> {
        let Self {
            path,
            input,
            header,
            rows,
        } = self;
        let name = header.table;
        let there = db.loaded_tables();
        let same =
            |it: &&LoadedTable| it.name == name && it.rows == rows && it.schema == header.schema;
        if resume && there.iter().any(|it| same(&it)) {
            eprintln!("table {name:?} was there already");
            return Ok(());
        }
        let types = header.schema.columns().iter();
        let types: Vec<ColumnType> = types.map(|column| column.column_type).collect();
        let mut table = NewTable::new(&name, header.schema);
        for index in &header.indexes {
            let columns: Vec<&str> = index.columns.iter().map(|name| &**name).collect();
            table = table.index(&index.name, &columns);
        }
        let from = path.clone();
        let lines = Lines {
            input,
            types,
            line: 1,
            rows: 0,
            has_ended: false,
            path,
        };
        let options = LoadOptions::default().interrupt(Arc::clone(interrupt::asked()));
        let loaded = db.load_sorted_with(&table, lines, &options);
        let loaded = loaded.map_err(|error| match error.row() {
            // The first line is the header.
            Some(row) => Failure::BadLine {
                path: from,
                line: row + 1,
                why: ErrorSentence(&error).to_string(),
                done: 0,
            },
            None => error.into(),
        })?;
        eprintln!("loaded {} into table {name:?}", counted(loaded.rows, "row"));
        Ok(())
    }
}

/// The rows of a file.
struct Lines {
    path: PathBuf,
    input: BufReader<File>,
    types: Vec<ColumnType>,
    line: u64,
    rows: u64,
    has_ended: bool,
}

impl Lines {
    fn next_row(&mut self) -> Result<Option<Vec<Datum>>, String> {
        self.line += 1;
        let mut bytes = Vec::new();
        let read = self.input.read_until(b'\n', &mut bytes);
        if read.map_err(|error| error.to_string())? == 0 {
            return Err(
                "the file was cut off: its last line, which counts the rows, is missing".to_owned(),
            );
        }
        let line: Line = serde_json::from_slice(&bytes)
            .map_err(|_| "it is neither a row nor the last line".to_owned())?;
        match line {
            Line::Row { row } if row.len() == self.types.len() => {
                self.rows += 1;
                let values = self.types.iter().zip(&row);
                let values = values.map(|(of, json)| {
                    from_json(*of, json)
                        .ok_or_else(|| format!("{json} is not a value of its column"))
                });
                values.collect::<Result<_, _>>().map(Some)
            }
            Line::Row { row } => Err(format!(
                "it has {} values, but the table has {} columns",
                row.len(),
                self.types.len()
            )),
            Line::End { end: true, rows } if rows == self.rows => Ok(None),
            Line::End { rows, .. } => Err(format!(
                "it counts {rows} rows, and there are {}",
                self.rows
            )),
        }
    }
}

impl Iterator for Lines {
    type Item = Result<Vec<Datum>, BadLineOf>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        match self.next_row() {
            Ok(Some(row)) => Some(Ok(row)),
            Ok(None) => {
                self.has_ended = true;
                None
            }
            Err(why) => {
                self.has_ended = true;
                let bad = BadLine {
                    line: self.line,
                    why,
                };
                Some(Err(BadLineOf(self.path.clone(), bad)))
            }
        }
    }
}

/// An error in a line of the file.
#[derive(Debug, thiserror::Error)]
#[error("line {} of {}: {}", .1.line, .0.display(), .1.why)]
pub(super) struct BadLineOf(PathBuf, BadLine);
