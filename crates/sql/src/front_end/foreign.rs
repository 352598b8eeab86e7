//! Expressions that DataFusion evaluates for a row program: functions, patterns, CASE, and what is not written here.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result as PlanResult};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, Expr};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::scalar::ScalarValue;
use namiki_data::columns::Datum;

use super::arrow_values::{datum_at, field, field_type, scalar_value};
use super::batch_builder::BatchBuilder;
use super::errors::{external, sql_error};
use super::expression_parts::{NOW, SESSION, needs_rows, parameters_of};
use crate::error::{SqlError, SqlResult};
use crate::program::{Environment, Evaluate, RowValues};
use crate::types::SqlType;

/// An expression of DataFusion's, evaluated on batches of one row: its columns, its parameters, the time and the session.
pub(super) struct ForeignScalar {
    shown: String,
    physical: Arc<dyn PhysicalExpr>,
    inputs: Vec<Input>,
    schema: SchemaRef,
    of: SqlType,
    is_volatile: bool,
    /// The expression with its parameters, if a function takes one only as a constant: it is made anew for each row.
    with_constants: Option<Expr>,
}

/// Functions that take an argument only as a constant.
const OF_CONSTANTS: [&str; 6] = [
    "date_bin",
    "date_part",
    "date_trunc",
    "decode",
    "encode",
    "to_char",
];

/// Where a column of the one-row batch comes from.
#[derive(Clone, Copy, Debug)]
enum Input {
    Column(usize),
    Parameter(usize),
    Now,
    Session,
    /// A batch has at least one column.
    Nothing,
}

impl ForeignScalar {
    /// An expression without qualifiers, of this type. `column` finds the number and the type of a column.
    ///
    /// # Errors
    /// 0A000 if it needs more than one row; those of the planner.
    pub(super) fn new(
        expr: &Expr,
        of: SqlType,
        find_column: impl Fn(&str) -> Option<(usize, SqlType)>,
    ) -> SqlResult<Self> {
        if needs_rows(expr) {
            return Err(SqlError::unsupported(
                "an expression over several rows in this place",
            ));
        }
        let (mut inputs, mut fields) = (Vec::new(), Vec::new());
        for column in expr.column_refs() {
            if let Some((at, of)) = find_column(&column.name) {
                inputs.push(Input::Column(at));
                fields.push(field(&column.name, of, true));
            }
        }
        for placeholder in parameters_of(expr)? {
            let of = match &placeholder.field {
                Some(known) => field_type(known),
                None => SqlType::Text,
            };
            let number = placeholder.id[1..]
                .parse::<usize>()
                .ok()
                .and_then(|it| it.checked_sub(1));
            inputs.push(match number {
                Some(at) => Input::Parameter(at),
                None if placeholder.id == NOW => Input::Now,
                None if placeholder.id == SESSION => Input::Session,
                None => {
                    return Err(SqlError::unsupported(format!(
                        "parameter {}",
                        placeholder.id
                    )));
                }
            });
            // No column of a table has such a name.
            fields.push(field(&column_of(&placeholder.id), of, true));
        }
        if fields.is_empty() {
            inputs.push(Input::Nothing);
            fields.push(field("\u{0}", SqlType::Bool, true));
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let bound = expr.clone().transform(|part| match part {
            Expr::Placeholder(placeholder) => {
                let column = Column::new_unqualified(column_of(&placeholder.id));
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        });
        let bound = bound.map_err(sql_error)?.data;
        let scope = DFSchema::try_from(Arc::clone(&schema)).map_err(sql_error)?;
        let physical = create_physical_expr(
            &bound,
            &scope,
            &ExecutionProps::new(),
            &PhysicalPlanningContext::default(),
        )
        .map_err(sql_error)?;
        let takes_constant = expr.exists(|part| {
            Ok(match part {
                Expr::ScalarFunction(call) if OF_CONSTANTS.contains(&call.func.name()) => {
                    let is_parameter = |it: &Expr| matches!(it, Expr::Placeholder(_));
                    call.args.iter().any(is_parameter)
                }
                _ => false,
            })
        });
        Ok(Self {
            with_constants: takes_constant.map_err(sql_error)?.then(|| expr.clone()),
            shown: expr.to_string(),
            physical,
            inputs,
            schema,
            of,
            is_volatile: expr.is_volatile(),
        })
    }
}

impl ForeignScalar {
    /// The expression with its parameters as literals.
    fn with_values(
        &self,
        expr: &Expr,
        environment: &Environment,
    ) -> SqlResult<Arc<dyn PhysicalExpr>> {
        let literal = |placeholder: &Placeholder| -> SqlResult<ScalarValue> {
            let of = match &placeholder.field {
                Some(known) => field_type(known),
                None => SqlType::Text,
            };
            if placeholder.id == NOW {
                return scalar_value(&Datum::I64(environment.now), of);
            }
            if placeholder.id == SESSION {
                return scalar_value(&Datum::I64(environment.session), of);
            }
            let number = placeholder.id[1..].parse::<usize>().unwrap_or_default();
            scalar_value(environment.parameter(number.saturating_sub(1))?, of)
        };
        let bound = expr.clone().transform(|part| match &part {
            Expr::Placeholder(placeholder) => {
                let value = literal(placeholder).map_err(external)?;
                Ok(Transformed::yes(Expr::Literal(value, None)))
            }
            _ => Ok(Transformed::no(part)),
        });
        let scope = DFSchema::try_from(Arc::clone(&self.schema)).map_err(sql_error)?;
        create_physical_expr(
            &bound.map_err(sql_error)?.data,
            &scope,
            &ExecutionProps::new(),
            &PhysicalPlanningContext::default(),
        )
        .map_err(sql_error)
    }
}

fn column_of(parameter: &str) -> String {
    format!("\u{0}{parameter}")
}

impl Evaluate for ForeignScalar {
    fn evaluate(&self, row: &RowValues<'_>, environment: &Environment) -> SqlResult<Datum> {
        let mut batch = BatchBuilder::new(Arc::clone(&self.schema), 1)?;
        for (at, input) in self.inputs.iter().enumerate() {
            let value = match *input {
                Input::Column(column) => row.column(column)?,
                Input::Parameter(number) => environment.parameter(number)?.clone(),
                Input::Now => Datum::I64(environment.now),
                Input::Session => Datum::I64(environment.session),
                Input::Nothing => Datum::Null,
            };
            batch.append(at, value.value())?;
        }
        batch.end_row();
        let made = match &self.with_constants {
            Some(expr) => Some(self.with_values(expr, environment)?),
            None => None,
        };
        let physical = made.as_ref().unwrap_or(&self.physical);
        let value = evaluate(physical, &batch.finish()?).map_err(sql_error)?;
        datum_at(&value.to_array().map_err(sql_error)?, 0, self.of)
    }

    fn is_volatile(&self) -> bool {
        self.is_volatile
    }
}

/// The value of an expression for a batch of one row.
fn evaluate(physical: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> PlanResult<ScalarValue> {
    match physical.evaluate(batch)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
    }
}

/// The value of an expression without columns.
pub(super) fn literal_of(physical: &Arc<dyn PhysicalExpr>) -> PlanResult<ScalarValue> {
    let schema = Arc::new(Schema::empty());
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &options)?;
    evaluate(physical, &batch)
}

impl fmt::Debug for ForeignScalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}
