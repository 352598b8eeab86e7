//! Keys and values by the names that their types have in the manifest.
//!
//! A database knows what the types of a table are called, and its bytes; a tool that was built without the program has
//! no more. The names of the database's own types say all there is to know: `(string, u64)` is a text and a number.
//! Those of derived types contain a hash of their fields, from which these cannot be had back; what they are made of is in the
//! catalogue beside them. Of serde's types, and of tables that were made before, it is not: these are shown as bytes,
//! `0x…`, and taken as such.
//!
//! | file | what it is |
//! |---|---|
//! | `type_name.rs` | a name of a type, taken apart |
//! | `derived.rs` | types of the program's own, by their layouts |
//! | `moment.rs` | times as text |
//! | `datum.rs` | a key or a value that was read |
//! | `key_bytes.rs`, `value_bytes.rs` | it and its bytes, by the engine's own encodings |
//! | `text.rs` | it as text, on the command line and in what is shown |
//! | `json.rs` | it as JSON |
//!
//! What was read is only taken for a value of its type if the type writes the same bytes again. Otherwise it is
//! [`Datum::Raw`], so nothing is ever shown, exported or imported as something that it is not.

pub(crate) mod datum;
mod derived;
pub(crate) mod json;
mod key_bytes;
mod moment;
pub(crate) mod text;
pub(crate) mod type_name;
mod value_bytes;

pub(crate) use datum::Datum;
pub(crate) use key_bytes::{key_bytes, key_prefix_bytes, read_key};
pub(crate) use type_name::Type;
pub(crate) use value_bytes::{read_value, value_bytes};

use namiki::TableInfo;

/// The types of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableTypes {
    pub(crate) key: Type,
    pub(crate) value: Type,
}

impl TableTypes {
    /// Those of a table, derived ones with their fields.
    pub(crate) fn of(table: &TableInfo) -> Self {
        match table.types() {
            Some(types) => Self {
                key: Type::parse_with(&table.key_type, types),
                value: Type::parse_with(&table.value_type, types),
            },
            None => Self::named(&table.key_type, &table.value_type),
        }
    }

    /// Those that a file of a table has by its names: derived ones are their bytes there.
    pub(crate) fn in_files(table: &TableInfo) -> Self {
        Self::named(&table.key_type, &table.value_type)
    }

    pub(crate) fn named(key: &str, value: &str) -> Self {
        Self {
            key: Type::parse(key),
            value: Type::parse(value),
        }
    }
}
