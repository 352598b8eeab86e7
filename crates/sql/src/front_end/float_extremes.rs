//! `min` and `max` of floating-point numbers, where infinities and NaN have an order.
//!
//! DataFusion's, within groups, begin with the greatest finite number and take any NaN. Without groups they are right.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ExprSchemable, Signature, Volatility,
};

/// The call with an aggregate of ours, if it is one of floating-point numbers.
pub(super) fn ordered_extreme(mut call: AggregateFunction, schema: &DFSchema) -> AggregateFunction {
    let own: &dyn Any = call.func.inner().as_ref();
    let is_extreme = ["min", "max"].contains(&call.func.name()) && !own.is::<OrderedExtreme>();
    if let [argument] = call.params.args.as_slice()
        && is_extreme
        && argument.get_type(schema).is_ok_and(|of| of.is_floating())
    {
        call.func = Arc::new(AggregateUDF::from(OrderedExtreme {
            one_group: Arc::clone(&call.func),
            signature: Signature::any(1, Volatility::Immutable),
        }));
    }
    call
}

/// Runs an accumulator of DataFusion's for each group.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedExtreme {
    one_group: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for OrderedExtreme {
    fn name(&self) -> &str {
        self.one_group.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> PlanResult<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Float64))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> PlanResult<Box<dyn Accumulator>> {
        self.one_group.accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> PlanResult<Box<dyn Accumulator>> {
        self.one_group.create_sliding_accumulator(args)
    }
}
