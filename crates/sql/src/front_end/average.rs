//! `avg` as PostgreSQL has it: the average of whole and decimal numbers is a `numeric` with sixteen digits behind the point.
//!
//! DataFusion's own average of whole numbers is a floating-point number, and that of decimals has four more digits than they
//! have, the rest cut off. It is asked for one digit more than is shown, and rounded.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result as PlanResult, plan_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

/// Digits behind the point of the argument: the average has four more, of which the last one is rounded away.
const SCALE_MIN: i8 = 13;
/// Digits behind the point that a `numeric` can have.
const SCALE_MAX: i8 = 30;

/// The function.
pub(super) fn average() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Average {
        inner: Avg::new(),
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    inner: Avg,
    signature: Signature,
}

/// The type in which numbers are summed up; `None` for what has no average.
fn argument_type(of: &DataType) -> Option<DataType> {
    Some(match of {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
            DataType::Decimal128(10 + SCALE_MIN as u8, SCALE_MIN)
        }
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => {
            DataType::Decimal128(20 + SCALE_MIN as u8, SCALE_MIN)
        }
        DataType::Decimal128(precision, scale) => {
            let wider = (*scale).max(SCALE_MIN);
            let more = u8::try_from(wider - scale).unwrap_or(0);
            DataType::Decimal128((precision + more).min(38), wider)
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null => {
            DataType::Float64
        }
        DataType::Duration(_) | DataType::Decimal256(..) => of.clone(),
        _ => return None,
    })
}

impl Average {
    /// The type of DataFusion's average, and that of ours.
    fn types(&self, argument: &DataType) -> PlanResult<(DataType, DataType)> {
        let Some(argument) = argument_type(argument) else {
            return plan_err!("No function matches avg({argument})");
        };
        let theirs = self.inner.return_type(&[argument])?;
        let ours = match theirs {
            DataType::Decimal128(precision, scale) => {
                let shown = (scale - 1).min(SCALE_MAX);
                let less = u8::try_from(scale - shown).unwrap_or(0);
                DataType::Decimal128(precision - less, shown)
            }
            ref other => other.clone(),
        };
        Ok((theirs, ours))
    }

    /// The arguments of DataFusion's average, and our type if the two differ.
    fn inner_args<'a>(
        &self,
        args: AccumulatorArgs<'a>,
    ) -> PlanResult<(AccumulatorArgs<'a>, Option<DataType>)> {
        let (theirs, ours) = self.types(args.expr_fields[0].data_type())?;
        if theirs == ours {
            return Ok((args, None));
        }
        let return_field = renamed(&args.return_field, theirs);
        let inner = AccumulatorArgs {
            return_field,
            ..args
        };
        Ok((inner, Some(ours)))
    }
}

fn renamed(field: &FieldRef, of: DataType) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(of))
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        "avg"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> PlanResult<Vec<DataType>> {
        let [of] = types else {
            return plan_err!("No function matches avg with {} arguments", types.len());
        };
        match argument_type(of) {
            Some(of) => Ok(vec![of]),
            None => plan_err!("No function matches avg({of})"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> PlanResult<DataType> {
        let [of] = types else {
            return plan_err!("No function matches avg with {} arguments", types.len());
        };
        Ok(self.types(of)?.1)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> PlanResult<Box<dyn Accumulator>> {
        let (args, rounded) = self.inner_args(args)?;
        let inner = self.inner.accumulator(args)?;
        Ok(match rounded {
            Some(of) => Box::new(Rounded { inner, of }),
            None => inner,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> PlanResult<Vec<FieldRef>> {
        let (theirs, _) = self.types(args.input_fields[0].data_type())?;
        let return_field = renamed(&args.return_field, theirs);
        self.inner.state_fields(StateFieldsArgs {
            return_field,
            ..args
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match self.inner_args(args) {
            Ok((args, _)) => self.inner.groups_accumulator_supported(args),
            Err(_) => false,
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> PlanResult<Box<dyn GroupsAccumulator>> {
        let (args, rounded) = self.inner_args(args)?;
        let inner = self.inner.create_groups_accumulator(args)?;
        Ok(match rounded {
            Some(of) => Box::new(RoundedGroups { inner, of }),
            None => inner,
        })
    }
}

/// The average of all rows, rounded.
#[derive(Debug)]
struct Rounded {
    inner: Box<dyn Accumulator>,
    of: DataType,
}

impl Accumulator for Rounded {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        self.inner.evaluate()?.cast_to(&self.of)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// The averages of groups, rounded.
struct RoundedGroups {
    inner: Box<dyn GroupsAccumulator>,
    of: DataType,
}

impl GroupsAccumulator for RoundedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> PlanResult<()> {
        self.inner
            .update_batch(values, group_indices, filter, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> PlanResult<ArrayRef> {
        Ok(cast(&self.inner.evaluate(emit_to)?, &self.of)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> PlanResult<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        groups: usize,
    ) -> PlanResult<()> {
        self.inner.merge_batch(values, group_indices, groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> PlanResult<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
