//! `namiki tables`: lists the tables.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use namiki::Direction;
use namiki_terminal::number_format::{grouped, name};
use namiki_terminal::{interrupt, standard_output};
use serde::Serialize;

use super::TypedTable;
use crate::failure::Failure;
use crate::opening;
use crate::read_only_directory::{Directory, database_in};

const HELP: &str = "\
Tables in memory have the types of a program; those in segments (see namiki load) have columns. The
directory does not record the index of a table in memory: the program that opens it chooses that.

Nothing in the directory is changed. Without --count, the log is not read.

Examples:
  namiki tables /data/shop
  namiki tables /data/shop --count
  namiki tables /data/shop --format json | jq -r .table";

/// Arguments of `namiki tables`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct TablesArguments {
    /// The database's directory
    dir: PathBuf,
    /// Count the rows of tables in memory, which reads all of them
    #[arg(long)]
    count: bool,
    /// The output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Readable text
    Text,
    /// One JSON object a line
    Json,
}

/// One table.
#[derive(Serialize)]
struct Line {
    table: String,
    /// `memory` or `segments`.
    kept_in: &'static str,
    key: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
}

/// Lists the tables.
pub(crate) fn run(arguments: &TablesArguments) -> Result<(), Failure> {
    interrupt::listen();
    let lines = if arguments.count {
        counted(arguments)?
    } else {
        let manifest = Directory::open(&database_in(&arguments.dir)?)?.manifest;
        let in_memory = manifest.tables.iter().map(|info| in_memory(info, None));
        in_memory
            .chain(manifest.loaded_tables.tables.iter().map(in_segments))
            .collect()
    };
    let mut out = BufWriter::new(standard_output());
    let printed = match arguments.format {
        Format::Text => print_text(&lines, &mut out),
        Format::Json => lines.iter().try_for_each(|line| {
            serde_json::to_writer(&mut out, line)?;
            writeln!(out)
        }),
    };
    printed.and_then(|()| out.flush()).map_err(Failure::output)
}

fn counted(arguments: &TablesArguments) -> Result<Vec<Line>, Failure> {
    let db = opening::to_read(&arguments.dir)?;
    let mut lines = Vec::new();
    for info in db.table_infos() {
        let table = TypedTable::find(&db, &info.name)?;
        let mut rows = 0;
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        table.pages(&db, all, Direction::Forward, None, |page| {
            rows += page.rows.len() as u64;
            Ok(())
        })?;
        lines.push(in_memory(&info, Some(rows)));
    }
    lines.extend(db.loaded_tables().iter().map(in_segments));
    db.close()?;
    Ok(lines)
}

fn in_memory(info: &namiki::TableInfo, rows: Option<u64>) -> Line {
    Line {
        table: info.name.clone(),
        kept_in: "memory",
        key: info.key_type.clone(),
        value: info.value_type.clone(),
        rows,
    }
}

fn in_segments(table: &namiki::files::LoadedTable) -> Line {
    let columns = |wanted: bool| {
        let columns = table.schema.columns().iter().enumerate();
        let columns = columns.filter(|(at, _)| table.schema.key().contains(at) == wanted);
        let names: Vec<&str> = columns.map(|(_, column)| &*column.name).collect();
        names.join(", ")
    };
    Line {
        table: table.name.clone(),
        kept_in: "segments",
        key: columns(true),
        value: columns(false),
        rows: Some(table.rows),
    }
}

/// Prints aligned columns.
fn print_text(lines: &[Line], out: &mut impl Write) -> std::io::Result<()> {
    let head = ["table", "key", "value", "kept in", "rows"].map(str::to_owned);
    let cells = |line: &Line| {
        let rows = line.rows.map(grouped).unwrap_or_default();
        [
            name(&line.table).into_owned(),
            name(&line.key).into_owned(),
            name(&line.value).into_owned(),
            line.kept_in.to_owned(),
            rows,
        ]
    };
    let rows: Vec<[String; 5]> = std::iter::once(head)
        .chain(lines.iter().map(cells))
        .collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max();
    let widths: [usize; 5] = std::array::from_fn(|at| width(at).unwrap_or(0));
    for row in &rows {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}
