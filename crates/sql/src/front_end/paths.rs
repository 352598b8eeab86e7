//! Which key or index reaches the rows for which conditions hold.

use std::cmp::Reverse;

use crate::catalogue::Relation;
use crate::program::{CompareOperator, Path, Scalar};

/// Most look-ups for a list of values.
const LOOKUPS_MAX: usize = 1024;

/// A column compared with values that are the same for all rows.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) column: usize,
    pub(super) operator: CompareOperator,
    /// One; of [`CompareOperator::Equal`] perhaps several, of which the column equals one.
    pub(super) values: Vec<Scalar>,
}

/// A path, and how good it is.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) path: Path,
    /// The conditions for which the path stands, by their numbers: all its rows meet them.
    pub(super) used: Vec<usize>,
    /// How many columns of the key or index are equal to a value.
    pub(super) equal: usize,
    /// For how many combinations of values rows are looked up.
    lookups: usize,
}

/// The best path: the whole key, then the most columns that are equal to a value, then bounds.
pub(super) fn choose_path(relation: &Relation, conditions: &[Condition]) -> Chosen {
    let mut best = candidate(None, relation.layout.key(), conditions);
    if best.equal == relation.layout.key().len() {
        return whole_key(best);
    }
    for (at, index) in relation.row.indexes.iter().enumerate() {
        let found = candidate(Some(at), &index.columns, conditions);
        if rank(&found) > rank(&best) {
            best = found;
        }
    }
    if best.used.is_empty() {
        best.path = Path::Full;
    }
    best
}

/// Equal columns, then the number of bounds, then few look-ups.
fn rank(chosen: &Chosen) -> (usize, usize, Reverse<usize>) {
    (
        chosen.equal,
        chosen.used.len() - chosen.equal,
        Reverse(chosen.lookups),
    )
}

fn whole_key(chosen: Chosen) -> Chosen {
    match chosen.path {
        Path::Range { equal, .. } => Chosen {
            path: Path::Key(equal),
            ..chosen
        },
        path => Chosen { path, ..chosen },
    }
}

fn candidate(index: Option<usize>, columns: &[usize], conditions: &[Condition]) -> Chosen {
    let (mut values, mut used, mut lookups) = (Vec::new(), Vec::new(), 1);
    let find = |column: usize, operators: &[CompareOperator]| {
        conditions
            .iter()
            .position(|it| it.column == column && operators.contains(&it.operator))
    };
    for column in columns {
        let is_equal =
            |it: &Condition| it.column == *column && it.operator == CompareOperator::Equal;
        let equals = conditions.iter().enumerate().filter(|(_, it)| is_equal(it));
        let shortest = equals.min_by_key(|(_, it)| it.values.len());
        let Some((at, condition)) = shortest else {
            break;
        };
        let more = condition.values.len().saturating_mul(lookups);
        if more > LOOKUPS_MAX {
            break;
        }
        lookups = more;
        values.push(condition.values.clone());
        used.push(at);
    }
    let count = values.len();
    let is_single = |values: &Vec<Scalar>| values.len() == 1;
    if !values.iter().all(is_single) {
        return Chosen {
            path: Path::OneOf { index, values },
            used,
            equal: count,
            lookups,
        };
    }
    let equal: Vec<Scalar> = values.into_iter().flatten().collect();
    let (mut lower, mut upper) = (None, None);
    if let Some(column) = columns.get(equal.len()) {
        if let Some(at) = find(
            *column,
            &[CompareOperator::Greater, CompareOperator::GreaterOrEqual],
        ) {
            let included = conditions[at].operator == CompareOperator::GreaterOrEqual;
            lower = Some((conditions[at].values[0].clone(), included));
            used.push(at);
        }
        if let Some(at) = find(
            *column,
            &[CompareOperator::Less, CompareOperator::LessOrEqual],
        ) {
            let included = conditions[at].operator == CompareOperator::LessOrEqual;
            upper = Some((conditions[at].values[0].clone(), included));
            used.push(at);
        }
    }
    Chosen {
        path: Path::Range {
            index,
            equal,
            lower,
            upper,
        },
        used,
        equal: count,
        lookups,
    }
}
