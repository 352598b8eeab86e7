//! The manifest's entries of loaded tables: their rows are in segment files, in neither the log nor the image.
//!
//! ```text
//!   table "orders"  ── rows ──►      image/00000003.seg     sorted by the primary key
//!                   ── index on o_custkey ──► image/00000004.seg     sorted by (o_custkey, primary key), empty values
//! ```
//! Such a table has named and typed columns. For the names of its files, see image_files.rs.
//!
//! # Invariants
//! - I3. The name of a loaded table is not the name of a table in memory.

use std::collections::BTreeSet;

use namiki_data::columns::{Schema, SchemaError};
use namiki_exec::statistics::TableStatistics;
use serde::{Deserialize, Serialize};

use crate::catalogue::image_files::FileNumber;
use crate::catalogue::segment_file::SegmentFile;

/// The most columns of a table.
const COLUMNS_MAX: usize = 1024;
/// The longest name of a table, a column or an index, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// The loaded tables of a database: those that lie in segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedTables {
    /// The tables, in the order of their loads.
    pub tables: Vec<LoadedTable>,
    /// The number of the next file in the folder `image`, above that of every file that is named here.
    pub next_file: FileNumber,
}

impl LoadedTables {
    /// Takes the number of the next file; `None` if they are used up.
    pub(crate) fn take_number(&mut self) -> Option<FileNumber> {
        let taken = self.next_file;
        self.next_file = FileNumber(taken.0.checked_add(1)?);
        Some(taken)
    }
}

impl Default for LoadedTables {
    fn default() -> Self {
        Self {
            tables: Vec::new(),
            next_file: FileNumber(1),
        }
    }
}

/// A table that was loaded into segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedTable {
    /// Its name.
    pub name: String,
    /// Its columns, and which of them its rows are sorted by.
    pub schema: Schema,
    /// How many rows it has.
    pub rows: u64,
    /// Its rows.
    pub segment: SegmentFile,
    /// Statistics of its values, for estimates.
    pub statistics: TableStatistics,
    /// Its secondary indexes.
    pub indexes: Vec<LoadedIndex>,
}

/// A secondary index: the keys of the rows in another order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedIndex {
    /// Its name.
    pub name: String,
    /// The names of the columns that it is sorted by. Those of the table's key follow them.
    pub columns: Vec<String>,
    /// Its entries: as many as the table has rows.
    pub segment: SegmentFile,
}

impl LoadedTables {
    /// Whether the database has no loaded tables. The manifest then leaves out the key.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The table of this name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&LoadedTable> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// All its files.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentFile> {
        self.tables.iter().flat_map(LoadedTable::segments)
    }

    /// A logical check beyond the checksum: the contradiction in it, or `None`.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let (mut names, mut files, mut identities) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for table in &self.tables {
            let name = &table.name;
            if !names.insert(name) {
                return Some(format!("two loaded tables are named {name:?}"));
            }
            if let Some(why) = table.contradiction() {
                return Some(format!("loaded table {name:?} {why}"));
            }
        }
        for segment in self.segments() {
            let file = segment.file;
            if file >= self.next_file {
                return Some(format!(
                    "file {} of a loaded table is there, and {} is to be next",
                    file.0, self.next_file.0
                ));
            }
            if !files.insert(file) {
                return Some(format!("file {} of loaded tables is named twice", file.0));
            }
            // It identifies pages in memory. Its digits may be of either case.
            if !identities.insert(u64::from_str_radix(&segment.identity, 16).ok()) {
                return Some(format!(
                    "file {} of a loaded table has the identity of another, {}",
                    file.0, segment.identity
                ));
            }
        }
        None
    }
}

impl LoadedTable {
    /// Its files.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentFile> {
        std::iter::once(&self.segment).chain(self.indexes.iter().map(|index| &index.segment))
    }

    /// Why this describes no table; `None` if it does.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if let Some(why) = self.schema_contradiction() {
            return Some(why);
        }
        if let Some(why) = self.statistics.contradiction(&self.schema, self.rows) {
            return Some(why);
        }
        let mut segments = self.segments();
        segments.find_map(|segment| segment.contradiction(self.rows))
    }

    fn schema_contradiction(&self) -> Option<String> {
        let indexes = self.indexes.iter();
        let indexes: Vec<_> = indexes.map(|it| (&*it.name, &it.columns[..])).collect();
        definition_contradiction(&self.name, &self.schema, &indexes)
    }
}

/// Why a table with this name, these columns, and these indexes is impossible; `None` if it is
/// possible.
pub(crate) fn definition_contradiction(
    name: &str,
    schema: &Schema,
    indexes: &[(&str, &[String])],
) -> Option<String> {
    let columns = schema.columns().len();
    if columns > COLUMNS_MAX {
        return Some(format!("has {columns} columns, more than {COLUMNS_MAX}"));
    }
    let columns_named = schema.columns().iter().map(|column| &*column.name);
    let indexes_named = indexes.iter().map(|(name, _)| *name);
    name_contradiction("a table", std::iter::once(name))
        .or_else(|| name_contradiction("a column", columns_named))
        .or_else(|| name_contradiction("an index", indexes_named))
        .or_else(|| {
            indexes.iter().find_map(|(name, columns)| {
                if columns.is_empty() {
                    return Some(format!("has no columns in index {name:?}"));
                }
                let error = index_schema(schema, columns).err()?;
                Some(format!("has an index {name:?} that cannot be: {error}"))
            })
        })
}

/// The columns of the entries of an index over these columns of a table.
pub(crate) fn index_schema(of_table: &Schema, columns: &[String]) -> Result<Schema, SchemaError> {
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    of_table.index(&columns)
}

impl LoadedIndex {
    /// The columns of its entries, in an index of a table with this schema.
    ///
    /// # Errors
    /// [`SchemaError`] if the table has no such columns.
    pub fn schema(&self, of_table: &Schema) -> Result<Schema, SchemaError> {
        index_schema(of_table, &self.columns)
    }
}

fn name_contradiction<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut met = BTreeSet::new();
    let mut names = names;
    let wrong =
        names.find(|name| name.is_empty() || name.len() > NAME_BYTES_MAX || !met.insert(*name))?;
    Some(format!(
        "has a name of {what}, {wrong:?}, that is empty, too long, or there twice"
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use namiki_data::columns::{Column, ColumnType};
    use namiki_exec::statistics::ColumnStatistics;

    use super::*;

    fn segment(file: u32) -> SegmentFile {
        SegmentFile {
            file: FileNumber(file),
            identity: format!("{:016x}", 77 + u64::from(file)),
            pages: 3,
        }
    }

    fn statistics() -> TableStatistics {
        let price = ColumnStatistics {
            distinct: 3,
            ..ColumnStatistics::default()
        };
        TableStatistics {
            rows: 4,
            columns: [("price".to_owned(), price)].into(),
        }
    }

    /// A table with two columns and an index.
    pub(crate) fn loaded_tables() -> LoadedTables {
        let columns = vec![
            Column::new("key", ColumnType::I64),
            Column::new("price", ColumnType::Decimal { scale: 2 }),
        ];
        LoadedTables {
            tables: vec![LoadedTable {
                name: "orders".to_owned(),
                schema: Schema::new(columns, &["key"]).unwrap(),
                rows: 4,
                segment: segment(1),
                statistics: statistics(),
                indexes: vec![LoadedIndex {
                    name: "by_price".to_owned(),
                    columns: vec!["price".to_owned()],
                    segment: segment(2),
                }],
            }],
            next_file: FileNumber(3),
        }
    }

    #[test]
    fn senseless_loaded_tables_say_what_is_wrong() {
        assert_eq!(loaded_tables().contradiction(), None);
        type Spoil<'a> = &'a dyn Fn(&mut LoadedTables);
        let spoiled: &[(&str, Spoil<'_>)] = &[
            ("are named \"orders\"", &|it| {
                let again = it.tables[0].clone();
                it.tables.push(again);
            }),
            ("a table, \"\"", &|it| it.tables[0].name.clear()),
            ("a table, \"xx", &|it| it.tables[0].name = "x".repeat(256)),
            ("a column, \"\"", &|it| {
                let columns = vec![Column::new("", ColumnType::I64)];
                it.tables[0].schema = Schema::new(columns, &[""]).unwrap();
            }),
            ("an index, \"\"", &|it| {
                it.tables[0].indexes[0].name.clear();
            }),
            ("`day`", &|it| {
                it.tables[0].indexes[0].columns = vec!["day".to_owned()];
            }),
            ("two columns are called `price`", &|it| {
                let price = "price".to_owned();
                it.tables[0].indexes[0].columns = vec![price.clone(), price];
            }),
            ("no columns in index", &|it| {
                it.tables[0].indexes[0].columns.clear();
            }),
            ("statistics of 4 rows for 5 rows", &|it| {
                it.tables[0].rows = 5;
            }),
            ("none of the table's", &|it| {
                let columns = &mut it.tables[0].statistics.columns;
                columns.insert("day".to_owned(), ColumnStatistics::default());
            }),
            ("more values than rows", &|it| {
                let columns = &mut it.tables[0].statistics.columns;
                columns.get_mut("price").unwrap().distinct = 5;
            }),
            ("is no number", &|it| {
                it.tables[0].segment.identity = "+000000000000001".to_owned();
            }),
            ("is no number", &|it| {
                it.tables[0].segment.identity = "1".to_owned();
            }),
            ("of 0 pages", &|it| it.tables[0].segment.pages = 0),
            ("rows in file", &|it| {
                it.tables[0].rows = 1 << 40;
                it.tables[0].statistics.rows = 1 << 40;
            }),
            ("is to be next", &|it| it.next_file = FileNumber(2)),
            ("is named twice", &|it| {
                it.tables[0].indexes[0].segment.file = FileNumber(1);
            }),
            ("has the identity of another", &|it| {
                let identity = it.tables[0].segment.identity.to_uppercase();
                it.tables[0].indexes[0].segment.identity = identity;
            }),
            ("a file, 0,", &|it| {
                it.tables[0].segment.file = FileNumber(0);
            }),
        ];
        for (expected, spoil) in spoiled {
            let mut loaded = loaded_tables();
            spoil(&mut loaded);
            let why = loaded.contradiction().unwrap_or_default();
            assert!(why.contains(expected), "{expected}: {why}");
        }
    }
}
