//! What the clauses of one ALTER TABLE come to: a new state of the table, and at most one pass over its rows.

use std::sync::Arc;

use super::context::DdlContext;
use super::drop::remove_sequence;
use super::rebuild::{Fill, rebuild};
use super::row_steps::RowStep;
use crate::catalogue::{
    COLUMNS_MAX, DefaultRow, Named, Relation, SequenceRow, StoredRows, TableRow,
};
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::storage::Reader;

/// The changes of a table that are gathered from the clauses.
pub(super) struct Alteration {
    pub(super) old: Arc<Relation>,
    /// The new state. Its `stored` is left out until the end.
    pub(super) row: TableRow,
    /// What would be stored if no row is written anew.
    pub(super) stored: StoredRows,
    /// What happens to the values of a row.
    pub(super) steps: Vec<RowStep>,
    /// Whether all rows are written anew, into new core tables.
    pub(super) rewrites: bool,
    /// Whether `stored` has a column that no version has.
    pub(super) has_new_columns: bool,
    /// Whether the rows have to be checked.
    pub(super) checks: bool,
    /// Indexes to be filled, by their ids.
    pub(super) new_indexes: Vec<u32>,
    /// Names of indexes and keys.
    pub(super) taken: Vec<String>,
    pub(super) freed: Vec<String>,
    pub(super) new_sequences: Vec<SequenceRow>,
    pub(super) dropped_sequences: Vec<u32>,
    /// Core tables of indexes that are dropped.
    pub(super) obsolete: Vec<u64>,
}

impl Alteration {
    /// No change yet.
    pub(super) fn of(old: &Arc<Relation>) -> Self {
        let mut row = old.row.clone();
        let stored = row
            .stored
            .take()
            .unwrap_or_else(|| StoredRows::of_columns(&row.columns));
        Self {
            old: Arc::clone(old),
            row,
            stored,
            steps: Vec::new(),
            rewrites: false,
            has_new_columns: false,
            checks: false,
            new_indexes: Vec::new(),
            taken: Vec::new(),
            freed: Vec::new(),
            new_sequences: Vec::new(),
            dropped_sequences: Vec::new(),
            obsolete: Vec::new(),
        }
    }

    /// Whether the new state is another one.
    pub(super) fn changes_anything(&self) -> bool {
        let mut before = self.old.row.clone();
        before.stored = None;
        self.row != before
    }

    /// The number of a column.
    ///
    /// # Errors
    /// 42703 if there is none.
    pub(super) fn column(&self, name: &str) -> SqlResult<usize> {
        self.row.column(name).ok_or_else(|| {
            SqlError::new(
                sqlstate::UNDEFINED_COLUMN,
                format!(
                    "column \"{name}\" of relation \"{}\" does not exist",
                    self.row.name
                ),
            )
        })
    }

    /// An index is dropped.
    pub(super) fn drop_index(&mut self, at: usize) {
        let index = self.row.indexes.remove(at);
        self.new_indexes.retain(|id| *id != index.id);
        self.obsolete.push(index.storage);
        self.free(index.name);
    }

    /// The primary key is dropped: rows get numbers as keys.
    pub(super) fn drop_key(&mut self) {
        let Some(key) = self.row.key.take() else {
            return;
        };
        for at in key.columns {
            self.row.columns[at].not_null = true;
        }
        self.rewrites = true;
        self.free(key.name);
    }

    /// A name is not used any more, whether it is an older one or one of this command.
    fn free(&mut self, name: String) {
        match self.taken.iter().position(|taken| *taken == name) {
            Some(at) => {
                self.taken.remove(at);
            }
            None => self.freed.push(name),
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// Those of the constraints and of the transaction.
    pub(super) fn finish(mut self, context: &mut DdlContext<'_>) -> SqlResult<()> {
        if self.has_new_columns && !self.rewrites {
            // Expressions may be wrong: then no version is given away.
            let probe = Arc::new(Relation::new(self.row.clone(), context.number()?)?);
            context.target(&probe)?;
            self.add_version(context)?;
        }
        if self.rewrites {
            self.row.storage = context.number()?;
            for index in &mut self.row.indexes {
                index.storage = context.number()?;
            }
        } else if self.stored != StoredRows::of_columns(&self.row.columns) {
            self.row.stored = Some(self.stored.clone());
        }
        let version = context.number()?;
        let relation = Arc::new(Relation::new(self.row.clone(), version)?);
        self.pass_over_rows(context, &relation)?;
        self.write(context, &relation)
    }

    /// Gives the stored columns a number, or has all rows written anew if there is none.
    fn add_version(&mut self, context: &DdlContext<'_>) -> SqlResult<()> {
        let storage = self.row.storage;
        // Dropped columns take room in each row.
        let is_long = self.stored.columns.len() > COLUMNS_MAX;
        if is_long || !context.storage.has_room_for_version(storage)? {
            self.rewrites = true;
            return Ok(());
        }
        let mut row = self.row.clone();
        let mut stored = self.stored.clone();
        // The schema does not depend on the number.
        stored.versions = vec![(0, stored.columns.len())];
        row.stored = Some(stored);
        let described = Relation::new(row, 0)?;
        match context
            .storage
            .add_version(storage, described.format.schema())?
        {
            Some(number) => self
                .stored
                .versions
                .push((number, self.stored.columns.len())),
            None => self.rewrites = true,
        }
        Ok(())
    }

    fn pass_over_rows(
        &mut self,
        context: &mut DdlContext<'_>,
        relation: &Arc<Relation>,
    ) -> SqlResult<()> {
        let target = context.target(relation)?;
        if self.rewrites {
            context.create_storage(relation)?;
            rebuild(
                context,
                &self.old,
                &target,
                &mut Fill {
                    indexes: None,
                    steps: &mut self.steps,
                    checks: true,
                },
            )?;
            context.abandon(&self.old.row);
            return Ok(());
        }
        let is_new = |index: &usize| self.new_indexes.contains(&relation.row.indexes[*index].id);
        let indexes: Vec<usize> = (0..relation.row.indexes.len()).filter(is_new).collect();
        for index in &indexes {
            context.create_index_storage(relation.row.indexes[*index].storage)?;
        }
        if self.checks || !indexes.is_empty() {
            rebuild(
                context,
                &self.old,
                &target,
                &mut Fill {
                    indexes: Some(&indexes),
                    steps: &mut self.steps,
                    checks: self.checks,
                },
            )?;
        }
        let old = &self.old.row;
        // A core table of an index of this very command is dropped with the transaction's others.
        let is_old = |number: &u64| old.storages().any(|storage| storage == *number);
        let obsolete = self.obsolete.iter().copied().filter(is_old);
        context.effects.obsolete.extend(obsolete);
        Ok(())
    }

    /// Writes the catalogue's rows. Only now: a pass over the rows may have begun the transaction again.
    fn write(&mut self, context: &mut DdlContext<'_>, relation: &Relation) -> SqlResult<()> {
        let (old, row) = (&self.old.row, &relation.row);
        for name in &self.freed {
            context.free_name(&old.schema, name)?;
        }
        if old.name != row.name {
            context.free_name(&old.schema, &old.name)?;
            context.take_name(&row.schema, &row.name, Named::Table(row.id))?;
        }
        for name in &self.taken {
            context.take_name(&row.schema, name, Named::Index(row.id))?;
        }
        for sequence in &self.new_sequences {
            context.put_sequence(sequence)?;
        }
        let given = self.steps.iter().filter_map(|step| match step {
            RowStep::AddNumbers(numbers) => Some((numbers.sequence.id, numbers.next)),
            _ => None,
        });
        for (id, next) in given {
            let catalogue = Arc::clone(context.catalogue);
            context.statement(|tx| catalogue.put_sequence_state(tx, id, next))?;
        }
        for id in &self.dropped_sequences {
            let catalogue = Arc::clone(context.catalogue);
            let found =
                context.statement(|tx| catalogue.sequence(&mut Reader::Transaction(tx), *id))?;
            if let Some(sequence) = found {
                remove_sequence(context, *id, &sequence.schema, &sequence.name)?;
            }
        }
        own_sequences(context, row)?;
        context.put(row, relation.version)
    }
}

/// The sequences of columns whose numbers have changed say the new ones.
fn own_sequences(context: &mut DdlContext<'_>, row: &TableRow) -> SqlResult<()> {
    for (at, column) in row.columns.iter().enumerate() {
        let Some(DefaultRow::Sequence(id)) = column.default else {
            continue;
        };
        let catalogue = Arc::clone(context.catalogue);
        context.statement(|tx| {
            let found = catalogue.sequence(&mut Reader::Transaction(tx), id)?;
            match found {
                Some(mut sequence) if sequence.owner != Some((row.id, at)) => {
                    sequence.owner = Some((row.id, at));
                    catalogue.put_sequence(tx, &sequence)
                }
                _ => Ok(()),
            }
        })?;
    }
    Ok(())
}
