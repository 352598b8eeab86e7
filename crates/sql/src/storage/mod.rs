//! Rows as the engine stores them: core tables by number, the bytes of rows, and their readers.

mod index_entries;
mod reader;
mod row_bytes;
mod tables;

pub(crate) use index_entries::{index_key, index_prefix, unique_key};
pub(crate) use reader::{ReadHandle, Reader};
pub(crate) use row_bytes::{decode_row, encode_key, encode_row, row_value};
pub(crate) use tables::{OpenTable, Storage};
