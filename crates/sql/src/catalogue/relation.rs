//! What the catalogue's rows say, and what follows from them.

use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};
use serde::{Deserialize, Serialize};

use crate::error::{SqlError, SqlResult};
use crate::storage::{FormatColumn, RowFormat};
use crate::types::SqlType;

/// Most columns of a table.
pub(crate) const COLUMNS_MAX: usize = 1600;

/// A column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColumnRow {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) sql_type: SqlType,
    #[serde(default)]
    pub(crate) not_null: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<DefaultRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Identity>,
}

/// The value of a column that an INSERT leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DefaultRow {
    /// An expression, as its text.
    Expression(String),
    /// The next number of a sequence.
    Sequence(u32),
}

/// GENERATED … AS IDENTITY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Identity {
    /// INSERT may not give a value.
    Always,
    /// INSERT may.
    ByDefault,
}

/// The primary key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyRow {
    /// The number of its index in `pg_class`. The table itself is the index.
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) columns: Vec<usize>,
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexRow {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) columns: Vec<usize>,
    pub(crate) unique: bool,
    /// Whether a UNIQUE constraint made it.
    #[serde(default)]
    pub(crate) constraint: bool,
    /// The number of its core table.
    pub(crate) storage: u64,
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckRow {
    pub(crate) name: String,
    /// The expression's text.
    pub(crate) expression: String,
}

/// A table, as its row in the catalogue has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableRow {
    pub(crate) id: u32,
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) columns: Vec<ColumnRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<KeyRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) indexes: Vec<IndexRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) checks: Vec<CheckRow>,
    /// The number of its core table.
    pub(crate) storage: u64,
    /// What the rows of its core table consist of; left out: its columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stored: Option<StoredRows>,
    /// What builds an index or a key on it now: other statements wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) marker: Option<u64>,
}

/// What rows consist of after columns were added to them or dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRows {
    /// In the order in which they are stored.
    pub(crate) columns: Vec<StoredColumn>,
    /// The numbers of the versions under which there may be rows, and how many of the columns each has.
    pub(crate) versions: Vec<(u8, usize)>,
}

/// A stored column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredColumn {
    /// The number of the table's column; left out if it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<usize>,
    #[serde(rename = "type")]
    pub(crate) sql_type: SqlType,
    /// The value that it was added with: that of rows of earlier versions.
    #[serde(default = "no_value", skip_serializing_if = "is_no_value")]
    pub(crate) missing: Datum,
}

fn no_value() -> Datum {
    Datum::Null
}

fn is_no_value(value: &Datum) -> bool {
    *value == Datum::Null
}

/// A sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SequenceRow {
    pub(crate) id: u32,
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) start: i64,
    pub(crate) increment: i64,
    pub(crate) least: i64,
    pub(crate) greatest: i64,
    #[serde(default)]
    pub(crate) cycle: bool,
    /// The table and the column that it belongs to: it is dropped with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<(u32, usize)>,
}

/// The hidden key of a table without a primary key.
const ROW_NUMBER: &str = "\u{0}row number";

/// A table as statements use it.
#[derive(Debug)]
pub(crate) struct Relation {
    pub(crate) row: TableRow,
    /// The number of this state of the table, which no other has.
    pub(crate) version: u64,
    /// SQL's columns, and behind them the row number if there is no primary key. Keys follow it.
    pub(crate) layout: Arc<Schema>,
    /// How rows are stored.
    pub(crate) format: RowFormat,
}

impl Relation {
    /// A table as its row describes it.
    ///
    /// # Errors
    /// XX001 if the row contradicts itself.
    pub(crate) fn new(row: TableRow, version: u64) -> SqlResult<Self> {
        let stored = |(at, column): (usize, &ColumnRow)| Column {
            name: column.name.clone(),
            column_type: column.sql_type.column_type(),
            // NOT NULL is checked, not stored: it comes and goes without a rewrite.
            nullable: !row.is_in_key(at),
        };
        let mut columns: Vec<Column> = row.columns.iter().enumerate().map(stored).collect();
        let key = match &row.key {
            Some(key) => key
                .columns
                .iter()
                .filter_map(|at| row.columns.get(*at))
                .map(|it| it.name.as_str())
                .collect(),
            None => {
                columns.push(Column::new(ROW_NUMBER, ColumnType::I64));
                vec![ROW_NUMBER]
            }
        };
        let layout = Schema::new(columns, &key)
            .map_err(|error| SqlError::corrupted(format!("table \"{}\": {error}", row.name)))?;
        let layout = Arc::new(layout);
        let format = match &row.stored {
            None => RowFormat::of_layout(&layout),
            Some(stored) => {
                let columns = stored.columns.iter().map(|column| FormatColumn {
                    column: column.column,
                    column_type: column.sql_type.column_type(),
                    missing: column.missing.clone(),
                });
                RowFormat::new(&layout, columns.collect(), &stored.versions)?
            }
        };
        Ok(Self {
            row,
            version,
            layout,
            format,
        })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.row.id
    }

    /// SQL's columns.
    pub(crate) fn columns(&self) -> &[ColumnRow] {
        &self.row.columns
    }

    /// Whether rows have hidden numbers as keys.
    pub(crate) fn has_row_numbers(&self) -> bool {
        self.row.key.is_none()
    }

    /// Whether each key is one number of eight bytes.
    pub(crate) fn has_eight_byte_keys(&self) -> bool {
        match self.layout.key() {
            [column] => self.layout.columns()[*column].column_type.fixed_bytes() == Some(8),
            _ => false,
        }
    }

    /// About the bytes of a row without its key, as far as its columns have fixed lengths.
    pub(crate) fn room_bytes(&self) -> usize {
        let fixed = |column: &Column| column.column_type.fixed_bytes().unwrap_or(12);
        1 + self.layout.columns().iter().map(fixed).sum::<usize>()
    }

    /// The values of an index's columns, and their stored types.
    pub(crate) fn index_values<'r>(
        &'r self,
        columns: &'r [usize],
        row: &'r [Datum],
    ) -> impl Iterator<Item = (&'r Datum, ColumnType)> + Clone + 'r {
        columns
            .iter()
            .map(|at| (&row[*at], self.layout.columns()[*at].column_type))
    }
}

impl StoredRows {
    /// The rows of a table all of whose rows have its columns.
    pub(crate) fn of_columns(columns: &[ColumnRow]) -> Self {
        let stored = |(at, column): (usize, &ColumnRow)| StoredColumn {
            column: Some(at),
            sql_type: column.sql_type,
            missing: Datum::Null,
        };
        Self {
            columns: columns.iter().enumerate().map(stored).collect(),
            versions: vec![(0, columns.len())],
        }
    }

    /// A column of the table is dropped: its place stays, and the columns behind it count one less.
    pub(crate) fn drop_column(&mut self, dropped: usize) {
        for stored in &mut self.columns {
            stored.column = match stored.column {
                Some(at) if at == dropped => None,
                Some(at) if at > dropped => Some(at - 1),
                other => other,
            };
        }
    }
}

impl TableRow {
    /// The number of the column of this name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Whether a column is in the primary key.
    pub(crate) fn is_in_key(&self, column: usize) -> bool {
        self.key
            .as_ref()
            .is_some_and(|key| key.columns.contains(&column))
    }

    /// Whether a column may be null.
    pub(crate) fn is_nullable(&self, column: usize) -> bool {
        !self.columns[column].not_null && !self.is_in_key(column)
    }

    /// The numbers of all core tables that it names.
    pub(crate) fn storages(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.storage).chain(self.indexes.iter().map(|index| index.storage))
    }
}
