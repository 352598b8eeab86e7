//! Groups: the values of each, and a few words of state for each calculation over it.
//!
//! | calculation | words of state |
//! |---|---|
//! | count | the count |
//! | sum, avg | the sum (three words), and how many values |
//! | min, max of a fixed length | whether there is one, and the value (two words) |
//! | min, max of text | whether there is one; the text is stored apart |
//!
//! Sums are of integers, and wide enough for any number of them. So only the result must fit its
//! type, in whatever order rows arrive.

use std::sync::Arc;

use namiki_data::columns::{ColumnType, Value};

use super::TOO_MUCH_TEXT;
use super::group_table::GroupTable;
use super::query_memory::MergeControl;
use super::wide_sum::{self, SUM_WORDS};
use crate::error::ExecError;
use crate::plan::AggregateFunction;
use crate::program::{AggregateSink, Call};
use crate::row::{Row, RowRef, RowStore, Slot};

/// Groups of one thread, or of all.
pub(crate) struct Groups {
    sink: Arc<AggregateSink>,
    table: GroupTable,
    /// States of the groups, one after the other.
    states: Vec<u64>,
    /// Words of a group's states.
    width: usize,
    /// The beginning of the state of each calculation.
    offsets: Vec<usize>,
    /// The texts of `min` and `max`, by group, for each calculation that has text.
    texts: Vec<Vec<Vec<u8>>>,
    /// Bytes of these in memory, without the lists.
    text_bytes: usize,
}

impl Groups {
    pub(crate) fn new(sink: &Arc<AggregateSink>) -> Self {
        let mut width = 0;
        let offset = |call: &Call| {
            width += state_words(call);
            width - state_words(call)
        };
        let offsets = sink.calls.iter().map(offset).collect();
        Self {
            table: GroupTable::new(&sink.groups),
            states: Vec::new(),
            width,
            offsets,
            texts: vec![Vec::new(); sink.calls.len()],
            text_bytes: 0,
            sink: Arc::clone(sink),
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.texts.iter().map(Vec::capacity).sum::<usize>() * size_of::<Vec<u8>>();
        self.table.bytes() + self.states.capacity() * 8 + lists + self.text_bytes
    }

    fn group_of(&mut self, row: RowRef<'_>, slots: &[Slot]) -> Result<usize, ExecError> {
        let (group, is_new) = self.table.number_of(row, slots).ok_or(TOO_MUCH_TEXT)?;
        if is_new {
            self.states.resize(self.states.len() + self.width, 0);
            for (texts, call) in self.texts.iter_mut().zip(&self.sink.calls) {
                if has_text(call) {
                    texts.push(Vec::new());
                }
            }
        }
        Ok(group)
    }

    /// Adds a row to its group.
    #[inline]
    pub(crate) fn add(&mut self, row: RowRef<'_>) -> Result<(), ExecError> {
        let sink = Arc::clone(&self.sink);
        let group = self.group_of(row, &sink.groups)?;
        let states = group * self.width;
        for (number, call) in sink.calls.iter().enumerate() {
            let at = states + self.offsets[number];
            let Some(slot) = call.of else {
                self.states[at] += 1;
                continue;
            };
            let value = slot.get(row);
            if value.is_null() {
                continue;
            }
            match call.function {
                AggregateFunction::Count => self.states[at] += 1,
                AggregateFunction::Sum | AggregateFunction::Avg => {
                    let (unscaled, _) = value.as_decimal().unwrap_or_default();
                    wide_sum::add(&mut self.states[at..at + SUM_WORDS], unscaled);
                    self.states[at + SUM_WORDS] += 1;
                }
                AggregateFunction::Min | AggregateFunction::Max => {
                    self.keep_extreme(number, call, group, at, value);
                }
            }
        }
        Ok(())
    }

    fn keep_extreme(
        &mut self,
        number: usize,
        call: &Call,
        group: usize,
        at: usize,
        value: Value<'_>,
    ) {
        let wanted = match call.function {
            AggregateFunction::Min => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        let better = match self.extreme(number, call, group, at) {
            None => true,
            Some(own) => value.total_cmp(own) == wanted,
        };
        if !better {
            return;
        }
        self.states[at] = 1;
        match value {
            Value::Text(bytes) | Value::Bytes(bytes) => {
                let text = &mut self.texts[number][group];
                self.text_bytes -= text.capacity();
                text.clear();
                text.extend_from_slice(bytes);
                self.text_bytes += text.capacity();
            }
            fixed => {
                let slot = state_slot(call.result, at + 1);
                slot.put(fixed, &mut self.states, &mut Vec::new());
            }
        }
    }

    /// The least or greatest value so far.
    fn extreme(&self, number: usize, call: &Call, group: usize, at: usize) -> Option<Value<'_>> {
        if self.states[at] == 0 {
            return None;
        }
        if has_text(call) {
            let bytes = self.texts[number][group].as_slice();
            return Some(match call.result.column_type() {
                ColumnType::Text => Value::Text(bytes),
                _ => Value::Bytes(bytes),
            });
        }
        Some(state_slot(call.result, at + 1).get(RowRef {
            words: &self.states,
            heap: &[],
        }))
    }

    /// The results over the groups of all threads: for each group its values, then what was
    /// calculated.
    pub(crate) fn merge(
        mut parts: Vec<Self>,
        control: &MergeControl<'_>,
    ) -> Result<Option<RowStore>, ExecError> {
        // The others go into the one with the most groups.
        parts.sort_by_key(|part| part.table.len());
        let Some(mut all) = parts.pop() else {
            return Ok(None);
        };
        let mut left_bytes: usize = parts.iter().map(Self::bytes).sum();
        for part in parts {
            all.add_groups(&part, left_bytes, control)?;
            left_bytes -= part.bytes();
        }
        all.results(control).map(Some)
    }

    /// Adds the groups of another thread. `left_bytes` are held by those that were not added.
    fn add_groups(
        &mut self,
        other: &Self,
        left_bytes: usize,
        control: &MergeControl<'_>,
    ) -> Result<(), ExecError> {
        let sink = Arc::clone(&self.sink);
        for group in 0..other.table.len() {
            control.hold_at(group, || self.bytes() + left_bytes)?;
            let keys = other.table.keys();
            let own = self.group_of(keys.row(group), keys.slots())?;
            for (number, call) in sink.calls.iter().enumerate() {
                let at = own * self.width + self.offsets[number];
                let from = group * self.width + self.offsets[number];
                match call.function {
                    AggregateFunction::Count => self.states[at] += other.states[from],
                    AggregateFunction::Sum | AggregateFunction::Avg => {
                        let other = &other.states[from..];
                        let sum = [other[0], other[1], other[2]];
                        wide_sum::add_wide(&mut self.states[at..at + SUM_WORDS], sum);
                        self.states[at + SUM_WORDS] += other[SUM_WORDS];
                    }
                    AggregateFunction::Min | AggregateFunction::Max => {
                        if let Some(value) = other.extreme(number, call, group, from) {
                            self.keep_extreme(number, call, own, at, value);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn results(mut self, control: &MergeControl<'_>) -> Result<RowStore, ExecError> {
        let sink = Arc::clone(&self.sink);
        if sink.groups.is_empty() && self.table.len() == 0 {
            // Without groups there is one row, even over no rows.
            let nothing = RowRef {
                words: &[],
                heap: &[],
            };
            self.group_of(nothing, &[])?;
        }
        let mut row = Row::default();
        let mut slots = Vec::new();
        let results = sink.calls.iter().map(|call| &call.result);
        for slot in sink.groups.iter().chain(results) {
            slots.push(slot.moved_to(row.words.len()));
            row.words.resize(row.words.len() + slot.words(), 0);
        }
        let mut store = RowStore::new(&slots);
        let own_bytes = self.bytes();
        control.hold(own_bytes + store.row_bytes() * self.table.len())?;
        store.reserve(self.table.len());
        for group in 0..self.table.len() {
            control.hold_at(group, || own_bytes + store.bytes())?;
            row.heap.clear();
            let keys = self.table.keys();
            for (to, from) in slots.iter().zip(keys.slots()) {
                to.put_in(from.get(keys.row(group)), &mut row)
                    .ok_or(TOO_MUCH_TEXT)?;
            }
            for (number, call) in sink.calls.iter().enumerate() {
                let at = group * self.width + self.offsets[number];
                let value = self.result(number, call, group, at)?;
                slots[sink.groups.len() + number]
                    .put_in(value, &mut row)
                    .ok_or(TOO_MUCH_TEXT)?;
            }
            store.push(row.as_ref(), &slots).ok_or(TOO_MUCH_TEXT)?;
        }
        control.hold(store.bytes())?;
        Ok(store)
    }

    fn result(
        &self,
        number: usize,
        call: &Call,
        group: usize,
        at: usize,
    ) -> Result<Value<'_>, ExecError> {
        let scale = match call.result.column_type() {
            ColumnType::Decimal { scale } => scale,
            _ => 0,
        };
        Ok(match call.function {
            AggregateFunction::Count => Value::I64(self.states[at] as i64),
            AggregateFunction::Min | AggregateFunction::Max => {
                self.extreme(number, call, group, at).unwrap_or(Value::Null)
            }
            AggregateFunction::Sum | AggregateFunction::Avg => {
                let count = self.states[at + SUM_WORDS];
                if count == 0 {
                    return Ok(Value::Null);
                }
                let sum = wide_sum::value(&self.states[at..at + SUM_WORDS]);
                let (result, what) = match call.function {
                    AggregateFunction::Sum => (sum, "sum"),
                    _ => (sum.and_then(|sum| mean(sum, count)), "avg"),
                };
                let overflow = || ExecError::Overflow {
                    expression: what.to_owned(),
                };
                Value::Decimal {
                    unscaled: result.ok_or_else(overflow)?,
                    scale,
                }
            }
        })
    }
}

/// The mean, with six more digits, rounded half away from zero.
fn mean(sum: i128, count: u64) -> Option<i128> {
    let sum = sum.checked_mul(1_000_000)?;
    let count = i128::from(count);
    let (whole, rest) = (sum / count, sum % count);
    let round = i128::from(rest.abs() >= count - rest.abs());
    Some(whole + round * sum.signum())
}

fn has_text(call: &Call) -> bool {
    matches!(
        call.function,
        AggregateFunction::Min | AggregateFunction::Max
    ) && call.result.column_type().fixed_bytes().is_none()
}

fn state_words(call: &Call) -> usize {
    match call.function {
        AggregateFunction::Count => 1,
        AggregateFunction::Sum | AggregateFunction::Avg => SUM_WORDS + 1,
        AggregateFunction::Min | AggregateFunction::Max => 3,
    }
}

/// A value of the result's type that is there, in a state.
fn state_slot(result: Slot, at: usize) -> Slot {
    Slot::new(at, result.column_type(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_rounded_half_away_from_zero() {
        for (sum, count, expected) in [
            (1, 3, 333_333),
            (2, 3, 666_667),
            (-2, 3, -666_667),
            (1, 2_000_000, 1),
            (-1, 2_000_000, -1),
            (1, 2_000_001, 0),
            (0, 5, 0),
            (10, 5, 2_000_000),
        ] {
            assert_eq!(mean(sum, count), Some(expected), "{sum} / {count}");
        }
        assert_eq!(mean(i128::MAX, 1), None);
    }
}
