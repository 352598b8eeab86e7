//! What read views have shown: the state of their stamp, which no crash may take back.

use std::collections::BTreeMap;

use namiki::{Error, Stamp, View};

use super::tables::{KEYS, Tables, rows};
use crate::key_encoding::Numbered;

/// Marks of views are above those of transactions.
const MARKS_FROM: u64 = 1 << 63;

/// What a view has shown when it was read.
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

    /// What the disk is told when a view has been read after transaction `id`.
    pub(super) fn mark(id: u64) -> u64 {
        MARKS_FROM | id
    }
}
