//! `namiki import`: files into tables.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use namiki::{Database, UntypedTable};

use super::batches::{IfThere, Imported, Stopped, import};
use super::folder;
use super::row_file::{FileFormat, Header, ReadError, RowReader, reader};
use crate::failure::Failure;
use crate::number_format::counted;
use crate::tables::TypedTable;
use crate::{interrupt, opening};

const HELP: &str = "\
The table is made if there is none, with the types that the file names; one that there is has to have these. A database
is made if there is none. Rows are committed by the thousand, in the order of the file: when an import ends in the
middle, the rows before that are in the table, and the same command with --resume does the rest.

A line that is no row ends the import, and the error names the line. Nothing behind it is imported before it is mended.

Examples:
  namiki import /data/new stock stock.jsonl
  namiki import /data/new visits visits.csv --resume
  namiki export /data/shop stock | namiki import /data/new stock -
  namiki import /data/new --all /backup/shop";

/// What `namiki import` is told.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct ImportArguments {
    /// The database's directory
    dir: PathBuf,
    /// The table; it need not be called as the one that was exported
    #[arg(required_unless_present = "all")]
    table: Option<String>,
    /// The file; - is standard input
    #[arg(required_unless_present = "all")]
    file: Option<PathBuf>,
    /// How the rows are written; by default CSV if FILE is called so, and JSON lines otherwise
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Read all tables of a folder that namiki export --all has written
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["table", "file", "format"])]
    all: Option<PathBuf>,
    /// Pass over rows that are there and equal: go on with an import that ended in the middle
    #[arg(long, conflicts_with = "replace")]
    resume: bool,
    /// Give keys that are there the values of the file
    #[arg(long)]
    replace: bool,
    /// The longest transaction, and so the longest row, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = RangedU64ValueParser::<usize>::from(1..=512))]
    buffer_mb: usize,
}

/// How rows are imported.
pub(super) struct Settings {
    pub(super) if_there: IfThere,
    batch_bytes: usize,
}

/// Imports.
pub(crate) fn run(arguments: &ImportArguments) -> Result<(), Failure> {
    interrupt::listen();
    let settings = Settings {
        if_there: match (arguments.resume, arguments.replace) {
            (true, _) => IfThere::Resume,
            (false, true) => IfThere::Replace,
            (false, false) => IfThere::Refuse,
        },
        // Log records have more in them than keys and values.
        batch_bytes: arguments.buffer_mb << 18,
    };
    let buffer_bytes = arguments.buffer_mb << 20;
    let builder = Database::builder()
        .buffer_bytes(buffer_bytes)
        .segment_bytes((2 * buffer_bytes as u64).max(16 << 20));
    match (&arguments.all, &arguments.table, &arguments.file) {
        (Some(folder), ..) => {
            let tables = folder::contents(folder)?;
            let db = opening::to_write_with(builder, &arguments.dir, true)?;
            folder::import_all(&db, folder, &tables, &settings)?;
            Ok(db.close()?)
        }
        (None, Some(name), Some(path)) => {
            let format = FileFormat::of(arguments.format, Some(path));
            let mut source = RowSource::open(path, format)?;
            let db = opening::to_write_with(builder, &arguments.dir, true)?;
            source.import(&db, name, &settings)?;
            Ok(db.close()?)
        }
        _ => unreachable!("the command line has a table and a file, or --all"),
    }
}

/// A file to be imported, of which the header has been read.
pub(super) struct RowSource {
    path: PathBuf,
    rows: Box<dyn RowReader>,
}

impl RowSource {
    pub(super) fn open(path: &Path, format: FileFormat) -> Result<Self, Failure> {
        let input: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            let file = File::open(path).map_err(|source| failed(path, source))?;
            Box::new(BufReader::with_capacity(1 << 20, file))
        };
        let rows = reader(format, input).map_err(|error| match error {
            ReadError::Io(source) => failed(path, source),
            ReadError::Bad(bad) => Failure::BadLine {
                path: path.to_owned(),
                line: bad.line,
                why: bad.why,
                done: 0,
            },
        })?;
        Ok(Self {
            path: path.to_owned(),
            rows,
        })
    }

    /// Imports all rows, and says how many.
    pub(super) fn import(
        &mut self,
        db: &Database,
        name: &str,
        settings: &Settings,
    ) -> Result<(), Failure> {
        let table = self.table(db, name)?;
        let mut done = Imported::default();
        let imported = import(
            db,
            &table,
            &mut *self.rows,
            settings.if_there,
            settings.batch_bytes,
            &mut done,
        );
        let Imported { written, there } = done;
        let rows = counted(written, "row");
        let there_already = match there {
            0 => String::new(),
            1 => "; 1 row was there already".to_owned(),
            there => format!("; {} were there already", counted(there, "row")),
        };
        let path = self.path.clone();
        match imported {
            Ok(()) => {
                eprintln!("imported {rows} into table {name:?}{there_already}");
                Ok(())
            }
            Err(Stopped::Line(bad)) => Err(Failure::BadLine {
                path,
                line: bad.line,
                why: bad.why,
                done: written + there,
            }),
            Err(Stopped::Io(source)) => Err(failed(&path, source)),
            Err(Stopped::Failure(failure)) => {
                eprintln!(
                    "imported {rows} into table {name:?}{there_already}, and not all: --resume goes on"
                );
                Err(failure)
            }
        }
    }

    /// The table of this name, made if there is none.
    fn table(&self, db: &Database, name: &str) -> Result<TypedTable, Failure> {
        let Header {
            key_type,
            value_type,
            eight_byte_keys,
            room_bytes,
        } = self.rows.header();
        let types = self.rows.header().types();
        if let Some(found) = TypedTable::find_if_any(db, name)? {
            if &found.info.key_type == key_type && &found.info.value_type == value_type {
                return Ok(found);
            }
            return Err(Failure::OtherTypes {
                path: self.path.clone(),
                table: name.to_owned(),
                found: format!("{} to {}", found.info.key_type, found.info.value_type),
                expected: format!("{key_type} to {value_type}"),
            });
        }
        db.create_untyped_table(&UntypedTable {
            name,
            key_type,
            value_type,
            eight_byte_keys: match types.key.is_known() {
                true => types.key.has_eight_byte_keys(),
                false => *eight_byte_keys,
            },
            room_bytes: room_bytes.unwrap_or_else(|| types.value.room_bytes()),
        })?;
        TypedTable::find(db, name)
    }
}

fn failed(path: &Path, source: std::io::Error) -> Failure {
    Failure::Device {
        doing: "read",
        path: path.to_owned(),
        source,
    }
}
