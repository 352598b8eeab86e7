//! `namiki export` and `namiki import`: tables as files that other programs read, and that any release reads back.
//!
//! | file | what it is |
//! |---|---|
//! | `export.rs`, `import.rs` | the commands |
//! | `batches.rs` | rows of a file into a table, a transaction for many of them |
//! | `row_file.rs` | what both forms have: a header with the types, rows with their lines |
//! | `jsonl.rs` | JSON lines |
//! | `csv_rows.rs` | CSV |
//! | `folder.rs` | all tables of a database in a folder |
//! | `segments.rs` | tables in segments, which have columns |
//!
//! A file says what its rows are: the names of the types, as the manifest has them. So a table that is imported is the
//! same table, one of derived types too: its program opens it.

mod batches;
mod csv_rows;
mod export;
mod folder;
mod import;
mod jsonl;
mod row_file;
mod segments;

pub(crate) use export::{ExportArguments, run as run_export};
pub(crate) use import::{ImportArguments, run as run_import};
