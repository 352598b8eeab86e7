//! Filling core tables that no committed row names yet, in batches outside of the transaction: neither the write set nor the
//! largest transaction limits them.

use std::sync::Arc;

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

/// A core table, and the entries of a batch.
struct Part {
    table: Arc<OpenTable>,
    /// The number of the index; `None`: the rows.
    index: Option<usize>,
    /// The name of the unique constraint, and its columns; `None` for an index that is not unique.
    constraint: Option<(String, Vec<usize>)>,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Fills a table and its indexes, or some indexes.
pub(crate) struct BulkLoad {
    target: Target,
    session: Session,
    /// The rows, unless only an index is filled; then the indexes, with their numbers.
    parts: Vec<Part>,
    /// Bytes of the batch, and its rows.
    bytes: usize,
    rows: usize,
    waiting: std::collections::VecDeque<Ticket>,
    row_numbers: (i64, i64),
}

impl BulkLoad {
    /// A load into the core tables that a relation names.
    ///
    /// # Errors
    /// Those of the core.
    pub(crate) fn new(db: &Database, storage: &Storage, target: Target) -> SqlResult<Self> {
        let row = &target.relation.row;
        let mut parts = vec![Part {
            table: storage.open(row.storage)?,
            index: None,
            constraint: row
                .key
                .as_ref()
                .map(|key| (key.name.clone(), key.columns.clone())),
            entries: Vec::new(),
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
    ) -> SqlResult<Self> {
        let parts = indexes
            .iter()
            .map(|index| index_part(storage, &target, *index));
        let parts = parts.collect::<SqlResult<Vec<_>>>()?;
        Self::of_parts(db, target, parts)
    }

    fn of_parts(db: &Database, target: Target, parts: Vec<Part>) -> SqlResult<Self> {
        Ok(Self {
            session: db.session()?,
            target,
            parts,
            bytes: 0,
            rows: 0,
            waiting: std::collections::VecDeque::new(),
            row_numbers: (0, 0),
        })
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
        let relation = Arc::clone(&self.target.relation);
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
    pub(crate) fn push_stored(&mut self, key: Vec<u8>, row: &[Datum]) -> SqlResult<bool> {
        let relation = &self.target.relation;
        for part in &mut self.parts {
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
                    (key.clone(), bytes)
                }
            };
            self.bytes += entry.len() + value.len();
            part.entries.push((entry, value));
        }
        self.rows += 1;
        Ok(self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES)
    }

    /// Commits the batch. Blocks while earlier ones become durable.
    ///
    /// # Errors
    /// 23505 for a duplicate; those of the core.
    pub(crate) fn flush(&mut self) -> SqlResult<()> {
        let Self {
            session,
            parts,
            target,
            ..
        } = self;
        let (shared, target): (&[Part], &Target) = (parts, target);
        let ((), ticket) = session.transact_async_with(|tx| {
            for part in shared {
                let table = &part.table.table;
                for (key, row) in &part.entries {
                    if !tx.insert_row(table, key, row)? {
                        return Err(duplicate(target, part, key, shared));
                    }
                }
            }
            Ok::<(), SqlError>(())
        })?;
        for part in parts {
            part.entries.clear();
        }
        (self.bytes, self.rows) = (0, 0);
        self.waiting.push_back(ticket);
        if self.waiting.len() > BATCHES_WAITING
            && let Some(first) = self.waiting.pop_front()
        {
            self.session.wait(&first)?;
        }
        Ok(())
    }

    /// Commits the last batch; when this returns, all rows are durable.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub(crate) fn finish(mut self) -> SqlResult<()> {
        self.flush()?;
        while let Some(ticket) = self.waiting.pop_front() {
            self.session.wait(&ticket)?;
        }
        Ok(())
    }
}

fn index_part(storage: &Storage, target: &Target, index: usize) -> SqlResult<Part> {
    let row = &target.relation.row.indexes[index];
    Ok(Part {
        table: storage.open(row.storage)?,
        index: Some(index),
        constraint: row.unique.then(|| (row.name.clone(), row.columns.clone())),
        entries: Vec::new(),
    })
}

/// The error of a duplicate. Its values come from the row that the entry belongs to, if the load has the rows.
fn duplicate(target: &Target, part: &Part, entry: &[u8], parts: &[Part]) -> SqlError {
    let Some((name, columns)) = &part.constraint else {
        return SqlError::corrupted("a row number was given twice");
    };
    let row_key = match part.entries.iter().find(|(key, _)| key == entry) {
        Some((key, _)) if part.index.is_none() => Some(key),
        Some((_, row_key)) => Some(row_key),
        None => None,
    };
    let rows = parts.iter().find(|part| part.index.is_none());
    let found = rows.and_then(|rows| rows.entries.iter().find(|(key, _)| Some(key) == row_key));
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
