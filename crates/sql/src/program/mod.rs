//! Row programs: statements that reach their rows by key or index, and run straight on a transaction.
//!
//! A program is compiled from a plan of DataFusion's (`front_end/compile.rs`), with the types that its analyzer has decided
//! on, so it means what the plan means.

mod access;
mod arithmetic;
mod guard;
mod scalar;
mod select;

pub(crate) use access::{Access, Located, Path, scan_range};
pub(crate) use arithmetic::ArithmeticOperator;
pub(crate) use guard::Guard;
pub(crate) use scalar::{CompareOperator, Environment, Evaluate, RowValues, Scalar, cast};
pub(crate) use select::{OutputFormat, SelectProgram, write_value};
