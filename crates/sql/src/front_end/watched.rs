//! Plans that can be stopped: between any two batches of any operator, and within joins.
//!
//! DataFusion's plans end when their stream is dropped, but only where a task waits. An operator that turns a few rows into
//! many, or many into none, does not wait: a join of four tables of 2,000 rows reads its input once, and then computes for
//! hours. So each operator is wrapped. Before each batch, the wrapper looks whether the statement was cancelled, and gives
//! the thread to other statements after some batches. The conditions of joins are evaluated for one part of the pairs after
//! the other, also where no batch comes of them; they look as well.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result as PlanResult, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt as _};

use super::errors::external;
use crate::cancel::Cancelled;

/// The plan, with all of its operators watched.
///
/// # Errors
/// Those of DataFusion.
pub(super) fn watch(
    plan: Arc<dyn ExecutionPlan>,
    cancelled: &Cancelled,
) -> PlanResult<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|operator| {
        let operator = watch_condition(operator, cancelled)?;
        let watched: Arc<dyn ExecutionPlan> = Arc::new(Watched {
            operator,
            cancelled: cancelled.clone(),
        });
        Ok(Transformed::yes(watched))
    })
    .data()
}

/// A join with a watched condition; another operator as it is.
fn watch_condition(
    operator: Arc<dyn ExecutionPlan>,
    cancelled: &Cancelled,
) -> PlanResult<Arc<dyn ExecutionPlan>> {
    let watched = |filter: &JoinFilter| {
        let condition = WatchedCondition {
            condition: Arc::clone(filter.expression()),
            cancelled: cancelled.clone(),
        };
        let columns = filter.column_indices().to_vec();
        JoinFilter::new(Arc::new(condition), columns, Arc::clone(filter.schema()))
    };
    if let Some(join) = operator.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        let join = NestedLoopJoinExecBuilder::new(left, right, *join.join_type())
            .with_projection_ref(join.projection().clone())
            .with_filter(Some(watched(filter)))
            .build()?;
        return Ok(Arc::new(join));
    }
    if let Some(join) = operator.downcast_ref::<HashJoinExec>() {
        let filter = match join.filter() {
            Some(filter) => Some(watched(filter)),
            // All pairs of equal keys are looked at, and no batch comes of most of them.
            None if is_selection(*join.join_type()) && !join.null_aware => {
                let always = JoinFilter::new(lit(true), Vec::new(), Arc::new(Schema::empty()));
                Some(watched(&always))
            }
            None => None,
        };
        if filter.is_some() {
            return Ok(Arc::new(join.builder().with_filter(filter).build()?));
        }
    }
    Ok(operator)
}

/// Whether a join returns rows of one side only, each at most once.
fn is_selection(join: JoinType) -> bool {
    match join {
        JoinType::LeftSemi
        | JoinType::RightSemi
        | JoinType::LeftAnti
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => true,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => false,
    }
}

/// An operator that is watched.
#[derive(Debug)]
struct Watched {
    operator: Arc<dyn ExecutionPlan>,
    cancelled: Cancelled,
}

impl DisplayAs for Watched {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operator.fmt_as(form, f)
    }
}

impl ExecutionPlan for Watched {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.operator.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.operator.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.operator]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> PlanResult<TreeNodeRecursion>,
    ) -> PlanResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        self.around(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        self.around(children)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> PlanResult<SendableRecordBatchStream> {
        Ok(Box::pin(WatchedStream {
            batches: self.operator.execute(partition, context)?,
            cancelled: self.cancelled.clone(),
        }))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> PlanResult<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}

impl Watched {
    fn around(
        &self,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let Some(operator) = children.pop() else {
            return datafusion::common::internal_err!("an operator was taken out of its plan");
        };
        Ok(Arc::new(Self {
            operator,
            cancelled: self.cancelled.clone(),
        }))
    }
}

/// The batches of an operator that is watched.
struct WatchedStream {
    batches: SendableRecordBatchStream,
    cancelled: Cancelled,
}

impl Stream for WatchedStream {
    type Item = PlanResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = self.cancelled.check() {
            return Poll::Ready(Some(Err(external(error))));
        }
        let turn = ready!(tokio::task::coop::poll_proceed(context));
        let batch = self.batches.poll_next_unpin(context);
        if batch.is_ready() {
            turn.made_progress();
        }
        batch
    }
}

impl RecordBatchStream for WatchedStream {
    fn schema(&self) -> SchemaRef {
        self.batches.schema()
    }
}

/// The condition of a join that is watched.
#[derive(Debug)]
struct WatchedCondition {
    condition: Arc<dyn PhysicalExpr>,
    cancelled: Cancelled,
}

// Conditions are told apart by what they say.
impl PartialEq for WatchedCondition {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for WatchedCondition {}

impl Hash for WatchedCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for WatchedCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for WatchedCondition {
    fn return_field(&self, schema: &Schema) -> PlanResult<FieldRef> {
        self.condition.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> PlanResult<ColumnarValue> {
        self.cancelled.check().map_err(external)?;
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> PlanResult<Arc<dyn PhysicalExpr>> {
        let Some(condition) = children.pop() else {
            return datafusion::common::internal_err!("a condition was taken out of its join");
        };
        Ok(Arc::new(Self {
            condition,
            cancelled: self.cancelled.clone(),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
