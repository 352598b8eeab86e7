//! Expressions with numbers for columns, and types that fit.

use std::collections::VecDeque;

use namiki_data::columns::{Arithmetic, ColumnType, Datum};

use super::column::{ColumnId, ColumnInfo, Field, resolve};
use crate::error::{PlanError, TypeName};
use crate::plan::{Comparison, Expr, ExprNode, ValueList};

/// A bound expression.
#[derive(Clone, Debug)]
pub(crate) enum Scalar {
    Column(ColumnId),
    Literal(Datum),
    Compare(Comparison, Box<Scalar>, Box<Scalar>),
    And(Vec<Scalar>),
    Or(Vec<Scalar>),
    Not(Box<Scalar>),
    IsNull(Box<Scalar>),
    In(Box<Scalar>, ValueList),
    StartsWith(Box<Scalar>, String),
    Contains(Box<Scalar>, String),
    /// From the first to the last.
    Calculate {
        op: Arithmetic,
        parts: Vec<Scalar>,
        /// The text of the expression, for the message of an overflow.
        text: Box<str>,
    },
    /// The same number as another type; missing if that would change it.
    Cast(Box<Scalar>, ColumnType),
}

/// A bound expression and what it gives.
pub(crate) struct Typed {
    pub(crate) scalar: Scalar,
    /// `None` for `null` itself.
    pub(crate) column_type: Option<ColumnType>,
    pub(crate) nullable: bool,
}

impl Typed {
    fn bool(scalar: Scalar, nullable: bool) -> Self {
        Self {
            scalar,
            column_type: Some(ColumnType::Bool),
            nullable,
        }
    }
}

/// Binds an expression over these columns.
pub(crate) fn bind(
    expr: &Expr,
    fields: &[Field],
    columns: &[ColumnInfo],
) -> Result<Typed, PlanError> {
    Scope { fields, columns }.bind(expr)
}

/// Binds what must be true or false.
pub(crate) fn bind_condition(
    expr: &Expr,
    fields: &[Field],
    columns: &[ColumnInfo],
) -> Result<Scalar, PlanError> {
    Scope { fields, columns }
        .bool(expr)
        .map(|typed| typed.scalar)
}

struct Scope<'s> {
    fields: &'s [Field],
    columns: &'s [ColumnInfo],
}

impl Scope<'_> {
    /// Each kind has its own function, because the stack frame of this one exists once for each
    /// level.
    fn bind(&self, expr: &Expr) -> Result<Typed, PlanError> {
        match expr.node() {
            ExprNode::Column(name) => self.column(name),
            ExprNode::Literal(value) => Ok(Typed {
                scalar: Scalar::Literal(value.clone()),
                column_type: value.column_type(),
                nullable: *value == Datum::Null,
            }),
            ExprNode::Compare(comparison, left, right) => {
                self.comparison(expr, *comparison, left, right)
            }
            ExprNode::And(parts) => self.chain(parts, Scalar::And),
            ExprNode::Or(parts) => self.chain(parts, Scalar::Or),
            ExprNode::Not(inner) => {
                self.above(self.bool(inner), |inner| Scalar::Not(Box::new(inner)))
            }
            ExprNode::IsNull(inner) => self.is_null(inner),
            ExprNode::In(inner, list) => self.is_in(expr, inner, list),
            ExprNode::StartsWith(inner, part) => self.above(self.text(inner), |inner| {
                Scalar::StartsWith(Box::new(inner), part.clone())
            }),
            ExprNode::Contains(inner, part) => self.above(self.text(inner), |inner| {
                Scalar::Contains(Box::new(inner), part.clone())
            }),
            ExprNode::Calculate(op, parts) => self.calculation(expr, *op, parts),
        }
    }

    fn column(&self, name: &str) -> Result<Typed, PlanError> {
        let id = resolve(name, self.fields)?;
        let info = self.columns[id];
        Ok(Typed {
            scalar: Scalar::Column(id),
            column_type: Some(info.column_type),
            nullable: info.nullable,
        })
    }

    #[inline(never)]
    fn comparison(
        &self,
        expr: &Expr,
        comparison: Comparison,
        left: &Expr,
        right: &Expr,
    ) -> Result<Typed, PlanError> {
        let (left, right) = (self.bind(left)?, self.bind(right)?);
        check_comparable(expr, left.column_type, right.column_type)?;
        let nullable = left.nullable || right.nullable;
        let (left, right) = (Box::new(left.scalar), Box::new(right.scalar));
        Ok(Typed::bool(
            Scalar::Compare(comparison, left, right),
            nullable,
        ))
    }

    #[inline(never)]
    fn chain(
        &self,
        parts: &VecDeque<Expr>,
        of: fn(Vec<Scalar>) -> Scalar,
    ) -> Result<Typed, PlanError> {
        let mut nullable = false;
        let mut scalars = Vec::with_capacity(parts.len());
        for part in parts {
            let typed = self.bool(part)?;
            nullable |= typed.nullable;
            scalars.push(typed.scalar);
        }
        Ok(Typed::bool(of(scalars), nullable))
    }

    /// A test of an operand; missing if the operand is.
    fn above(
        &self,
        inner: Result<Typed, PlanError>,
        of: impl FnOnce(Scalar) -> Scalar,
    ) -> Result<Typed, PlanError> {
        inner.map(|inner| Typed::bool(of(inner.scalar), inner.nullable))
    }

    #[inline(never)]
    fn is_null(&self, inner: &Expr) -> Result<Typed, PlanError> {
        let inner = self.bind(inner)?;
        Ok(Typed::bool(Scalar::IsNull(Box::new(inner.scalar)), false))
    }

    #[inline(never)]
    fn is_in(&self, expr: &Expr, inner: &Expr, list: &ValueList) -> Result<Typed, PlanError> {
        let own = self.bind(inner)?;
        let mut nullable = own.nullable;
        for value in list.written() {
            nullable |= *value == Datum::Null;
            check_comparable(expr, own.column_type, value.column_type())?;
        }
        let scalar = Scalar::In(Box::new(own.scalar), list.clone());
        Ok(Typed::bool(scalar, nullable))
    }

    #[inline(never)]
    fn calculation(&self, expr: &Expr, op: Arithmetic, parts: &[Expr]) -> Result<Typed, PlanError> {
        let mut scalars = Vec::with_capacity(parts.len());
        let mut result: Option<ColumnType> = None;
        let mut nullable = false;
        for (at, part) in parts.iter().enumerate() {
            let right = self.bind(part)?;
            let left = result;
            result = match (left, right.column_type) {
                (_, first) if at == 0 => first,
                (Some(a), Some(b)) => op.result_type(a, b),
                _ => None,
            };
            if at > 0 && result.is_none() {
                return Err(PlanError::WrongTypes {
                    expression: expr.to_string(),
                    left: TypeName(left),
                    right: TypeName(right.column_type),
                });
            }
            nullable |= right.nullable;
            scalars.push(right.scalar);
        }
        Ok(Typed {
            scalar: Scalar::Calculate {
                op,
                parts: scalars,
                text: expr.to_string().into(),
            },
            column_type: result,
            nullable,
        })
    }

    fn bool(&self, expr: &Expr) -> Result<Typed, PlanError> {
        self.of_type(expr, ColumnType::Bool, "true or false")
    }

    fn text(&self, expr: &Expr) -> Result<Typed, PlanError> {
        self.of_type(expr, ColumnType::Text, "text")
    }

    #[inline(never)]
    fn of_type(
        &self,
        expr: &Expr,
        column_type: ColumnType,
        expected: &'static str,
    ) -> Result<Typed, PlanError> {
        let typed = self.bind(expr)?;
        if typed.column_type.is_none_or(|own| own == column_type) {
            return Ok(typed);
        }
        Err(PlanError::WrongType {
            expression: expr.to_string(),
            found: TypeName(typed.column_type),
            expected,
        })
    }
}

fn check_comparable(
    expr: &Expr,
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Result<(), PlanError> {
    match (left, right) {
        (Some(a), Some(b)) if !a.compares_with(b) => Err(PlanError::WrongTypes {
            expression: expr.to_string(),
            left: TypeName(left),
            right: TypeName(right),
        }),
        _ => Ok(()),
    }
}

impl Scalar {
    /// Adds the columns that it reads.
    pub(crate) fn columns(&self, into: &mut Vec<ColumnId>) {
        match self {
            Self::Column(id) => into.push(*id),
            Self::Literal(_) => {}
            Self::Compare(_, left, right) => {
                left.columns(into);
                right.columns(into);
            }
            Self::And(parts) | Self::Or(parts) | Self::Calculate { parts, .. } => {
                parts.iter().for_each(|part| part.columns(into));
            }
            Self::Not(inner)
            | Self::IsNull(inner)
            | Self::In(inner, _)
            | Self::StartsWith(inner, _)
            | Self::Contains(inner, _)
            | Self::Cast(inner, _) => inner.columns(into),
        }
    }
}
