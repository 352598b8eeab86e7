//! Scans of tables: their rows in batches, and a guess at the number of rows for the order of joins.

use std::collections::VecDeque;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as PlanResult, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use namiki::RowScan;

use super::batch_builder::{BATCH_ROWS, BatchBuilder};
use super::errors::external;
use super::run_context::RunContext;
use crate::catalogue::Relation;
use crate::error::SqlResult;
use crate::storage::OpenTable;

/// A scan that has not begun.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    pub(super) relation: Arc<Relation>,
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<usize>,
    pub(super) table: Arc<OpenTable>,
    pub(super) context: RunContext,
    /// What is still to be read, in this order.
    pub(super) places: VecDeque<At>,
}

/// Where a scan goes on.
#[derive(Clone, Debug)]
pub(super) enum At {
    /// With the rows of these keys.
    Keys(Vec<Vec<u8>>),
    /// In the table.
    Range(RowScan),
    /// In an index.
    Index(Arc<OpenTable>, RowScan),
}

/// A scan as an operator of a plan.
#[derive(Debug)]
pub(super) struct ScanExec {
    scan: Scan,
    /// A guess at the number of its rows.
    rows: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl ScanExec {
    pub(super) fn new(scan: Scan, rows: Option<usize>) -> Self {
        let order = scan.order();
        let orders = (!order.is_empty()).then_some(order);
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(Arc::clone(&scan.schema), orders),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            scan,
            rows,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScanExec: {}", self.scan.relation.row.name)
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "ScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> PlanResult<TreeNodeRecursion>,
    ) -> PlanResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> PlanResult<SendableRecordBatchStream> {
        let batches = futures::stream::unfold(Some(self.scan.clone()), |scan| async move {
            let mut scan = scan?;
            match scan.next_batch() {
                Ok(Some(batch)) => Some((Ok(batch), Some(scan))),
                Ok(None) => None,
                Err(error) => Some((Err(external(error)), None)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.scan.schema),
            batches,
        )))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> PlanResult<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.scan.schema);
        if let Some(rows) = self.rows {
            statistics.num_rows = Precision::Inexact(rows);
        }
        Ok(Arc::new(statistics))
    }
}

impl Scan {
    /// The columns in whose order the rows come: a read by the primary key is in its order, so it needs no sort for it.
    fn order(&self) -> Vec<PhysicalSortExpr> {
        if self.places.iter().any(|it| matches!(it, At::Index(..))) {
            return Vec::new();
        }
        let mut order = Vec::new();
        for column in self.relation.layout.key() {
            let Some(at) = self.columns.iter().position(|it| it == column) else {
                break;
            };
            let field = self.schema.field(at);
            // Two zeros are one key, and not one value to Arrow.
            if field.data_type().is_floating() {
                break;
            }
            let options = SortOptions {
                descending: false,
                nulls_first: false,
            };
            let expr = Arc::new(Column::new(field.name(), at));
            order.push(PhysicalSortExpr::new(expr, options));
        }
        order
    }

    fn next_batch(&mut self) -> SqlResult<Option<RecordBatch>> {
        self.context.cancelled.check()?;
        let mut batch = BatchBuilder::new(Arc::clone(&self.schema), BATCH_ROWS)?;
        // An index may have entries, and the filter's range no rows, more than once.
        while !batch.is_full() {
            match self.places.pop_front() {
                None if batch.rows() == 0 => return Ok(None),
                None => break,
                Some(At::Keys(keys)) => self.rows_of(&keys, &mut batch)?,
                Some(At::Range(scan)) => self.range(scan, &mut batch)?,
                Some(At::Index(index, scan)) => self.index(index, scan, &mut batch)?,
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
                    Ok(()) if !batch.is_full() => ControlFlow::Continue(()),
                    done => ControlFlow::Break(done),
                }
            })?;
            reader.check_limit(self.context.rows_max)?;
            Ok(stopped)
        })?;
        if let Some(done) = stopped {
            done?;
            self.places.push_front(At::Range(scan));
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
            self.places.push_front(At::Index(index, scan));
        }
        Ok(())
    }
}
