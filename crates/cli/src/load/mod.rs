//! `namiki load`: fills a database with a known data set.
//!
//! Each table is loaded into segments atomically (`Database::load_sorted`). The same command
//! continues an interrupted load: it skips existing tables.
//!
//! One thread generates the rows, another one encodes and writes them.

mod load_progress;
mod row_batches;

use std::io::{LineWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use namiki::files::LoadedTable;
use namiki::query::Datum;
use namiki::{Database, LoadError, LoadOptions, NewTable};
use namiki_terminal::number_format::{bytes, counted, grouped};
use namiki_terminal::{interrupt, standard_output};
use namiki_tpch::TpchTable;

use self::load_progress::LoadLine;
use crate::failure::{Failure, device, usage};
use crate::opening;

const HELP: &str = "\
Each table is loaded atomically. After Ctrl-C, or if the disk was full, the same command continues with
the missing tables. Queries read loaded tables; they cannot be changed.

Scale 1 takes about 1.2 GiB, scale 10 ten times as much. The paper's query needs only customer and orders.

Examples:
  namiki load tpch --scale 1 --dir /data/tpch
  namiki load tpch --scale 10 --dir /data/tpch10 --tables customer,orders";

/// Arguments of `namiki load`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  namiki load tpch --scale 1 --dir /data/tpch\n  namiki load tpch --help"
)]
pub(crate) struct LoadArguments {
    #[command(subcommand)]
    data_set: DataSet,
}

#[derive(Subcommand)]
enum DataSet {
    /// The tables of TPC-H, with an index of customer on segment and balance, and one of orders on its customer
    Tpch(TpchArguments),
}

#[derive(Args)]
#[command(after_help = HELP)]
struct TpchArguments {
    /// The scale: 1 has 6 million line items, 10 ten times as many
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = scale_factor)]
    scale: f64,
    /// The database's directory; created if it does not exist
    #[arg(long)]
    dir: PathBuf,
    /// Only these tables, separated by commas
    #[arg(long, value_delimiter = ',', value_enum)]
    tables: Vec<TpchTable>,
    /// Memory for sorting the entries of an index, in MiB; larger indexes are sorted externally
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = RangedU64ValueParser::<usize>::from(1..=1 << 20))]
    sort_mb: usize,
}

/// Below this scale, two of the four suppliers that TPC-H's formula assigns to a part can coincide.
const SCALE_MIN: f64 = 0.024;
/// A smaller scale at which the formula works nevertheless.
const SCALE_SMALL: f64 = 0.01;
const SCALE_MAX: f64 = 100_000.0;

fn scale_factor(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if scale == SCALE_SMALL || (SCALE_MIN..=SCALE_MAX).contains(&scale) {
        Ok(scale)
    } else {
        Err(format!(
            "neither {SCALE_SMALL} nor between {SCALE_MIN} and {SCALE_MAX}"
        ))
    }
}

/// Loads a data set.
pub(crate) fn run(arguments: &LoadArguments) -> Result<(), Failure> {
    interrupt::listen();
    let DataSet::Tpch(arguments) = &arguments.data_set;
    let mut out = LineWriter::new(standard_output());
    load_tpch(arguments, &mut out)?;
    out.flush().map_err(Failure::output)
}

fn load_tpch(arguments: &TpchArguments, out: &mut impl Write) -> Result<(), Failure> {
    let db = opening::open(Database::builder(), |settings| {
        settings.open(&arguments.dir)
    })?;
    let wanted = match &arguments.tables[..] {
        [] => TpchTable::value_variants(),
        some => some,
    };
    let there = db.loaded_tables();
    for table in TpchTable::value_variants() {
        if !wanted.contains(table) {
            continue;
        }
        let definition = table.definition().map_err(|error| {
            let why = format!("{}: {error}", table.name());
            Failure::Load(LoadError::Definition { why })
        })?;
        if let Some(found) = there.iter().find(|found| found.name == table.name()) {
            check_same(*table, &definition, found, arguments)?;
            writeln!(out, "{}: there already", table.name()).map_err(Failure::output)?;
            continue;
        }
        let began = Instant::now();
        let loaded = load_one(&db, *table, &definition, arguments)?;
        let line = summary(&loaded, began.elapsed().as_secs_f64());
        writeln!(out, "{line}").map_err(Failure::output)?;
        out.flush().map_err(Failure::output)?;
    }
    db.close()?;
    Ok(())
}

/// Fails unless the existing table is the one that would be loaded.
fn check_same(
    table: TpchTable,
    definition: &NewTable,
    found: &LoadedTable,
    arguments: &TpchArguments,
) -> Result<(), Failure> {
    let expected = table.row_count(arguments.scale);
    let differs = if found.rows != expected {
        format!(
            "with {}, and at scale {} it has {}",
            counted(found.rows, "row"),
            arguments.scale,
            grouped(expected)
        )
    } else if found.schema != *definition.schema() {
        "with other columns".to_owned()
    } else if !indexes_of(found).eq(definition.indexes()) {
        "with other indexes".to_owned()
    } else {
        return Ok(());
    };
    Err(usage(format!(
        "{} has a table {} already, {differs}; load into another directory",
        arguments.dir.display(),
        found.name,
    )))
}

fn indexes_of(table: &LoadedTable) -> impl Iterator<Item = (&str, &[String])> {
    let indexes = table.indexes.iter();
    indexes.map(|index| (&*index.name, &index.columns[..]))
}

fn load_one(
    db: &Database,
    table: TpchTable,
    definition: &NewTable,
    arguments: &TpchArguments,
) -> Result<LoadedTable, Failure> {
    let scale = arguments.scale;
    let line = Arc::new(LoadLine::new(table.row_estimate(scale)));
    let options = LoadOptions::default()
        .sort_bytes(arguments.sort_mb << 20)
        .interrupt(Arc::clone(interrupt::asked()))
        .on_progress(Arc::new({
            let line = Arc::clone(&line);
            move |progress| line.say(progress)
        }));
    let loaded = load_made(db, definition, &options, || table.rows(scale));
    line.clear();
    loaded
}

/// Loads rows that another thread generates.
fn load_made<R: Iterator<Item = Vec<Datum>>>(
    db: &Database,
    definition: &NewTable,
    options: &LoadOptions,
    made: impl FnOnce() -> R + Send,
) -> Result<LoadedTable, Failure> {
    std::thread::scope(|threads| {
        let (sender, rows) = row_batches::channel();
        let maker = std::thread::Builder::new().name(format!("make {}", definition.name()));
        let making = maker.spawn_scoped(threads, move || sender.send_all(made()));
        let making = making.map_err(device("start a thread for", db.dir()))?;
        let loaded = db.load_sorted_with(definition, rows, options);
        // The load has failed because a panic ended the rows early.
        let _ = making.join();
        Ok(loaded?)
    })
}

fn summary(table: &LoadedTable, seconds: f64) -> String {
    let rate = table.rows as f64 / seconds.max(1e-6);
    let indexes = table.indexes.iter().map(|index| {
        let size = bytes(index.segment.len_bytes());
        format!(", index {} {size}", index.name)
    });
    format!(
        "{}: {}, {}{} in {seconds:.1} s, {} rows/s",
        table.name,
        counted(table.rows, "row"),
        bytes(table.segment.len_bytes()),
        indexes.collect::<String>(),
        grouped(rate as u64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message of the panic goes to standard error.
    #[test]
    fn a_maker_that_panics_makes_no_table() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let nation = TpchTable::Nation;
        let definition = nation.definition().unwrap();
        let options = LoadOptions::default();
        let failing = || {
            let rows = nation.rows(1.0).enumerate();
            rows.map(|(number, row)| {
                assert!(number < 20, "this row cannot be made");
                row
            })
        };
        let error = load_made(&db, &definition, &options, failing).unwrap_err();
        assert!(
            matches!(&error, Failure::Load(LoadError::Source { .. })),
            "{error:?}"
        );
        assert!(db.loaded_tables().is_empty());
        let loaded = load_made(&db, &definition, &options, || nation.rows(1.0)).unwrap();
        assert_eq!(loaded.rows, 25);
    }

    #[test]
    fn a_table_with_other_rows_columns_or_indexes_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let orders = TpchTable::Orders;
        let definition = orders.definition().unwrap();
        let options = LoadOptions::default();
        let found = load_made(&db, &definition, &options, || orders.rows(0.01)).unwrap();
        let at = |scale| TpchArguments {
            scale,
            dir: dir.path().to_owned(),
            tables: Vec::new(),
            sort_mb: 1,
        };
        let differs = |definition: &NewTable, found: &LoadedTable, scale| {
            let same = check_same(orders, definition, found, &at(scale));
            same.err().map(|error| error.to_string())
        };
        assert_eq!(differs(&definition, &found, 0.01), None);
        let bare = NewTable::new("orders", definition.schema().clone());
        for (differs, what) in [
            (differs(&definition, &found, 0.024), "15,000 rows"),
            (differs(&bare, &found, 0.01), "other indexes"),
        ] {
            assert!(
                differs.as_ref().is_some_and(|it| it.contains(what)),
                "{differs:?}"
            );
        }
    }
}
