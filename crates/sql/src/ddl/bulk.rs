//! Filling core tables that no committed row names yet, in batches outside of the transaction: neither the write set nor the
//! largest transaction limits them.

use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::thread;

use namiki::{Database, Session, Ticket};
use namiki_data::columns::Datum;

use crate::change::Target;
use crate::error::{SqlError, SqlResult};
use crate::storage::{OpenTable, Storage, encode_key, index_key, unique_key};

/// Rows and bytes of a batch.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 1 << 20;
/// Batches that are committed and not yet durable.
const BATCHES_WAITING: usize = 8;

/// A core table that is filled.
struct Part {
    table: Arc<OpenTable>,
    /// The number of the index; `None`: the rows.
    index: Option<usize>,
    /// The name of the unique constraint, and its columns; `None` for an index that is not unique.
    constraint: Option<(String, Vec<usize>)>,
}

/// The entries of a batch: for each part, keys and values.
pub(crate) type LoadBatch = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

/// Encodes the rows of a load, and gathers them in batches. A [`BulkWriter`] commits them, perhaps on another thread.
pub(crate) struct BulkLoad {
    target: Target,
    /// The rows, unless only an index is filled; then the indexes, with their numbers.
    parts: Arc<[Part]>,
    batch: LoadBatch,
    /// Bytes of the batch, and its rows.
    bytes: usize,
    rows: usize,
    row_numbers: (i64, i64),
}

/// Commits the batches of a load.
pub(crate) struct BulkWriter {
    target: Target,
    parts: Arc<[Part]>,
    session: Session,
    waiting: VecDeque<Ticket>,
}

impl BulkLoad {
    /// A load into the core tables that a relation names.
    ///
    /// # Errors
    /// Those of the core.
    pub(crate) fn new(
        db: &Database,
        storage: &Storage,
        target: Target,
    ) -> SqlResult<(Self, BulkWriter)> {
        let row = &target.relation.row;
        let mut parts = vec![Part {
            table: storage.open(row.storage)?,
            index: None,
            constraint: row
                .key
                .as_ref()
                .map(|key| (key.name.clone(), key.columns.clone())),
        }];
        for index in 0..row.indexes.len() {
            parts.push(index_part(storage, &target, index)?);
        }
        Self::of_parts(db, target, parts)
    }

    /// A load into some indexes of a table that has its rows.
    ///
    /// # Errors
    /// Those of the core.
    pub(crate) fn of_indexes(
        db: &Database,
        storage: &Storage,
        target: Target,
        indexes: &[usize],
    ) -> SqlResult<(Self, BulkWriter)> {
        let parts = indexes
            .iter()
            .map(|index| index_part(storage, &target, *index));
        let parts = parts.collect::<SqlResult<Vec<_>>>()?;
        Self::of_parts(db, target, parts)
    }

    fn of_parts(db: &Database, target: Target, parts: Vec<Part>) -> SqlResult<(Self, BulkWriter)> {
        let parts: Arc<[Part]> = parts.into();
        let writer = BulkWriter {
            session: db.session()?,
            target: target.clone(),
            parts: Arc::clone(&parts),
            waiting: VecDeque::new(),
        };
        let load = Self {
            target,
            batch: parts.iter().map(|_| Vec::new()).collect(),
            parts,
            bytes: 0,
            rows: 0,
            row_numbers: (0, 0),
        };
        Ok((load, writer))
    }

    /// The table that is filled.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Adds a row of SQL's columns. Its constraints were checked. Returns whether the batch is full.
    ///
    /// # Errors
    /// Those of encodings.
    pub(crate) fn push(&mut self, mut row: Vec<Datum>) -> SqlResult<bool> {
        let relation = &self.target.relation;
        if relation.has_row_numbers() {
            if self.row_numbers.1 == 0 {
                self.row_numbers = self.parts[0].table.take_row_numbers();
            }
            row.push(Datum::I64(self.row_numbers.0));
            self.row_numbers = (self.row_numbers.0 + 1, self.row_numbers.1 - 1);
        }
        let key = encode_key(&relation.layout, &row)?;
        self.push_stored(key, &row)
    }

    /// Adds a row of the stored columns with a known key.
    ///
    /// # Errors
    /// Those of encodings.
    pub(crate) fn push_stored(&mut self, mut key: Vec<u8>, row: &[Datum]) -> SqlResult<bool> {
        let relation = &self.target.relation;
        // From the last one: the rows are the first part, and take the key.
        for (part, entries) in self.parts.iter().zip(&mut self.batch).rev() {
            let (entry, value) = match part.index.map(|index| &relation.row.indexes[index]) {
                Some(index) if index.unique => (
                    unique_key(relation.index_values(&index.columns, row), &key).0,
                    key.clone(),
                ),
                Some(index) => (
                    index_key(relation.index_values(&index.columns, row), &key),
                    key.clone(),
                ),
                None => {
                    let mut bytes = Vec::new();
                    relation.format.encode(row, &mut bytes)?;
                    (std::mem::take(&mut key), bytes)
                }
            };
            self.bytes += entry.len() + value.len();
            entries.push((entry, value));
        }
        self.rows += 1;
        Ok(self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES)
    }

    /// Takes the rows that were added since the last batch.
    pub(crate) fn take_batch(&mut self) -> LoadBatch {
        (self.bytes, self.rows) = (0, 0);
        self.batch
            .iter_mut()
            .map(|entries| {
                let next = Vec::with_capacity(entries.len());
                std::mem::replace(entries, next)
            })
            .collect()
    }
}

impl BulkWriter {
    /// Commits a batch. Blocks while earlier ones become durable.
    ///
    /// # Errors
    /// 23505 for a duplicate; those of the core.
    pub(crate) fn write(&mut self, batch: &LoadBatch) -> SqlResult<()> {
        let Self {
            session,
            parts,
            target,
            ..
        } = self;
        let ((), ticket) = session.transact_async_with(|tx| {
            for (part, entries) in parts.iter().zip(batch) {
                let table = &part.table.table;
                for (key, row) in entries {
                    if !tx.insert_row(table, key, row)? {
                        return Err(duplicate(target, (part, entries), key, (parts, batch)));
                    }
                }
            }
            Ok::<(), SqlError>(())
        })?;
        self.waiting.push_back(ticket);
        if self.waiting.len() > BATCHES_WAITING
            && let Some(first) = self.waiting.pop_front()
        {
            self.session.wait(&first)?;
        }
        Ok(())
    }

    /// When this returns, all batches are durable.
    ///
    /// # Errors
    /// Those of the core.
    pub(crate) fn finish(mut self) -> SqlResult<()> {
        while let Some(ticket) = self.waiting.pop_front() {
            self.session.wait(&ticket)?;
        }
        Ok(())
    }
}

/// Commits batches on a thread of its own while `produce` encodes the next ones: it calls what it is given with each batch.
/// When this returns, all are durable.
///
/// # Errors
/// Those of `produce`, and of the writer.
pub(crate) fn write_beside(
    mut writer: BulkWriter,
    produce: impl FnOnce(&mut dyn FnMut(LoadBatch) -> SqlResult<()>) -> SqlResult<()>,
) -> SqlResult<()> {
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<LoadBatch>(1);
        let write = move || -> SqlResult<()> {
            for batch in receiver {
                writer.write(&batch)?;
            }
            writer.finish()
        };
        let writing = thread::Builder::new().name("bulk-load".to_owned());
        let writing = writing.spawn_scoped(scope, write).map_err(|error| {
            SqlError::new(
                crate::sqlstate::INTERNAL_ERROR,
                format!("could not start a thread: {error}"),
            )
        })?;
        let produced = produce(&mut |batch| {
            sender.send(batch).map_err(|_| {
                // The writer's own error is the one that is reported.
                SqlError::new(crate::sqlstate::INTERNAL_ERROR, "a bulk load has ended")
            })
        });
        drop(sender);
        let written = writing.join().unwrap_or_else(|_| {
            Err(SqlError::new(
                crate::sqlstate::INTERNAL_ERROR,
                "a bulk load has panicked",
            ))
        });
        written.and(produced)
    })
}

fn index_part(storage: &Storage, target: &Target, index: usize) -> SqlResult<Part> {
    let row = &target.relation.row.indexes[index];
    Ok(Part {
        table: storage.open(row.storage)?,
        index: Some(index),
        constraint: row.unique.then(|| (row.name.clone(), row.columns.clone())),
    })
}

/// The error of a duplicate. Its values come from the row that the entry belongs to, if the load has the rows.
fn duplicate(
    target: &Target,
    (part, entries): (&Part, &[(Vec<u8>, Vec<u8>)]),
    entry: &[u8],
    (parts, batch): (&[Part], &LoadBatch),
) -> SqlError {
    let Some((name, columns)) = &part.constraint else {
        return SqlError::corrupted("a row number was given twice");
    };
    let row_key = match entries.iter().find(|(key, _)| key == entry) {
        Some((key, _)) if part.index.is_none() => Some(key),
        Some((_, row_key)) => Some(row_key),
        None => None,
    };
    let rows = parts.iter().position(|part| part.index.is_none());
    let rows = rows.and_then(|at| batch.get(at));
    let found = rows.and_then(|rows| rows.iter().find(|(key, _)| Some(key) == row_key));
    let format = &target.relation.format;
    match found.map(|(key, row)| format.decode(key, row)) {
        Some(Ok(row)) => target.duplicate(name, columns, &row),
        _ => SqlError::new(
            crate::sqlstate::UNIQUE_VIOLATION,
            format!("could not create unique index \"{name}\""),
        )
        .with_detail("A key is duplicated.")
        .with_constraint(name),
    }
}
