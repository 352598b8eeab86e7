//! Tables as DataFusion sees them: scans of a view, or through a transaction.
//!
//! A table in a kept plan is bound to no reader. Each run puts one into the session's configuration ([`RunContext`]), where
//! the scan finds it.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use namiki::RowScan;

use super::arrow_values::{field, with_origin};
use super::errors::external;
use super::expressions::Columns;
use super::paths::choose_path;
use super::run_context::{RunContext, run_context};
use super::scan::{At, Scan, ScanExec};
use crate::catalogue::Relation;
use crate::error::SqlResult;
use crate::program::{Access, Located, Path, scan_range};
use crate::storage::Storage;
use crate::types::SqlType;

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
    ) -> SqlResult<ScanExec> {
        let scope = Columns::of_schema(&self.schema)?;
        let conditions = filters.iter().filter_map(|filter| scope.conditions(filter));
        let path = choose_path(&self.relation, &conditions.flatten().collect::<Vec<_>>()).path;
        let share = share_of(&path);
        let access = Access {
            relation: Arc::clone(&self.relation),
            path,
            is_descending: false,
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
            places: VecDeque::new(),
        };
        let (index, ranges) = match located {
            Located::Nothing => (None, Vec::new()),
            Located::Key(key) => {
                scan.places.push_back(At::Keys(vec![key]));
                (None, Vec::new())
            }
            Located::Keys(keys) => {
                scan.places.push_back(At::Keys(keys));
                (None, Vec::new())
            }
            Located::Range { index, ends } => (index, vec![ends]),
            Located::Ranges { index, ranges } => (index, ranges),
        };
        let index = match index {
            Some(index) => Some(
                self.storage
                    .open(self.relation.row.indexes[index].storage)?,
            ),
            None => None,
        };
        scan.places.extend(ranges.iter().map(|ends| {
            let scan = RowScan::new(scan_range(&ends.0, &ends.1));
            match &index {
                Some(index) => At::Index(Arc::clone(index), scan),
                None => At::Range(scan),
            }
        }));
        let rows = match scan.places.front() {
            None => Some(0),
            Some(At::Keys(keys)) => Some(keys.len()),
            Some(At::Range(_) | At::Index(..)) => {
                let rows = context.row_counts.rows(&scan.table, &context.handle);
                rows.map(|rows| rows / share + 1)
            }
        };
        Ok(ScanExec::new(scan, rows))
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
        Ok(Arc::new(scan))
    }
}

/// A guess at the part of a table that a path reaches: one row of so many.
fn share_of(path: &Path) -> usize {
    match path {
        Path::OneOf { values, .. } => {
            let lookups: usize = values.iter().map(Vec::len).product();
            (20 / lookups.max(1)).max(1)
        }
        Path::Range { equal, .. } if !equal.is_empty() => 20,
        Path::Range { .. } => 3,
        Path::Key(_) | Path::Full => 1,
    }
}
