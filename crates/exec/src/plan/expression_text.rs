//! Expressions as text, for messages and explained plans. Long lists are cut short.

use std::fmt;

use namiki_data::columns::Datum;

use super::expression::{Expr, ExprNode};
use super::limits::DEBUG_PARTS_MAX;
use super::tree::Size;

/// Limit of entries of a list that are shown.
const SHOWN_MAX: usize = 12;

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_within_limits() {
            return write_size(f, self.size());
        }
        match self.node() {
            ExprNode::Column(name) => f.write_str(name),
            ExprNode::Literal(value) => display_literal(f, value),
            ExprNode::Compare(comparison, left, right) => {
                write!(f, "{left} {} {right}", comparison.symbol())
            }
            ExprNode::And(parts) => joined(f, parts.iter(), " and ", display_part),
            ExprNode::Or(parts) => joined(f, parts.iter(), " or ", display_part),
            ExprNode::Not(inner) => write!(f, "not ({inner})"),
            ExprNode::IsNull(inner) => write!(f, "{inner} is null"),
            ExprNode::In(inner, list) => {
                write!(f, "{inner} in ({})", Literals(list.written()))
            }
            ExprNode::StartsWith(inner, text) => write!(f, "{inner} starts with '{text}'"),
            ExprNode::Contains(inner, text) => write!(f, "{inner} contains '{text}'"),
            ExprNode::Calculate(op, parts) => {
                // As it is calculated.
                let shown = parts.len().min(SHOWN_MAX);
                f.write_str(&"(".repeat(shown - 1))?;
                for (at, part) in parts.iter().take(shown).enumerate() {
                    match at {
                        0 => write!(f, "{part}")?,
                        _ => write!(f, " {} {part})", op.symbol())?,
                    }
                }
                more(f, parts.len(), &format!(" {} ", op.symbol()))
            }
        }
    }
}

fn write_size(f: &mut fmt::Formatter<'_>, size: Size) -> fmt::Result {
    let Size { depth, parts, .. } = size;
    write!(f, "an expression of {depth} levels and {parts} parts")
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.size();
        if self.0.is_within_limits() && size.parts <= DEBUG_PARTS_MAX {
            return self.node().fmt(f);
        }
        write_size(f, size)
    }
}

/// Entries with a separator, up to the limit.
fn joined<T>(
    f: &mut fmt::Formatter<'_>,
    all: impl ExactSizeIterator<Item = T>,
    between: &str,
    one: impl Fn(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    let count = all.len();
    for (at, entry) in all.take(SHOWN_MAX).enumerate() {
        f.write_str(if at > 0 { between } else { "" })?;
        one(f, entry)?;
    }
    more(f, count, between)
}

/// Adds the number of entries if not all are shown.
fn more(f: &mut fmt::Formatter<'_>, count: usize, between: &str) -> fmt::Result {
    match count.checked_sub(SHOWN_MAX) {
        None | Some(0) => Ok(()),
        Some(left) => write!(f, "{between}… {left} more"),
    }
}

/// A part of a chain.
fn display_part(f: &mut fmt::Formatter<'_>, part: &Expr) -> fmt::Result {
    match part.node() {
        ExprNode::And(_) | ExprNode::Or(_) => write!(f, "({part})"),
        _ => write!(f, "{part}"),
    }
}

/// Values with commas, up to the limit.
pub(crate) struct Literals<'d>(pub(crate) &'d [Datum]);

impl fmt::Display for Literals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        joined(f, self.0.iter(), ", ", display_literal)
    }
}

/// A value as it is written in an expression.
fn display_literal(f: &mut fmt::Formatter<'_>, value: &Datum) -> fmt::Result {
    match value {
        Datum::Text(_) | Datum::Date(_) => write!(f, "'{value}'"),
        _ => write!(f, "{value}"),
    }
}
