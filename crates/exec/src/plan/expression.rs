//! Expressions over the columns of a row.

use std::fmt;

use crate::data::{Arithmetic, Datum};

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessOrEqual,
        Self::Greater,
        Self::GreaterOrEqual,
    ];

    /// As it is written.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// Whether it holds of two values that compare like this.
    #[inline]
    #[must_use]
    pub const fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// An expression. Logic has three values: a comparison with a missing value is neither true nor false, and a
/// filter keeps what is true.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A column by its name, or by table and name with a point between.
    Column(String),
    /// A value.
    Literal(Datum),
    /// A comparison.
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// Whether all are true.
    And(Vec<Expr>),
    /// Whether one is true.
    Or(Vec<Expr>),
    /// Whether it is false.
    Not(Box<Expr>),
    /// Whether there is no value.
    IsNull(Box<Expr>),
    /// Whether the value is one of these.
    In(Box<Expr>, Vec<Datum>),
    /// Whether text begins with this.
    StartsWith(Box<Expr>, String),
    /// Whether text has this in it.
    Contains(Box<Expr>, String),
    /// A calculation.
    Calculate(Arithmetic, Box<Expr>, Box<Expr>),
}

/// A column by its name, or by table and name with a point between.
#[must_use]
pub fn column(name: &str) -> Expr {
    Expr::Column(name.to_owned())
}

/// A value.
#[must_use]
pub fn literal(value: impl Into<Datum>) -> Expr {
    Expr::Literal(value.into())
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident => $comparison:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(self, other: Self) -> Self {
            Self::Compare(Comparison::$comparison, Box::new(self), Box::new(other))
        }
    )*};
}

impl Expr {
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

    /// Whether both are true.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match self {
            Self::And(mut all) => {
                all.push(other);
                Self::And(all)
            }
            first => Self::And(vec![first, other]),
        }
    }

    /// Whether one of the two is true.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::Or(vec![self, other])
    }

    /// `self + other`
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::Calculate(Arithmetic::Add, Box::new(self), Box::new(other))
    }

    /// `self - other`
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self::Calculate(Arithmetic::Subtract, Box::new(self), Box::new(other))
    }

    /// `self * other`
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self::Calculate(Arithmetic::Multiply, Box::new(self), Box::new(other))
    }
}

macro_rules! datum_from {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Datum {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
datum_from!(bool => Bool, i32 => I64, i64 => I64, u64 => U64, &str => Text, String => Text);

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[Self], word: &str| {
            for (at, part) in parts.iter().enumerate() {
                if at > 0 {
                    write!(f, " {word} ")?;
                }
                match part {
                    Self::And(_) | Self::Or(_) => write!(f, "({part})")?,
                    _ => write!(f, "{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Column(name) => f.write_str(name),
            Self::Literal(value) => display_literal(f, value),
            Self::Compare(comparison, left, right) => {
                write!(f, "{left} {} {right}", comparison.symbol())
            }
            Self::And(parts) => joined(f, parts, "and"),
            Self::Or(parts) => joined(f, parts, "or"),
            Self::Not(inner) => write!(f, "not ({inner})"),
            Self::IsNull(inner) => write!(f, "{inner} is null"),
            Self::In(inner, list) => {
                write!(f, "{inner} in (")?;
                for (at, value) in list.iter().enumerate() {
                    f.write_str(if at > 0 { ", " } else { "" })?;
                    display_literal(f, value)?;
                }
                f.write_str(")")
            }
            Self::StartsWith(inner, text) => write!(f, "{inner} starts with '{text}'"),
            Self::Contains(inner, text) => write!(f, "{inner} contains '{text}'"),
            Self::Calculate(op, left, right) => write!(f, "({left} {} {right})", op.symbol()),
        }
    }
}

fn display_literal(f: &mut fmt::Formatter<'_>, value: &Datum) -> fmt::Result {
    match value {
        Datum::Text(_) | Datum::Date(_) => write!(f, "'{value}'"),
        _ => write!(f, "{value}"),
    }
}
