//! Running plans: a physical plan for each run, and its batches as a stream.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::ParamValues;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::{Expr, Limit, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::scalar::ScalarValue;
use futures::StreamExt as _;
use namiki_data::columns::Datum;

use super::arrow_values::{datum_at, scalar_value, value_at};
use super::errors::sql_error;
use super::expression_parts::{NOW, SESSION};
use super::foreign::literal_of;
use super::planned::Plan;
use super::planner::FrontEnd;
use super::run_context::RunContext;
use super::watched::watch;
use crate::cancel::Cancelled;
use crate::error::{SqlError, SqlResult};
use crate::program::{Environment, OutputFormat, write_value};
use crate::sink::RowSink;
use crate::sqlstate;
use crate::storage::ReadHandle;
use crate::types::{SqlType, TimeZone};

/// What a run reads from, and what its expressions may use.
#[derive(Clone, Debug)]
pub(crate) struct RunSettings {
    /// The role of the session.
    pub(crate) user: String,
    pub(crate) handle: ReadHandle,
    pub(crate) environment: Environment,
    pub(crate) cancelled: Cancelled,
    /// The most rows that a transaction may remember.
    pub(crate) rows_max: usize,
}

/// The rows of a running plan.
pub(crate) struct PlanRows {
    stream: SendableRecordBatchStream,
    types: Arc<[SqlType]>,
    cancelled: Cancelled,
}

/// Some rows.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    batch: RecordBatch,
    types: Arc<[SqlType]>,
}

impl FrontEnd {
    /// Begins a run. It has to be polled where a thread may be busy for long: on the second pool.
    ///
    /// # Errors
    /// Those of the planner and of the parameters.
    pub(crate) async fn run(&self, plan: &Plan, settings: RunSettings) -> SqlResult<PlanRows> {
        let cancelled = settings.cancelled.clone();
        let (physical, state) = self.physical_plan(plan, settings).await?;
        let physical = watch(physical, &cancelled).map_err(sql_error)?;
        let stream = execute_stream(physical, state.task_ctx()).map_err(sql_error)?;
        Ok(PlanRows {
            stream,
            types: plan.types.clone().into(),
            cancelled,
        })
    }

    /// The physical plan of one run, and its session.
    async fn physical_plan(
        &self,
        plan: &Plan,
        settings: RunSettings,
    ) -> SqlResult<(Arc<dyn ExecutionPlan>, SessionState)> {
        let logical = bind_values(plan, &settings.environment)?;
        let logical = self.fold_limits(logical)?;
        let mut state = SessionState::clone(&self.state);
        state.config_mut().set_extension(Arc::new(RunContext {
            handle: settings.handle,
            environment: settings.environment,
            cancelled: settings.cancelled,
            rows_max: settings.rows_max,
            catalogue: Arc::clone(&self.catalogue),
            row_counts: Arc::clone(&self.row_counts),
            user: settings.user,
        }));
        let planner = Arc::clone(state.query_planner());
        let physical = planner
            .create_physical_plan(&logical, &state)
            .await
            .map_err(sql_error)?;
        Ok((physical, state))
    }

    /// The names of the tables that a plan reads, in the order in which its operators have them.
    #[cfg(test)]
    pub(crate) async fn tables_in_order(
        &self,
        plan: &Plan,
        settings: RunSettings,
    ) -> SqlResult<Vec<String>> {
        let (physical, _) = self.physical_plan(plan, settings).await?;
        let shown = datafusion::physical_plan::displayable(physical.as_ref());
        let shown = shown.indent(false).to_string();
        let scans = shown
            .lines()
            .filter_map(|line| line.trim().strip_prefix("ScanExec: "));
        Ok(scans.map(str::to_owned).collect())
    }

    /// Numbers of rows that were parameters, or have casts around them, become literals.
    fn fold_limits(&self, plan: LogicalPlan) -> SqlResult<LogicalPlan> {
        let folded = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Limit(limit)
                if !is_literal(limit.skip.as_deref()) || !is_literal(limit.fetch.as_deref()) =>
            {
                let fold =
                    |expr: Option<Box<Expr>>| -> datafusion::common::Result<Option<Box<Expr>>> {
                        let Some(expr) = expr else {
                            return Ok(None);
                        };
                        let empty = datafusion::common::DFSchema::empty();
                        let physical = self.state.create_physical_expr(*expr, &empty)?;
                        let value = literal_of(&physical)?
                            .cast_to(&datafusion::arrow::datatypes::DataType::Int64)?;
                        Ok(Some(Box::new(Expr::Literal(value, None))))
                    };
                Ok(Transformed::yes(LogicalPlan::Limit(Limit {
                    skip: fold(limit.skip)?,
                    fetch: fold(limit.fetch)?,
                    input: limit.input,
                })))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(folded.map_err(sql_error)?.data)
    }
}

fn is_literal(expr: Option<&Expr>) -> bool {
    matches!(expr, None | Some(Expr::Literal(ScalarValue::Int64(_), _)))
}

/// The plan with literals in place of its parameters.
fn bind_values(plan: &Plan, environment: &Environment) -> SqlResult<LogicalPlan> {
    let mut values = std::collections::HashMap::new();
    for (at, of) in plan.parameters.iter().enumerate() {
        let value = scalar_value(environment.parameter(at)?, *of)?;
        values.insert((at + 1).to_string(), value);
    }
    let now = scalar_value(&Datum::I64(environment.now), SqlType::Timestamptz)?;
    values.insert(NOW[1..].to_owned(), now);
    let session = ScalarValue::Int64(Some(environment.session));
    values.insert(SESSION[1..].to_owned(), session);
    let values = ParamValues::from(values);
    LogicalPlan::clone(&plan.logical)
        .with_param_values(values)
        .map_err(sql_error)
}

impl PlanRows {
    /// Further rows; `None` at the end.
    ///
    /// # Errors
    /// Those of the plan; 57014 after a cancellation.
    pub(crate) async fn next(&mut self) -> SqlResult<Option<Batch>> {
        loop {
            self.cancelled.check()?;
            match self.stream.next().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(sql_error(error)),
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => {
                    return Ok(Some(Batch {
                        batch,
                        types: Arc::clone(&self.types),
                    }));
                }
            }
        }
    }

    /// All rows.
    ///
    /// # Errors
    /// Those of the plan; 53200 if they take more than `bytes_max` bytes.
    pub(crate) async fn all(&mut self, bytes_max: usize) -> SqlResult<Vec<Batch>> {
        let mut batches = Vec::new();
        let mut bytes = 0;
        while let Some(batch) = self.next().await? {
            bytes += batch.batch.get_array_memory_size();
            if bytes > bytes_max {
                return Err(SqlError::new(
                    sqlstate::OUT_OF_MEMORY,
                    format!(
                        "the rows of a statement in a transaction take more than {bytes_max} bytes"
                    ),
                )
                .with_hint(
                    "Change fewer rows at once, use LIMIT, or run the query outside of the transaction block.",
                ));
            }
            batches.push(batch);
        }
        Ok(batches)
    }
}

impl Batch {
    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// Writes a row.
    ///
    /// # Errors
    /// Those of values that are no values of their types.
    pub(crate) fn write_row(
        &self,
        row: usize,
        formats: &[OutputFormat],
        zone: TimeZone,
        sink: &mut dyn RowSink,
    ) -> SqlResult<()> {
        let mark = sink.mark();
        let done = self.write_values(row, formats, zone, sink);
        if done.is_err() {
            sink.rewind(mark);
        }
        done
    }

    fn write_values(
        &self,
        row: usize,
        formats: &[OutputFormat],
        zone: TimeZone,
        sink: &mut dyn RowSink,
    ) -> SqlResult<()> {
        sink.begin_row(formats.len());
        for ((array, format), of) in self
            .batch
            .columns()
            .iter()
            .zip(formats)
            .zip(self.types.iter())
        {
            value_at(array.as_ref(), row, *of, |value| {
                value.map(|value| write_value(sink, value, *format, zone))
            })??;
        }
        sink.end_row();
        Ok(())
    }

    /// The values of a row.
    ///
    /// # Errors
    /// As [`write_row`](Self::write_row).
    pub(crate) fn row(&self, row: usize) -> SqlResult<Vec<Datum>> {
        let columns = self.batch.columns().iter().zip(self.types.iter());
        columns
            .map(|(array, of)| datum_at(array, row, *of))
            .collect()
    }

    /// The memory of its rows.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.batch.get_array_memory_size()
    }
}
