//! Changes of the catalogue.
//!
//! Core tables are created before the transaction that names them, under numbers that are never used again, and dropped
//! after it is durable: [`Effects`] says which. The next opening drops those that no committed row names.

mod add_column;
mod alter_table;
mod alteration;
mod bulk;
mod constraints;
mod context;
mod create_index;
mod create_table;
mod drop;
mod drop_column;
mod effects;
mod object_names;
mod rebuild;
mod row_steps;
mod run;
mod truncate;

pub(crate) use bulk::{BulkLoad, BulkWriter};
pub(crate) use context::DdlContext;
pub(crate) use effects::{Effects, EffectsMark};
pub(crate) use rebuild::remove_marker;
pub(crate) use run::run;
