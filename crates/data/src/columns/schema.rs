//! Schemas: the columns of a table, those of its key, and where each is stored.

use serde::{Deserialize, Serialize};

use super::column_type::{ColumnType, SCALE_MAX};
use crate::debug_as_sentence;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Unique in its table.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
    /// Whether a row may have no value here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nullable: bool,
}

impl Column {
    /// A column that always has a value.
    #[must_use]
    pub fn new(name: &str, column_type: ColumnType) -> Self {
        Self {
            name: name.to_owned(),
            column_type,
            nullable: false,
        }
    }

    /// The same column, in which a value may be missing.
    #[must_use]
    pub fn nullable(self) -> Self {
        Self {
            nullable: true,
            ..self
        }
    }
}

/// Where missing values come in the order of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NullOrder {
    /// Before all values. [`Value`](super::Value) and [`Datum`](super::Datum) compare so.
    #[default]
    First,
    /// After all values, as PostgreSQL orders them.
    Last,
}

/// The place of a column in the stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnPlace {
    /// In the key, this many columns after its first.
    Key(usize),
    /// In the row bytes, at this byte. Columns of a fixed length come first there.
    Fixed(usize),
    /// In the row bytes: the column of this number among those of variable length.
    Variable(usize),
}

/// The columns of a table and its key. A table's rows are in the order of the key, which is unique.
///
/// A file (the manifest) contains the columns and the names of those in the key:
/// ```json
/// { "columns": [ { "name": "id", "type": "i64" },
///                { "name": "price", "type": { "decimal": { "scale": 2 } } } ],
///   "key": [ "id" ] }
/// ```
/// `"nulls": "last"` is the other [`NullOrder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SchemaFile", into = "SchemaFile")]
pub struct Schema {
    columns: Vec<Column>,
    key: Vec<usize>,
    null_order: NullOrder,
    places: Vec<ColumnPlace>,
    /// The number of each column's bit in a row's null bits.
    null_bits: Vec<Option<usize>>,
    fixed_end: usize,
    variable_count: usize,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaFile {
    columns: Vec<Column>,
    key: Vec<String>,
    #[serde(default, skip_serializing_if = "is_first")]
    nulls: NullOrder,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_first(nulls: &NullOrder) -> bool {
    *nulls == NullOrder::First
}

debug_as_sentence!(SchemaError);

/// The reason why columns and a key are not a schema.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Two columns have one name.
    #[error("two columns are called `{name}`")]
    DuplicateColumn {
        /// Their name.
        name: String,
    },
    /// The key names a column that the table does not have.
    #[error("the key has a column `{name}`, which the table has not")]
    UnknownKeyColumn {
        /// The name.
        name: String,
    },
    /// A column is in the key twice.
    #[error("the key has the column `{name}` twice")]
    DuplicateKeyColumn {
        /// The name.
        name: String,
    },
    /// Rows need an order.
    #[error("the key has no columns")]
    EmptyKey,
    /// More digits than a stored decimal can have.
    #[error("the column `{name}` has {scale} digits behind the point, more than {SCALE_MAX}")]
    ScaleTooLarge {
        /// The column.
        name: String,
        /// Its scale.
        scale: u8,
    },
}

impl Schema {
    /// Columns, and the names of those in the key. The first one of the key sorts first.
    ///
    /// # Errors
    /// [`SchemaError`] if they do not fit together.
    pub fn new(columns: Vec<Column>, key: &[&str]) -> Result<Self, SchemaError> {
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| other.name == column.name) {
                let name = column.name.clone();
                return Err(SchemaError::DuplicateColumn { name });
            }
            if let Some(scale) = column.column_type.scale()
                && scale > SCALE_MAX
            {
                let name = column.name.clone();
                return Err(SchemaError::ScaleTooLarge { name, scale });
            }
        }
        if key.is_empty() {
            return Err(SchemaError::EmptyKey);
        }
        let mut key_columns = Vec::with_capacity(key.len());
        for name in key {
            let name = (*name).to_owned();
            match columns.iter().position(|column| column.name == name) {
                None => return Err(SchemaError::UnknownKeyColumn { name }),
                Some(at) if key_columns.contains(&at) => {
                    return Err(SchemaError::DuplicateKeyColumn { name });
                }
                Some(at) => key_columns.push(at),
            }
        }
        Ok(Self::laid_out(columns, key_columns))
    }

    fn laid_out(columns: Vec<Column>, key: Vec<usize>) -> Self {
        let in_key = |at: usize| key.iter().position(|in_key| *in_key == at);
        let mut null_bits = vec![None; columns.len()];
        let mut null_bit_count: usize = 0;
        for (at, column) in columns.iter().enumerate() {
            if column.nullable && in_key(at).is_none() {
                null_bits[at] = Some(null_bit_count);
                null_bit_count += 1;
            }
        }
        // After the header byte.
        let mut fixed_end = 1 + null_bit_count.div_ceil(8);
        let mut variable_count = 0;
        let place = |(at, column): (usize, &Column)| match in_key(at) {
            Some(number) => ColumnPlace::Key(number),
            None => match column.column_type.fixed_bytes() {
                Some(bytes) => {
                    fixed_end += bytes;
                    ColumnPlace::Fixed(fixed_end - bytes)
                }
                None => {
                    variable_count += 1;
                    ColumnPlace::Variable(variable_count - 1)
                }
            },
        };
        let places = columns.iter().enumerate().map(place).collect();
        Self {
            columns,
            key,
            null_order: NullOrder::First,
            places,
            null_bits,
            fixed_end,
            variable_count,
        }
    }

    /// The schema of a secondary index of this table over the named columns: these, then the other
    /// columns of the table's key. All of them are the index's key, so its rows have no bytes of
    /// their own.
    ///
    /// # Errors
    /// [`SchemaError`] if there is no such column, or one is named twice.
    pub fn index(&self, on: &[&str]) -> Result<Self, SchemaError> {
        let mut columns: Vec<Column> = Vec::new();
        for name in on {
            let name = (*name).to_owned();
            match self.column(&name) {
                None => return Err(SchemaError::UnknownKeyColumn { name }),
                Some(at) => columns.push(self.columns[at].clone()),
            }
        }
        for at in &self.key {
            let column = &self.columns[*at];
            if !on.contains(&column.name.as_str()) {
                columns.push(column.clone());
            }
        }
        let key: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let key: Vec<&str> = key.iter().map(String::as_str).collect();
        let index = Self::new(columns, &key)?;
        Ok(index.with_null_order(self.null_order))
    }

    /// The same columns with missing values in this place of the key's order. Rows that were stored
    /// under another order are not found.
    #[must_use]
    pub fn with_null_order(self, null_order: NullOrder) -> Self {
        Self { null_order, ..self }
    }

    /// Where missing values come in the order of the key.
    #[inline]
    #[must_use]
    pub fn null_order(&self) -> NullOrder {
        self.null_order
    }

    /// The same for one column: `None` if it is not nullable.
    ///
    /// # Panics
    /// If there is no column of this number.
    #[inline]
    #[must_use]
    pub fn nulls(&self, column: usize) -> Option<NullOrder> {
        self.columns[column].nullable.then_some(self.null_order)
    }

    /// All columns, in their order.
    #[inline]
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The numbers of the columns in the key. The first one sorts first.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[usize] {
        &self.key
    }

    /// The number of the column of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The place of a column in the stored bytes.
    ///
    /// # Panics
    /// If there is no column of this number.
    #[inline]
    #[must_use]
    pub fn place(&self, column: usize) -> ColumnPlace {
        self.places[column]
    }

    /// The number of a column's null bit, if it is nullable and not in the key.
    #[inline]
    pub(super) fn null_bit(&self, column: usize) -> Option<usize> {
        self.null_bits[column]
    }

    /// The end of the columns of fixed length, where the ends of the others begin.
    #[inline]
    pub(super) fn fixed_end(&self) -> usize {
        self.fixed_end
    }

    /// The number of columns of variable length outside the key.
    #[inline]
    pub(super) fn variable_count(&self) -> usize {
        self.variable_count
    }

    /// Whether all columns are in the key, so that rows have no bytes of their own.
    #[inline]
    #[must_use]
    pub fn is_all_key(&self) -> bool {
        self.key.len() == self.columns.len()
    }
}

impl TryFrom<SchemaFile> for Schema {
    type Error = SchemaError;

    fn try_from(file: SchemaFile) -> Result<Self, SchemaError> {
        let key: Vec<&str> = file.key.iter().map(String::as_str).collect();
        let schema = Self::new(file.columns, &key)?;
        Ok(schema.with_null_order(file.nulls))
    }
}

impl From<Schema> for SchemaFile {
    fn from(schema: Schema) -> Self {
        let name = |at: &usize| schema.columns[*at].name.clone();
        Self {
            key: schema.key.iter().map(name).collect(),
            nulls: schema.null_order,
            columns: schema.columns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn customer() -> Schema {
        let columns = vec![
            Column::new("id", ColumnType::I64),
            Column::new("name", ColumnType::Text),
            Column::new("balance", ColumnType::Decimal { scale: 2 }).nullable(),
            Column::new("segment", ColumnType::Text),
            Column::new("active", ColumnType::Bool),
        ];
        Schema::new(columns, &["id"]).unwrap()
    }

    #[test]
    fn columns_lie_in_key_fixed_and_variable_parts() {
        let schema = customer();
        let places: Vec<_> = (0..5).map(|at| schema.place(at)).collect();
        let expected = [
            ColumnPlace::Key(0),
            ColumnPlace::Variable(0),
            ColumnPlace::Fixed(2),
            ColumnPlace::Variable(1),
            ColumnPlace::Fixed(10),
        ];
        assert_eq!(places, expected);
        assert_eq!((schema.fixed_end(), schema.variable_count()), (11, 2));
    }

    #[test]
    fn an_index_has_its_columns_then_the_key() {
        let index = customer().index(&["segment", "balance"]).unwrap();
        let names: Vec<_> = index.columns().iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["segment", "balance", "id"]);
        assert!(index.is_all_key() && index.key() == [0, 1, 2]);
        assert!(customer().index(&["nothing"]).is_err());
    }

    #[test]
    fn a_schema_comes_back_from_json() {
        let text = serde_json::to_string(&customer()).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&text).unwrap(), customer());
        assert!(!text.contains("nulls"), "as before there were two orders");
        let last = customer().with_null_order(NullOrder::Last);
        let last_text = serde_json::to_string(&last).unwrap();
        assert!(last_text.contains(r#""nulls":"last""#), "{last_text}");
        assert_eq!(serde_json::from_str::<Schema>(&last_text).unwrap(), last);
        assert_eq!(
            last.index(&["balance"]).unwrap().null_order(),
            NullOrder::Last
        );
        let wrong = text.replace("[\"id\"]", "[\"nothing\"]");
        let error = serde_json::from_str::<Schema>(&wrong).unwrap_err();
        assert!(error.to_string().contains("`nothing`"), "{error}");
    }
}
