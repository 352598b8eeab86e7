//! Keys and values by the names that their types have in the manifest.
//!
//! A tool that was built without the program has only the bytes of a table and the names of its
//! types. The names of the database's own types are sufficient: `(string, u64)` is a text and a
//! number. The names of derived types contain only a hash of their fields; the catalogue also
//! stores their layouts. It has no layouts of serde's types, and of tables of earlier releases:
//! these are shown, and accepted, as bytes, `0x…`.
//!
//! | file | contents |
//! |---|---|
//! | `type_name.rs` | parser of types' names |
//! | `derived.rs` | types of the program's own, by their layouts |
//! | `moment.rs` | times as text |
//! | `datum.rs` | a decoded key or value |
//! | `key_bytes.rs`, `value_bytes.rs` | conversion to and from bytes, by the engine's encodings |
//! | `text.rs` | conversion to and from text, for the command line and the output |
//! | `json.rs` | conversion to and from JSON |
//!
//! Decoded bytes are only accepted as a value of their type if encoding it yields the same bytes.
//! Otherwise they are [`Datum::Raw`], so no value is ever misrepresented.

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
    /// The types of a table, derived ones with their fields.
    pub(crate) fn of(table: &TableInfo) -> Self {
        match table.types() {
            Some(types) => Self {
                key: Type::parse_with(&table.key_type, types),
                value: Type::parse_with(&table.value_type, types),
            },
            None => Self::named(&table.key_type, &table.value_type),
        }
    }

    /// The types of a table by their names in a file: derived ones are bytes there.
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
