//! Expressions with numbers for columns, and types that fit.

use super::column::{ColumnId, ColumnInfo, Field, resolve};
use crate::data::{Arithmetic, ColumnType, Datum};
use crate::error::{PlanError, TypeName};
use crate::plan::{Comparison, Expr};

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
    In(Box<Scalar>, Vec<Datum>),
    StartsWith(Box<Scalar>, String),
    Contains(Box<Scalar>, String),
    Calculate {
        op: Arithmetic,
        left: Box<Scalar>,
        right: Box<Scalar>,
        /// For the message when it does not fit.
        text: Box<str>,
    },
    /// The same number as another type; none where that would change it.
    Cast(Box<Scalar>, ColumnType),
}

/// A bound expression and what it gives.
pub(crate) struct Typed {
    pub(crate) scalar: Scalar,
    /// None of `null` itself.
    pub(crate) column_type: Option<ColumnType>,
    pub(crate) nullable: bool,
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
    fn bind(&self, expr: &Expr) -> Result<Typed, PlanError> {
        let of_bool = |scalar, nullable| Typed {
            scalar,
            column_type: Some(ColumnType::Bool),
            nullable,
        };
        Ok(match expr {
            Expr::Column(name) => {
                let id = resolve(name, self.fields)?;
                let info = self.columns[id];
                Typed {
                    scalar: Scalar::Column(id),
                    column_type: Some(info.column_type),
                    nullable: info.nullable,
                }
            }
            Expr::Literal(value) => Typed {
                scalar: Scalar::Literal(value.clone()),
                column_type: value.column_type(),
                nullable: *value == Datum::Null,
            },
            Expr::Compare(comparison, left, right) => {
                let (left, right) = self.comparable(expr, left, right)?;
                let nullable = left.nullable || right.nullable;
                let (left, right) = (Box::new(left.scalar), Box::new(right.scalar));
                of_bool(Scalar::Compare(*comparison, left, right), nullable)
            }
            Expr::And(parts) => {
                let (parts, nullable) = self.bools(parts)?;
                of_bool(Scalar::And(parts), nullable)
            }
            Expr::Or(parts) => {
                let (parts, nullable) = self.bools(parts)?;
                of_bool(Scalar::Or(parts), nullable)
            }
            Expr::Not(inner) => {
                let inner = self.bool(inner)?;
                of_bool(Scalar::Not(Box::new(inner.scalar)), inner.nullable)
            }
            Expr::IsNull(inner) => {
                let inner = self.bind(inner)?;
                of_bool(Scalar::IsNull(Box::new(inner.scalar)), false)
            }
            Expr::In(inner, list) => {
                let own = self.bind(inner)?;
                let mut nullable = own.nullable;
                for value in list {
                    nullable |= *value == Datum::Null;
                    check_comparable(expr, own.column_type, value.column_type())?;
                }
                of_bool(Scalar::In(Box::new(own.scalar), list.clone()), nullable)
            }
            Expr::StartsWith(inner, part) => {
                let inner = self.text(inner)?;
                let scalar = Scalar::StartsWith(Box::new(inner.scalar), part.clone());
                of_bool(scalar, inner.nullable)
            }
            Expr::Contains(inner, part) => {
                let inner = self.text(inner)?;
                let scalar = Scalar::Contains(Box::new(inner.scalar), part.clone());
                of_bool(scalar, inner.nullable)
            }
            Expr::Calculate(op, left, right) => {
                let (left, right) = (self.bind(left)?, self.bind(right)?);
                let wrong = || PlanError::WrongTypes {
                    expression: expr.to_string(),
                    left: TypeName(left.column_type),
                    right: TypeName(right.column_type),
                };
                let (Some(a), Some(b)) = (left.column_type, right.column_type) else {
                    return Err(wrong());
                };
                let result = op.result_type(a, b).ok_or_else(wrong)?;
                Typed {
                    scalar: Scalar::Calculate {
                        op: *op,
                        left: Box::new(left.scalar),
                        right: Box::new(right.scalar),
                        text: expr.to_string().into(),
                    },
                    column_type: Some(result),
                    nullable: left.nullable || right.nullable,
                }
            }
        })
    }

    fn comparable(
        &self,
        expr: &Expr,
        left: &Expr,
        right: &Expr,
    ) -> Result<(Typed, Typed), PlanError> {
        let (left, right) = (self.bind(left)?, self.bind(right)?);
        check_comparable(expr, left.column_type, right.column_type)?;
        Ok((left, right))
    }

    fn bools(&self, parts: &[Expr]) -> Result<(Vec<Scalar>, bool), PlanError> {
        let mut nullable = false;
        let mut scalars = Vec::with_capacity(parts.len());
        for part in parts {
            let typed = self.bool(part)?;
            nullable |= typed.nullable;
            scalars.push(typed.scalar);
        }
        Ok((scalars, nullable))
    }

    fn bool(&self, expr: &Expr) -> Result<Typed, PlanError> {
        self.of_type(expr, ColumnType::Bool, "true or false")
    }

    fn text(&self, expr: &Expr) -> Result<Typed, PlanError> {
        self.of_type(expr, ColumnType::Text, "text")
    }

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
            Self::Compare(_, left, right) | Self::Calculate { left, right, .. } => {
                left.columns(into);
                right.columns(into);
            }
            Self::And(parts) | Self::Or(parts) => {
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
