//! Changes of the catalogue.
//!
//! Core tables are created before the transaction that names them, under numbers that are never used again, and dropped
//! after it is durable: [`Effects`] says which. What no committed row names is dropped at the next opening.

mod alter_table;
mod bulk;
mod command;
mod create_index;
mod create_table;
mod drop;
mod effects;
mod rebuild;
mod run;
mod truncate;

pub(crate) use bulk::BulkLoad;
pub(crate) use command::{
    AlterOperation, ColumnDefinition, CreateIndex, CreateTable, DdlCommand, DefaultDefinition,
    KeyDefinition, ObjectKind, QualifiedName, SequenceDefinition,
};
pub(crate) use effects::Effects;
pub(crate) use rebuild::remove_marker;
pub(crate) use run::{DdlContext, run};
