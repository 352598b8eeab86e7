//! The tables of `pg_catalog` and `information_schema`, made from the catalogue when they are read.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as PlanResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use super::arrow_values::field;
use super::batch_builder::BatchBuilder;
use super::errors::external;
use super::run_context::run_context;
use super::system_definition::{Rows, SystemDefinition};
use super::system_rows;
use crate::error::SqlResult;

/// The table of this name. Those of `pg_catalog` are found without their schema.
pub(super) fn find(schema: Option<&str>, name: &str) -> Option<&'static SystemDefinition> {
    let schema = schema.unwrap_or("pg_catalog");
    system_rows::TABLES
        .iter()
        .find(|table| table.name == name && table.schema == schema)
}

/// Whether a table never has rows.
pub(super) fn is_always_empty(schema: Option<&str>, name: &str) -> bool {
    find(schema, name).is_some_and(|table| table.rows.is_none())
}

/// A table of the catalogue in a plan.
#[derive(Debug)]
pub(super) struct SystemTable {
    definition: &'static SystemDefinition,
    schema: SchemaRef,
}

impl SystemTable {
    pub(super) fn new(definition: &'static SystemDefinition) -> Self {
        let fields = definition
            .columns
            .iter()
            .map(|(name, of)| field(name, *of, true));
        Self {
            definition,
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        }
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let context = run_context(state).map_err(external)?;
        let rows = match self.definition.rows {
            Some(make) => make(&context).map_err(external)?,
            None => Vec::new(),
        };
        let batch = self.batch(&rows).map_err(external)?;
        let scan = SystemScan {
            schema: Arc::clone(&self.schema),
            batch,
        };
        let plan = StreamingTableExec::try_new(
            Arc::clone(&self.schema),
            vec![Arc::new(scan)],
            projection,
            None,
            false,
            None,
        )?;
        Ok(Arc::new(plan))
    }
}

impl SystemTable {
    fn batch(&self, rows: &Rows) -> SqlResult<RecordBatch> {
        let mut batch = BatchBuilder::new(Arc::clone(&self.schema), rows.len())?;
        for row in rows {
            for (at, value) in row.iter().enumerate() {
                batch.append(at, value.value())?;
            }
            batch.end_row();
        }
        batch.finish()
    }
}

#[derive(Debug)]
struct SystemScan {
    schema: SchemaRef,
    batch: RecordBatch,
}

impl PartitionStream for SystemScan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = futures::stream::iter([Ok(self.batch.clone())]);
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        ))
    }
}
