//! INSERT, UPDATE and DELETE as row programs, and the same changes of rows that a plan has found.

use namiki_data::columns::Datum;

use super::increments::add_to_columns;
use super::{Changes, ConflictAction, DefaultValue, Increments, Inserted, OnConflict, Target};
use crate::catalogue::Sequences;
use crate::error::{SqlError, SqlResult};
use crate::program::{Access, OutputFormat, Path, RowValues, Scalar, write_value};
use crate::sink::RowSink;
use crate::sqlstate;
use crate::storage::encode_key;

/// Takes the rows of RETURNING.
pub(crate) struct Returned<'a> {
    /// `None`: there is no RETURNING.
    pub(crate) output: Option<&'a [Scalar]>,
    pub(crate) formats: &'a [OutputFormat],
    pub(crate) sink: &'a mut dyn RowSink,
}

impl Returned<'_> {
    fn row(&mut self, changes: &Changes<'_>, row: &[Datum]) -> SqlResult<()> {
        let Some(output) = self.output else {
            return Ok(());
        };
        let environment = changes.environment;
        let values = RowValues::Decoded(row);
        let evaluated = output
            .iter()
            .map(|scalar| scalar.evaluate(&values, environment));
        let evaluated = evaluated.collect::<SqlResult<Vec<Datum>>>()?;
        self.sink.begin_row(output.len());
        for (value, format) in evaluated.iter().zip(self.formats) {
            write_value(self.sink, value.value(), *format, environment.zone);
        }
        self.sink.end_row();
        Ok(())
    }
}

/// A value of an INSERT.
#[derive(Clone, Debug)]
pub(crate) enum InsertValue {
    /// An expression.
    Scalar(Scalar),
    /// DEFAULT.
    Default,
}

/// An INSERT: of the rows of VALUES, or of those that a plan finds.
#[derive(Clone, Debug)]
pub(crate) struct InsertProgram {
    pub(crate) target: Target,
    /// The columns that are given, in the order of the values.
    pub(crate) columns: Vec<usize>,
    /// The rows of VALUES; empty if a plan finds them.
    pub(crate) values: Vec<Vec<InsertValue>>,
    pub(crate) on_conflict: Option<OnConflict>,
    pub(crate) returning: Option<Vec<Scalar>>,
}

impl InsertProgram {
    /// Inserts the rows of VALUES; returns their number.
    ///
    /// # Errors
    /// Those of the expressions and of [`Changes::insert`]; one that asks for a refill of a sequence.
    pub(crate) fn run(
        &self,
        changes: &mut Changes<'_>,
        sequences: &Sequences,
        returned: &mut Returned<'_>,
    ) -> SqlResult<u64> {
        let mut count = 0;
        let mut written = Vec::new();
        for values in &self.values {
            let given = values.iter().map(|value| match value {
                InsertValue::Scalar(scalar) => scalar.constant(changes.environment).map(Some),
                InsertValue::Default => Ok(None),
            });
            let given = given.collect::<SqlResult<Vec<Option<Datum>>>>()?;
            count += self.insert(given, changes, sequences, &mut written, returned)?;
        }
        Ok(count)
    }

    /// Inserts rows that a plan has found; returns their number.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn run_with(
        &self,
        rows: impl IntoIterator<Item = Vec<Datum>>,
        changes: &mut Changes<'_>,
        sequences: &Sequences,
        returned: &mut Returned<'_>,
    ) -> SqlResult<u64> {
        let mut count = 0;
        let mut written = Vec::new();
        for row in rows {
            let given = row.into_iter().map(Some).collect();
            count += self.insert(given, changes, sequences, &mut written, returned)?;
        }
        Ok(count)
    }

    fn insert(
        &self,
        given: Vec<Option<Datum>>,
        changes: &mut Changes<'_>,
        sequences: &Sequences,
        written: &mut Vec<Vec<u8>>,
        returned: &mut Returned<'_>,
    ) -> SqlResult<u64> {
        let mut row = self.row(given, changes, sequences)?;
        let arbiter = self.on_conflict.as_ref().map(|it| &it.arbiter);
        let collision = changes.insert(&self.target, &mut row, arbiter)?;
        let relation = &self.target.relation;
        let action = self.on_conflict.as_ref().map(|it| &it.action);
        match (collision, action) {
            (
                Inserted::Collision(key),
                Some(ConflictAction::Update {
                    assignments,
                    condition,
                }),
            ) => {
                if written.contains(&key) {
                    return Err(SqlError::new(
                        sqlstate::CARDINALITY_VIOLATION,
                        "ON CONFLICT DO UPDATE command cannot affect row a second time",
                    )
                    .with_hint(
                        "Ensure that no rows proposed for insertion within the same command have duplicate \
                         constrained values.",
                    ));
                }
                let old = changes.row(&self.target, &key)?;
                let both: Vec<Datum> = old.iter().cloned().chain(row).collect();
                let values = RowValues::Decoded(&both);
                if let Some(condition) = condition
                    && !condition.holds(&values, changes.environment)?
                {
                    return Ok(0);
                }
                let mut new = old.clone();
                for (column, scalar) in assignments {
                    let value = scalar.evaluate(&values, changes.environment)?;
                    new[*column] = relation.columns()[*column].sql_type.assign(value)?;
                }
                changes.update(&self.target, &key, &old, &new)?;
                if !relation.has_row_numbers() {
                    written.push(encode_key(&relation.layout, &new)?);
                }
                returned.row(changes, &new)?;
                Ok(1)
            }
            (Inserted::Collision(_), _) => Ok(0),
            (Inserted::Done, action) => {
                if matches!(action, Some(ConflictAction::Update { .. }))
                    && !relation.has_row_numbers()
                {
                    written.push(encode_key(&relation.layout, &row)?);
                }
                returned.row(changes, &row)?;
                Ok(1)
            }
        }
    }

    /// A whole row: the values that are given, and defaults.
    fn row(
        &self,
        given: Vec<Option<Datum>>,
        changes: &Changes<'_>,
        sequences: &Sequences,
    ) -> SqlResult<Vec<Datum>> {
        let columns = self.target.relation.columns();
        let mut row: Vec<Option<Datum>> = vec![None; columns.len()];
        for (value, column) in given.into_iter().zip(&self.columns) {
            if let Some(value) = value {
                self.target.check_given(*column)?;
                row[*column] = Some(columns[*column].sql_type.assign(value)?);
            }
        }
        let whole = row
            .into_iter()
            .zip(columns)
            .zip(&self.target.rules.defaults);
        whole
            .map(|((value, column), default)| match (value, default) {
                (Some(value), _) => Ok(value),
                (None, DefaultValue::Value(scalar)) => column
                    .sql_type
                    .assign(scalar.constant(changes.environment)?),
                (None, DefaultValue::Sequence(id)) => {
                    let number = sequences.next(*id)?;
                    sequences.note_given(changes.environment.session, *id, number);
                    column.sql_type.assign(Datum::I64(number))
                }
            })
            .collect()
    }
}

/// An UPDATE.
#[derive(Clone, Debug)]
pub(crate) struct UpdateProgram {
    pub(crate) target: Target,
    /// `None` if a plan finds the rows and the new values.
    pub(crate) access: Option<Access>,
    /// The columns that are set, and, for a program of its own, to what.
    pub(crate) assignments: Vec<(usize, Scalar)>,
    pub(crate) increments: Option<Increments>,
    pub(crate) returning: Option<Vec<Scalar>>,
}

impl UpdateProgram {
    /// Whether the new values are sums that are made at the commit.
    pub(crate) fn adds_later(&self) -> bool {
        let access = self.access.as_ref();
        self.increments.is_some()
            && self.returning.is_none()
            && access.is_some_and(|it| it.filter.is_empty() && matches!(it.path, Path::Key(_)))
    }

    /// Changes the rows; returns their number.
    ///
    /// # Errors
    /// Those of the expressions and of [`Changes::update`].
    pub(crate) fn run(
        &self,
        changes: &mut Changes<'_>,
        returned: &mut Returned<'_>,
    ) -> SqlResult<u64> {
        let Some(access) = &self.access else {
            return Err(SqlError::corrupted("the UPDATE has no program"));
        };
        if let Some(increments) = &self.increments
            && returned.output.is_none()
            && access.filter.is_empty()
            && let Path::Key(parts) = &access.path
            && let Some(argument) = increments.argument(changes.environment)?
        {
            let Some(key) = access.key(parts, changes.environment)? else {
                return Ok(0);
            };
            let table = changes.storage.open(self.target.relation.row.storage)?;
            let found = changes
                .tx
                .change_later(&table.table, &key, add_to_columns, &argument)?;
            return Ok(u64::from(found));
        }
        let relation = &self.target.relation;
        let rows = access.rows(changes.tx, changes.storage, changes.environment)?;
        let count = rows.len() as u64;
        for (key, row) in rows {
            let mut old = relation.format.decode(&key, &row)?;
            old.truncate(relation.columns().len());
            let values = RowValues::Decoded(&old);
            let new_values = self
                .assignments
                .iter()
                .map(|(_, scalar)| scalar.evaluate(&values, changes.environment))
                .collect::<SqlResult<Vec<_>>>()?;
            self.change(&key, &old, new_values, changes, returned)?;
        }
        Ok(count)
    }

    /// Changes rows that a plan has found: each has the old row's stored columns, then the new values. A row that is found
    /// twice is changed once, as the first finding says.
    ///
    /// # Errors
    /// Those of [`Changes::update`].
    pub(crate) fn run_with(
        &self,
        rows: impl IntoIterator<Item = Vec<Datum>>,
        changes: &mut Changes<'_>,
        returned: &mut Returned<'_>,
    ) -> SqlResult<u64> {
        let relation = &self.target.relation;
        let stored = relation.layout.columns().len();
        let mut seen = std::collections::HashSet::new();
        let mut count = 0;
        for mut old in rows {
            let new_values = old.split_off(stored);
            let key = encode_key(&relation.layout, &old)?;
            if !seen.insert(key.clone()) {
                continue;
            }
            old.truncate(relation.columns().len());
            self.change(&key, &old, new_values, changes, returned)?;
            count += 1;
        }
        Ok(count)
    }

    /// Changes a row; `new_values` are those of the assignments.
    fn change(
        &self,
        key: &[u8],
        old: &[Datum],
        new_values: Vec<Datum>,
        changes: &mut Changes<'_>,
        returned: &mut Returned<'_>,
    ) -> SqlResult<()> {
        let columns = self.target.relation.columns();
        let mut new = old.to_vec();
        for ((column, _), value) in self.assignments.iter().zip(new_values) {
            new[*column] = columns[*column].sql_type.assign(value)?;
        }
        changes.update(&self.target, key, old, &new)?;
        returned.row(changes, &new)
    }
}

/// A DELETE.
#[derive(Clone, Debug)]
pub(crate) struct DeleteProgram {
    pub(crate) target: Target,
    /// `None` if a plan finds the rows.
    pub(crate) access: Option<Access>,
    pub(crate) returning: Option<Vec<Scalar>>,
}

impl DeleteProgram {
    /// Deletes the rows; returns their number.
    ///
    /// # Errors
    /// Those of the expressions and of [`Changes::delete`].
    pub(crate) fn run(
        &self,
        changes: &mut Changes<'_>,
        returned: &mut Returned<'_>,
    ) -> SqlResult<u64> {
        let Some(access) = &self.access else {
            return Err(SqlError::corrupted("the DELETE has no program"));
        };
        let relation = &self.target.relation;
        let mut count = 0;
        for (key, row) in access.rows(changes.tx, changes.storage, changes.environment)? {
            let old = relation.format.decode(&key, &row)?;
            count += u64::from(self.delete(&key, old, changes, returned)?);
        }
        Ok(count)
    }

    /// Deletes rows that a plan has found: each has its stored columns.
    ///
    /// # Errors
    /// Those of [`Changes::delete`].
    pub(crate) fn run_with(
        &self,
        rows: impl IntoIterator<Item = Vec<Datum>>,
        changes: &mut Changes<'_>,
        returned: &mut Returned<'_>,
    ) -> SqlResult<u64> {
        let mut count = 0;
        for old in rows {
            let key = encode_key(&self.target.relation.layout, &old)?;
            count += u64::from(self.delete(&key, old, changes, returned)?);
        }
        Ok(count)
    }

    /// Deletes a row of these stored columns; returns whether it was there.
    fn delete(
        &self,
        key: &[u8],
        mut old: Vec<Datum>,
        changes: &mut Changes<'_>,
        returned: &mut Returned<'_>,
    ) -> SqlResult<bool> {
        old.truncate(self.target.relation.columns().len());
        let is_deleted = changes.delete(&self.target, key, &old)?;
        if is_deleted {
            returned.row(changes, &old)?;
        }
        Ok(is_deleted)
    }
}
