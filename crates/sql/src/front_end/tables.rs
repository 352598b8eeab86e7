//! Tables as DataFusion sees them: scans of a view, or through a transaction.
//!
//! A table in a kept plan is bound to no reader. Each run puts one into the session's configuration ([`RunContext`]), where
//! the scan finds it.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as PlanResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use namiki::RowScan;

use super::arrow_values::{field, with_origin};
use super::batch_builder::BatchBuilder;
use super::errors::external;
use super::expressions::Columns;
use super::paths::choose_path;
use crate::cancel::Cancelled;
use crate::catalogue::{Catalogue, Relation};
use crate::error::{SqlError, SqlResult};
use crate::program::{Access, Environment, Located, scan_range};
use crate::storage::{OpenTable, ReadHandle, Storage};
use crate::types::SqlType;

/// Rows of a batch.
const BATCH_ROWS: usize = 4096;

/// What a run of a plan reads from.
#[derive(Clone, Debug)]
pub(super) struct RunContext {
    pub(super) handle: ReadHandle,
    pub(super) environment: Environment,
    pub(super) cancelled: Cancelled,
    /// The most rows that a transaction may remember.
    pub(super) rows_max: usize,
    /// Where tables of the catalogue find their rows.
    pub(super) catalogue: Arc<Catalogue>,
}

/// A table of SQL's.
#[derive(Debug)]
pub(super) struct SqlTable {
    pub(super) relation: Arc<Relation>,
    storage: Arc<Storage>,
    schema: SchemaRef,
}

impl SqlTable {
    /// A table. With `row_numbers`, the hidden key of a table without a primary key is a column, too.
    pub(super) fn new(relation: Arc<Relation>, storage: Arc<Storage>, row_numbers: bool) -> Self {
        let mut fields = Vec::new();
        for (at, column) in relation.columns().iter().enumerate() {
            let named = field(&column.name, column.sql_type, relation.row.is_nullable(at));
            fields.push(with_origin(named, relation.id(), at));
        }
        if row_numbers && relation.has_row_numbers() {
            let hidden = &relation.layout.columns()[fields.len()];
            fields.push(field(&hidden.name, SqlType::Int8, false));
        }
        Self {
            relation,
            storage,
            schema: Arc::new(Schema::new(fields)),
        }
    }

    fn start_scan(
        &self,
        context: &RunContext,
        columns: Vec<usize>,
        filters: &[Expr],
    ) -> SqlResult<Scan> {
        let scope = Columns::of_schema(&self.schema)?;
        let conditions = filters.iter().filter_map(|filter| scope.conditions(filter));
        let path = choose_path(&self.relation, &conditions.flatten().collect::<Vec<_>>()).path;
        let access = Access {
            relation: Arc::clone(&self.relation),
            path,
            filter: Vec::new(),
        };
        let located = access.locate(&context.environment)?;
        let table = self.storage.open(self.relation.row.storage)?;
        let mut scan = Scan {
            relation: Arc::clone(&self.relation),
            schema: Arc::new(
                self.schema
                    .project(&columns)
                    .map_err(|error| super::errors::sql_error(error.into()))?,
            ),
            columns,
            table,
            context: context.clone(),
            at: At::End,
        };
        scan.at = match located {
            Located::Nothing => At::End,
            Located::Key(key) => At::Keys(vec![key]),
            Located::Range { index: None, ends } => {
                At::Range(RowScan::new(scan_range(&ends.0, &ends.1)))
            }
            Located::Range {
                index: Some(index),
                ends,
            } => {
                let index = self
                    .storage
                    .open(self.relation.row.indexes[index].storage)?;
                At::Index(index, RowScan::new(scan_range(&ends.0, &ends.1)))
            }
        };
        Ok(scan)
    }
}

#[async_trait]
impl TableProvider for SqlTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        let scope = Columns::of_schema(&self.schema).map_err(external)?;
        let support = |filter: &&Expr| match scope.conditions(filter) {
            // The plan keeps its own filter: a scan's range may be wider.
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let context = run_context(state).map_err(external)?;
        let columns = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let scan = self
            .start_scan(&context, columns, filters)
            .map_err(external)?;
        let schema = Arc::clone(&scan.schema);
        let plan =
            StreamingTableExec::try_new(schema, vec![Arc::new(scan)], None, None, false, None)?;
        Ok(Arc::new(plan))
    }
}

/// The reader of a run.
///
/// # Errors
/// XX000 if the plan is run without one.
pub(super) fn run_context(state: &dyn Session) -> SqlResult<Arc<RunContext>> {
    state.config().get_extension::<RunContext>().ok_or_else(|| {
        SqlError::new(
            crate::sqlstate::INTERNAL_ERROR,
            "a plan was run without a reader",
        )
    })
}

/// A scan that has not begun.
#[derive(Clone, Debug)]
struct Scan {
    relation: Arc<Relation>,
    schema: SchemaRef,
    columns: Vec<usize>,
    table: Arc<OpenTable>,
    context: RunContext,
    at: At,
}

/// Where a scan goes on.
#[derive(Clone, Debug)]
enum At {
    /// Nowhere.
    End,
    /// With the rows of these keys.
    Keys(Vec<Vec<u8>>),
    /// In the table.
    Range(RowScan),
    /// In an index.
    Index(Arc<OpenTable>, RowScan),
}

impl PartitionStream for Scan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = futures::stream::unfold(Some(self.clone()), |scan| async move {
            let mut scan = scan?;
            match scan.next_batch() {
                Ok(Some(batch)) => Some((Ok(batch), Some(scan))),
                Ok(None) => None,
                Err(error) => Some((Err(external(error)), None)),
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        ))
    }
}

impl Scan {
    fn next_batch(&mut self) -> SqlResult<Option<RecordBatch>> {
        self.context.cancelled.check()?;
        let mut batch = BatchBuilder::new(Arc::clone(&self.schema), BATCH_ROWS)?;
        // An index may have entries, and the filter's range no rows, more than once.
        while batch.rows() == 0 {
            match std::mem::replace(&mut self.at, At::End) {
                At::End => return Ok(None),
                At::Keys(keys) => self.rows_of(&keys, &mut batch)?,
                At::Range(scan) => self.range(scan, &mut batch)?,
                At::Index(index, scan) => self.index(index, scan, &mut batch)?,
            }
        }
        batch.finish().map(Some)
    }

    fn append(
        &self,
        key: &[u8],
        row: &[u8],
        scratch: &mut Vec<u8>,
        batch: &mut BatchBuilder,
    ) -> SqlResult<()> {
        for (at, column) in self.columns.iter().enumerate() {
            let value = self.relation.format.value(*column, key, row, scratch)?;
            batch.append(at, value)?;
        }
        batch.end_row();
        Ok(())
    }

    fn rows_of(&self, keys: &[Vec<u8>], batch: &mut BatchBuilder) -> SqlResult<()> {
        let mut scratch = Vec::new();
        self.context.handle.with(|reader| {
            for key in keys {
                reader.with_row(&self.table.table, key, |row| match row {
                    Some(row) => self.append(key, row, &mut scratch, batch),
                    None => Ok(()),
                })??;
            }
            reader.check_limit(self.context.rows_max)
        })
    }

    fn range(&mut self, mut scan: RowScan, batch: &mut BatchBuilder) -> SqlResult<()> {
        let mut scratch = Vec::new();
        let stopped = self.context.handle.with(|reader| {
            let stopped = reader.resume(&self.table.table, &mut scan, |key, row| {
                match self.append(key, row, &mut scratch, batch) {
                    Ok(()) if batch.rows() < BATCH_ROWS => ControlFlow::Continue(()),
                    done => ControlFlow::Break(done),
                }
            })?;
            reader.check_limit(self.context.rows_max)?;
            Ok(stopped)
        })?;
        if let Some(done) = stopped {
            done?;
            self.at = At::Range(scan);
        }
        Ok(())
    }

    fn index(
        &mut self,
        index: Arc<OpenTable>,
        mut scan: RowScan,
        batch: &mut BatchBuilder,
    ) -> SqlResult<()> {
        let mut keys = Vec::new();
        let stopped = self.context.handle.with(|reader| {
            reader.resume(&index.table, &mut scan, |_, key| {
                keys.push(key.to_vec());
                if keys.len() < BATCH_ROWS {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
        })?;
        self.rows_of(&keys, batch)?;
        if stopped.is_some() {
            self.at = At::Index(index, scan);
        }
        Ok(())
    }
}
