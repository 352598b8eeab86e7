//! Changes of the catalogue.
//!
//! Core tables are created before the transaction that names them, under numbers that are never used again, and dropped
//! after it is durable: [`Effects`] says which. The next opening drops those that no committed row names.

mod alter_table;
mod bulk;
mod context;
mod create_index;
mod create_table;
mod drop;
mod effects;
mod rebuild;
mod run;
mod truncate;

pub(crate) use bulk::BulkLoad;
pub(crate) use context::DdlContext;
pub(crate) use effects::{Effects, EffectsMark};
pub(crate) use rebuild::remove_marker;
pub(crate) use run::run;
