//! Expressions over the columns of a row.
//!
//! An expression is built by functions, and immutable. A chain of `and`, of `or`, or of one
//! calculation is one level, however long it is; everything else adds a level. Expressions of more
//! than [`Expr::DEPTH_MAX`] levels can be built, dropped, cloned and compared; running or writing
//! them is refused (`tree.rs`).

use std::collections::VecDeque;
use std::ops::Not;

use namiki_data::columns::{Arithmetic, Datum};

use super::comparison::Comparison;
use super::limits::{
    EXPRESSION_DEPTH_MAX, PARTS_MAX, parts_of_text, parts_of_value, parts_of_values,
};
use super::tree::{Node, Size, Tree};
use super::value_list::ValueList;
use crate::error::PlanError;

/// An expression. Logic has three values: a comparison with a missing value is neither true nor
/// false, and a filter keeps what is true.
///
/// ```
/// use namiki_exec::plan::{Expr, column, literal};
///
/// let rich = column("c_acctbal").greater(literal(9_980));
/// let filter = rich.and(!column("c_phone").is_null());
/// assert_eq!(filter.to_string(), "c_acctbal > 9980 and not (c_phone is null)");
/// assert_eq!(filter, r#"{"and": [{">": ["c_acctbal", 9980]}, {"not": {"is_null": "c_phone"}}]}"#.parse::<Expr>()?);
/// # Ok::<(), namiki_exec::plan::PlanTextError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Expr(pub(super) Tree<ExprNode>);

/// The root of an expression, for reading ([`Expr::node`]).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExprNode {
    /// A column by its name, or by table and name with a point between.
    Column(String),
    /// A value.
    Literal(Datum),
    /// A comparison.
    Compare(Comparison, Expr, Expr),
    /// Whether all are true. No operand is an `And` itself.
    And(VecDeque<Expr>),
    /// Whether one is true. No operand is an `Or` itself.
    Or(VecDeque<Expr>),
    /// Whether it is false.
    Not(Expr),
    /// Whether there is no value.
    IsNull(Expr),
    /// Whether the value is one of these.
    In(Expr, ValueList),
    /// Whether text begins with this.
    StartsWith(Expr, String),
    /// Whether text has this in it.
    Contains(Expr, String),
    /// From the first to the last: `((a - b) - c)`. At least two.
    Calculate(Arithmetic, Vec<Expr>),
}

impl Node for ExprNode {
    const LEVELS: &'static str = "levels in an expression";
    const NODES: &'static str = "parts in an expression";
    const DEPTH_MAX: u32 = Expr::DEPTH_MAX;
    const NODES_MAX: u64 = PARTS_MAX;

    fn own_parts(&self) -> u64 {
        1 + match self {
            Self::Literal(value) => parts_of_value(value),
            Self::In(_, list) => parts_of_values(list.written()),
            Self::StartsWith(_, text) | Self::Contains(_, text) => parts_of_text(text),
            _ => 0,
        }
    }

    fn leaf() -> Tree<Self> {
        use std::sync::LazyLock;
        static LEAF: LazyLock<Expr> = LazyLock::new(|| literal(false));
        LEAF.0.clone()
    }

    fn visit_children<'n>(&'n self, visit: &mut dyn FnMut(&'n Tree<Self>)) {
        match self {
            Self::Column(_) | Self::Literal(_) => {}
            Self::Compare(_, left, right) => {
                visit(&left.0);
                visit(&right.0);
            }
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| visit(&part.0)),
            Self::Calculate(_, parts) => parts.iter().for_each(|part| visit(&part.0)),
            Self::Not(inner)
            | Self::IsNull(inner)
            | Self::In(inner, _)
            | Self::StartsWith(inner, _)
            | Self::Contains(inner, _) => visit(&inner.0),
        }
    }

    fn visit_children_mut(&mut self, visit: &mut dyn FnMut(&mut Tree<Self>)) {
        match self {
            Self::Column(_) | Self::Literal(_) => {}
            Self::Compare(_, left, right) => {
                visit(&mut left.0);
                visit(&mut right.0);
            }
            Self::And(parts) | Self::Or(parts) => {
                parts.iter_mut().for_each(|part| visit(&mut part.0));
            }
            Self::Calculate(_, parts) => parts.iter_mut().for_each(|part| visit(&mut part.0)),
            Self::Not(inner)
            | Self::IsNull(inner)
            | Self::In(inner, _)
            | Self::StartsWith(inner, _)
            | Self::Contains(inner, _) => visit(&mut inner.0),
        }
    }
}

/// A column by its name, or by table and name with a point between.
#[must_use]
pub fn column(name: &str) -> Expr {
    ExprNode::Column(name.to_owned()).into()
}

/// A value.
#[must_use]
pub fn literal(value: impl Into<Datum>) -> Expr {
    ExprNode::Literal(value.into()).into()
}

impl From<ExprNode> for Expr {
    fn from(node: ExprNode) -> Self {
        Self(Tree::new(node))
    }
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident => $comparison:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(self, other: Self) -> Self {
            self.compare(Comparison::$comparison, other)
        }
    )*};
}

/// The kind of a chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chain {
    And,
    Or,
}

impl Expr {
    /// Levels that can be run and written. A chain of `and`, of `or`, or of one calculation is one
    /// level.
    pub const DEPTH_MAX: u32 = EXPRESSION_DEPTH_MAX;

    /// Its root.
    #[must_use]
    pub fn node(&self) -> &ExprNode {
        &self.0
    }

    /// Checks the limits of levels and parts.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        self.0.size().check::<ExprNode>()
    }

    comparisons! {
        /// `self = other`
        equal => Equal;
        /// `self <> other`
        not_equal => NotEqual;
        /// `self < other`
        less => Less;
        /// `self <= other`
        less_or_equal => LessOrEqual;
        /// `self > other`
        greater => Greater;
        /// `self >= other`
        greater_or_equal => GreaterOrEqual;
    }

    /// A comparison that is known at run time.
    #[must_use]
    pub fn compare(self, comparison: Comparison, other: Self) -> Self {
        ExprNode::Compare(comparison, self, other).into()
    }

    /// Whether both are true.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.chained(Chain::And, other)
    }

    /// Whether one of the two is true.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.chained(Chain::Or, other)
    }

    /// Whether all of these are true; true for an empty list.
    #[must_use]
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::chain(Chain::And, parts)
    }

    /// Whether one of these is true; false for an empty list.
    #[must_use]
    pub fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::chain(Chain::Or, parts)
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_null(self) -> Self {
        ExprNode::IsNull(self).into()
    }

    /// Whether the value is one of these.
    #[must_use]
    pub fn is_in(self, values: impl IntoIterator<Item = impl Into<Datum>>) -> Self {
        let values = ValueList::new(values.into_iter().map(Into::into));
        ExprNode::In(self, values).into()
    }

    /// Whether text begins with this.
    #[must_use]
    pub fn starts_with(self, text: &str) -> Self {
        ExprNode::StartsWith(self, text.to_owned()).into()
    }

    /// Whether text has this in it.
    #[must_use]
    pub fn contains(self, text: &str) -> Self {
        ExprNode::Contains(self, text.to_owned()).into()
    }

    /// `self + other`
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.calculate(Arithmetic::Add, other)
    }

    /// `self - other`
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.calculate(Arithmetic::Subtract, other)
    }

    /// `self * other`
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        self.calculate(Arithmetic::Multiply, other)
    }

    /// Calculates from left to right. Only a chain to the left becomes longer: `a + (b + c)` may
    /// fit where `(a + b) + c` does not.
    pub(super) fn calculate(mut self, op: Arithmetic, other: Self) -> Self {
        if !matches!(self.node(), ExprNode::Calculate(own, _) if *own == op) {
            return ExprNode::Calculate(op, vec![self, other]).into();
        }
        self.0.add_child(other.0.size(), |node| {
            if let ExprNode::Calculate(_, parts) = node {
                parts.push(other);
            }
        });
        self
    }

    fn chain(chain: Chain, parts: impl IntoIterator<Item = Self>) -> Self {
        let none = match chain {
            Chain::And => ExprNode::And(VecDeque::new()),
            Chain::Or => ExprNode::Or(VecDeque::new()),
        };
        let mut all = Self::from(none);
        for part in parts {
            match part.into_parts(chain) {
                Ok(parts) => parts.into_iter().for_each(|part| all.push(part, false)),
                Err(part) => all.push(part, false),
            }
        }
        all
    }

    /// Both in one chain. The shorter one moves.
    fn chained(self, chain: Chain, other: Self) -> Self {
        let (own, others) = (self.chain_length(chain), other.chain_length(chain));
        let is_in_front = others > own;
        let (mut all, moved) = match (own, others) {
            (0, 0) => return Self::chain(chain, [self, other]),
            _ if is_in_front => (other, self),
            _ => (self, other),
        };
        match moved.into_parts(chain) {
            Err(part) => all.push(part, is_in_front),
            Ok(parts) if is_in_front => parts
                .into_iter()
                .rev()
                .for_each(|part| all.push(part, true)),
            Ok(parts) => parts.into_iter().for_each(|part| all.push(part, false)),
        }
        all
    }

    /// Number of parts of a chain; 0 for another expression.
    fn chain_length(&self, chain: Chain) -> usize {
        match (chain, self.node()) {
            (Chain::And, ExprNode::And(parts)) | (Chain::Or, ExprNode::Or(parts)) => parts.len(),
            _ => 0,
        }
    }

    /// The parts of a chain; the expression itself if it is another one.
    fn into_parts(self, chain: Chain) -> Result<VecDeque<Self>, Self> {
        match (chain, self.node()) {
            (Chain::And, ExprNode::And(_)) | (Chain::Or, ExprNode::Or(_)) => {}
            _ => return Err(self),
        }
        match self.0.into_root() {
            ExprNode::And(parts) | ExprNode::Or(parts) => Ok(parts),
            other => Err(other.into()),
        }
    }

    /// Number of parts.
    pub(super) fn parts(&self) -> u64 {
        self.0.size().parts
    }

    /// Adds a part to a chain.
    fn push(&mut self, part: Self, in_front: bool) {
        self.0.add_child(part.0.size(), |node| match node {
            ExprNode::And(parts) | ExprNode::Or(parts) if in_front => parts.push_front(part),
            ExprNode::And(parts) | ExprNode::Or(parts) => parts.push_back(part),
            _ => {}
        });
    }

    /// Its size.
    pub(super) fn size(&self) -> Size {
        self.0.size()
    }
}

impl Not for Expr {
    type Output = Self;

    /// Whether it is false.
    fn not(self) -> Self {
        ExprNode::Not(self).into()
    }
}
