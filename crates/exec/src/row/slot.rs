//! The place and the form of a column in a row's words.

use namiki_data::columns::{ColumnType, Float, Value};

use super::{Row, RowRef};

/// The form of a value in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Bool,
    I64,
    U64,
    /// Two words, the low one first.
    Decimal(u8),
    /// Its ordered bits: equal numbers are equal words, in their order.
    F64,
    Date,
    /// One word: the first byte in the heap in the low half, the number of bytes in the high half.
    Text,
    Bytes,
}

/// A column's place in a row: one word or two. A nullable column has a word before them that says
/// whether there is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    at: u32,
    form: Form,
    nullable: bool,
}

impl Slot {
    /// The slot of a column with its words from `at` on.
    pub(crate) fn new(at: usize, column_type: ColumnType, nullable: bool) -> Self {
        let form = match column_type {
            ColumnType::Bool => Form::Bool,
            ColumnType::I64 => Form::I64,
            ColumnType::U64 => Form::U64,
            ColumnType::Decimal { scale } | ColumnType::LongDecimal { scale } => {
                Form::Decimal(scale)
            }
            ColumnType::F64 => Form::F64,
            ColumnType::Date => Form::Date,
            ColumnType::Text => Form::Text,
            ColumnType::Bytes => Form::Bytes,
        };
        Self {
            at: at as u32,
            form,
            nullable,
        }
    }

    /// The same column elsewhere.
    pub(crate) fn moved_to(self, at: usize) -> Self {
        Self {
            at: at as u32,
            ..self
        }
    }

    pub(crate) fn column_type(self) -> ColumnType {
        match self.form {
            Form::Bool => ColumnType::Bool,
            Form::I64 => ColumnType::I64,
            Form::U64 => ColumnType::U64,
            Form::Decimal(scale) => ColumnType::Decimal { scale },
            Form::F64 => ColumnType::F64,
            Form::Date => ColumnType::Date,
            Form::Text => ColumnType::Text,
            Form::Bytes => ColumnType::Bytes,
        }
    }

    /// Number of words.
    pub(crate) fn words(self) -> usize {
        usize::from(self.nullable)
            + match self.form {
                Form::Decimal(_) => 2,
                _ => 1,
            }
    }

    /// Index of the word, if the column has one and is not nullable: the usual key.
    #[inline]
    pub(crate) fn single_word(self) -> Option<usize> {
        let one =
            !self.nullable && !matches!(self.form, Form::Decimal(_) | Form::Text | Form::Bytes);
        one.then_some(self.at as usize)
    }

    /// The value.
    #[inline]
    pub(crate) fn get<'r>(self, row: RowRef<'r>) -> Value<'r> {
        let mut at = self.at as usize;
        if self.nullable {
            if row.words[at] == 0 {
                return Value::Null;
            }
            at += 1;
        }
        let word = row.words[at];
        match self.form {
            Form::Bool => Value::Bool(word != 0),
            Form::I64 => Value::I64(word as i64),
            Form::U64 => Value::U64(word),
            Form::Decimal(scale) => Value::Decimal {
                unscaled: (u128::from(row.words[at + 1]) << 64 | u128::from(word)) as i128,
                scale,
            },
            Form::F64 => Value::F64(Float::from_ordered_bits(word).0),
            Form::Date => Value::Date(word as i32),
            Form::Text => Value::Text(bytes_of(word, row.heap)),
            Form::Bytes => Value::Bytes(bytes_of(word, row.heap)),
        }
    }

    /// Puts a value of the slot's type there; the bytes of text go to the end of the heap.
    ///
    /// `None` if it is of another type, or missing where it must not be: the row was written by
    /// something else.
    #[inline]
    pub(crate) fn put(self, value: Value<'_>, words: &mut [u64], heap: &mut Vec<u8>) -> Option<()> {
        let mut at = self.at as usize;
        if self.nullable {
            words[at] = u64::from(!value.is_null());
            at += 1;
        }
        words[at] = match (self.form, value) {
            (Form::Bool, Value::Bool(value)) => u64::from(value),
            (Form::I64, Value::I64(value)) => value as u64,
            (Form::U64, Value::U64(value)) => value,
            (Form::F64, Value::F64(number)) => Float(number).to_ordered_bits(),
            (Form::Date, Value::Date(days)) => days as u64,
            (
                Form::Decimal(scale),
                Value::Decimal {
                    unscaled,
                    scale: own,
                },
            ) if own == scale => {
                words[at + 1] = (unscaled >> 64) as u64;
                unscaled as u64
            }
            (Form::Text, Value::Text(bytes)) | (Form::Bytes, Value::Bytes(bytes)) => {
                let from = u32::try_from(heap.len()).ok()?;
                let length = u32::try_from(bytes.len()).ok()?;
                heap.extend_from_slice(bytes);
                u64::from(length) << 32 | u64::from(from)
            }
            (form, Value::Null) if self.nullable => {
                if let Form::Decimal(_) = form {
                    words[at + 1] = 0;
                }
                0
            }
            _ => return None,
        };
        Some(())
    }

    /// [`Slot::put`] into a row that is long enough.
    #[inline]
    pub(crate) fn put_in(self, value: Value<'_>, row: &mut Row) -> Option<()> {
        self.put(value, &mut row.words, &mut row.heap)
    }
}

fn bytes_of(word: u64, heap: &[u8]) -> &[u8] {
    let (from, length) = (word as u32 as usize, (word >> 32) as usize);
    &heap[from..from + length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_their_slots() {
        let decimal = Value::Decimal {
            unscaled: -(1 << 100),
            scale: 2,
        };
        let values = [
            (ColumnType::Bool, Value::Bool(true)),
            (ColumnType::I64, Value::I64(i64::MIN)),
            (ColumnType::U64, Value::U64(u64::MAX)),
            (ColumnType::Decimal { scale: 2 }, decimal),
            (ColumnType::LongDecimal { scale: 2 }, decimal),
            (ColumnType::F64, Value::F64(-0.5)),
            (ColumnType::F64, Value::F64(f64::NAN)),
            (ColumnType::Date, Value::Date(-5)),
            (ColumnType::Text, Value::Text(b"text")),
            (ColumnType::Bytes, Value::Bytes(b"")),
            (ColumnType::Text, Value::Null),
            (ColumnType::Decimal { scale: 2 }, Value::Null),
        ];
        for nullable in [false, true] {
            let mut row = Row::default();
            let mut slots = Vec::new();
            for (column_type, value) in values {
                if value.is_null() && !nullable {
                    continue;
                }
                let slot = Slot::new(row.words.len(), column_type, nullable);
                row.words.resize(row.words.len() + slot.words(), 7);
                assert!(slot.put_in(value, &mut row).is_some());
                slots.push((slot, value));
            }
            for (slot, value) in slots {
                assert_eq!(slot.get(row.as_ref()).to_datum(), value.to_datum());
            }
        }
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let mut row = Row::default();
        row.words.resize(4, 0);
        let slot = Slot::new(0, ColumnType::Decimal { scale: 2 }, false);
        let other = Value::Decimal {
            unscaled: 1,
            scale: 3,
        };
        for value in [Value::I64(1), Value::Null, other] {
            assert!(slot.put_in(value, &mut row).is_none());
        }
    }
}
