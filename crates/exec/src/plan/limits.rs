//! How deep and how large a plan that is run or written may be.
//!
//! What binds, compiles and writes a plan calls itself for each level. So many levels of operators, above an expression of so many
//! levels, fit into a stack of 256 KiB (`tests/queries/deep_plans.rs`).

/// Levels of operators.
pub(super) const PLAN_DEPTH_MAX: u32 = 48;

/// Operators.
pub(super) const OPERATORS_MAX: u64 = 4096;

/// Levels of an expression.
pub(super) const EXPRESSION_DEPTH_MAX: u32 = 48;

/// Parts of an expression.
pub(super) const EXPRESSION_PARTS_MAX: u64 = 1 << 24;
