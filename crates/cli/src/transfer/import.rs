//! `namiki import`: files into tables.

use std::path::PathBuf;

use clap::Args;
use namiki_terminal::interrupt;

use super::batches::IfThere;
use super::folder;
use super::formats::FileFormat;
use super::read_file::RowSource;
use crate::failure::Failure;
use crate::opening;

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
}

/// Imports.
pub(crate) fn run(arguments: &ImportArguments) -> Result<(), Failure> {
    interrupt::listen();
    let if_there = match (arguments.resume, arguments.replace) {
        (true, _) => IfThere::Resume,
        (false, true) => IfThere::Replace,
        (false, false) => IfThere::Refuse,
    };
    match (&arguments.all, &arguments.table, &arguments.file) {
        (Some(folder), ..) => {
            let tables = folder::contents(folder)?;
            let db = opening::to_write(&arguments.dir, true)?;
            folder::import_all(&db, folder, &tables, if_there)?;
            Ok(db.close()?)
        }
        (None, Some(name), Some(path)) => {
            let format = FileFormat::of(arguments.format, Some(path));
            let mut source = RowSource::open(path, format)?;
            let db = opening::to_write(&arguments.dir, true)?;
            source.import(&db, name, if_there)?;
            Ok(db.close()?)
        }
        _ => unreachable!("the command line has a table and a file, or --all"),
    }
}
