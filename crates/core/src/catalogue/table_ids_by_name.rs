//! The numbers of tables by their names.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use crate::table::raw_table::{TableId, TableInfo};

/// The numbers above these are left for tables that are still to come.
const TABLES_MAX: u64 = 1 << 31;

/// The contradiction in a manifest that was read with these numbers of present and of dropped
/// tables.
pub(super) fn ids_contradiction(tables: usize, dropped: u32) -> Option<String> {
    let ever = tables as u64 + u64::from(dropped);
    (ever > TABLES_MAX).then(|| format!("it has {tables} tables, and {dropped} were dropped"))
}

/// A look-up compares a name with few others, whatever the number of tables.
#[derive(Debug)]
pub(crate) struct TableIds<N = String>(HashMap<N, TableId>);

impl TableIds {
    /// The ids of these tables.
    pub(crate) fn of(tables: &[TableInfo]) -> Self {
        Self(
            tables
                .iter()
                .map(|table| (table.name.clone(), table.id))
                .collect(),
        )
    }
}

impl<N: Hash + Eq> TableIds<N> {
    /// The number of the table with this name.
    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, name: &Q) -> Option<TableId>
    where
        N: Borrow<Q>,
    {
        self.0.get(name).copied()
    }

    /// Removes the table of this name.
    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, name: &Q)
    where
        N: Borrow<Q>,
    {
        self.0.remove(name);
    }

    /// Adds a table with a new name.
    pub(crate) fn add(&mut self, name: N, id: TableId) {
        let before = self.0.insert(name, id);
        debug_assert!(before.is_none(), "the name is new");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use super::*;

    thread_local! {
        static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// A name that counts how often one is compared with another.
    struct Counted(String);

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted {}

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn a_name_is_compared_with_few_others() {
        let tables = 20_000;
        let name = |number: u32| Counted(format!("table {number}"));
        let mut ids = TableIds(HashMap::new());
        for number in 0..tables {
            assert_eq!(ids.get(&name(number)), None);
            ids.add(name(number), TableId(number));
        }
        for number in 0..tables {
            assert_eq!(ids.get(&name(number)), Some(TableId(number)));
        }
        let compared = COMPARED.get();
        assert!(compared < 4 * u64::from(tables), "{compared}");
    }
}
