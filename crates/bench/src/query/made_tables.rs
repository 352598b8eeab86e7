//! TPC-H tables, loaded for one command into a folder of its own.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::Path;

use clap::ValueEnum;
use namiki::{Database, LoadError, LoadOptions};
use namiki_tpch::TpchTable;

use crate::error::BenchError;
use crate::interrupt;

/// Loads the TPC-H tables with these names.
pub(crate) fn make_tables(
    dir: &Path,
    names: &BTreeSet<String>,
    scale: f64,
) -> Result<(), BenchError> {
    let db = Database::builder().interrupt(interrupt::flag()).open(dir)?;
    let options = LoadOptions::default().interrupt(interrupt::flag());
    for table in TpchTable::value_variants() {
        if !names.contains(table.name()) {
            continue;
        }
        eprintln!("making {} at scale {scale}", table.name());
        let definition = table.definition();
        let definition = definition.map_err(|error| BenchError::Check(error.to_string()))?;
        let rows = table.rows(scale).map(Ok::<_, Infallible>);
        let loaded = db.load_sorted_with(&definition, rows, &options);
        loaded.map_err(|error| match error {
            LoadError::Interrupted => BenchError::Interrupted,
            error => BenchError::Load(error),
        })?;
    }
    db.close()?;
    Ok(())
}
