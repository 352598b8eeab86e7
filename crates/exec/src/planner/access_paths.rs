//! Access paths of a table: the parts of a condition that a key or an index can decide, and those
//! that it can be looked up by.

use namiki_data::columns::{Datum, Schema, key_codec};

use super::selectivity::turned;
use crate::plan::{Comparison, Expr, ExprNode, KeyRange};

/// The parts of a condition that must all be true.
pub(super) fn conjuncts(filter: Option<&Expr>) -> Vec<Expr> {
    match filter.map(Expr::node) {
        None => Vec::new(),
        Some(ExprNode::And(parts)) => parts.iter().cloned().collect(),
        Some(_) => filter.into_iter().cloned().collect(),
    }
}

/// The conjunction of these conditions.
pub(super) fn conjunction(mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Expr::all(parts)),
    }
}

/// Whether lists of values become look-ups, or are left to the filter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    LookedUp,
    Compared,
}

/// Limit of combinations of values. Beyond it, the lists of the last columns are left to the
/// filter.
const COMBINATIONS_MAX: usize = 1 << 24;

/// The ranges of a key or an index that can be read for a condition, each with the rest of the
/// condition: one without look-ups, and one with them if there are lists of values.
pub(super) fn ranges_of(
    schema: &Schema,
    called: &str,
    parts: Vec<Expr>,
) -> Vec<(KeyRange, Vec<Expr>)> {
    let looked_up = range_of(schema, called, parts.clone(), Lists::LookedUp);
    let compared = range_of(schema, called, parts, Lists::Compared);
    let has_lists = looked_up.0 != compared.0;
    std::iter::once(compared)
        .chain(has_lists.then_some(looked_up))
        .collect()
}

/// The range of a key or an index for a condition, and the rest of the condition.
fn range_of(
    schema: &Schema,
    called: &str,
    mut parts: Vec<Expr>,
    lists: Lists,
) -> (KeyRange, Vec<Expr>) {
    let mut told: Vec<Vec<Datum>> = Vec::new();
    let mut combinations = 1_usize;
    for column in schema.key() {
        let column = KeyColumn {
            schema,
            at: *column,
            called,
        };
        let of_part = |part: &Expr| column.values_of(part, lists);
        let values = parts.iter().enumerate();
        let values = values.filter_map(|(at, part)| Some((at, of_part(part)?)));
        let Some((at, values)) = values.min_by_key(|(_, values)| values.len()) else {
            break;
        };
        combinations = combinations.saturating_mul(values.len());
        if combinations > COMBINATIONS_MAX {
            break;
        }
        parts.remove(at);
        told.push(values);
    }
    if told.iter().any(|values| values.len() != 1) {
        let range = KeyRange {
            one_of: told,
            ..KeyRange::default()
        };
        return (range, parts);
    }
    let mut range = KeyRange {
        equal: told.into_iter().flatten().collect(),
        ..KeyRange::default()
    };
    if let Some(at) = schema.key().get(range.equal.len()) {
        let column = KeyColumn {
            schema,
            at: *at,
            called,
        };
        parts.retain(|part| !column.bounds(part, &mut range));
    }
    (range, parts)
}

/// A column of the key of a table or an index.
struct KeyColumn<'s> {
    schema: &'s Schema,
    at: usize,
    /// The name of the table in the plan.
    called: &'s str,
}

impl KeyColumn<'_> {
    fn is_called(&self, name: &str) -> bool {
        let own = &self.schema.columns()[self.at].name;
        name == own
            || name
                .split_once('.')
                .is_some_and(|(table, column)| table == self.called && column == own)
    }

    /// A value with the type of the column. `None` if the column cannot have it, or if the binder
    /// refuses its type: both are left to the comparison.
    fn held(&self, value: &Datum) -> Option<Datum> {
        let column = &self.schema.columns()[self.at];
        let compares = value
            .column_type()
            .is_some_and(|own| own.compares_with(column.column_type));
        let held = compares.then(|| key_codec::checked(self.schema, self.at, value));
        held?.ok()
    }

    /// The values of the column with which a part of a condition is true; `None` if that does not
    /// depend on the column alone.
    fn values_of(&self, part: &Expr, lists: Lists) -> Option<Vec<Datum>> {
        match part.node() {
            ExprNode::Compare(..) => {
                let (comparison, name, value) = comparison_of(part)?;
                let is_equality = comparison == Comparison::Equal && self.is_called(name);
                let value = is_equality.then(|| self.held(value)).flatten()?;
                Some(vec![value])
            }
            ExprNode::In(inner, list) if lists == Lists::LookedUp => match inner.node() {
                ExprNode::Column(name) if self.is_called(name) => {
                    let values = list.sorted().values.iter();
                    Some(values.filter_map(|value| self.held(value)).collect())
                }
                _ => None,
            },
            ExprNode::Or(parts) if lists == Lists::LookedUp => {
                let mut all = Vec::new();
                for part in parts {
                    match part.node() {
                        ExprNode::Compare(..) | ExprNode::In(..) => {
                            all.append(&mut self.values_of(part, lists)?);
                        }
                        _ => return None,
                    }
                }
                all.sort_unstable();
                all.dedup();
                Some(all)
            }
            _ => None,
        }
    }

    /// Whether a part of a condition is a bound of the column, which becomes one of the range.
    fn bounds(&self, part: &Expr, range: &mut KeyRange) -> bool {
        let Some((comparison, name, value)) = comparison_of(part) else {
            return false;
        };
        if !self.is_called(name) {
            return false;
        }
        let Some(value) = self.held(value) else {
            return false;
        };
        let bound = match comparison {
            Comparison::GreaterOrEqual => &mut range.from,
            Comparison::Greater => &mut range.above,
            Comparison::LessOrEqual => &mut range.to,
            Comparison::Less => &mut range.below,
            Comparison::Equal | Comparison::NotEqual => return false,
        };
        // The second of two bounds of a kind is left to the filter.
        if bound.is_some() {
            return false;
        }
        *bound = Some(value);
        true
    }
}

/// A comparison of a column with a value.
fn comparison_of(part: &Expr) -> Option<(Comparison, &str, &Datum)> {
    let ExprNode::Compare(comparison, left, right) = part.node() else {
        return None;
    };
    match (left.node(), right.node()) {
        (ExprNode::Column(name), ExprNode::Literal(value)) => Some((*comparison, name, value)),
        (ExprNode::Literal(value), ExprNode::Column(name)) => {
            Some((turned(*comparison), name, value))
        }
        _ => None,
    }
}

/// Look-up values of the first columns of a key or an index, from pairs of equal expressions: one
/// over the outer row, one over the table. And the pairs that are left.
pub(super) fn lookup_of(
    schema: &Schema,
    called: &str,
    mut on: Vec<(Expr, Expr)>,
) -> (Vec<Expr>, Vec<(Expr, Expr)>) {
    let mut lookup = Vec::new();
    for at in schema.key() {
        let own = &schema.columns()[*at].name;
        let is_own = |(_, inner): &(Expr, Expr)| match inner.node() {
            ExprNode::Column(name) => {
                name == own
                    || name
                        .split_once('.')
                        .is_some_and(|(table, column)| table == called && column == own)
            }
            _ => false,
        };
        let Some(place) = on.iter().position(is_own) else {
            break;
        };
        lookup.push(on.remove(place).0);
    }
    (lookup, on)
}

/// The same condition with a table's name before each column that has none.
pub(super) fn qualified(expr: &Expr, called: &str) -> Expr {
    let own = |inner: &Expr| qualified(inner, called);
    Expr::from(match expr.node() {
        ExprNode::Column(name) if !name.contains('.') => {
            ExprNode::Column(format!("{called}.{name}"))
        }
        ExprNode::Column(_) | ExprNode::Literal(_) => return expr.clone(),
        ExprNode::Compare(comparison, left, right) => {
            ExprNode::Compare(*comparison, own(left), own(right))
        }
        ExprNode::Calculate(op, parts) => ExprNode::Calculate(*op, parts.iter().map(own).collect()),
        ExprNode::And(parts) => ExprNode::And(parts.iter().map(own).collect()),
        ExprNode::Or(parts) => ExprNode::Or(parts.iter().map(own).collect()),
        ExprNode::Not(inner) => ExprNode::Not(own(inner)),
        ExprNode::IsNull(inner) => ExprNode::IsNull(own(inner)),
        ExprNode::In(inner, list) => ExprNode::In(own(inner), list.clone()),
        ExprNode::StartsWith(inner, text) => ExprNode::StartsWith(own(inner), text.clone()),
        ExprNode::Contains(inner, text) => ExprNode::Contains(own(inner), text.clone()),
    })
}
