//! `namiki export`: writes a table, or all tables, to files.

use std::io::BufWriter;
use std::path::PathBuf;

use clap::Args;
use namiki_terminal::number_format::counted;
use namiki_terminal::{interrupt, standard_output};

use super::folder;
use super::formats::FileFormat;
use super::row_file::Target;
use super::write_file::{export, export_to_file};
use crate::failure::Failure;
use crate::opening;
use crate::tables::TypedTable;

const HELP: &str = "\
Nothing in the database's directory is changed. A file gets its name only when it is complete.

JSON lines have a header with the types, an object for each row, and a last line with their number:
  {\"namiki\":1,\"table\":\"visits\",\"key\":\"(string, u64)\",\"value\":\"u32\",...}
  {\"key\":[\"alice\",1],\"value\":2026}
  {\"end\":true,\"rows\":1}
Integers beyond 2^53 are strings; bytes and values of a program's own types are \"0x00ff\".

CSV has the types in the names of its columns, key.1:string,key.2:u64,value:u32, and each part of a
tuple in its own column. A table with bytes that are not a value of their type cannot be written as CSV.

With --all, each table becomes a file of JSON lines; tables with columns have their rows there as
arrays. namiki import --all creates the same database from the folder, in this release or another.

Examples:
  namiki export /data/shop stock > stock.jsonl
  namiki export /data/shop visits --output visits.csv
  namiki export /data/shop stock | jq -r 'select(.value > 100) | .key'
  namiki export /data/shop --all /backup/shop";

/// Arguments of `namiki export`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct ExportArguments {
    /// The database's directory
    dir: PathBuf,
    /// The table
    #[arg(required_unless_present = "all")]
    table: Option<String>,
    /// The format; by default CSV if FILE ends in .csv, and JSON lines otherwise
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write all tables to this folder, which is new or empty
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["table", "output", "format"])]
    all: Option<PathBuf>,
}

/// Exports.
pub(crate) fn run(arguments: &ExportArguments) -> Result<(), Failure> {
    interrupt::listen();
    let db = opening::to_read(&arguments.dir)?;
    match (&arguments.all, &arguments.table) {
        (Some(folder), _) => folder::export_all(&db, folder)?,
        (None, Some(name)) => {
            let table = TypedTable::find(&db, name)?;
            let output = arguments.output.as_deref();
            let format = FileFormat::of(arguments.format, output);
            let rows = match output {
                None => {
                    let out = BufWriter::new(standard_output());
                    export(&db, &table, format, &Target::StandardOutput, Box::new(out))?
                }
                Some(path) => export_to_file(&db, &table, format, path)?,
            };
            eprintln!("exported {} of table {name:?}", counted(rows, "row"));
        }
        (None, None) => unreachable!("the command line has a table or --all"),
    }
    Ok(db.close()?)
}
