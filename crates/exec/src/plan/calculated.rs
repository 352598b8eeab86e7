//! Calculations of operators: named expressions, aggregates, sort keys.

use serde::Serialize;

use super::expression::{Expr, ExprNode, column};

/// An expression with a name. In a plan file a column alone stands for itself under its own name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "WrittenNamed")]
pub struct Named {
    /// The name of the column above.
    pub name: String,
    /// The expression.
    pub of: Expr,
}

#[derive(Clone, Serialize)]
#[serde(untagged)]
enum WrittenNamed {
    Column(String),
    Named {
        #[serde(rename = "as")]
        name: String,
        of: Expr,
    },
}

impl From<Named> for WrittenNamed {
    fn from(named: Named) -> Self {
        match named.of.node() {
            ExprNode::Column(column) if own_name(column) == named.name => {
                Self::Column(column.clone())
            }
            _ => Self::Named {
                name: named.name,
                of: named.of,
            },
        }
    }
}

/// The column's name without its table's.
fn own_name(column: &str) -> &str {
    column.rsplit_once('.').map_or(column, |(_, name)| name)
}

impl Named {
    /// A column under its own name.
    #[must_use]
    pub fn column(name: &str) -> Self {
        Self {
            name: own_name(name).to_owned(),
            of: column(name),
        }
    }

    /// An expression under a name.
    #[must_use]
    pub fn new(name: &str, of: Expr) -> Self {
        Self {
            name: name.to_owned(),
            of,
        }
    }
}

/// One calculation over a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AggregateCall {
    /// The function.
    pub function: AggregateFunction,
    /// The argument; without one, rows are counted. Missing values are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<Expr>,
    /// The name of the column above.
    #[serde(rename = "as")]
    pub name: String,
}

/// Aggregate functions. All are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregateFunction {
    /// The number of values or rows, an `i64`.
    Count,
    /// The sum, a decimal with the scale of what is added, of sixteen bytes. Missing without
    /// values.
    Sum,
    /// The least value. Missing without values.
    Min,
    /// The greatest value. Missing without values.
    Max,
    /// The mean, a decimal with six more digits, rounded half away from zero. Missing without
    /// values.
    Avg,
}

impl AggregateFunction {
    /// All functions.
    pub const ALL: [Self; 5] = [Self::Count, Self::Sum, Self::Min, Self::Max, Self::Avg];

    /// The name as it is written in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }
}

/// A sort key. In a plan file an expression alone means ascending.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "WrittenSortKey")]
pub struct SortKey {
    /// The expression that decides by its value; missing values come first.
    pub of: Expr,
    /// Whether the greatest comes first, and missing values last.
    pub descending: bool,
}

#[derive(Clone, Serialize)]
#[serde(untagged)]
enum WrittenSortKey {
    Descending { descending: Expr },
    Ascending(Expr),
}

impl From<SortKey> for WrittenSortKey {
    fn from(key: SortKey) -> Self {
        if key.descending {
            Self::Descending { descending: key.of }
        } else {
            Self::Ascending(key.of)
        }
    }
}
