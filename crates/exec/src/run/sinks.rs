//! A thread's end of a pipeline, and what all threads have kept when the pipeline has ended.

use std::sync::Arc;

use crate::error::ExecError;
use crate::program::{Pipeline, Sink};
use crate::row::{RowRef, RowStore, Slot};
use crate::sinks::{BuildRows, Groups, HashTable, SortRows, TOO_MUCH_TEXT};

/// Where a thread's rows end.
pub(super) enum WorkerSink {
    Output(RowStore),
    Groups(Groups),
    Sort(SortRows),
    Build(BuildRows),
}

/// What a pipeline has kept for later ones.
pub(super) enum Kept {
    Rows(RowStore),
    Table(HashTable),
}

impl WorkerSink {
    pub(super) fn new(pipeline: &Pipeline, output: &[Slot]) -> Self {
        match &pipeline.sink {
            Sink::Output => Self::Output(RowStore::new(output)),
            Sink::Aggregate(sink) => Self::Groups(Groups::new(sink)),
            Sink::Sort(sink) => Self::Sort(SortRows::new(sink)),
            Sink::Build(sink) => Self::Build(BuildRows::new(sink)),
        }
    }

    /// Keeps a row.
    #[inline]
    pub(super) fn add(&mut self, row: RowRef<'_>, output: &[Slot]) -> Result<(), ExecError> {
        match self {
            Self::Output(rows) => rows.push(row, output).ok_or(TOO_MUCH_TEXT),
            Self::Groups(groups) => groups.add(row),
            Self::Sort(rows) => rows.add(row),
            Self::Build(rows) => rows.add(row),
        }
    }

    /// What it takes in memory, and what it is called.
    pub(super) fn bytes(&self) -> (usize, &'static str) {
        match self {
            Self::Output(_) => (0, "output"),
            Self::Groups(groups) => (groups.bytes(), "table of groups"),
            Self::Sort(rows) => (rows.bytes(), "sort"),
            Self::Build(rows) => (rows.bytes(), "hash table"),
        }
    }

    /// What all threads have kept together; nothing of an output.
    pub(super) fn merge(parts: Vec<Self>) -> Result<Option<Kept>, ExecError> {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else {
            return Ok(None);
        };
        Ok(Some(match first {
            Self::Output(_) => return Ok(None),
            Self::Groups(mut all) => {
                for part in parts {
                    if let Self::Groups(part) = part {
                        all.merge(&part)?;
                    }
                }
                Kept::Rows(all.finish()?)
            }
            Self::Sort(mut all) => {
                for part in parts {
                    if let Self::Sort(part) = part {
                        all.merge(&part)?;
                    }
                }
                Kept::Rows(all.finish()?)
            }
            Self::Build(mut all) => {
                for part in parts {
                    if let Self::Build(part) = part {
                        all.merge(&part)?;
                    }
                }
                Kept::Table(all.finish()?)
            }
        }))
    }
}

impl Kept {
    /// Rows that drive a pipeline.
    pub(super) fn rows(kept: Option<&Arc<Self>>) -> Option<&RowStore> {
        match kept.map(|kept| &**kept) {
            Some(Self::Rows(rows)) => Some(rows),
            _ => None,
        }
    }

    /// A table that is probed.
    pub(super) fn table(kept: Option<&Arc<Self>>) -> Option<&HashTable> {
        match kept.map(|kept| &**kept) {
            Some(Self::Table(table)) => Some(table),
            _ => None,
        }
    }
}
