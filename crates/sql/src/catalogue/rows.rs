//! The rows of the catalogue.
//!
//! ```text
//!  key                       row
//!  r, id                     version (8 bytes), the table as JSON
//!  q, id                     the sequence as JSON
//!  s, id                     the first number of the sequence that is not reserved (8 bytes)
//!  n, schema, 0, name        the kind of the object (t, i, q), its id; of an index, the id of its table
//!  c                         the first number that is not reserved
//! ```
//! A row with another version replaces the one that was read, so a plan is valid as long as the first eight bytes of its
//! tables' rows are those that it was made for.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use namiki::{ByteTable, Database, ScanRange, Transaction, UntypedTable};
use parking_lot::RwLock;

use super::numbers::Numbers;
use super::{Relation, SequenceRow, TableRow};
use crate::error::{SqlError, SqlResult};
use crate::storage::Reader;

/// The core table that it is.
const TABLE: &str = "sql catalogue";
/// What a plan has instead of a version for each sequence that it names. No table reaches it.
pub(crate) const SEQUENCE_VERSION: u64 = u64::MAX;
/// Relations that are kept decoded.
const CACHED_MAX: usize = 4096;

/// The object that a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A table.
    Table(u32),
    /// An index of this table.
    Index(u32),
    /// A sequence.
    Sequence(u32),
}

/// The catalogue.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) table: ByteTable,
    pub(crate) numbers: Numbers,
    cache: RwLock<HashMap<u64, Arc<Relation>>>,
}

fn id_key(kind: u8, id: u32) -> [u8; 5] {
    let [a, b, c, d] = id.to_be_bytes();
    [kind, a, b, c, d]
}

fn name_key(schema: &str, name: &str) -> Vec<u8> {
    [b"n", schema.as_bytes(), b"\0", name.as_bytes()].concat()
}

fn damaged(what: impl std::fmt::Display) -> SqlError {
    SqlError::corrupted(format!("a row of the catalogue cannot be read: {what}"))
}

impl Catalogue {
    /// The catalogue of a database, which is made if it is not there. Blocks.
    ///
    /// # Errors
    /// Those of the core.
    pub(crate) fn open(db: &Database) -> SqlResult<Self> {
        let table = db.create_untyped_table(&UntypedTable {
            name: TABLE,
            key_type: "sql catalogue key",
            value_type: "sql catalogue row",
            eight_byte_keys: false,
            room_bytes: 8,
            layouts: None,
            schema: None,
        })?;
        Ok(Self {
            numbers: Numbers::new(db.clone(), table.clone()),
            table,
            cache: RwLock::default(),
        })
    }

    /// What a name means.
    ///
    /// # Errors
    /// Those of the reader.
    pub(crate) fn named(
        &self,
        reader: &mut Reader<'_>,
        schema: &str,
        name: &str,
    ) -> SqlResult<Option<Named>> {
        reader.with_row(&self.table, &name_key(schema, name), |row| {
            row.map(|bytes| match bytes.split_first_chunk::<4>() {
                Some((id, [b't'])) => Ok(Named::Table(u32::from_be_bytes(*id))),
                Some((id, [b'i'])) => Ok(Named::Index(u32::from_be_bytes(*id))),
                Some((id, [b'q'])) => Ok(Named::Sequence(u32::from_be_bytes(*id))),
                _ => Err(damaged(name)),
            })
            .transpose()
        })?
    }

    /// The table of this number, in the state that the reader sees.
    ///
    /// # Errors
    /// Those of the reader.
    pub(crate) fn relation(
        &self,
        reader: &mut Reader<'_>,
        id: u32,
    ) -> SqlResult<Option<Arc<Relation>>> {
        reader.with_row(&self.table, &id_key(b'r', id), |row| {
            row.map(|bytes| self.decode(bytes)).transpose()
        })?
    }

    fn decode(&self, bytes: &[u8]) -> SqlResult<Arc<Relation>> {
        let Some((version, json)) = bytes.split_first_chunk::<8>() else {
            return Err(damaged("it is too short"));
        };
        let version = u64::from_le_bytes(*version);
        if let Some(found) = self.cache.read().get(&version) {
            return Ok(Arc::clone(found));
        }
        let row: TableRow = serde_json::from_slice(json).map_err(damaged)?;
        let relation = Arc::new(Relation::new(row, version)?);
        let mut cache = self.cache.write();
        if cache.len() >= CACHED_MAX {
            cache.clear();
        }
        cache.insert(version, Arc::clone(&relation));
        Ok(relation)
    }

    /// Whether the table of this number still has this version, or the sequence is still there. It counts as a read.
    ///
    /// # Errors
    /// Those of the reader.
    #[inline]
    pub(crate) fn is_version(
        &self,
        reader: &mut Reader<'_>,
        id: u32,
        version: u64,
    ) -> SqlResult<bool> {
        if version == SEQUENCE_VERSION {
            return reader.with_row(&self.table, &id_key(b'q', id), |row| row.is_some());
        }
        reader.with_row(&self.table, &id_key(b'r', id), |row| {
            row.and_then(<[u8]>::first_chunk::<8>) == Some(&version.to_le_bytes())
        })
    }

    /// Writes the row of a table, as this version.
    ///
    /// # Errors
    /// Those of the transaction.
    pub(crate) fn put_relation(
        &self,
        tx: &mut Transaction,
        row: &TableRow,
        version: u64,
    ) -> SqlResult<()> {
        let mut bytes = version.to_le_bytes().to_vec();
        serde_json::to_writer(&mut bytes, row).map_err(damaged)?;
        Ok(tx.put_row(&self.table, &id_key(b'r', row.id), &bytes)?)
    }

    /// Gives a name to an object; `false` if it is another's.
    ///
    /// # Errors
    /// Those of the transaction.
    pub(crate) fn take_name(
        &self,
        tx: &mut Transaction,
        schema: &str,
        name: &str,
        named: Named,
    ) -> SqlResult<bool> {
        let (id, kind) = match named {
            Named::Table(id) => (id, b't'),
            Named::Index(id) => (id, b'i'),
            Named::Sequence(id) => (id, b'q'),
        };
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.push(kind);
        Ok(tx.insert_row(&self.table, &name_key(schema, name), &bytes)?)
    }

    /// Frees a name.
    ///
    /// # Errors
    /// Those of the transaction.
    pub(crate) fn free_name(
        &self,
        tx: &mut Transaction,
        schema: &str,
        name: &str,
    ) -> SqlResult<()> {
        tx.delete_row(&self.table, &name_key(schema, name))?;
        Ok(())
    }

    /// Removes the row of a table; its name is freed separately.
    ///
    /// # Errors
    /// Those of the transaction.
    pub(crate) fn remove_relation(&self, tx: &mut Transaction, id: u32) -> SqlResult<()> {
        tx.delete_row(&self.table, &id_key(b'r', id))?;
        Ok(())
    }

    /// A sequence.
    ///
    /// # Errors
    /// Those of the reader.
    pub(crate) fn sequence(
        &self,
        reader: &mut Reader<'_>,
        id: u32,
    ) -> SqlResult<Option<SequenceRow>> {
        reader.with_row(&self.table, &id_key(b'q', id), |row| {
            row.map(serde_json::from_slice).transpose().map_err(damaged)
        })?
    }

    /// Writes a sequence, and its first number if it is new.
    ///
    /// # Errors
    /// Those of the transaction.
    pub(crate) fn put_sequence(&self, tx: &mut Transaction, row: &SequenceRow) -> SqlResult<()> {
        let bytes = serde_json::to_vec(row).map_err(damaged)?;
        Ok(tx.put_row(&self.table, &id_key(b'q', row.id), &bytes)?)
    }

    /// Removes a sequence; its name is freed separately.
    ///
    /// # Errors
    /// Those of the transaction.
    pub(crate) fn remove_sequence(&self, tx: &mut Transaction, id: u32) -> SqlResult<()> {
        tx.delete_row(&self.table, &id_key(b'q', id))?;
        tx.delete_row(&self.table, &id_key(b's', id))?;
        Ok(())
    }

    /// The first number of a sequence that is not reserved; `None` if none ever was.
    ///
    /// # Errors
    /// Those of the transaction.
    pub(crate) fn sequence_state(&self, tx: &mut Transaction, id: u32) -> SqlResult<Option<i64>> {
        let row = tx.row(&self.table, &id_key(b's', id))?;
        row.map(|bytes| {
            bytes
                .try_into()
                .map(i64::from_le_bytes)
                .map_err(|_| damaged("a sequence"))
        })
        .transpose()
    }

    /// Sets the first number of a sequence that is not reserved.
    ///
    /// # Errors
    /// Those of the transaction.
    pub(crate) fn put_sequence_state(
        &self,
        tx: &mut Transaction,
        id: u32,
        next: i64,
    ) -> SqlResult<()> {
        Ok(tx.put_row(&self.table, &id_key(b's', id), &next.to_le_bytes())?)
    }

    /// All tables that the reader sees, by their numbers.
    ///
    /// # Errors
    /// Those of the reader.
    pub(crate) fn relations(&self, reader: &mut Reader<'_>) -> SqlResult<Vec<Arc<Relation>>> {
        self.of_kind(reader, b'r', |bytes| self.decode(bytes))
    }

    /// All sequences that the reader sees, by their numbers.
    ///
    /// # Errors
    /// Those of the reader.
    pub(crate) fn sequences(&self, reader: &mut Reader<'_>) -> SqlResult<Vec<SequenceRow>> {
        self.of_kind(reader, b'q', |bytes| {
            serde_json::from_slice(bytes).map_err(damaged)
        })
    }

    fn of_kind<T>(
        &self,
        reader: &mut Reader<'_>,
        kind: u8,
        decode: impl Fn(&[u8]) -> SqlResult<T>,
    ) -> SqlResult<Vec<T>> {
        let mut found = Vec::new();
        let (start, end) = ([kind], [kind + 1]);
        let range = ScanRange::forward(Bound::Included(&start), Bound::Excluded(&end));
        let failed = reader.scan(&self.table, range, |_, row| match decode(row) {
            Ok(item) => {
                found.push(item);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        })?;
        failed.map_or(Ok(found), Err)
    }
}
