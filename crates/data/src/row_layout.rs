//! Row layouts: the catalogue's description of a table's rows, beyond the names of its types.
//!
//! A loaded table has columns. A table with keys or values of derived types has their layouts, so
//! that programs without the types (`namiki get` and `scan`) can show the fields. A table by bytes
//! may have the schemas of the program that encodes its rows. The layout does
//! not decide whether a table opens with a type: the type's name does, which contains a hash of the
//! layout.
//!
//! ```text
//!  "columns": { … }                                             a query's schema
//!  "types": { "layouts": [ { "name": "Account@2#6b1a…",
//!                           "variants": [ { "fields": [["owner", "string"], …] } ] }, … ],
//!             "earlier": ["Account@1#c8a6…"] }
//!  "schemas": ["0a0462…", "0a0563…"]                            schema_versions.rs
//! ```

use serde::{Deserialize, Serialize};

use crate::columns::Schema;
use crate::schema_versions::SchemaVersions;

/// The layout of a table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowLayout {
    /// The columns of a table that was loaded into segments and now takes part in transactions. Its
    /// values are rows, encoded for these columns. Queries use them.
    Columns(Schema),
    /// The derived types of a table's keys and values.
    Types(TypeLayouts),
    /// The schemas of a table by bytes, which only the program reads that encodes its rows.
    Opaque(SchemaVersions),
}

/// The layouts of the derived types in a table's keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeLayouts {
    /// Each type once. A type that another one contains comes before it.
    pub layouts: Vec<TypeLayout>,
    /// The names of the types that the values' type was made from. The table may contain rows of
    /// these; the version at the beginning of a row tells them apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<String>,
}

/// The layout of a derived type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeLayout {
    /// The type's name in the catalogue.
    pub name: String,
    /// A struct has one, without a name.
    pub variants: Vec<VariantLayout>,
}

/// A variant of an enum, or the whole of a struct.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantLayout {
    /// `None` for a struct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The fields in their order: name and type of each. `^` is the type itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, String)>,
}

impl TypeLayouts {
    /// The layout of the type of this name.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&TypeLayout> {
        self.layouts.iter().find(|layout| layout.name == name)
    }
}
