//! Which key or index reaches the rows for which conditions hold.

use crate::catalogue::Relation;
use crate::program::{CompareOperator, Path, Scalar};

/// A column compared with a value that is the same for all rows.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) column: usize,
    pub(super) operator: CompareOperator,
    pub(super) value: Scalar,
}

/// A path, and how good it is.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) path: Path,
    /// The conditions for which the path stands, by their numbers: all its rows meet them.
    pub(super) used: Vec<usize>,
    /// How many columns of the key or index are equal to a value.
    pub(super) equal: usize,
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
    if rank(&best) == (0, 0) {
        best.path = Path::Full;
    }
    best
}

/// Equal columns, then the number of bounds.
fn rank(chosen: &Chosen) -> (usize, usize) {
    (chosen.equal, chosen.used.len() - chosen.equal)
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
    let (mut equal, mut used) = (Vec::new(), Vec::new());
    let find = |column: usize, operators: &[CompareOperator]| {
        conditions
            .iter()
            .position(|it| it.column == column && operators.contains(&it.operator))
    };
    for column in columns {
        let Some(at) = find(*column, &[CompareOperator::Equal]) else {
            break;
        };
        equal.push(conditions[at].value.clone());
        used.push(at);
    }
    let (mut lower, mut upper) = (None, None);
    if let Some(column) = columns.get(equal.len()) {
        if let Some(at) = find(
            *column,
            &[CompareOperator::Greater, CompareOperator::GreaterOrEqual],
        ) {
            let included = conditions[at].operator == CompareOperator::GreaterOrEqual;
            lower = Some((conditions[at].value.clone(), included));
            used.push(at);
        }
        if let Some(at) = find(
            *column,
            &[CompareOperator::Less, CompareOperator::LessOrEqual],
        ) {
            let included = conditions[at].operator == CompareOperator::LessOrEqual;
            upper = Some((conditions[at].value.clone(), included));
            used.push(at);
        }
    }
    let count = equal.len();
    Chosen {
        path: Path::Range {
            index,
            equal,
            lower,
            upper,
        },
        used,
        equal: count,
    }
}
