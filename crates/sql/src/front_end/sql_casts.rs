//! Casts as PostgreSQL has them, where Arrow's differ: from and to texts, with lengths, and those that there are not.
//!
//! Arrow writes times and floating-point numbers in another form, reads texts more loosely, ignores the length of a
//! `varchar`, and takes bytes for numbers. The types that are texts in Arrow (uuid, json, char) are only told apart here.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;
use namiki_data::columns::Datum;

use super::arrow_values::{arrow_type, datum_at, field, scalar_value};
use super::errors::external;
use super::expression_parts::like_arguments;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::types::{SqlType, TimeZone, from_text, write_text};

/// The cast in the place of DataFusion's; `None` where its own is right. `is_explicit`: a text is cut to the length of
/// its type.
///
/// # Errors
/// 42846 if there is no such cast; as [`check_literal`].
pub(super) fn sql_cast(expr: &Expr, from: SqlType, to: SqlType) -> SqlResult<Option<Expr>> {
    if from == to {
        return Ok(None);
    }
    check_castable(from, to)?;
    if from == SqlType::Text {
        check_literal(expr, to)?;
    }
    let (from_text, to_text) = (from.is_text(), to.is_text());
    let is_needed = match (
        from_text || from == SqlType::Uuid,
        to_text || to == SqlType::Uuid,
    ) {
        (true, true) => !(is_plain(from) && is_plain(to)),
        (true, false) | (false, true) => true,
        (false, false) => from == SqlType::Float8 && to == SqlType::Float4,
    };
    Ok(is_needed.then(|| call(expr.clone(), from, to)))
}

/// The call of a cast.
pub(super) fn call(expr: Expr, from: SqlType, to: SqlType) -> Expr {
    let function = SqlCast {
        from,
        to,
        signature: Signature::any(1, Volatility::Immutable),
    };
    let function = Arc::new(ScalarUDF::from(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

/// A text without a form or a length of its own.
fn is_plain(of: SqlType) -> bool {
    matches!(
        of,
        SqlType::Text | SqlType::Name | SqlType::Varchar { limit: 0 } | SqlType::Interval
    )
}

/// The kinds of types between which values can be cast.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Bool,
    Text,
    Time,
    Uuid,
    Bytes,
    Json,
    Interval,
}

fn kind(of: SqlType) -> Kind {
    match of {
        SqlType::Bool => Kind::Bool,
        SqlType::Date | SqlType::Timestamp | SqlType::Timestamptz => Kind::Time,
        SqlType::Uuid => Kind::Uuid,
        SqlType::Bytea => Kind::Bytes,
        SqlType::Json => Kind::Json,
        SqlType::Interval => Kind::Interval,
        of if of.is_text() => Kind::Text,
        _ => Kind::Number,
    }
}

/// # Errors
/// 42846 if no cast leads from one type to the other.
fn check_castable(from: SqlType, to: SqlType) -> SqlResult<()> {
    let is_castable = match (kind(from), kind(to)) {
        (one, other) if one == other => true,
        (Kind::Text, _) | (_, Kind::Text) => true,
        (Kind::Interval, _) | (_, Kind::Interval) => true,
        (Kind::Bool, Kind::Number) => to.is_integer(),
        (Kind::Number, Kind::Bool) => from.is_integer(),
        _ => false,
    };
    if is_castable {
        return Ok(());
    }
    Err(SqlError::new(
        sqlstate::CANNOT_COERCE,
        format!("cannot cast type {} to {}", from.name(), to.name()),
    ))
}

/// Whether an expression that is a text may stand for a value of any type.
pub(super) fn may_be_any(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Alias(alias) => may_be_any(&alias.expr),
        _ => false,
    }
}

/// A literal without a type of its own is read when the statement is planned, also where no row needs its value.
///
/// # Errors
/// 22P02 and its like if it is no value of the type.
pub(super) fn check_literal(expr: &Expr, to: SqlType) -> SqlResult<()> {
    match expr {
        Expr::Alias(alias) => check_literal(&alias.expr, to),
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) if kind(to) != Kind::Text => {
            from_text(to, text, TimeZone::Utc).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// Whether a value may be stored in a column without a cast that is written. A text that is a literal may stand for a value
/// of any type.
///
/// # Errors
/// 42804 if not.
pub(super) fn check_assignable(from: SqlType, to: SqlType, is_literal: bool) -> SqlResult<()> {
    let is_assignable = match (kind(from), kind(to)) {
        (_, Kind::Text) => true,
        // A uuid that was chosen among others is still a text here.
        (Kind::Text, Kind::Uuid | Kind::Json) => true,
        (Kind::Text, _) => is_literal,
        (Kind::Interval, _) => true,
        (one, other) => one == other,
    };
    if is_assignable {
        return Ok(());
    }
    Err(SqlError::new(
        sqlstate::DATATYPE_MISMATCH,
        format!("a column is of type {to}, but the expression is of type {from}"),
    )
    .with_hint("You will need to rewrite or cast the expression."))
}

/// A cast between two types of SQL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SqlCast {
    from: SqlType,
    to: SqlType,
    signature: Signature,
}

impl SqlCast {
    fn value(&self, value: Datum) -> SqlResult<Datum> {
        if value == Datum::Null {
            return Ok(value);
        }
        let read = match value {
            Datum::Text(text) if self.from.is_text() => match self.to {
                SqlType::Varchar { limit } if limit > 0 => {
                    Datum::Text(text.chars().take(limit as usize).collect())
                }
                SqlType::Char { length } if length > 0 => {
                    let cut: String = text.chars().take(length as usize).collect();
                    Datum::Text(cut)
                }
                to => from_text(to, &text, TimeZone::Utc)?,
            },
            value if self.to.is_text() => {
                let mut bytes = Vec::new();
                match value {
                    Datum::Bool(true) => bytes.extend_from_slice(b"true"),
                    Datum::Bool(false) => bytes.extend_from_slice(b"false"),
                    value => write_text(value.value(), self.from, TimeZone::Utc, &mut bytes),
                }
                let text = String::from_utf8_lossy(&bytes).into_owned();
                match self.to {
                    SqlType::Varchar { limit } if limit > 0 => {
                        Datum::Text(text.chars().take(limit as usize).collect())
                    }
                    _ => Datum::Text(text),
                }
            }
            other => other,
        };
        self.to.assign(read)
    }
}

impl ScalarUDFImpl for SqlCast {
    fn name(&self) -> &str {
        "sql_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> PlanResult<DataType> {
        Ok(arrow_type(self.to))
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> PlanResult<FieldRef> {
        Ok(Arc::new(field("sql_cast", self.to, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [array]: &[ArrayRef] = arrays.as_slice() else {
            return datafusion::common::internal_err!("sql_cast takes one value");
        };
        let cast = |row| -> SqlResult<ScalarValue> {
            let value = self.value(datum_at(array, row, self.from)?)?;
            scalar_value(&value, self.to)
        };
        let values = (0..array.len()).map(cast).collect::<SqlResult<Vec<_>>>();
        let values = values.map_err(external)?;
        let result = if values.is_empty() {
            new_empty_array(&arrow_type(self.to))
        } else {
            ScalarValue::iter_to_array(values)?
        };
        like_arguments(&args.args, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(from: SqlType, to: SqlType, value: Datum) -> SqlResult<Datum> {
        let signature = Signature::any(1, Volatility::Immutable);
        let cast = SqlCast {
            from,
            to,
            signature,
        };
        cast.value(value)
    }

    fn text(text: &str) -> Datum {
        Datum::Text(text.to_owned())
    }

    #[test]
    fn texts_are_cut_and_read() {
        let short = SqlType::Varchar { limit: 2 };
        assert_eq!(cast(SqlType::Text, short, text("abc")).unwrap(), text("ab"));
        let bytes = cast(SqlType::Text, SqlType::Bytea, text("\\x00ff")).unwrap();
        assert_eq!(bytes, Datum::Bytes(vec![0, 255]));
        let shown = cast(SqlType::Bool, SqlType::Text, Datum::Bool(true)).unwrap();
        assert_eq!(shown, text("true"));
        let error = cast(SqlType::Text, SqlType::Date, text("2024-02-30")).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate::DATETIME_FIELD_OVERFLOW);
    }

    #[test]
    fn types_of_other_kinds_are_not_cast() {
        let error = check_castable(SqlType::Int4, SqlType::Date).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate::CANNOT_COERCE);
        check_castable(SqlType::Int4, SqlType::Bool).unwrap();
        let error = check_assignable(SqlType::Bool, SqlType::Int4, false).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate::DATATYPE_MISMATCH);
        check_assignable(SqlType::Float8, SqlType::Int4, false).unwrap();
    }
}
