//! `namiki export` and `namiki import`: tables as files that other programs can read, and that any
//! release reads back.
//!
//! | file | contents |
//! |---|---|
//! | `export.rs`, `import.rs` | the commands |
//! | `batches.rs` | import of rows in transactions of many rows |
//! | `write_file.rs`, `read_file.rs` | export of a table to a file, and import of a file |
//! | `row_file.rs` | common part of both formats: header with types, rows with lines |
//! | `formats.rs` | the format of a file |
//! | `jsonl.rs` | JSON lines |
//! | `csv_rows.rs` | CSV |
//! | `csv_quotes.rs` | CSV's quotation marks, which have to come in pairs |
//! | `folder.rs` | all tables of a database in a folder |
//! | `segments.rs` | tables in segments, which have columns |
//!
//! A file contains the names of its rows' types, as in the manifest. So an imported table is the
//! same table, also with derived types: its program can open it.

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
