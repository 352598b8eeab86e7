//! How the values of a table's rows become those of its next state.

use namiki_data::columns::Datum;

use crate::catalogue::SequenceRow;
use crate::error::{SqlError, SqlResult};
use crate::program::{Environment, Scalar};
use crate::types::SqlType;

/// One change of a row's values.
#[derive(Clone, Debug)]
pub(super) enum RowStep {
    /// A column is added, with the same value in all rows.
    Add(Datum),
    /// A column is added, with a value that may be another one in each row.
    AddEvaluated(Scalar, SqlType),
    /// A column is added, with the numbers of a sequence of its own.
    AddNumbers(NewNumbers),
    /// A column is dropped.
    Remove(usize),
    /// The values of a column get another type.
    Convert(usize, Conversion),
}

/// From one type to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversion {
    pub(super) from: SqlType,
    pub(super) to: SqlType,
}

/// The numbers of a sequence that no one else uses yet.
#[derive(Clone, Debug)]
pub(super) struct NewNumbers {
    pub(super) sequence: SequenceRow,
    /// The next one.
    pub(super) next: i64,
}

impl NewNumbers {
    fn take(&mut self) -> SqlResult<i64> {
        let SequenceRow {
            least,
            greatest,
            increment,
            ..
        } = self.sequence;
        let number = self.next;
        if !(least..=greatest).contains(&number) {
            return Err(SqlError::new(
                "2200H",
                format!(
                    "nextval: reached the last value of sequence \"{}\"",
                    self.sequence.name
                ),
            ));
        }
        self.next = number.saturating_add(increment);
        Ok(number)
    }
}

/// Makes the values of a row those of the next state.
///
/// # Errors
/// Those of expressions, sequences and conversions.
pub(super) fn apply(
    steps: &mut [RowStep],
    row: &mut Vec<Datum>,
    environment: &Environment,
) -> SqlResult<()> {
    for step in steps {
        match step {
            RowStep::Add(value) => row.push(value.clone()),
            RowStep::AddEvaluated(scalar, of) => {
                row.push(of.assign(scalar.constant(environment)?)?);
            }
            RowStep::AddNumbers(numbers) => {
                let of = SqlType::Int8;
                row.push(of.assign(Datum::I64(numbers.take()?))?);
            }
            RowStep::Remove(column) => {
                row.remove(*column);
            }
            RowStep::Convert(column, conversion) => {
                let value = std::mem::replace(&mut row[*column], Datum::Null);
                row[*column] = conversion.apply(value, environment)?;
            }
        }
    }
    Ok(())
}

impl Conversion {
    /// Whether values of the first type are assigned to columns of the second one without a question.
    pub(super) fn is_known(self) -> bool {
        let is_exact = |of: SqlType| of.is_integer() || matches!(of, SqlType::Numeric { .. });
        let is_float = |of: SqlType| matches!(of, SqlType::Float4 | SqlType::Float8);
        let are_numbers = is_exact(self.from) && (is_exact(self.to) || is_float(self.to))
            || is_float(self.from) && (is_float(self.to) || self.to.is_integer());
        is_text(self.to) || self.from == self.to || are_numbers
    }

    /// Whether each value of the first type is stored as the second one stores it.
    pub(super) fn keeps_bytes(self) -> bool {
        match (self.from, self.to) {
            (from, to) if from == to => true,
            (
                SqlType::Varchar { .. } | SqlType::Text,
                SqlType::Varchar { limit: 0 } | SqlType::Text,
            ) => true,
            (SqlType::Varchar { limit: from }, SqlType::Varchar { limit: to }) => {
                from > 0 && from <= to
            }
            (SqlType::Int2, SqlType::Int4 | SqlType::Int8) | (SqlType::Int4, SqlType::Int8) => true,
            (SqlType::Float4, SqlType::Float8) => true,
            _ => false,
        }
    }

    fn apply(self, value: Datum, environment: &Environment) -> SqlResult<Datum> {
        if value == Datum::Null || self.from == self.to {
            return Ok(value);
        }
        if is_text(self.to) && !is_text(self.from) {
            let mut text = Vec::new();
            crate::types::write_text(value.value(), self.from, environment.zone, &mut text);
            let text = String::from_utf8_lossy(&text).into_owned();
            return self.to.assign(Datum::Text(text));
        }
        crate::program::cast(value, self.to)
    }
}

fn is_text(of: SqlType) -> bool {
    matches!(
        of,
        SqlType::Text | SqlType::Varchar { .. } | SqlType::Char { .. }
    )
}
