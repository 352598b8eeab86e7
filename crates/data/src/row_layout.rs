//! What the rows of a table are made of, beyond the names of its types: the catalogue's one description of it.
//!
//! A table that was loaded has columns. One with keys or values of derived types has the layouts of these, so that a program that
//! does not have the types (`namiki get` and `scan`) can show their fields. The names of derived types contain a hash of the
//! layout, and open the table or not; the layout itself decides nothing.
//!
//! ```text
//!  "columns": { … }                                             a query's schema
//!  "types": { "layouts": [ { "name": "Account@2#6b1a…", "variants": [ { "fields": [["owner", "string"], …] } ] }, … ],
//!             "earlier": ["Account@1#c8a6…"] }
//! ```

use namiki_exec::data::Schema;
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowLayout {
    /// Of a table that was loaded into segments and takes part in transactions now: its columns. Its values are rows, encoded
    /// for them. Queries know it by them.
    Columns(Schema),
    /// Of a table with keys or values of derived types.
    Types(TypeLayouts),
}

/// The layouts of the derived types in a table's keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeLayouts {
    /// Each once, those within others before them.
    pub layouts: Vec<TypeLayout>,
    /// The names of the types that the values' type was made from: rows of these may be there. The version that a row begins with
    /// tells them apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<String>,
}

/// What a derived type is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeLayout {
    /// The type's name, as a table has it.
    pub name: String,
    /// The one of a struct has no name.
    pub variants: Vec<VariantLayout>,
}

/// A variant of an enum, or the whole of a struct.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantLayout {
    /// Nothing if it is a struct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The fields in their order: what each is called, and the name of its type. `^` stands for the type itself.
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
