//! Expressions over the slots of a row.

use namiki_data::columns::{Arithmetic, ColumnType, Datum, Value};

use crate::bind::{ColumnId, Scalar};
use crate::error::ExecError;
use crate::plan::{Comparison, ValueList};
use crate::row::{RowRef, Slot};

/// An expression that can be calculated.
#[derive(Clone, Debug)]
pub(crate) enum Eval {
    Slot(Slot),
    Literal(Datum),
    Compare(Comparison, Box<Eval>, Box<Eval>),
    /// The usual condition: a column of one word that is not nullable, and a value of its type.
    CompareWord {
        comparison: Comparison,
        word: usize,
        signed: bool,
        with: u64,
    },
    And(Vec<Eval>),
    Or(Vec<Eval>),
    Not(Box<Eval>),
    IsNull(Box<Eval>),
    In(Box<Eval>, ValueList),
    /// The usual list: values for a column of one word that is not nullable.
    InWords {
        word: usize,
        /// In order.
        values: Box<[u64]>,
        has_null: bool,
    },
    StartsWith(Box<Eval>, Box<[u8]>),
    Contains(Box<Eval>, Box<[u8]>),
    /// From the first to the last.
    Calculate(Arithmetic, Box<[Eval]>, Box<str>),
    Cast(Box<Eval>, ColumnType),
}

/// A result did not fit its type: what was calculated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overflow<'e>(pub(crate) &'e str);

impl From<Overflow<'_>> for ExecError {
    fn from(overflow: Overflow<'_>) -> Self {
        Self::Overflow {
            expression: overflow.0.to_owned(),
        }
    }
}

impl Eval {
    /// Replaces columns by their slots.
    pub(crate) fn of(scalar: &Scalar, slot_of: &impl Fn(ColumnId) -> Slot) -> Self {
        let boxed = |scalar: &Scalar| Box::new(Self::of(scalar, slot_of));
        let all = |scalars: &[Scalar]| scalars.iter().map(|it| Self::of(it, slot_of)).collect();
        match scalar {
            Scalar::Column(id) => Self::Slot(slot_of(*id)),
            Scalar::Literal(value) => Self::Literal(value.clone()),
            Scalar::Compare(comparison, left, right) => {
                let general = Self::Compare(*comparison, boxed(left), boxed(right));
                general.as_compare_word().unwrap_or(general)
            }
            Scalar::And(parts) => Self::And(all(parts)),
            Scalar::Or(parts) => Self::Or(all(parts)),
            Scalar::Not(inner) => Self::Not(boxed(inner)),
            Scalar::IsNull(inner) => Self::IsNull(boxed(inner)),
            Scalar::In(inner, list) => {
                let inner = boxed(inner);
                let words = inner.as_words(list);
                words.unwrap_or_else(|| Self::In(inner, list.clone()))
            }
            Scalar::StartsWith(inner, part) => {
                Self::StartsWith(boxed(inner), part.as_bytes().into())
            }
            Scalar::Contains(inner, part) => Self::Contains(boxed(inner), part.as_bytes().into()),
            Scalar::Calculate { op, parts, text } => {
                let parts: Vec<Self> = all(parts);
                Self::Calculate(*op, parts.into(), text.clone())
            }
            Scalar::Cast(inner, to) => Self::Cast(boxed(inner), *to),
        }
    }

    /// Whether this is one of these values, as words.
    fn as_words(&self, list: &ValueList) -> Option<Self> {
        let Self::Slot(slot) = self else {
            return None;
        };
        let word = slot.single_word()?;
        // A value that the column cannot have is equal to none of its values.
        let values = list.sorted().values.iter();
        let values = values.filter_map(|value| Some(as_word(&value.cast(slot.column_type())?)?.1));
        let mut values: Vec<u64> = values.collect();
        values.sort_unstable();
        Some(Self::InWords {
            word,
            values: values.into(),
            has_null: list.sorted().has_null,
        })
    }

    fn as_compare_word(&self) -> Option<Self> {
        let Self::Compare(comparison, left, right) = self else {
            return None;
        };
        let (Self::Slot(slot), Self::Literal(value)) = (&**left, &**right) else {
            return None;
        };
        let word = slot.single_word()?;
        let (signed, with) = as_word(&value.cast(slot.column_type())?)?;
        Some(Self::CompareWord {
            comparison: *comparison,
            word,
            signed,
            with,
        })
    }

    /// The value for a row.
    pub(crate) fn value<'v>(&'v self, row: RowRef<'v>) -> Result<Value<'v>, Overflow<'v>> {
        Ok(match self {
            Self::Slot(slot) => slot.get(row),
            Self::Literal(value) => value.value(),
            Self::Calculate(op, parts, text) => {
                let Some((first, others)) = parts.split_first() else {
                    return Ok(Value::Null);
                };
                let mut result = first.value(row)?;
                for part in others {
                    let next = op.apply(result, part.value(row)?);
                    result = next.ok_or(Overflow(text))?;
                }
                result
            }
            Self::Cast(inner, to) => cast(inner.value(row)?, *to),
            _ => match self.truth(row)? {
                Some(truth) => Value::Bool(truth),
                None => Value::Null,
            },
        })
    }

    /// Whether it is true of a row, false, or neither.
    pub(crate) fn truth<'v>(&'v self, row: RowRef<'v>) -> Result<Option<bool>, Overflow<'v>> {
        Ok(match self {
            Self::CompareWord {
                comparison,
                word,
                signed,
                with,
            } => {
                let own = row.words[*word];
                Some(comparison.holds(if *signed {
                    (own as i64).cmp(&(*with as i64))
                } else {
                    own.cmp(with)
                }))
            }
            Self::Compare(comparison, left, right) => {
                let (left, right) = (left.value(row)?, right.value(row)?);
                if left.is_null() || right.is_null() {
                    None
                } else {
                    Some(comparison.holds(left.total_cmp(right)))
                }
            }
            Self::And(parts) => decided_by(parts, row, false)?,
            Self::Or(parts) => decided_by(parts, row, true)?,
            Self::Not(inner) => inner.truth(row)?.map(|truth| !truth),
            Self::IsNull(inner) => Some(inner.value(row)?.is_null()),
            Self::InWords {
                word,
                values,
                has_null,
            } => match values.binary_search(&row.words[*word]) {
                Ok(_) => Some(true),
                Err(_) => (!has_null).then_some(false),
            },
            Self::In(inner, list) => {
                let own = inner.value(row)?;
                if own.is_null() {
                    return Ok(None);
                }
                list.sorted().has(own)
            }
            Self::StartsWith(inner, part) => {
                let text = inner.value(row)?.as_bytes();
                text.map(|text| text.starts_with(part))
            }
            Self::Contains(inner, part) => {
                let text = inner.value(row)?.as_bytes();
                text.map(|text| contains(text, part))
            }
            Self::Slot(_) | Self::Literal(_) | Self::Calculate(..) | Self::Cast(..) => {
                match self.value(row)? {
                    Value::Bool(truth) => Some(truth),
                    _ => None,
                }
            }
        })
    }
}

/// A value that takes one word, and whether the word has a sign.
fn as_word(value: &Datum) -> Option<(bool, u64)> {
    Some(match value {
        Datum::I64(value) => (true, *value as u64),
        Datum::Date(days) => (true, i64::from(*days) as u64),
        Datum::U64(value) => (false, *value),
        Datum::F64(number) => (false, number.to_ordered_bits()),
        Datum::Bool(value) => (false, u64::from(*value)),
        _ => return None,
    })
}

/// `and` is decided by one that is false, `or` by one that is true. All are calculated up to that
/// one; an overflow behind it does not count.
fn decided_by<'v>(
    parts: &'v [Eval],
    row: RowRef<'v>,
    decides: bool,
) -> Result<Option<bool>, Overflow<'v>> {
    let mut unknown = false;
    for part in parts {
        match part.truth(row)? {
            Some(truth) if truth == decides => return Ok(Some(decides)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok((!unknown).then_some(!decides))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

fn cast<'v>(value: Value<'v>, to: ColumnType) -> Value<'v> {
    let Some((unscaled, scale)) = value.as_decimal() else {
        return value;
    };
    let datum = Datum::Decimal { unscaled, scale };
    match datum.cast(to) {
        Some(Datum::I64(value)) => Value::I64(value),
        Some(Datum::U64(value)) => Value::U64(value),
        Some(Datum::Decimal { unscaled, scale }) => Value::Decimal { unscaled, scale },
        _ => Value::Null,
    }
}
