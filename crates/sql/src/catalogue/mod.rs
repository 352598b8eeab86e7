//! The catalogue: what tables, indexes and sequences there are.
//!
//! It is a core table. Its rows are written by the transactions that change it, and read by every transaction that uses a
//! table: concurrent DDL is a conflict.

mod numbers;
mod relation;
mod rows;
mod sequences;

pub(crate) use relation::{
    COLUMNS_MAX, CheckRow, ColumnRow, DefaultRow, Identity, IndexRow, KeyRow, Relation,
    SequenceRow, StoredColumn, StoredRows, TableRow,
};
pub(crate) use rows::{Catalogue, Named, SEQUENCE_VERSION};
pub(crate) use sequences::Sequences;

/// The schema of tables with unqualified names.
pub(crate) const PUBLIC: &str = "public";
/// The first number that is given to an object of a user.
pub(crate) const FIRST_NUMBER: u64 = 16_384;
