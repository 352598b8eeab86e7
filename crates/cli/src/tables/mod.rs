//! `namiki tables`, `get`, `scan`, `put` and `remove`: access to a database's tables without the
//! program that made them.
//!
//! | file | contents |
//! |---|---|
//! | `list.rs` | the list of tables |
//! | `table.rs` | a table by its name, and its rows, a page at a time |
//! | `read.rs` | `get` and `scan` |
//! | `write.rs` | `put` and `remove` |
//!
//! Reading commands open the directory read-only, so nothing in it changes; writing commands run
//! one transaction.

mod list;
mod read;
mod table;
mod write;

pub(crate) use list::{TablesArguments, run as run_tables};
pub(crate) use read::{GetArguments, ScanArguments, run_get, run_scan};
pub(crate) use table::TypedTable;
pub(crate) use write::{PutArguments, RemoveArguments, run_put, run_remove};

/// The forms of keys and values, for the help of all commands.
pub(crate) const FORMS: &str = "\
Keys and values are given and shown by the types of the table:
  numbers                  7, -7, 1.5
  string, char             alice, or \"alice\" with JSON's escapes
  bytes, [u8; N]           0x00ff
  uuid                     00112233-4455-6677-8899-aabbccddeeff
  bool, nothing            true, nothing
  option<T>                none, some(7)
  (A, B)                   '(\"alice\", 7)'; a text without commas and brackets needs no quotes
  list<T>, [T; N]          '[1, 2]'
  a program's own types    0x00ff: their bytes, as only the program knows their fields";
