//! Changes of rows: constraints, indexes, and the numbers of rows without a key.
//!
//! All of a statement's changes go through [`Changes`], whatever has found the rows: a row program or a plan of
//! DataFusion's.

mod increments;
mod index_changes;
mod on_conflict;
mod program;
mod rules;
mod write_rows;

pub(crate) use increments::Increments;
pub(crate) use on_conflict::{Arbiter, ConflictAction, OnConflict};
pub(crate) use program::{DeleteProgram, InsertProgram, InsertValue, Returned, UpdateProgram};
pub(crate) use rules::{DefaultValue, Rules, Target};
pub(crate) use write_rows::{Changes, Inserted, RowNumbers};
