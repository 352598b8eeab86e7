//! The ways to reach the rows of a table: which parts of a condition a key or an index can tell, and which it can be
//! looked up by.

use super::selectivity::turned;
use crate::data::{Datum, Schema, key_codec};
use crate::plan::{Comparison, Expr, KeyRange};

/// The parts of a condition that must all be true.
pub(super) fn conjuncts(filter: Option<&Expr>) -> Vec<Expr> {
    match filter {
        None => Vec::new(),
        Some(Expr::And(parts)) => parts
            .iter()
            .flat_map(|part| conjuncts(Some(part)))
            .collect(),
        Some(other) => vec![other.clone()],
    }
}

/// All of these together.
pub(super) fn conjunction(mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Expr::And(parts)),
    }
}

/// The range of a key or an index that parts of a condition tell, and the parts that are left.
pub(super) fn range_of(
    schema: &Schema,
    called: &str,
    mut parts: Vec<Expr>,
) -> (KeyRange, Vec<Expr>) {
    let mut range = KeyRange::default();
    for at in schema.key() {
        let column = &schema.columns()[*at];
        let told = |part: &Expr| -> Option<(Comparison, Datum)> {
            let (comparison, name, value) = comparison_of(part)?;
            let is_own = name == column.name
                || name
                    .split_once('.')
                    .is_some_and(|(table, own)| table == called && own == column.name);
            // A value that the column cannot hold, or of a type that the binder refuses, is left to the comparison.
            let compares = value
                .column_type()
                .is_some_and(|own| own.compares_with(column.column_type));
            let value = key_codec::checked(schema, *at, value).ok();
            (is_own && compares).then_some((comparison, value?))
        };
        let equal = parts.iter().position(|part| {
            told(part).is_some_and(|(comparison, _)| comparison == Comparison::Equal)
        });
        if let Some(place) = equal
            && let Some((_, value)) = told(&parts.remove(place))
        {
            range.equal.push(value);
            continue;
        }
        parts.retain(|part| {
            let Some((comparison, value)) = told(part) else {
                return true;
            };
            let bound = match comparison {
                Comparison::GreaterOrEqual => &mut range.from,
                Comparison::Greater => &mut range.above,
                Comparison::LessOrEqual => &mut range.to,
                Comparison::Less => &mut range.below,
                Comparison::Equal | Comparison::NotEqual => return true,
            };
            // Of two bounds of a kind the second is compared.
            if bound.is_some() {
                return true;
            }
            *bound = Some(value);
            false
        });
        break;
    }
    (range, parts)
}

/// A comparison of a column with a value.
fn comparison_of(part: &Expr) -> Option<(Comparison, &str, &Datum)> {
    let Expr::Compare(comparison, left, right) = part else {
        return None;
    };
    match (&**left, &**right) {
        (Expr::Column(name), Expr::Literal(value)) => Some((*comparison, name, value)),
        (Expr::Literal(value), Expr::Column(name)) => Some((turned(*comparison), name, value)),
        _ => None,
    }
}

/// What the first columns of a key or an index are looked up by, given pairs of equal expressions: one over the outer
/// row, one over the table. And the pairs that are left.
pub(super) fn lookup_of(
    schema: &Schema,
    called: &str,
    mut on: Vec<(Expr, Expr)>,
) -> (Vec<Expr>, Vec<(Expr, Expr)>) {
    let mut lookup = Vec::new();
    for at in schema.key() {
        let own = &schema.columns()[*at].name;
        let is_own = |(_, inner): &(Expr, Expr)| match inner {
            Expr::Column(name) => {
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
    let boxed = |inner: &Expr| Box::new(qualified(inner, called));
    let all = |parts: &[Expr]| parts.iter().map(|part| qualified(part, called)).collect();
    match expr {
        Expr::Column(name) if !name.contains('.') => Expr::Column(format!("{called}.{name}")),
        Expr::Column(_) | Expr::Literal(_) => expr.clone(),
        Expr::Compare(comparison, left, right) => {
            Expr::Compare(*comparison, boxed(left), boxed(right))
        }
        Expr::Calculate(op, left, right) => Expr::Calculate(*op, boxed(left), boxed(right)),
        Expr::And(parts) => Expr::And(all(parts)),
        Expr::Or(parts) => Expr::Or(all(parts)),
        Expr::Not(inner) => Expr::Not(boxed(inner)),
        Expr::IsNull(inner) => Expr::IsNull(boxed(inner)),
        Expr::In(inner, list) => Expr::In(boxed(inner), list.clone()),
        Expr::StartsWith(inner, text) => Expr::StartsWith(boxed(inner), text.clone()),
        Expr::Contains(inner, text) => Expr::Contains(boxed(inner), text.clone()),
    }
}
