//! Expressions of plans as expressions of row programs.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr::{BinaryExpr, InList, Placeholder};
use datafusion::logical_expr::{Between, Cast, Expr, ExprSchemable, Operator};

use super::arrow_values::{arrow_type, datum_of, field_type};
use super::checked::checked_operator;
use super::errors::sql_error;
use super::expression_parts::{NOW, needs_rows};
use super::foreign::ForeignScalar;
use super::paths::Condition;
use crate::error::{SqlError, SqlResult};
use crate::program::{ArithmeticOperator, CompareOperator, Scalar};
use crate::types::{SqlType, TimeZone, from_text};

/// The columns that expressions may name.
pub(super) struct Columns {
    schema: DFSchema,
    types: Vec<SqlType>,
}

impl Columns {
    /// The columns of a table.
    ///
    /// # Errors
    /// 42701 if two have one name.
    pub(super) fn of_schema(schema: &Schema) -> SqlResult<Self> {
        Ok(Self {
            types: schema
                .fields()
                .iter()
                .map(|field| field_type(field))
                .collect(),
            schema: DFSchema::try_from(schema.clone()).map_err(sql_error)?,
        })
    }

    /// The number and the type of a column.
    pub(super) fn column(&self, name: &str) -> Option<(usize, SqlType)> {
        let at = self.schema.index_of_column_by_name(None, name)?;
        Some((at, self.types[at]))
    }

    /// The expression over the columns of a row.
    ///
    /// # Errors
    /// 0A000 for what needs more than one row: subqueries, aggregates.
    pub(super) fn scalar(&self, expr: &Expr) -> SqlResult<Scalar> {
        let expr = without_qualifiers(expr)?;
        self.convert(&expr)
    }

    /// The type of an expression in SQL.
    ///
    /// # Errors
    /// Those of the planner.
    pub(super) fn sql_type(&self, expr: &Expr) -> SqlResult<SqlType> {
        let expr = without_qualifiers(expr)?;
        self.type_of(&expr)
    }

    fn type_of(&self, expr: &Expr) -> SqlResult<SqlType> {
        let (_, field) = expr.to_field(&self.schema).map_err(sql_error)?;
        Ok(field_type(&field))
    }

    fn arrow_type_of(&self, expr: &Expr) -> SqlResult<DataType> {
        expr.get_type(&self.schema).map_err(sql_error)
    }

    fn convert(&self, expr: &Expr) -> SqlResult<Scalar> {
        Ok(match expr {
            Expr::Alias(alias) => self.convert(&alias.expr)?,
            Expr::Column(column) => {
                let found = self.column(&column.name);
                let (at, _) = found.ok_or_else(|| {
                    SqlError::new(
                        crate::sqlstate::UNDEFINED_COLUMN,
                        format!("column \"{}\" does not exist", column.name),
                    )
                })?;
                Scalar::Column(at)
            }
            Expr::Placeholder(placeholder) => parameter(placeholder)?,
            Expr::Literal(value, _) => {
                // A folded cast remembers its type: a uuid is a text in Arrow.
                Scalar::Constant(datum_of(value, self.type_of(expr)?)?)
            }
            Expr::BinaryExpr(binary) => match self.binary(binary)? {
                Some(scalar) => scalar,
                None => self.foreign(expr)?,
            },
            Expr::ScalarFunction(function) => {
                let operator = checked_operator(&function.func);
                match (operator, function.args.as_slice()) {
                    (Some(operator), [left, right]) => Scalar::Arithmetic {
                        operator,
                        of: self.type_of(expr)?,
                        operands: Box::new((self.convert(left)?, self.convert(right)?)),
                    },
                    _ => self.foreign(expr)?,
                }
            }
            Expr::Negative(input) if self.type_of(input)?.is_integer() => Scalar::Arithmetic {
                operator: ArithmeticOperator::Subtract,
                of: self.type_of(input)?,
                operands: Box::new((
                    Scalar::Constant(namiki_data::columns::Datum::I64(0)),
                    self.convert(input)?,
                )),
            },
            Expr::Not(input) => Scalar::Not(Box::new(self.convert(input)?)),
            Expr::IsNull(input) => Scalar::IsNull(Box::new(self.convert(input)?), true),
            Expr::IsNotNull(input) => Scalar::IsNull(Box::new(self.convert(input)?), false),
            Expr::Cast(cast) => match self.cast(cast)? {
                Some(scalar) => scalar,
                None => self.foreign(expr)?,
            },
            Expr::Between(between) => match self.between(between)? {
                Some(scalar) => scalar,
                None => self.foreign(expr)?,
            },
            Expr::InList(list) => match self.in_list(list)? {
                Some(scalar) => scalar,
                None => self.foreign(expr)?,
            },
            _ => self.foreign(expr)?,
        })
    }

    fn foreign(&self, expr: &Expr) -> SqlResult<Scalar> {
        let of = self.type_of(expr)?;
        let scalar = ForeignScalar::new(expr, of, |name| self.column(name))?;
        Ok(Scalar::Foreign(Arc::new(scalar)))
    }

    /// Whether both expressions have one type, and its values are compared here as DataFusion compares them.
    fn are_comparable(&self, left: &Expr, right: &Expr) -> SqlResult<bool> {
        let (left_type, right_type) = (self.arrow_type_of(left)?, self.arrow_type_of(right)?);
        if left_type != right_type {
            return Ok(false);
        }
        let (left, right) = (self.type_of(left)?, self.type_of(right)?);
        let plain = |of: SqlType| {
            arrow_type(of) == left_type && !matches!(of, SqlType::Uuid | SqlType::Interval)
        };
        // A uuid is a text to DataFusion, and bytes here.
        let are_uuids = left == SqlType::Uuid && right == SqlType::Uuid;
        Ok(are_uuids || plain(left) && plain(right))
    }

    fn compare(
        &self,
        operator: CompareOperator,
        left: &Expr,
        right: &Expr,
    ) -> SqlResult<Option<Scalar>> {
        if !self.are_comparable(left, right)? {
            return Ok(None);
        }
        Ok(Some(Scalar::Compare {
            operator,
            operands: Box::new((self.convert(left)?, self.convert(right)?)),
        }))
    }

    fn binary(&self, binary: &BinaryExpr) -> SqlResult<Option<Scalar>> {
        let (left, right) = (&*binary.left, &*binary.right);
        if let Some(operator) = compare_operator(binary.op) {
            return self.compare(operator, left, right);
        }
        let arithmetic = match binary.op {
            Operator::And => {
                return Ok(Some(Scalar::And(vec![
                    self.convert(left)?,
                    self.convert(right)?,
                ])));
            }
            Operator::Or => {
                return Ok(Some(Scalar::Or(vec![
                    self.convert(left)?,
                    self.convert(right)?,
                ])));
            }
            Operator::Plus => ArithmeticOperator::Add,
            Operator::Minus => ArithmeticOperator::Subtract,
            Operator::Multiply => ArithmeticOperator::Multiply,
            Operator::Divide => ArithmeticOperator::Divide,
            Operator::Modulo => ArithmeticOperator::Modulo,
            _ => return Ok(None),
        };
        let (left_type, right_type) = (self.arrow_type_of(left)?, self.arrow_type_of(right)?);
        let of = self.type_of(&Expr::BinaryExpr(binary.clone()))?;
        let divides = matches!(
            arithmetic,
            ArithmeticOperator::Divide | ArithmeticOperator::Modulo
        );
        let known = match (&left_type, &right_type) {
            (DataType::Decimal128(..), DataType::Decimal128(..)) => !divides,
            _ => {
                let number = of.is_integer() || of == SqlType::Float8;
                number && left_type == right_type && arrow_type(of) == left_type
            }
        };
        if !known {
            return Ok(None);
        }
        Ok(Some(Scalar::Arithmetic {
            operator: arithmetic,
            of,
            operands: Box::new((self.convert(left)?, self.convert(right)?)),
        }))
    }

    fn cast(&self, cast: &Cast) -> SqlResult<Option<Scalar>> {
        let (from, to) = (self.type_of(&cast.expr)?, field_type(&cast.field));
        let is_number = |of: SqlType| {
            of.is_integer() || matches!(of, SqlType::Numeric { .. } | SqlType::Float8)
        };
        // Numbers of a table and those of literals alike: a uuid is none.
        if is_number(from) && is_number(to) && arrow_type(from) == self.arrow_type_of(&cast.expr)? {
            let to_number = !matches!((from, to), (SqlType::Float8, SqlType::Numeric { .. }));
            if to_number {
                return Ok(Some(Scalar::Cast {
                    to,
                    input: Box::new(self.convert(&cast.expr)?),
                }));
            }
        }
        // The clocks of universal time show it, as Arrow's cast has it.
        let loses_zone = from == SqlType::Timestamptz && to == SqlType::Timestamp;
        if loses_zone && arrow_type(from) == self.arrow_type_of(&cast.expr)? {
            return self.convert(&cast.expr).map(Some);
        }
        let is_plain_text =
            |of: SqlType| matches!(of, SqlType::Text | SqlType::Varchar { .. } | SqlType::Name);
        if is_plain_text(from)
            && is_plain_text(to)
            && self.arrow_type_of(&cast.expr)? == DataType::Utf8
        {
            return self.convert(&cast.expr).map(Some);
        }
        Ok(None)
    }

    fn between(&self, between: &Between) -> SqlResult<Option<Scalar>> {
        let low = self.compare(CompareOperator::GreaterOrEqual, &between.expr, &between.low)?;
        let high = self.compare(CompareOperator::LessOrEqual, &between.expr, &between.high)?;
        let (Some(low), Some(high)) = (low, high) else {
            return Ok(None);
        };
        let both = Scalar::And(vec![low, high]);
        Ok(Some(if between.negated {
            Scalar::Not(Box::new(both))
        } else {
            both
        }))
    }

    fn in_list(&self, list: &InList) -> SqlResult<Option<Scalar>> {
        let mut any = Vec::with_capacity(list.list.len());
        for item in &list.list {
            match self.compare(CompareOperator::Equal, &list.expr, item)? {
                Some(scalar) => any.push(scalar),
                None => return Ok(None),
            }
        }
        let any = Scalar::Or(any);
        Ok(Some(if list.negated {
            Scalar::Not(Box::new(any))
        } else {
            any
        }))
    }

    /// The conditions on single columns that follow from a filter; `None` if it is no expression of one row.
    pub(super) fn conditions(&self, filter: &Expr) -> Option<Vec<Condition>> {
        let filter = without_qualifiers(filter).ok()?;
        if needs_rows(&filter) {
            return None;
        }
        let mut found = Vec::new();
        self.collect_conditions(&filter, &mut found);
        Some(found)
    }

    fn collect_conditions(&self, filter: &Expr, into: &mut Vec<Condition>) {
        match filter {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::And,
                right,
            }) => {
                self.collect_conditions(left, into);
                self.collect_conditions(right, into);
            }
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::Or, ..
            }) => into.extend(self.one_of(filter)),
            Expr::InList(list) if !list.negated => {
                let of = |item| self.column_condition(&list.expr, CompareOperator::Equal, item);
                into.extend(joined(list.list.iter().map(of)));
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let Some(operator) = compare_operator(*op) else {
                    return;
                };
                if let Some(condition) = self.column_condition(left, operator, right) {
                    into.push(condition);
                } else if let Some(condition) =
                    self.column_condition(right, operator.exchanged(), left)
                {
                    into.push(condition);
                }
            }
            Expr::Between(between) if !between.negated => {
                for (operator, bound) in [
                    (CompareOperator::GreaterOrEqual, &between.low),
                    (CompareOperator::LessOrEqual, &between.high),
                ] {
                    into.extend(self.column_condition(&between.expr, operator, bound));
                }
            }
            _ => {}
        }
    }

    /// `column = value OR column = value …`, as DataFusion writes a short list.
    fn one_of(&self, filter: &Expr) -> Option<Condition> {
        let (mut rest, mut parts) = (vec![filter], Vec::new());
        while let Some(part) = rest.pop() {
            match part {
                Expr::BinaryExpr(BinaryExpr {
                    left,
                    op: Operator::Or,
                    right,
                }) => rest.extend([&**right, &**left]),
                part => {
                    let mut found = Vec::new();
                    let is_plain = !matches!(
                        part,
                        Expr::BinaryExpr(BinaryExpr {
                            op: Operator::And,
                            ..
                        })
                    );
                    if is_plain {
                        self.collect_conditions(part, &mut found);
                    }
                    let only = found.pop().filter(|_| found.is_empty());
                    parts.push(only.filter(|it| it.operator == CompareOperator::Equal));
                }
            }
        }
        joined(parts.into_iter())
    }

    /// `column operator value`, where the value is the same for all rows.
    fn column_condition(
        &self,
        column: &Expr,
        operator: CompareOperator,
        value: &Expr,
    ) -> Option<Condition> {
        let is_constant = !value.any_column_refs() && !value.is_volatile();
        if operator == CompareOperator::NotEqual || !is_constant {
            return None;
        }
        let name = self.plain_column(column)?;
        let (at, of) = self.column(&name)?;
        let literal = match value {
            Expr::Literal(literal, _) if of == SqlType::Uuid => {
                let text = literal.try_as_str()??;
                Some(from_text(SqlType::Uuid, text, TimeZone::Utc).ok()?)
            }
            _ => None,
        };
        let value = match literal {
            Some(value) => Scalar::Constant(value),
            // Both sides have the type of the comparison.
            None if self.arrow_type_of(column).ok()? == self.arrow_type_of(value).ok()? => {
                let of_value = self.type_of(value).ok()?;
                if (of == SqlType::Uuid) != (of_value == SqlType::Uuid) {
                    return None;
                }
                self.convert(value).ok()?
            }
            None => return None,
        };
        Some(Condition {
            column: at,
            operator,
            values: vec![value],
        })
    }

    /// The name of a column, also of a whole number that is widened: all of them are stored in one way.
    fn plain_column(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Column(column) => Some(column.name.clone()),
            Expr::Cast(cast) if field_type(&cast.field) == SqlType::Int8 => {
                let name = self.plain_column(&cast.expr)?;
                self.column(&name)?.1.is_integer().then_some(name)
            }
            _ => None,
        }
    }
}

/// One condition that a column equals one of several values, if all of these are such conditions on one column.
fn joined(mut parts: impl Iterator<Item = Option<Condition>>) -> Option<Condition> {
    let mut all = parts.next()??;
    for part in parts {
        let part = part.filter(|it| it.column == all.column)?;
        all.values.extend(part.values);
    }
    Some(all)
}

/// A parameter, or the transaction's time.
fn parameter(placeholder: &Placeholder) -> SqlResult<Scalar> {
    if placeholder.id == NOW {
        return Ok(Scalar::Now);
    }
    let number = placeholder
        .id
        .strip_prefix('$')
        .and_then(|it| it.parse::<usize>().ok());
    match number.and_then(|it| it.checked_sub(1)) {
        Some(at) => Ok(Scalar::Parameter(at)),
        None => Err(SqlError::new(
            crate::sqlstate::UNDEFINED_PARAMETER,
            format!("there is no parameter {}", placeholder.id),
        )),
    }
}

/// The expression with columns by their names alone.
fn without_qualifiers(expr: &Expr) -> SqlResult<Expr> {
    let stripped = expr.clone().transform(|expr| match expr {
        Expr::Column(column) if column.relation.is_some() => Ok(Transformed::yes(Expr::Column(
            Column::new_unqualified(column.name),
        ))),
        other => Ok(Transformed::no(other)),
    });
    stripped.map(|it| it.data).map_err(sql_error)
}

fn compare_operator(operator: Operator) -> Option<CompareOperator> {
    Some(match operator {
        Operator::Eq => CompareOperator::Equal,
        Operator::NotEq => CompareOperator::NotEqual,
        Operator::Lt => CompareOperator::Less,
        Operator::LtEq => CompareOperator::LessOrEqual,
        Operator::Gt => CompareOperator::Greater,
        Operator::GtEq => CompareOperator::GreaterOrEqual,
        _ => return None,
    })
}
