//! `namiki export` and `namiki import`: tables as files that other programs read, and that any release reads back.
//!
//! | file | what it is |
//! |---|---|
//! | `export.rs`, `import.rs` | the commands |
//! | `batches.rs` | rows of a file into a table, a transaction for many of them |
//! | `write_file.rs`, `read_file.rs` | a table into a file, and a file into a table |
//! | `row_file.rs` | what both forms have: a header with the types, rows with their lines |
//! | `formats.rs` | which form a file has |
//! | `jsonl.rs` | JSON lines |
//! | `csv_rows.rs` | CSV |
//! | `csv_quotes.rs` | CSV's quotation marks, which have to come in pairs |
//! | `folder.rs` | all tables of a database in a folder |
//! | `segments.rs` | tables in segments, which have columns |
//!
//! A file says what its rows are: the names of the types, as the manifest has them. So a table that is imported is the
//! same table, one of derived types too: its program opens it.

mod batches;
mod csv_quotes;
mod csv_rows;
mod export;
mod folder;
mod formats;
mod import;
mod jsonl;
mod read_file;
mod row_file;
mod segments;
mod write_file;

pub(crate) use export::{ExportArguments, run as run_export};
pub(crate) use import::{ImportArguments, run as run_import};
