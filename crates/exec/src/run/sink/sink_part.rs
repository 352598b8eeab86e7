//! A thread's part of a pipeline's sink, and the result of all parts.

use std::sync::Arc;

use crate::error::ExecError;
use crate::program::{Pipeline, Sink};
use crate::row::{RowRef, RowStore, Slot};
use crate::sinks::{
    BuildRows, Groups, HashTable, MaterializedRows, MergeControl, SortRows, TOO_MUCH_TEXT,
};

/// A thread's part of a sink.
pub(crate) enum SinkPart {
    Output(RowStore),
    Groups(Groups),
    Sort(SortRows),
    Build(BuildRows),
    Materialize(MaterializedRows),
}

/// The result of a pipeline, for later ones.
pub(crate) enum Materialized {
    Rows(RowStore),
    Table(HashTable),
}

impl SinkPart {
    pub(crate) fn new(pipeline: &Pipeline, output: &[Slot]) -> Self {
        match &pipeline.sink {
            Sink::Output => Self::Output(RowStore::new(output)),
            Sink::Aggregate(sink) => Self::Groups(Groups::new(sink)),
            Sink::Sort(sink) => Self::Sort(SortRows::new(sink)),
            Sink::Build(sink) => Self::Build(BuildRows::new(sink)),
            Sink::Materialize(columns) => Self::Materialize(MaterializedRows::new(columns)),
        }
    }

    /// Keeps a row.
    #[inline]
    pub(crate) fn add(&mut self, row: RowRef<'_>, output: &[Slot]) -> Result<(), ExecError> {
        match self {
            Self::Output(rows) => rows.push(row, output).ok_or(TOO_MUCH_TEXT),
            Self::Groups(groups) => groups.add(row),
            Self::Sort(rows) => rows.add(row),
            Self::Build(rows) => rows.add(row),
            Self::Materialize(rows) => rows.add(row),
        }
    }

    /// Bytes in memory, and its name.
    pub(crate) fn bytes(&self) -> (usize, &'static str) {
        match self {
            Self::Output(_) => (0, "output"),
            Self::Groups(groups) => (groups.bytes(), "table of groups"),
            Self::Sort(rows) => (rows.bytes(), "sort"),
            Self::Build(rows) => (rows.bytes(), "hash table"),
            Self::Materialize(rows) => (rows.bytes(), "limit"),
        }
    }

    /// Does what a thread can do with its own rows, once all are there.
    pub(crate) fn finish(&mut self, control: &MergeControl<'_>) -> Result<(), ExecError> {
        match self {
            Self::Sort(rows) => rows.sort_runs(control),
            Self::Output(_) | Self::Groups(_) | Self::Build(_) | Self::Materialize(_) => Ok(()),
        }
    }

    /// The result of all parts; `None` for an output.
    pub(crate) fn merge(
        parts: Vec<Self>,
        control: &MergeControl<'_>,
    ) -> Result<Option<Materialized>, ExecError> {
        let (mut groups, mut sorts, mut builds, mut keeps) = (vec![], vec![], vec![], vec![]);
        for part in parts {
            match part {
                Self::Output(_) => {}
                Self::Groups(part) => groups.push(part),
                Self::Sort(part) => sorts.push(part),
                Self::Build(part) => builds.push(part),
                Self::Materialize(part) => keeps.push(part),
            }
        }
        if let Some(table) = BuildRows::merge(builds, control)? {
            return Ok(Some(Materialized::Table(table)));
        }
        let rows = match Groups::merge(groups, control)? {
            Some(rows) => Some(rows),
            None => match SortRows::merge(&sorts, control)? {
                Some(rows) => Some(rows),
                None => MaterializedRows::merge(keeps, control)?,
            },
        };
        if let Some(rows) = &rows {
            drop(sorts);
            control.hold(rows.bytes())?;
        }
        Ok(rows.map(Materialized::Rows))
    }
}

impl Materialized {
    /// Rows that drive a pipeline.
    pub(crate) fn rows(kept: Option<&Arc<Self>>) -> Option<&RowStore> {
        match kept.map(|kept| &**kept) {
            Some(Self::Rows(rows)) => Some(rows),
            _ => None,
        }
    }

    /// A table that is probed.
    pub(crate) fn table(kept: Option<&Arc<Self>>) -> Option<&HashTable> {
        match kept.map(|kept| &**kept) {
            Some(Self::Table(table)) => Some(table),
            _ => None,
        }
    }
}
