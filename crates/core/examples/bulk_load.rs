//! Many rows in batches, resumed where it stopped: `cargo run --release -p namiki --example bulk_load`
//!
//! `Database::load` takes rows from an iterator, of any number. Each batch is a transaction, the
//! load as a whole is not: rows that were loaded before it stops stay, and the error says up to
//! which row.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error as StdError;

use namiki::{BatchLoadOptions, BatchLoadStop, Database, ExistingRows};

const ROWS: u64 = 30_000;
/// The rows that the source has when it is read first: it breaks off after them.
const ROWS_AT_FIRST: u64 = 20_000;

/// The rows of a file behind a key. This one breaks off, if it is to.
fn source(behind: Option<u64>, rows: u64) -> impl Iterator<Item = Result<(u64, String), String>> {
    let rows = (behind.map_or(0, |key| key + 1)..rows).map(|key| Ok((key, format!("row {key}"))));
    rows.chain(std::iter::once_with(|| {
        Err("the connection was lost".to_owned())
    }))
}

fn main() -> Result<(), Box<dyn StdError>> {
    let db = Database::open("bulk")?;
    let table = db.table::<u64, String>("rows")?;
    // If the program was killed in the middle, the rows that exist are skipped.
    let options = BatchLoadOptions::default()
        .batch_rows(1_000)
        .existing(ExistingRows::Keep);

    let mut last_key = None;
    match db.load_with(&table, source(None, ROWS_AT_FIRST), &options) {
        Err(stopped) if matches!(stopped.stop, BatchLoadStop::Source(_)) => {
            last_key = stopped.report.last_key;
            println!("{stopped} ({})", stopped.stop);
        }
        other => drop(other?),
    }
    println!("last key: {last_key:?}");

    let rows = source(last_key, ROWS).take_while(Result::is_ok);
    let loaded = db.load_with(&table, rows, &options)?.durable;
    println!(
        "resumed: {} written, {} there before",
        loaded.rows, loaded.skipped
    );
    println!("rows: {}", db.transact(|tx| tx.count(&table, ..))?);
    db.close()?;
    Ok(())
}
