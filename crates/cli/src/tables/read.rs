//! `namiki get` and `namiki scan`.

use std::io::{BufWriter, Write};
use std::ops::Bound;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use namiki::Direction;
use namiki_terminal::number_format::grouped;
use namiki_terminal::{interrupt, standard_output};

use super::{FORMS, TypedTable};
use crate::failure::{Failure, usage};
use crate::opening;
use crate::typed::json::to_json;
use crate::typed::text::prefix_from_text;
use crate::typed::{key_prefix_bytes, read_key, read_value};

const GET_EXAMPLES: &str = "\
Nothing in the directory is changed. Exit status: 1 if the key does not exist.

Examples:
  namiki get /data/shop stock 17
  namiki get /data/shop visits '(\"alice\", 1)'
  namiki get /data/shop pictures 17 --format raw > picture.png

";

const SCAN_EXAMPLES: &str = "\
Nothing in the directory is changed. With --format json, each line is an object with the key and the value, as
namiki export writes them.

Examples:
  namiki scan /data/shop stock --limit 10
  namiki scan /data/shop stock --from 100 --to 200 --count
  namiki scan /data/shop visits --prefix '(\"alice\")' --reverse --limit 1
  namiki scan /data/shop names --prefix al --format json

";

/// Arguments of `namiki get`.
#[derive(Args)]
#[command(after_help = format!("{GET_EXAMPLES}{FORMS}"))]
pub(crate) struct GetArguments {
    /// The database's directory
    dir: PathBuf,
    /// The table
    table: String,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// The output format
    #[arg(long, value_enum, default_value_t = GetFormat::Text)]
    format: GetFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum GetFormat {
    /// Text by the value's type
    Text,
    /// As JSON
    Json,
    /// The raw bytes: a text without quotes, and no newline at the end
    Raw,
}

/// Prints a value.
pub(crate) fn run_get(arguments: &GetArguments) -> Result<(), Failure> {
    interrupt::listen();
    let db = opening::to_read(&arguments.dir)?;
    let table = TypedTable::find(&db, &arguments.table)?;
    let key = table.key(&arguments.key)?;
    let value = db.transact(|tx| tx.get(&table.table, &key[..]))?;
    let Some(value) = value else {
        return Err(Failure::NoKey {
            table: table.info.name,
            key: read_key(&table.types.key, &key).to_string(),
        });
    };
    let of = &table.types.value;
    let mut out = BufWriter::new(standard_output());
    match arguments.format {
        GetFormat::Text => writeln!(out, "{}", read_value(of, &value)),
        GetFormat::Json => writeln!(out, "{}", to_json(of, &read_value(of, &value))),
        GetFormat::Raw => out.write_all(&value),
    }
    .and_then(|()| out.flush())
    .map_err(Failure::output)?;
    Ok(db.close()?)
}

/// Arguments of `namiki scan`.
#[derive(Args)]
#[command(after_help = format!("{SCAN_EXAMPLES}{FORMS}"))]
pub(crate) struct ScanArguments {
    /// The database's directory
    dir: PathBuf,
    /// The table
    table: String,
    /// The first key
    #[arg(
        long,
        value_name = "KEY",
        allow_hyphen_values = true,
        conflicts_with = "prefix"
    )]
    from: Option<String>,
    /// The key before which the scan stops
    #[arg(
        long,
        value_name = "KEY",
        allow_hyphen_values = true,
        conflicts_with = "prefix"
    )]
    to: Option<String>,
    /// Only keys with this prefix: the first letters of a text, the first parts of a tuple
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    prefix: Option<String>,
    /// At most this many rows
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print only the number of rows
    #[arg(long)]
    count: bool,
    /// The output format
    #[arg(long, value_enum, default_value_t = ScanFormat::Text)]
    format: ScanFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum ScanFormat {
    /// `KEY = VALUE`
    Text,
    /// One JSON object a line
    Json,
}

/// Prints rows.
pub(crate) fn run_scan(arguments: &ScanArguments) -> Result<(), Failure> {
    interrupt::listen();
    let db = opening::to_read(&arguments.dir)?;
    let table = TypedTable::find(&db, &arguments.table)?;
    let range = range(arguments, &table)?;
    let direction = if arguments.reverse {
        Direction::Backward
    } else {
        Direction::Forward
    };
    let mut out = BufWriter::new(standard_output());
    let mut count = 0;
    let scanned = table.pages(&db, range, direction, arguments.limit, |page| {
        count += page.rows.len() as u64;
        if arguments.count {
            return Ok(());
        }
        for (key, value) in &page.rows {
            let (of_key, of_value) = (&table.types.key, &table.types.value);
            let (key, value) = (read_key(of_key, key), read_value(of_value, value));
            match arguments.format {
                ScanFormat::Text => writeln!(out, "{key} = {value}"),
                ScanFormat::Json => {
                    let (key, value) = (to_json(of_key, &key), to_json(of_value, &value));
                    writeln!(out, "{{\"key\":{key},\"value\":{value}}}")
                }
            }
            .map_err(Failure::output)?;
        }
        Ok(())
    });
    if scanned.is_ok() && arguments.count {
        let count = match arguments.format {
            ScanFormat::Text => grouped(count),
            ScanFormat::Json => count.to_string(),
        };
        writeln!(out, "{count}").map_err(Failure::output)?;
    }
    // Flush the rows that were printed before an error.
    let flushed = out.flush().map_err(Failure::output);
    scanned.and(flushed)?;
    Ok(db.close()?)
}

fn range(
    arguments: &ScanArguments,
    table: &TypedTable,
) -> Result<(Bound<Vec<u8>>, Bound<Vec<u8>>), Failure> {
    if let Some(text) = &arguments.prefix {
        let of = &table.types.key;
        let prefix =
            prefix_from_text(of, text).map_err(|error| usage(format!("the prefix {error}")))?;
        let first = key_prefix_bytes(of, &prefix);
        let first = first.unwrap_or_else(|| unreachable!("{prefix} was read as a prefix"));
        let end = namiki_data::after_prefix(&first);
        return Ok((Bound::Included(first), end));
    }
    let key = |text: &Option<String>| text.as_deref().map(|text| table.key(text)).transpose();
    Ok((
        key(&arguments.from)?.map_or(Bound::Unbounded, Bound::Included),
        key(&arguments.to)?.map_or(Bound::Unbounded, Bound::Excluded),
    ))
}
