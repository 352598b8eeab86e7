//! Row stores: many rows of one shape, back to back, for hash tables, sorts and groups.

use super::{RowRef, Slot};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowStore {
    /// The places of the columns in a kept row.
    slots: Vec<Slot>,
    /// Words of a row.
    width: usize,
    words: Vec<u64>,
    heap: Vec<u8>,
    rows: usize,
}

impl RowStore {
    /// Keeps the columns that lie in these slots of other rows, in this order.
    pub(crate) fn new(of: &[Slot]) -> Self {
        let mut width = 0;
        let place = |slot: &Slot| {
            width += slot.words();
            slot.moved_to(width - slot.words())
        };
        Self {
            slots: of.iter().map(place).collect(),
            width,
            ..Self::default()
        }
    }

    /// The places of the columns in a kept row.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * 8 + self.heap.capacity()
    }

    /// Bytes of a row in memory, without its text.
    pub(crate) fn row_bytes(&self) -> usize {
        self.width * size_of::<u64>()
    }

    /// Reserves memory for `rows` more rows, without their text.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.words.reserve_exact(rows * self.width);
    }

    /// Adds the values of these slots of a row, as many as were given to `new` and of the same
    /// types.
    ///
    /// `None` if there would be more than 4 GiB of text.
    #[inline]
    pub(crate) fn push(&mut self, row: RowRef<'_>, from: &[Slot]) -> Option<()> {
        let first = self.words.len();
        self.words.resize(first + self.width, 0);
        for (to, from) in self.slots.iter().zip(from) {
            to.put(from.get(row), &mut self.words[first..], &mut self.heap)?;
        }
        self.rows += 1;
        Some(())
    }

    /// Row number `at`.
    #[inline]
    pub(crate) fn row(&self, at: usize) -> RowRef<'_> {
        RowRef {
            words: &self.words[at * self.width..(at + 1) * self.width],
            heap: &self.heap,
        }
    }
}

#[cfg(test)]
mod tests {
    use namiki_data::columns::{ColumnType, Value};

    use super::super::Row;
    use super::*;

    #[test]
    fn kept_rows_come_back_also_from_another_store() {
        let slots = [
            Slot::new(3, ColumnType::Text, true),
            Slot::new(0, ColumnType::I64, false),
        ];
        let mut row = Row::default();
        row.words.resize(5, 0);
        let (mut one, mut two) = (RowStore::new(&slots), RowStore::new(&slots));
        for number in 0..10_i64 {
            row.heap.clear();
            slots[1].put_in(Value::I64(number), &mut row).unwrap();
            let text = number.to_string();
            let value = if number == 4 {
                Value::Null
            } else {
                Value::Text(text.as_bytes())
            };
            slots[0].put_in(value, &mut row).unwrap();
            let store = if number < 5 { &mut one } else { &mut two };
            store.push(row.as_ref(), &slots).unwrap();
        }
        for at in 0..two.len() {
            one.push(two.row(at), two.slots()).unwrap();
        }
        assert_eq!(one.len(), 10);
        for at in 0..10 {
            let text = one.slots()[0].get(one.row(at)).to_string();
            let expected = if at == 4 {
                "null".to_owned()
            } else {
                at.to_string()
            };
            assert_eq!(text, expected);
            assert_eq!(one.slots()[1].get(one.row(at)).to_string(), at.to_string());
        }
    }
}
