//! The types of columns.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The type of a column. Queries compare and group floating-point numbers, but do not calculate with
/// them: rows arrive in any order, and a sum must not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// True or false, one byte.
    Bool,
    /// A signed integer, eight bytes.
    I64,
    /// An unsigned integer, eight bytes.
    U64,
    /// A decimal number: an integer of eight bytes, divided by ten to the power of `scale`. Results
    /// of arithmetic have sixteen bytes.
    Decimal {
        /// Digits behind the point.
        scale: u8,
    },
    /// A decimal number that is stored in sixteen bytes. Its values are those of a decimal.
    #[serde(rename = "long_decimal")]
    LongDecimal {
        /// Digits behind the point.
        scale: u8,
    },
    /// A floating-point number, eight bytes. See [`Float`](super::Float) for its order.
    F64,
    /// A day: days since 1970-01-01, four bytes.
    Date,
    /// UTF-8 text of any length. Compares by bytes.
    Text,
    /// Bytes of any number.
    Bytes,
}

/// The most digits behind the point of a decimal.
pub const SCALE_MAX: u8 = 30;

impl ColumnType {
    /// The bytes of a column of this type in a row, if all its values have the same length.
    #[inline]
    #[must_use]
    pub const fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::Bool => Some(1),
            Self::Date => Some(4),
            Self::I64 | Self::U64 | Self::Decimal { .. } | Self::F64 => Some(8),
            Self::LongDecimal { .. } => Some(16),
            Self::Text | Self::Bytes => None,
        }
    }

    /// Whether values can be added and multiplied.
    #[inline]
    #[must_use]
    pub const fn is_number(self) -> bool {
        matches!(
            self,
            Self::I64 | Self::U64 | Self::Decimal { .. } | Self::LongDecimal { .. }
        )
    }

    /// The type of the values of a column of this type, however they are stored.
    #[inline]
    #[must_use]
    pub const fn of_values(self) -> Self {
        match self {
            Self::LongDecimal { scale } => Self::Decimal { scale },
            other => other,
        }
    }

    /// The digits behind the point of a decimal.
    #[inline]
    #[must_use]
    pub const fn scale(self) -> Option<u8> {
        match self {
            Self::Decimal { scale } | Self::LongDecimal { scale } => Some(scale),
            _ => None,
        }
    }

    /// Whether values of the two types compare with each other.
    #[inline]
    #[must_use]
    pub fn compares_with(self, other: Self) -> bool {
        self == other || self.is_number() && other.is_number()
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::I64 => f.write_str("i64"),
            Self::U64 => f.write_str("u64"),
            Self::Decimal { scale } => write!(f, "decimal({scale})"),
            Self::LongDecimal { scale } => write!(f, "long_decimal({scale})"),
            Self::F64 => f.write_str("f64"),
            Self::Date => f.write_str("date"),
            Self::Text => f.write_str("text"),
            Self::Bytes => f.write_str("bytes"),
        }
    }
}
