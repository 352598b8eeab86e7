//! `namiki import`: reads files into tables.

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
A missing table is created with the types in the file; an existing one must have these types. A missing
database is created. Rows are committed in batches of a thousand, in the order of the file: if an import
ends early, the rows before that are in the table, and the same command with --resume imports the rest.

An invalid line ends the import, and the error names the line. Correct it to import the rest.

Examples:
  namiki import /data/new stock stock.jsonl
  namiki import /data/new visits visits.csv --resume
  namiki export /data/shop stock | namiki import /data/new stock -
  namiki import /data/new --all /backup/shop";

/// Arguments of `namiki import`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct ImportArguments {
    /// The database's directory
    dir: PathBuf,
    /// The table; its name may differ from the exported one's
    #[arg(required_unless_present = "all")]
    table: Option<String>,
    /// The file; - is standard input
    #[arg(required_unless_present = "all")]
    file: Option<PathBuf>,
    /// The format; by default CSV if FILE ends in .csv, and JSON lines otherwise
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Read all tables of a folder that namiki export --all has written
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["table", "file", "format"])]
    all: Option<PathBuf>,
    /// Skip existing rows with equal values: continues an import that ended early
    #[arg(long, conflicts_with = "replace")]
    resume: bool,
    /// Replace the values of existing keys by those of the file
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
