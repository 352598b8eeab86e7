//! The hash table of a join: rows chained by the hash of their key.

use std::sync::Arc;

use super::TOO_MUCH_TEXT;
use super::group_table::hash_row;
use super::materialized_rows::append_all;
use super::query_memory::MergeControl;
use crate::error::ExecError;
use crate::program::BuildSink;
use crate::row::{RowRef, RowStore, Slot};

/// Rows of one thread, before there is a table.
pub(crate) struct BuildRows {
    sink: Arc<BuildSink>,
    /// Key columns first, then the columns of the result.
    from: Vec<Slot>,
    rows: RowStore,
    hashes: Vec<u64>,
}

impl BuildRows {
    pub(crate) fn new(sink: &Arc<BuildSink>) -> Self {
        let from = [sink.key.as_slice(), &sink.columns].concat();
        Self {
            sink: Arc::clone(sink),
            rows: RowStore::new(&from),
            from,
            hashes: Vec::new(),
        }
    }

    /// Bytes in memory, including the table that it becomes.
    pub(crate) fn bytes(&self) -> usize {
        let hashes = self.hashes.capacity() * size_of::<u64>();
        self.rows.bytes() + hashes + chain_bytes(self.hashes.len())
    }

    /// Adds a row. One without a value in its key joins with nothing.
    pub(crate) fn add(&mut self, row: RowRef<'_>) -> Result<(), ExecError> {
        if self.sink.key.iter().any(|slot| slot.get(row).is_null()) {
            return Ok(());
        }
        self.hashes.push(hash_row(row, &self.sink.key));
        self.rows.push(row, &self.from).ok_or(TOO_MUCH_TEXT)
    }

    /// The table of the rows of all threads.
    pub(crate) fn merge(
        mut parts: Vec<Self>,
        control: &MergeControl<'_>,
    ) -> Result<Option<HashTable>, ExecError> {
        let too_many = |_| ExecError::MemoryExceeded {
            operator: "hash table",
            limit_bytes: u32::MAX as usize,
        };
        let Some(first) = parts.first() else {
            return Ok(None);
        };
        let key_columns = first.sink.key.len();
        parts.sort_by_key(|part| part.rows.len());
        let (stores, mut part_hashes): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .map(|part| (part.rows, part.hashes))
            .unzip();
        // In the order of the rows.
        let mut hashes = part_hashes.pop().unwrap_or_default();
        let more: usize = part_hashes.iter().map(Vec::len).sum();
        let count = hashes.len() + more;
        u32::try_from(count + 1).map_err(too_many)?;
        let hash_bytes = (hashes.capacity() + more * 2) * size_of::<u64>();
        let other_bytes = hash_bytes + chain_bytes(count);
        let Some(rows) = append_all(stores, other_bytes, control)? else {
            return Ok(None);
        };
        hashes.reserve_exact(more);
        part_hashes
            .iter()
            .for_each(|part| hashes.extend_from_slice(part));
        drop(part_hashes);
        let mut heads = vec![0; heads_of(count)];
        let mut next = vec![0; count];
        let mask = heads.len() - 1;
        for (row, hash) in hashes.iter().enumerate() {
            control.hold_at(row, || rows.bytes() + other_bytes)?;
            let head = &mut heads[*hash as usize & mask];
            next[row] = *head;
            *head = row as u32 + 1;
        }
        control.hold(rows.bytes() + hashes.capacity() * size_of::<u64>() + chain_bytes(count))?;
        Ok(Some(HashTable {
            key_columns,
            rows,
            hashes,
            heads,
            next,
        }))
    }
}

/// Number of chains in a table with this number of rows.
fn heads_of(rows: usize) -> usize {
    (rows * 2).next_power_of_two().max(2)
}

/// Bytes of the chains of this number of rows.
fn chain_bytes(rows: usize) -> usize {
    (heads_of(rows) + rows) * size_of::<u32>()
}

/// A complete hash table, shared by the threads that probe it.
pub(crate) struct HashTable {
    key_columns: usize,
    rows: RowStore,
    hashes: Vec<u64>,
    /// Heads of the chains by the low bits of the hash: a row's number + 1, 0 for none.
    heads: Vec<u32>,
    /// The next row in the chain of each row, in the same form.
    next: Vec<u32>,
}

impl HashTable {
    /// A hash of the key in these slots; `None` if a value is missing: no row is equal to it.
    pub(crate) fn hash(&self, row: RowRef<'_>, key: &[Slot]) -> Option<u64> {
        if key.iter().any(|slot| slot.get(row).is_null()) {
            return None;
        }
        Some(hash_row(row, key))
    }

    /// The head of a hash's chain, to be passed to [`HashTable::find`].
    pub(crate) fn head(&self, hash: u64) -> u32 {
        self.heads[hash as usize & (self.heads.len() - 1)]
    }

    /// The first row from `at` on in its chain with the same key, and where to continue behind it.
    pub(crate) fn find(
        &self,
        mut at: u32,
        hash: u64,
        row: RowRef<'_>,
        key: &[Slot],
    ) -> Option<(usize, u32)> {
        while at != 0 {
            let number = at as usize - 1;
            at = self.next[number];
            if self.hashes[number] == hash && self.is_equal(number, row, key) {
                return Some((number, at));
            }
        }
        None
    }

    fn is_equal(&self, number: usize, row: RowRef<'_>, key: &[Slot]) -> bool {
        let own = self.rows.row(number);
        let mut pairs = self.rows.slots()[..self.key_columns].iter().zip(key);
        pairs.all(|(a, b)| a.get(own).total_cmp(b.get(row)).is_eq())
    }

    /// Row `number`, and where its columns lie.
    pub(crate) fn row(&self, number: usize) -> (RowRef<'_>, &[Slot]) {
        (
            self.rows.row(number),
            &self.rows.slots()[self.key_columns..],
        )
    }
}
