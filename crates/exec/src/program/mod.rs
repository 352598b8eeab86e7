//! What a bound plan becomes before it runs: pipelines of steps over rows of a fixed layout.
//!
//! A pipeline begins with a *driver*, which makes rows (a range of a table, or what an earlier pipeline kept), sends
//! each through its *steps*, one after the other, and ends in a *sink*, which keeps or gives out what arrives.
//! Operators that need all of their input before they give a row (groups, sorts, the hash table of a join, a limit
//! with a join above it) end a pipeline and drive, or are asked by, a later one.
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
    AggregateSink, BuildSink, Call, Driver, KeyOrigin, KeyValues, Load, Pipeline, ProbeStep,
    Program, Reach, ReadStep, Sink, SortSink, SourceEntry, Step,
};
