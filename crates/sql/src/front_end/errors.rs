//! DataFusion's errors as errors of SQL.

use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;

use crate::error::SqlError;
use crate::sqlstate;

/// The error of a statement that DataFusion refused or failed to run.
pub(super) fn sql_error(error: DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<SqlError>() {
            Ok(own) => *own,
            Err(other) => SqlError::new(sqlstate::INTERNAL_ERROR, other.to_string()),
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            sql_error(*inner)
        }
        DataFusionError::Shared(inner) => match Arc::try_unwrap(inner) {
            Ok(inner) => sql_error(inner),
            Err(shared) => shared_error(&shared),
        },
        DataFusionError::ArrowError(inner, _) => arrow_error(*inner),
        DataFusionError::SQL(inner, _) => parser_error(&inner),
        DataFusionError::SchemaError(inner, _) => schema_error(&inner),
        DataFusionError::NotImplemented(message) => {
            SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, first_line(&message))
        }
        DataFusionError::ResourcesExhausted(message) => {
            SqlError::new(sqlstate::OUT_OF_MEMORY, first_line(&message))
        }
        DataFusionError::Plan(message) => SqlError::new(plan_state(&message), first_line(&message)),
        DataFusionError::Execution(message) => {
            SqlError::new(execution_state(&message), first_line(&message))
        }
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => sql_error(first),
            None => SqlError::new(sqlstate::INTERNAL_ERROR, "several errors"),
        },
        other => {
            let message = other.strip_backtrace();
            SqlError::new(execution_state(&message), first_line(&message))
        }
    }
}

/// An error of ours on its way through DataFusion.
pub(super) fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error within a shared one, as far as a reference tells it.
fn shared_error(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(inner) => match inner.downcast_ref::<SqlError>() {
            Some(own) => own.clone(),
            None => SqlError::new(sqlstate::INTERNAL_ERROR, inner.to_string()),
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            shared_error(inner)
        }
        DataFusionError::Shared(inner) => shared_error(inner),
        other => {
            let message = other.strip_backtrace();
            SqlError::new(execution_state(&message), first_line(&message))
        }
    }
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim().to_owned()
}

fn arrow_error(error: ArrowError) -> SqlError {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<SqlError>() {
            Ok(own) => *own,
            Err(other) => SqlError::new(sqlstate::INTERNAL_ERROR, other.to_string()),
        },
        ArrowError::DivideByZero => SqlError::new(sqlstate::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => {
            SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message)
        }
        other => {
            let message = other.to_string();
            SqlError::new(execution_state(&message), first_line(&message))
        }
    }
}

/// The state of a plan that could not be made, by what its message says.
fn plan_state(message: &str) -> &'static str {
    let has = |part: &str| message.contains(part);
    let states: [(&[&str], &'static str); 13] = [
        (
            &[
                "Invalid function",
                "No function matches",
                "Failed to coerce arguments",
                "Cannot coerce arithmetic",
                "only supports signed numeric",
                "common type to coerce",
                "compatible types to compare",
                "Cannot infer common argument type for comparison",
            ],
            sqlstate::UNDEFINED_FUNCTION,
        ),
        (
            &["No field named", "not found in"],
            sqlstate::UNDEFINED_COLUMN,
        ),
        (
            &[
                "must appear in the GROUP BY",
                "must be in the GROUP BY",
                "Aggregate functions are not allowed in",
                "Aggregate function calls cannot be nested",
            ],
            sqlstate::GROUPING_ERROR,
        ),
        (
            &["Window functions are not allowed"],
            sqlstate::WINDOWING_ERROR,
        ),
        (
            &[
                "Order by column out of bounds",
                "must appear in select list",
            ],
            sqlstate::INVALID_COLUMN_REFERENCE,
        ),
        (&["LIMIT must be >="], sqlstate::INVALID_ROW_COUNT_IN_LIMIT),
        (
            &["OFFSET must be >="],
            sqlstate::INVALID_ROW_COUNT_IN_OFFSET,
        ),
        (
            &["Expected LIMIT to be"],
            sqlstate::INVALID_TEXT_REPRESENTATION,
        ),
        (&["specified more than once"], sqlstate::DUPLICATE_ALIAS),
        (&["Step cannot be zero"], sqlstate::INVALID_PARAMETER_VALUE),
        (&["mbiguous"], sqlstate::AMBIGUOUS_COLUMN),
        (
            &["Correlated scalar subquery"],
            sqlstate::FEATURE_NOT_SUPPORTED,
        ),
        (
            &[
                "Cannot infer common",
                "Cannot coerce",
                "not valid",
                "Conflicting types",
                "requires a boolean",
                "non-boolean",
                "must be boolean",
                "Incompatible inputs for Union",
            ],
            sqlstate::DATATYPE_MISMATCH,
        ),
    ];
    let found = states
        .into_iter()
        .find(|(parts, _)| parts.iter().any(|part| has(part)));
    found.map_or(sqlstate::SYNTAX_ERROR, |(_, state)| state)
}

/// The state of a failed run, by what its message says.
fn execution_state(message: &str) -> &'static str {
    let has = |part: &str| message.contains(part);
    if has("ivide by zero") || has("ivision by zero") {
        sqlstate::DIVISION_BY_ZERO
    } else if has("verflow")
        || has("out of range")
        || has("too large to store")
        || has("too small to store")
        || has("Can't cast value")
    {
        sqlstate::NUMERIC_VALUE_OUT_OF_RANGE
    } else if has("Error parsing timestamp") || has("Error parsing date") || has("Parser error") {
        sqlstate::INVALID_DATETIME_FORMAT
    } else if has("Cannot cast string") || has("Cast error") || has("Error parsing") {
        sqlstate::INVALID_TEXT_REPRESENTATION
    } else if has("Cannot run range queries") {
        sqlstate::FEATURE_NOT_SUPPORTED
    } else if has("negative count") {
        sqlstate::SUBSTRING_ERROR
    } else if has("square root of a negative") {
        sqlstate::INVALID_ARGUMENT_FOR_POWER
    } else if has("more than one row") || has("returned more than") {
        sqlstate::CARDINALITY_VIOLATION
    } else {
        sqlstate::INTERNAL_ERROR
    }
}

/// The error of a text that is no statement.
pub(super) fn parser_error(error: &ParserError) -> SqlError {
    match error {
        ParserError::RecursionLimitExceeded => SqlError::new(
            sqlstate::STATEMENT_TOO_COMPLEX,
            "the statement is nested too deeply",
        ),
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            SqlError::syntax(format!("syntax error: {message}"))
        }
    }
}

fn schema_error(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => {
            let is_of = |table: &str| {
                let mut tables = valid_fields.iter().filter_map(|it| it.relation.as_ref());
                tables.any(|it| it.table() == table)
            };
            if let Some(table) = field.relation.as_ref().map(|it| it.table())
                && !is_of(table)
            {
                return SqlError::new(
                    sqlstate::UNDEFINED_TABLE,
                    format!("missing FROM-clause entry for table \"{table}\""),
                );
            }
            let name = match &field.relation {
                Some(relation) => format!("{}.{}", relation.table(), field.name),
                None => format!("\"{}\"", field.name),
            };
            SqlError::new(
                sqlstate::UNDEFINED_COLUMN,
                format!("column {name} does not exist"),
            )
        }
        SchemaError::AmbiguousReference { field } => SqlError::new(
            sqlstate::AMBIGUOUS_COLUMN,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => SqlError::new(
            sqlstate::DUPLICATE_COLUMN,
            format!("column \"{name}\" is there twice; give one of them another name"),
        ),
    }
}
