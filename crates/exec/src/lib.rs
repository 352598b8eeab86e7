//! Out-of-order query execution.
//!
//! A query unfolds at run time into many small independent tasks, one per record fetch at the
//! finest. A few threads run many tasks each, every page read is asynchronous, and a result is used
//! in whatever order it arrives.
//!
//! Paper: oode §1, §2

mod bind;
#[cfg(feature = "edges")]
#[doc(hidden)]
pub mod edges;
mod error;
mod explain;
pub mod naive;
pub mod plan;
mod planner;
mod program;
mod query_statistics;
mod rings;
mod row;
mod run;
mod sinks;
pub mod source;
pub mod statistics;

pub use error::{ExecError, HexBytes, Names, PlanError, TypeName};
pub use explain::{ExplainedOperator, Explanation};
pub use planner::{Price, Prices};
pub use query_statistics::{LiveCounters, Statistics};
pub use run::{AnswerRow, Canceller, Degree, Executor, Mode, Options, Rows};
