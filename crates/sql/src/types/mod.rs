//! The types of SQL, and how their values are stored, read and written.
//!
//! A value is a [`Datum`]: integers of all widths are `I64`, both timestamps are microseconds since 1970 in an `I64`, a
//! uuid is sixteen bytes, json is its text.

mod binary_input;
mod binary_output;
mod numeric;
mod text_input;
mod text_output;
mod time;

use std::fmt;

use namiki_data::columns::{ColumnType, Datum};
use serde::{Deserialize, Serialize};

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

pub(crate) use binary_input::{from_binary, utf8};
pub(crate) use binary_output::write_binary;
pub(crate) use numeric::{POWERS_OF_TEN, parse_numeric, rescale_input, rescale_rounded};
pub(crate) use text_input::from_text;
pub(crate) use text_output::write_text;
pub(crate) use time::{TimeZone, now_micros};

/// A type of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SqlType {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric(precision, scale)`
    Numeric {
        /// All digits.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// `text`
    Text,
    /// `character varying(limit)`; 0: without a limit.
    Varchar {
        /// The most characters.
        limit: u32,
    },
    /// `character(length)`
    Char {
        /// The number of characters; 0: any, as of a parameter.
        length: u32,
    },
    /// `date`
    Date,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    Timestamptz,
    /// `uuid`
    Uuid,
    /// `bytea`
    Bytea,
    /// `json`, kept as its text.
    Json,
    /// `name`: text in the catalogue.
    Name,
    /// `oid`
    Oid,
    /// `interval`, in results only, as text.
    Interval,
}

/// Digits of a `numeric` without precision.
pub(crate) const NUMERIC_PRECISION: u8 = 38;
/// Its digits behind the point.
pub(crate) const NUMERIC_SCALE: u8 = 10;

impl SqlType {
    /// The `numeric` without precision and scale.
    pub(crate) const NUMERIC: Self = Self::Numeric {
        precision: NUMERIC_PRECISION,
        scale: NUMERIC_SCALE,
    };
    /// The `character` without a length: spaces at the end have no meaning.
    pub(crate) const BPCHAR: Self = Self::Char { length: 0 };
    /// The `varchar` without a limit.
    pub(crate) const VARCHAR: Self = Self::Varchar { limit: 0 };

    /// Its number in `pg_type`.
    #[must_use]
    pub(crate) fn oid(self) -> u32 {
        match self {
            Self::Bool => 16,
            Self::Bytea => 17,
            Self::Name => 19,
            Self::Int8 => 20,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Text => 25,
            Self::Oid => 26,
            Self::Json => 114,
            Self::Float4 => 700,
            Self::Float8 => 701,
            Self::Char { .. } => 1042,
            Self::Varchar { .. } => 1043,
            Self::Date => 1082,
            Self::Timestamp => 1114,
            Self::Timestamptz => 1184,
            Self::Interval => 1186,
            Self::Numeric { .. } => 1700,
            Self::Uuid => 2950,
        }
    }

    /// The type of a number in `pg_type`; `None` if there is none here.
    #[must_use]
    pub(crate) fn from_oid(oid: u32) -> Option<Self> {
        Some(match oid {
            16 => Self::Bool,
            17 => Self::Bytea,
            18 | 19 => Self::Name,
            20 => Self::Int8,
            21 => Self::Int2,
            23 => Self::Int4,
            25 => Self::Text,
            26 | 2205 => Self::Oid,
            114 | 3802 => Self::Json,
            700 => Self::Float4,
            701 => Self::Float8,
            1042 => Self::BPCHAR,
            1043 => Self::VARCHAR,
            1082 => Self::Date,
            1114 => Self::Timestamp,
            1184 => Self::Timestamptz,
            1700 => Self::NUMERIC,
            2950 => Self::Uuid,
            _ => return None,
        })
    }

    /// Its length in bytes as `pg_type.typlen` has it; -1: variable.
    #[must_use]
    pub(crate) fn size(self) -> i16 {
        match self {
            Self::Bool => 1,
            Self::Int2 => 2,
            Self::Int4 | Self::Float4 | Self::Date | Self::Oid => 4,
            Self::Int8 | Self::Float8 | Self::Timestamp | Self::Timestamptz => 8,
            Self::Uuid | Self::Interval => 16,
            Self::Name => 64,
            _ => -1,
        }
    }

    /// Its modifier as `pg_attribute.atttypmod` has it; -1: none.
    #[must_use]
    pub(crate) fn modifier(self) -> i32 {
        match self {
            Self::Varchar { limit } if limit > 0 => limit as i32 + 4,
            Self::Char { length } if length > 0 => length as i32 + 4,
            Self::Numeric { .. } if self == Self::NUMERIC => -1,
            Self::Numeric { precision, scale } => {
                ((i32::from(precision) << 16) | i32::from(scale)) + 4
            }
            _ => -1,
        }
    }

    /// The type in which its values are stored.
    pub(crate) fn column_type(self) -> ColumnType {
        match self {
            Self::Bool => ColumnType::Bool,
            Self::Int2
            | Self::Int4
            | Self::Int8
            | Self::Oid
            | Self::Timestamp
            | Self::Timestamptz => ColumnType::I64,
            Self::Float4 | Self::Float8 => ColumnType::F64,
            // Eighteen digits fit into eight bytes.
            Self::Numeric { precision, scale } if precision <= 18 => ColumnType::Decimal { scale },
            Self::Numeric { scale, .. } => ColumnType::LongDecimal { scale },
            Self::Date => ColumnType::Date,
            Self::Uuid | Self::Bytea => ColumnType::Bytes,
            Self::Text
            | Self::Varchar { .. }
            | Self::Char { .. }
            | Self::Json
            | Self::Name
            | Self::Interval => ColumnType::Text,
        }
    }

    /// Whether a value is a whole number.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::Int2 | Self::Int4 | Self::Int8 | Self::Oid)
    }

    /// Whether zeros at the end of the fraction are not shown: no scale was declared. Of a `numeric` without
    /// precision, and of what is calculated with one.
    pub(crate) fn hides_zeros(self) -> bool {
        matches!(self, Self::Numeric { precision: NUMERIC_PRECISION, scale } if scale >= NUMERIC_SCALE)
    }

    /// Whether a value is a text.
    pub(crate) fn is_text(self) -> bool {
        self.column_type() == ColumnType::Text
    }

    /// The least and greatest whole number of the type.
    pub(crate) fn integer_range(self) -> (i64, i64) {
        match self {
            Self::Int2 => (i16::MIN.into(), i16::MAX.into()),
            Self::Int4 => (i32::MIN.into(), i32::MAX.into()),
            Self::Oid => (0, u32::MAX.into()),
            _ => (i64::MIN, i64::MAX),
        }
    }

    /// The value as a column of this type stores it: lengths are checked, numbers rounded to the scale.
    ///
    /// # Errors
    /// 22003 or 22001 if it does not fit; 42804 if it is of another kind.
    pub(crate) fn assign(self, value: Datum) -> SqlResult<Datum> {
        match (self, value) {
            (_, Datum::Null) => Ok(Datum::Null),
            (Self::Int2 | Self::Int4 | Self::Oid, Datum::I64(number)) => {
                let (least, greatest) = self.integer_range();
                if (least..=greatest).contains(&number) {
                    Ok(Datum::I64(number))
                } else {
                    Err(self.out_of_range())
                }
            }
            (Self::Numeric { precision, scale }, value) => {
                let (unscaled, from) = match value {
                    Datum::Decimal { unscaled, scale } => (unscaled, scale),
                    Datum::I64(number) => (i128::from(number), 0),
                    _ => return Err(self.mismatch()),
                };
                let unscaled = rescale_rounded(unscaled, from, scale)
                    .filter(|it| {
                        it.unsigned_abs() < POWERS_OF_TEN[usize::from(precision)].unsigned_abs()
                    })
                    .ok_or_else(|| numeric_overflow(precision, scale))?;
                Ok(Datum::Decimal { unscaled, scale })
            }
            (Self::Varchar { limit }, Datum::Text(text)) if limit > 0 => {
                cut(text, limit as usize, self).map(Datum::Text)
            }
            // Stored without the spaces at the end, which have no meaning; shown with them.
            (Self::Char { length }, Datum::Text(text)) => {
                let mut text = match length {
                    0 => text,
                    length => cut(text, length as usize, self)?,
                };
                text.truncate(text.trim_end_matches(' ').len());
                Ok(Datum::Text(text))
            }
            // A plan of DataFusion's has uuids as texts.
            (Self::Uuid, Datum::Text(text)) => from_text(self, &text, TimeZone::Utc),
            (Self::Float4, Datum::F64(number)) => {
                let short = number.0 as f32;
                if short.is_infinite() && number.0.is_finite() {
                    return Err(self.out_of_range());
                }
                Ok(Datum::F64(namiki_data::columns::Float(f64::from(short))))
            }
            (_, value) if value.column_type() == Some(self.column_type()) => Ok(value),
            _ => Err(self.mismatch()),
        }
    }

    /// A number that the type does not hold (22003).
    pub(crate) fn out_of_range(self) -> SqlError {
        SqlError::new(
            sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("{} out of range", self.name()),
        )
    }

    fn mismatch(self) -> SqlError {
        SqlError::new(
            sqlstate::DATATYPE_MISMATCH,
            format!("the value is not of type {self}"),
        )
    }

    /// Its name without modifiers, as error messages have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Numeric { .. } => "numeric",
            Self::Text => "text",
            Self::Varchar { .. } => "character varying",
            Self::Char { .. } => "character",
            Self::Date => "date",
            Self::Timestamp => "timestamp without time zone",
            Self::Timestamptz => "timestamp with time zone",
            Self::Uuid => "uuid",
            Self::Bytea => "bytea",
            Self::Json => "json",
            Self::Name => "name",
            Self::Oid => "oid",
            Self::Interval => "interval",
        }
    }
}

fn numeric_overflow(precision: u8, scale: u8) -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{}.",
        precision.saturating_sub(scale)
    ))
}

/// A text of at most `limit` characters: further spaces are dropped, as the standard says.
fn cut(mut text: String, limit: usize, of: SqlType) -> SqlResult<String> {
    if text.len() <= limit {
        return Ok(text);
    }
    let Some((end, _)) = text.char_indices().nth(limit) else {
        return Ok(text);
    };
    if text[end..].bytes().any(|byte| byte != b' ') {
        return Err(SqlError::new(
            sqlstate::STRING_DATA_RIGHT_TRUNCATION,
            format!("value too long for type {of}"),
        ));
    }
    text.truncate(end);
    Ok(text)
}

impl fmt::Display for SqlType {
    /// As PostgreSQL's `format_type` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Varchar { limit } if limit > 0 => write!(f, "character varying({limit})"),
            Self::Char { length } if length > 0 => write!(f, "character({length})"),
            Self::Numeric { precision, scale } if *self != Self::NUMERIC => {
                write!(f, "numeric({precision},{scale})")
            }
            _ => f.write_str(self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Datum {
        Datum::Text(text.to_owned())
    }

    #[test]
    fn assignment_checks_lengths_and_ranges() {
        let varchar = SqlType::Varchar { limit: 3 };
        assert_eq!(varchar.assign(text("abc  ")).unwrap(), text("abc"));
        let error = varchar.assign(text("abcd")).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate::STRING_DATA_RIGHT_TRUNCATION);
        let fixed = SqlType::Char { length: 4 };
        assert_eq!(fixed.assign(text("ab  ")).unwrap(), text("ab"));
        let error = SqlType::Int2.assign(Datum::I64(40_000)).unwrap_err();
        assert_eq!(error.message(), "smallint out of range");
    }

    #[test]
    fn numerics_are_rounded_to_their_scale() {
        let numeric = SqlType::Numeric {
            precision: 4,
            scale: 2,
        };
        let value = Datum::Decimal {
            unscaled: 12_345,
            scale: 3,
        };
        let expected = Datum::Decimal {
            unscaled: 1_235,
            scale: 2,
        };
        assert_eq!(numeric.assign(value).unwrap(), expected);
        let error = numeric.assign(Datum::I64(100)).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate::NUMERIC_VALUE_OUT_OF_RANGE);
    }
}
