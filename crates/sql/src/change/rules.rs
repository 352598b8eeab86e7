//! Constraints of a table's rows, and defaults of its columns.

use std::sync::Arc;

use namiki_data::columns::Datum;

use crate::catalogue::{Identity, Relation};
use crate::error::{SqlError, SqlResult};
use crate::program::{Environment, RowValues, Scalar};
use crate::sqlstate;

/// The value of a column that an INSERT leaves out.
#[derive(Clone, Debug)]
pub(crate) enum DefaultValue {
    /// An expression without columns; null if there is no default.
    Value(Scalar),
    /// The next number of a sequence.
    Sequence(u32),
}

/// The constraints and defaults of a table, ready to be evaluated.
#[derive(Debug)]
pub(crate) struct Rules {
    /// CHECK constraints: names and conditions.
    pub(crate) checks: Vec<(String, Scalar)>,
    /// One for each column.
    pub(crate) defaults: Vec<DefaultValue>,
}

/// A table to be changed.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) relation: Arc<Relation>,
    pub(crate) rules: Arc<Rules>,
}

impl Target {
    /// Checks NOT NULL and CHECK.
    ///
    /// # Errors
    /// 23502 or 23514 for the first constraint that is violated.
    pub(crate) fn check(&self, row: &[Datum], environment: &Environment) -> SqlResult<()> {
        let table = &self.relation.row;
        for (at, (column, value)) in table.columns.iter().zip(row).enumerate() {
            if *value == Datum::Null && (column.not_null || table.is_in_key(at)) {
                return Err(SqlError::new(
                    sqlstate::NOT_NULL_VIOLATION,
                    format!(
                        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                        column.name, table.name
                    ),
                )
                .with_detail(format!("Failing row contains ({}).", self.shown(row)))
                .with_table(&table.name)
                .with_column(&column.name));
            }
        }
        for (name, condition) in &self.rules.checks {
            // Null is no violation.
            if condition.evaluate(&RowValues::Decoded(row), environment)? == Datum::Bool(false) {
                return Err(SqlError::new(
                    sqlstate::CHECK_VIOLATION,
                    format!(
                        "new row for relation \"{}\" violates check constraint \"{name}\"",
                        table.name
                    ),
                )
                .with_detail(format!("Failing row contains ({}).", self.shown(row)))
                .with_table(&table.name)
                .with_constraint(name));
            }
        }
        Ok(())
    }

    /// Whether a value may be given for a column.
    ///
    /// # Errors
    /// 428C9 if it is generated always.
    pub(crate) fn check_given(&self, column: usize) -> SqlResult<()> {
        self.check_generated(column, |name| {
            format!("cannot insert a non-DEFAULT value into column \"{name}\"")
        })
        .map_err(|error| error.with_hint("Leave the column out, or say DEFAULT for it."))
    }

    /// Whether a column may be set to something else than its default.
    ///
    /// # Errors
    /// 428C9 if it is generated always.
    pub(crate) fn check_set(&self, column: usize) -> SqlResult<()> {
        self.check_generated(column, |name| {
            format!("column \"{name}\" can only be updated to DEFAULT")
        })
    }

    fn check_generated(
        &self,
        column: usize,
        refusal: impl FnOnce(&str) -> String,
    ) -> SqlResult<()> {
        let column = &self.relation.columns()[column];
        if column.identity != Some(Identity::Always) {
            return Ok(());
        }
        let name = &column.name;
        let detail =
            format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.");
        Err(SqlError::new(sqlstate::GENERATED_ALWAYS, refusal(name)).with_detail(detail))
    }

    /// A row's values as details of errors have them.
    fn shown(&self, row: &[Datum]) -> String {
        let columns: Vec<usize> = (0..self.relation.columns().len()).collect();
        self.values_of(&columns, row)
    }

    /// The values of some columns, with commas between.
    pub(crate) fn values_of(&self, columns: &[usize], row: &[Datum]) -> String {
        let zone = crate::types::TimeZone::Utc;
        let shown: Vec<String> = columns
            .iter()
            .map(|at| {
                let mut text = Vec::new();
                crate::types::write_text(
                    row[*at].value(),
                    self.relation.columns()[*at].sql_type,
                    zone,
                    &mut text,
                );
                if row[*at] == Datum::Null {
                    return "null".to_owned();
                }
                String::from_utf8_lossy(&text).into_owned()
            })
            .collect();
        shown.join(", ")
    }

    /// A key that is there already.
    pub(crate) fn duplicate(&self, constraint: &str, columns: &[usize], row: &[Datum]) -> SqlError {
        let names: Vec<&str> = columns
            .iter()
            .map(|at| self.relation.columns()[*at].name.as_str())
            .collect();
        SqlError::new(
            sqlstate::UNIQUE_VIOLATION,
            format!("duplicate key value violates unique constraint \"{constraint}\""),
        )
        .with_detail(format!(
            "Key ({})=({}) already exists.",
            names.join(", "),
            self.values_of(columns, row)
        ))
        .with_table(&self.relation.row.name)
        .with_constraint(constraint)
    }
}
