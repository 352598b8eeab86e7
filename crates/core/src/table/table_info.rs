//! The catalogue's entry of a table: its number, its names, and the layout of its rows.

use namiki_data::columns::Schema;
use namiki_data::{RowLayout, SchemaVersions, TypeLayouts};
use serde::{Deserialize, Serialize};

/// A table's number: what log records call it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TableId(pub u32);

/// The manifest's entry of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenInfo", into = "WrittenInfo")]
pub struct TableInfo {
    /// Its number.
    pub id: TableId,
    /// Its name.
    pub name: String,
    /// The name of its key type.
    pub key_type: String,
    /// The name of its value type.
    pub value_type: String,
    /// Whether its keys all have eight bytes.
    pub fixed_keys: bool,
    /// The length that records have room for in themselves, in bytes.
    pub inline_bytes: usize,
    /// The layout of its rows, if the names of these types do not determine it.
    pub layout: Option<Box<RowLayout>>,
}

impl TableInfo {
    /// Its columns, if it was loaded into segments and takes part in transactions now.
    #[must_use]
    pub fn columns(&self) -> Option<&Schema> {
        match self.layout.as_deref()? {
            RowLayout::Columns(columns) => Some(columns),
            RowLayout::Types(_) | RowLayout::Opaque(_) => None,
        }
    }

    /// The layouts of the derived types of its keys and values.
    #[must_use]
    pub fn types(&self) -> Option<&TypeLayouts> {
        match self.layout.as_deref()? {
            RowLayout::Columns(_) | RowLayout::Opaque(_) => None,
            RowLayout::Types(types) => Some(types),
        }
    }

    /// The schema versions of a table by bytes, if it has any.
    #[must_use]
    pub fn schemas(&self) -> Option<&SchemaVersions> {
        match self.layout.as_deref()? {
            RowLayout::Columns(_) | RowLayout::Types(_) => None,
            RowLayout::Opaque(schemas) => Some(schemas),
        }
    }

    /// The same, to be appended to; `None` if its rows have another layout.
    pub(crate) fn schemas_mut(&mut self) -> Option<&mut SchemaVersions> {
        let layout =
            (self.layout).get_or_insert_with(|| Box::new(RowLayout::Opaque(SchemaVersions::new())));
        match &mut **layout {
            RowLayout::Columns(_) | RowLayout::Types(_) => None,
            RowLayout::Opaque(schemas) => Some(schemas),
        }
    }
}

/// As it is written.
#[derive(Serialize, Deserialize)]
struct WrittenInfo {
    id: TableId,
    name: String,
    key_type: String,
    value_type: String,
    fixed_keys: bool,
    inline_bytes: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    columns: Option<Schema>,
    /// Programs that do not know of it pass over it, and leave it out when they write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    types: Option<TypeLayouts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schemas: Option<SchemaVersions>,
}

impl From<WrittenInfo> for TableInfo {
    fn from(written: WrittenInfo) -> Self {
        let columns = written.columns.map(RowLayout::Columns);
        let layout = columns
            .or_else(|| written.types.map(RowLayout::Types))
            .or_else(|| written.schemas.map(RowLayout::Opaque));
        Self {
            id: written.id,
            name: written.name,
            key_type: written.key_type,
            value_type: written.value_type,
            fixed_keys: written.fixed_keys,
            inline_bytes: written.inline_bytes,
            layout: layout.map(Box::new),
        }
    }
}

impl From<TableInfo> for WrittenInfo {
    fn from(info: TableInfo) -> Self {
        let (columns, types, schemas) = match info.layout.map(|layout| *layout) {
            None => (None, None, None),
            Some(RowLayout::Columns(columns)) => (Some(columns), None, None),
            Some(RowLayout::Types(types)) => (None, Some(types), None),
            Some(RowLayout::Opaque(schemas)) => (None, None, Some(schemas)),
        };
        Self {
            id: info.id,
            name: info.name,
            key_type: info.key_type,
            value_type: info.value_type,
            fixed_keys: info.fixed_keys,
            inline_bytes: info.inline_bytes,
            columns,
            types,
            schemas,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_versions_are_written_with_the_table() {
        let written = r#"{"id":3,"name":"t","key_type":"key","value_type":"row","fixed_keys":false,"inline_bytes":8}"#;
        let mut info: TableInfo = serde_json::from_str(written).unwrap();
        assert_eq!((info.schemas(), info.layout.as_ref()), (None, None));
        assert_eq!(serde_json::to_string(&info).unwrap(), written);
        info.schemas_mut().unwrap().push(&[7, 255]);
        let with_schema = serde_json::to_string(&info).unwrap();
        assert!(
            with_schema.contains(r#""schemas":["07ff"]"#),
            "{with_schema}"
        );
        assert_eq!(
            serde_json::from_str::<TableInfo>(&with_schema).unwrap(),
            info
        );
        assert!(info.columns().is_none() && info.types().is_none());
        info.layout = Some(Box::new(RowLayout::Types(TypeLayouts::default())));
        assert!(info.schemas_mut().is_none() && info.schemas().is_none());
    }
}
