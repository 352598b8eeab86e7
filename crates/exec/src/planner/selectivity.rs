//! The share of rows that a condition keeps.
//!
//! From histograms where there are some; otherwise the customary guesses: a tenth for equality, a
//! third for a comparison. Conditions are assumed to be independent.

use namiki_data::columns::Datum;

use super::scope::Scope;
use crate::plan::{Comparison, Expr, ExprNode, KeyRange, column};

const GUESS_EQUAL: f64 = 0.1;
const GUESS_RANGE: f64 = 1.0 / 3.0;
const GUESS_CONTAINS: f64 = 0.1;

/// The share, from 0 to 1, for a number of rows.
pub(super) fn selectivity(expr: &Expr, scope: &Scope, rows: f64) -> f64 {
    let share = match expr.node() {
        ExprNode::Literal(Datum::Bool(true)) => 1.0,
        ExprNode::Literal(_) => 0.0,
        ExprNode::And(parts) => parts
            .iter()
            .map(|part| selectivity(part, scope, rows))
            .product(),
        ExprNode::Or(parts) => {
            let kept_by_none: f64 = parts
                .iter()
                .map(|part| 1.0 - selectivity(part, scope, rows))
                .product();
            1.0 - kept_by_none
        }
        ExprNode::Not(inner) => 1.0 - selectivity(inner, scope, rows),
        ExprNode::IsNull(inner) => match inner.node() {
            ExprNode::Column(name) => scope
                .statistics(name)
                .map_or(0.05, |(column, of)| column.nulls as f64 / of.max(1) as f64),
            _ => 0.05,
        },
        ExprNode::Compare(comparison, left, right) => match (left.node(), right.node()) {
            (ExprNode::Column(name), ExprNode::Literal(value)) => {
                compared(*comparison, name, value, scope)
            }
            (ExprNode::Literal(value), ExprNode::Column(name)) => {
                compared(turned(*comparison), name, value, scope)
            }
            _ => {
                let distinct = scope.distinct(left, rows).max(scope.distinct(right, rows));
                match comparison {
                    Comparison::Equal => 1.0 / distinct,
                    Comparison::NotEqual => 1.0 - 1.0 / distinct,
                    _ => GUESS_RANGE,
                }
            }
        },
        ExprNode::In(inner, list) => match inner.node() {
            ExprNode::Column(name) => list
                .sorted()
                .values
                .iter()
                .map(|value| compared(Comparison::Equal, name, value, scope))
                .sum(),
            _ => GUESS_EQUAL * list.written().len() as f64,
        },
        ExprNode::StartsWith(inner, text) => match inner.node() {
            ExprNode::Column(name) => starts_with(name, text, scope).unwrap_or(GUESS_EQUAL),
            _ => GUESS_EQUAL,
        },
        ExprNode::Contains(..) => GUESS_CONTAINS,
        ExprNode::Column(_) | ExprNode::Calculate(..) => 0.5,
    };
    share.clamp(0.0, 1.0)
}

/// The comparison with its sides exchanged.
pub(super) const fn turned(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same => same,
    }
}

fn compared(comparison: Comparison, name: &str, value: &Datum, scope: &Scope) -> f64 {
    if *value == Datum::Null {
        return 0.0;
    }
    let Some((column, rows)) = scope.statistics(name) else {
        return match comparison {
            Comparison::Equal => GUESS_EQUAL,
            Comparison::NotEqual => 1.0 - GUESS_EQUAL,
            _ => GUESS_RANGE,
        };
    };
    let there = 1.0 - column.nulls as f64 / rows.max(1) as f64;
    let histogram = &column.histogram;
    let equal = || {
        let outside = histogram.share_below(value, true) == Some(0.0)
            || histogram.share_below(value, false) == Some(1.0);
        let rare = if outside {
            0.0
        } else {
            1.0 / column.distinct.max(1) as f64
        };
        histogram.share_of_frequent(value).unwrap_or(rare)
    };
    let below = |or_equal| {
        histogram
            .share_below(value, or_equal)
            .unwrap_or(GUESS_RANGE)
    };
    there
        * match comparison {
            Comparison::Equal => equal(),
            Comparison::NotEqual => 1.0 - equal(),
            Comparison::Less => below(false),
            Comparison::LessOrEqual => below(true),
            Comparison::Greater => 1.0 - below(true),
            Comparison::GreaterOrEqual => 1.0 - below(false),
        }
}

fn starts_with(name: &str, text: &str, scope: &Scope) -> Option<f64> {
    let (column, _) = scope.statistics(name)?;
    let from = column.histogram.share_below(&text.into(), false)?;
    let behind = format!("{text}\u{10ffff}");
    let to = column
        .histogram
        .share_below(&behind.as_str().into(), true)?;
    Some(to - from)
}

/// The share of a range of a key with these first columns, for a number of rows.
pub(super) fn of_range(range: &KeyRange, columns: &[&str], scope: &Scope, rows: f64) -> f64 {
    let mut share = 1.0;
    for (list, name) in range.one_of.iter().zip(columns) {
        let of_list: f64 = match scope.statistics(name) {
            Some(_) => list
                .iter()
                .map(|value| compared(Comparison::Equal, name, value, scope))
                .sum(),
            None => list.len() as f64 / scope.distinct(&column(name), rows),
        };
        share *= of_list.min(1.0);
    }
    if !range.one_of.is_empty() {
        return share;
    }
    for (value, name) in range.equal.iter().zip(columns) {
        share *= compared(Comparison::Equal, name, value, scope);
    }
    let Some(name) = columns.get(range.equal.len()) else {
        return share;
    };
    let bound = |value: &Option<Datum>, comparison| {
        value
            .as_ref()
            .map(|value| compared(comparison, name, value, scope))
    };
    let lower = [
        bound(&range.from, Comparison::GreaterOrEqual),
        bound(&range.above, Comparison::Greater),
    ];
    let upper = [
        bound(&range.to, Comparison::LessOrEqual),
        bound(&range.below, Comparison::Less),
    ];
    let least = |shares: [Option<f64>; 2]| shares.into_iter().flatten().reduce(f64::min);
    share
        * match (least(lower), least(upper)) {
            (None, None) => 1.0,
            (Some(one), None) | (None, Some(one)) => one,
            // The part above one bound and below the other.
            (Some(above), Some(below)) if scope.statistics(name).is_some() => {
                (above + below - 1.0).max(0.0)
            }
            (Some(above), Some(below)) => above * below,
        }
}
