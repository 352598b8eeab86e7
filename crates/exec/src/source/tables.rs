//! The tables that a plan can name, each with its indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Source;
use crate::statistics::TableStatistics;

/// A table and its indexes.
#[derive(Clone)]
pub struct Table {
    /// The rows, in the order of the primary key.
    pub source: Arc<dyn Source>,
    /// By name. An index has the columns that
    /// [`Schema::index`](namiki_data::columns::Schema::index) gives it, and an entry for each row:
    /// an entry without its row ends a query with an error.
    pub indexes: BTreeMap<String, Arc<dyn Source>>,
    /// Statistics of its values, for prices.
    pub statistics: Option<Arc<TableStatistics>>,
}

impl Table {
    /// A table without indexes.
    #[must_use]
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self {
            source,
            indexes: BTreeMap::new(),
            statistics: None,
        }
    }

    /// The same with one more index.
    #[must_use]
    pub fn with_index(mut self, name: &str, index: Arc<dyn Source>) -> Self {
        self.indexes.insert(name.to_owned(), index);
        self
    }

    /// The same with statistics of its values.
    #[must_use]
    pub fn with_statistics(mut self, statistics: TableStatistics) -> Self {
        self.statistics = Some(Arc::new(statistics));
        self
    }
}

/// Tables by name.
#[derive(Clone, Default)]
pub struct Tables {
    tables: BTreeMap<String, Table>,
}

impl Tables {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a table, which replaces one of that name.
    pub fn insert(&mut self, name: &str, table: Table) {
        self.tables.insert(name.to_owned(), table);
    }

    /// Removes the table of this name.
    pub fn remove(&mut self, name: &str) {
        self.tables.remove(name);
    }

    /// The table of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    /// All tables, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.tables
            .iter()
            .map(|(name, table)| (name.as_str(), table))
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tables.keys()).finish()
    }
}
