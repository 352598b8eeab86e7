//! A hash table from the values of some columns to a number: the ordinal of their group.

use namiki_data::columns::{Float, Value};
use namiki_platform::hash::hash_of;

use crate::row::{RowRef, RowStore, Slot};

/// Groups by number, in the order in which they were first met.
#[derive(Debug)]
pub(super) struct GroupTable {
    /// Group number + 1, from the place that the hash selects; 0 in an empty place. The length is a
    /// power of two.
    places: Vec<u32>,
    hashes: Vec<u64>,
    keys: RowStore,
}

const FIRST_PLACES: usize = 64;

impl GroupTable {
    /// Groups by columns that lie in these slots of a row.
    pub(super) fn new(slots: &[Slot]) -> Self {
        Self {
            places: vec![0; FIRST_PLACES],
            hashes: Vec::new(),
            keys: RowStore::new(slots),
        }
    }

    /// The values of each group.
    pub(super) fn keys(&self) -> &RowStore {
        &self.keys
    }

    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.places.capacity() * 4 + self.hashes.capacity() * 8 + self.keys.bytes()
    }

    /// The number of a row's group, and whether it is new. `None` if there is no room for one
    /// more.
    #[inline]
    pub(super) fn number_of(&mut self, row: RowRef<'_>, slots: &[Slot]) -> Option<(usize, bool)> {
        let hash = hash_row(row, slots);
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.places[at] {
                0 => break,
                number => {
                    let number = number as usize - 1;
                    if self.hashes[number] == hash && self.is_equal(number, row, slots) {
                        return Some((number, false));
                    }
                }
            }
            at = (at + 1) & mask;
        }
        let number = self.hashes.len();
        self.places[at] = u32::try_from(number + 1).ok()?;
        self.keys.push(row, slots)?;
        self.hashes.push(hash);
        if self.hashes.len() * 2 > self.places.len() {
            self.grow();
        }
        Some((number, true))
    }

    fn is_equal(&self, number: usize, row: RowRef<'_>, slots: &[Slot]) -> bool {
        let own = self.keys.row(number);
        let mut pairs = self.keys.slots().iter().zip(slots);
        pairs.all(|(a, b)| a.get(own).total_cmp(b.get(row)).is_eq())
    }

    fn grow(&mut self) {
        let length = self.places.len() * 2;
        self.places.clear();
        self.places.resize(length, 0);
        for (number, hash) in self.hashes.iter().enumerate() {
            let mut at = *hash as usize & (length - 1);
            while self.places[at] != 0 {
                at = (at + 1) & (length - 1);
            }
            self.places[at] = number as u32 + 1;
        }
    }
}

/// A hash of the values in these slots: equal values of a type have equal hashes wherever they lie.
#[inline]
pub(super) fn hash_row(row: RowRef<'_>, slots: &[Slot]) -> u64 {
    // The usual key is one word.
    if let [slot] = slots
        && let Some(word) = slot.single_word()
    {
        return hash_word(0, row.words[word]);
    }
    slots.iter().fold(0, |hash, slot| match slot.get(row) {
        Value::Null => hash_word(hash, 1),
        Value::Bool(value) => hash_word(hash, u64::from(value)),
        Value::I64(value) => hash_word(hash, value as u64),
        Value::U64(value) => hash_word(hash, value),
        Value::F64(number) => hash_word(hash, Float(number).to_ordered_bits()),
        Value::Date(days) => hash_word(hash, i64::from(days) as u64),
        Value::Decimal { unscaled, .. } => {
            hash_word(hash_word(hash, unscaled as u64), (unscaled >> 64) as u64)
        }
        Value::Text(bytes) | Value::Bytes(bytes) => hash_of(hash, bytes),
    })
}

/// Folds one word into a hash by a multiplication of double width.
#[inline]
fn hash_word(seed: u64, word: u64) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(word ^ seed ^ MULTIPLIER) * u128::from(MULTIPLIER);
    let folded = product as u64 ^ (product >> 64) as u64;
    folded ^ folded >> 32
}

#[cfg(test)]
mod tests {
    use namiki_data::columns::ColumnType;

    use super::super::super::row::Row;
    use super::*;

    #[test]
    fn equal_rows_have_one_group_among_many() {
        let slots = [
            Slot::new(0, ColumnType::I64, false),
            Slot::new(1, ColumnType::Text, true),
        ];
        let mut table = GroupTable::new(&slots);
        let mut row = Row::default();
        row.words.resize(3, 0);
        for round in 0..2 {
            for number in 0..5_000_i64 {
                row.heap.clear();
                slots[0].put_in(Value::I64(number % 50), &mut row).unwrap();
                let text = (number / 50).to_string();
                let value = if number < 50 {
                    Value::Null
                } else {
                    Value::Text(text.as_bytes())
                };
                slots[1].put_in(value, &mut row).unwrap();
                let found = table.number_of(row.as_ref(), &slots);
                assert_eq!(found, Some((number as usize, round == 0)));
            }
        }
        assert_eq!(table.len(), 5_000);
    }
}
