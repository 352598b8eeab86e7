//! Whole numbers with the type that PostgreSQL gives them.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, UnaryOperator, Value};

/// A whole number that fits into four bytes is an `integer`, which decides on where sums overflow. To DataFusion all whole
/// numbers have eight bytes.
pub(super) fn type_number(expr: &mut Expr) {
    let digits = match &*expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => Some(digits.clone()),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: inner,
        } => match &**inner {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, false) => Some(format!("-{digits}")),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    if digits.is_some_and(|digits| digits.parse::<i32>().is_ok()) {
        let number = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        // Written so, it is known as no cast of the statement's (`output_columns.rs`).
        *expr = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(number),
            data_type: DataType::Int4(None),
            array: false,
            format: None,
        };
    }
}
