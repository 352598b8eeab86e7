//! Rows as the engine stores them: core tables by number, the formats of rows, and their readers.

#[cfg(test)]
mod format_tests;
mod index_entries;
mod keys;
mod reader;
mod row_format;
mod tables;
mod upgrade;

pub(crate) use index_entries::{index_key, index_prefix, unique_key};
pub(crate) use keys::encode_key;
pub(crate) use reader::{ReadHandle, Reader};
pub(crate) use row_format::{FixedPlace, FormatColumn, RowFormat};
pub(crate) use tables::{OpenTable, Storage, core_table_name};
pub(crate) use upgrade::{NotUpgraded, recipes, upgrade};
