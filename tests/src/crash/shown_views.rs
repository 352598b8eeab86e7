//! The data that read views have shown: the state of their stamp, which no crash may undo.

use std::collections::BTreeMap;

use namiki::{Error, Stamp, View};

use super::tables::{KEYS, Tables, rows};
use crate::key_encoding::Numbered;

/// Marks of views are above those of transactions.
const MARKS_FROM: u64 = 1 << 63;

/// The data that a view has shown.
#[derive(Clone, Debug)]
pub(super) struct ShownView {
    pub(super) stamp: Stamp,
    pub(super) data: BTreeMap<u64, Vec<u8>>,
}

impl ShownView {
    /// Reads all data.
    pub(super) fn read<K: Numbered>(view: &View, tables: &Tables<K>) -> Result<Self, Error> {
        let (keys, table) = ((0..KEYS).collect::<Vec<_>>(), &tables.data);
        let data = rows(view.scan(table, ..), &keys, |key: &K| view.get(table, key))?;
        Ok(Self {
            stamp: view.stamp(),
            data,
        })
    }

    /// The mark on the disk for a view read after transaction `id`.
    pub(super) fn mark(id: u64) -> u64 {
        MARKS_FROM | id
    }
}
