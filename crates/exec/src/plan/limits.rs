//! How deep and how large a plan that is run or written may be.
//!
//! Binding, compiling and writing a plan are recursive. These levels of operators, above an
//! expression of these levels, fit into a stack of 256 KiB (`tests/queries/deep_plans.rs`).

use namiki_data::columns::Datum;

/// Levels of operators.
pub(super) const PLAN_DEPTH_MAX: u32 = 48;

/// Operators.
pub(super) const OPERATORS_MAX: u64 = 4096;

/// Levels of an expression.
pub(super) const EXPRESSION_DEPTH_MAX: u32 = 48;

/// Parts of an expression, and parts of all expressions of a plan: nodes, values of lists, and
/// every [`TEXT_OF_A_PART_BYTES`] of text. Sharing puts one expression into a plan many times, and
/// binding copies it each time: a plan within this limit needs less than a gigabyte.
pub(super) const PARTS_MAX: u64 = 1 << 22;

/// `Debug` writes plans and expressions with more parts as their size alone: with a line and an
/// indentation for each part, a few million would be gigabytes.
pub(super) const DEBUG_PARTS_MAX: u64 = 4096;

/// Text of this length is one more part.
const TEXT_OF_A_PART_BYTES: usize = 64;

/// The parts that a text counts as, in addition to its node.
pub(super) fn parts_of_text(text: &str) -> u64 {
    (text.len() / TEXT_OF_A_PART_BYTES) as u64
}

/// The parts that values of a list count as.
pub(super) fn parts_of_values(values: &[Datum]) -> u64 {
    values.iter().map(|value| 1 + parts_of_value(value)).sum()
}

/// The parts that a value counts as, in addition to its node.
pub(super) fn parts_of_value(value: &Datum) -> u64 {
    match value {
        Datum::Text(text) => parts_of_text(text),
        _ => 0,
    }
}
