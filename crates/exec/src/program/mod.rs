//! Programs: a bound plan compiled to pipelines of steps over rows of a fixed layout.
//!
//! A pipeline begins with a *driver*, which makes rows (from a range of a table, or from the result
//! of an earlier pipeline), sends each through its *steps*, one after the other, and ends in a
//! *sink*, which keeps the rows or returns them. Operators that need all of their input before they
//! give a row (groups, sorts, the hash table of a join, a limit with a join above it) end a
//! pipeline; a later one is driven by them, or probes them.
//!
//! ```text
//!   index range → fetch customer → index of orders → fetch order → groups         pipeline 0
//!                                                                    └─ groups → answer      pipeline 1
//! ```

mod compile;
mod eval;
mod pipeline_builder;
mod steps;

pub(crate) use compile::compile;
pub(crate) use eval::Eval;
pub(crate) use steps::{
    AggregateSink, BuildSink, Call, Driver, KeyOrigin, KeyValues, Load, Pipeline, Place, ProbeStep,
    Program, Reach, ReadStep, Sink, SortSink, SourceEntry, Step,
};
