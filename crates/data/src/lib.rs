//! Keys, values and rows of Namiki's tables, and the bytes they are stored as.
//!
//! The engine, its queries and the clients of a cluster write the same bytes with this crate. It
//! knows no disk, no log and no transaction. A program that embeds the database finds all of it in
//! `namiki`.
//!
//! | module | contents |
//! |---|---|
//! | `key` | typed keys: bytes that compare as the keys do; the encoding: `key/encoding.rs` |
//! | `value` | typed values, alone and as components of others |
//! | [`columns`] | tables with a schema: data, keys and rows by columns |
//! | `shape` | names of derived types, which contain a hash of their fields |
//! | `row_layout`, `layout_of_types`, `schema_versions` | the catalogue's description of a table's rows |
//! | `varint` | numbers in seven bits a byte, in one encoding |

pub mod columns;
#[doc(hidden)]
pub mod derive_support;
#[doc(hidden)]
pub mod error_sentence;
mod key;
mod layout_of_types;
mod row_layout;
mod schema_versions;
mod shape;
mod value;
#[doc(hidden)]
pub mod varint;

#[doc(hidden)]
pub use derive_support as __derive;
pub use key::{AsKey, Key, KeyBytes, KeyPrefix, KeyRange, after_prefix, encoded, range_of_prefix};
pub use layout_of_types::layout_of_types;
#[cfg(feature = "derive")]
pub use namiki_derive::{Key, Value};
pub use row_layout::{RowLayout, TypeLayout, TypeLayouts, VariantLayout};
pub use schema_versions::SchemaVersions;
#[cfg(feature = "serde")]
pub use value::Serde;
pub use value::{AddError, Number, Value, ValueBytes, ValueView, Versioned, add};
