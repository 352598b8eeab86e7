//! Sorts: each thread sorts its rows in runs once all are there, and the runs of all threads are
//! merged.
//!
//! A run is short enough that a stopped query need not wait for it. Rows stay in place; their
//! numbers are sorted.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use super::TOO_MUCH_TEXT;
use super::query_memory::MergeControl;
use crate::error::ExecError;
use crate::program::SortSink;
use crate::row::{RowRef, RowStore, Slot};

/// Longest run, in rows.
const RUN_ROWS: usize = 1 << 16;

/// If only the first rows are needed, the others are dropped once there are this many.
const PRUNED_ROWS_MIN: usize = 4096;

/// Rows of one thread.
pub(crate) struct SortRows {
    sink: Arc<SortSink>,
    /// The columns, then the sort keys.
    from: Vec<Slot>,
    rows: RowStore,
    /// The numbers of the rows, run by run, once they are sorted.
    order: Vec<u32>,
}

impl SortRows {
    pub(crate) fn new(sink: &Arc<SortSink>) -> Self {
        let by = sink.by.iter().map(|(slot, _)| *slot);
        let from: Vec<Slot> = sink.columns.iter().copied().chain(by).collect();
        Self {
            sink: Arc::clone(sink),
            rows: RowStore::new(&from),
            from,
            order: Vec::new(),
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + self.order.capacity() * size_of::<u32>()
    }

    /// Adds a row. If only the first rows are needed, the others are dropped from time to time.
    pub(crate) fn add(&mut self, row: RowRef<'_>) -> Result<(), ExecError> {
        self.rows.push(row, &self.from).ok_or(TOO_MUCH_TEXT)?;
        let rows_max = self.rows_max();
        if self.rows.len() >= rows_max.saturating_mul(4).max(PRUNED_ROWS_MIN) {
            self.prune(rows_max)?;
        }
        Ok(())
    }

    fn rows_max(&self) -> usize {
        let rows_max = self.sink.rows_max.unwrap_or(u64::MAX);
        usize::try_from(rows_max).unwrap_or(usize::MAX)
    }

    /// Drops all but the first rows.
    fn prune(&mut self, rows_max: usize) -> Result<(), ExecError> {
        let mut numbers: Vec<usize> = (0..self.rows.len()).collect();
        if rows_max > 0 {
            let compare = |a: &usize, b: &usize| self.compare(*a, *b);
            numbers.select_nth_unstable_by(rows_max - 1, compare);
        }
        numbers.truncate(rows_max);
        let mut first = RowStore::new(&self.from);
        for at in numbers {
            first
                .push(self.rows.row(at), self.rows.slots())
                .ok_or(TOO_MUCH_TEXT)?;
        }
        self.rows = first;
        Ok(())
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        self.compare_rows(self.rows.row(a), self.rows.row(b))
    }

    /// Compares two rows of any thread.
    fn compare_rows(&self, a: RowRef<'_>, b: RowRef<'_>) -> Ordering {
        let (columns, by) = self.rows.slots().split_at(self.sink.columns.len());
        for (slot, (_, descending)) in by.iter().zip(&self.sink.by) {
            let order = slot.get(a).total_cmp(slot.get(b));
            if order.is_ne() {
                return if *descending { order.reverse() } else { order };
            }
        }
        let mut columns = columns
            .iter()
            .map(|slot| slot.get(a).total_cmp(slot.get(b)));
        columns
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Sorts the runs, when all rows of the thread are there.
    pub(crate) fn sort_runs(&mut self, control: &MergeControl<'_>) -> Result<(), ExecError> {
        let rows_max = self.rows_max();
        if rows_max < self.rows.len() {
            self.prune(rows_max)?;
        }
        let rows = u32::try_from(self.rows.len()).map_err(|_| TOO_MANY_ROWS)?;
        control.hold(self.bytes() + rows as usize * size_of::<u32>())?;
        let mut order: Vec<u32> = (0..rows).collect();
        for run in order.chunks_mut(RUN_ROWS) {
            control.hold(self.bytes() + rows as usize * size_of::<u32>())?;
            run.sort_unstable_by(|a, b| self.compare(*a as usize, *b as usize));
        }
        self.order = order;
        Ok(())
    }

    /// The rows of all threads in their order, as many as are needed, without the sort keys.
    pub(crate) fn merge(
        parts: &[Self],
        control: &MergeControl<'_>,
    ) -> Result<Option<RowStore>, ExecError> {
        let Some(first) = parts.first() else {
            return Ok(None);
        };
        let slots = &first.rows.slots()[..first.sink.columns.len()];
        let mut merged = RowStore::new(slots);
        let parts_bytes: usize = parts.iter().map(Self::bytes).sum();
        let all_rows = parts.iter().map(|part| part.order.len()).sum::<usize>();
        let rows = all_rows.min(first.rows_max());
        control.hold(parts_bytes + merged.row_bytes() * rows)?;
        merged.reserve(rows);
        let runs = parts.iter().flat_map(|part| {
            let runs = part.order.chunks(RUN_ROWS);
            runs.filter_map(|run| Head::of(part, run))
        });
        let mut heads: BinaryHeap<Head<'_>> = runs.collect();
        for number in 0..rows {
            control.hold_at(number, || parts_bytes + merged.bytes())?;
            let Some(mut head) = heads.peek_mut() else {
                break;
            };
            merged.push(head.row(), slots).ok_or(TOO_MUCH_TEXT)?;
            match head.rest.next() {
                Some(at) => head.at = *at as usize,
                None => _ = PeekMut::pop(head),
            }
        }
        control.hold(parts_bytes + merged.bytes())?;
        Ok(Some(merged))
    }
}

/// More rows than can be numbered.
const TOO_MANY_ROWS: ExecError = ExecError::MemoryExceeded {
    operator: "sort",
    limit_bytes: u32::MAX as usize,
};

/// The first row of a run that is not merged yet. The greatest head is that of the row that comes
/// first.
struct Head<'p> {
    part: &'p SortRows,
    at: usize,
    rest: std::slice::Iter<'p, u32>,
}

impl<'p> Head<'p> {
    fn of(part: &'p SortRows, run: &'p [u32]) -> Option<Self> {
        let mut rest = run.iter();
        let at = *rest.next()? as usize;
        Some(Self { part, at, rest })
    }

    fn row(&self) -> RowRef<'p> {
        self.part.rows.row(self.at)
    }
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.part.compare_rows(other.row(), self.row())
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use namiki_data::columns::{ColumnType, Value};
    use namiki_platform::seeded_random::Random;

    use super::super::query_memory::QueryMemory;
    use super::*;
    use crate::row::Row;

    const SLOT: fn() -> Slot = || Slot::new(0, ColumnType::I64, false);

    /// Parts with these numbers of rows of random numbers, and the numbers.
    fn parts(rows: &[usize], rows_max: Option<u64>) -> (Vec<SortRows>, Vec<i64>) {
        let sink = Arc::new(SortSink {
            columns: vec![SLOT()],
            by: vec![(SLOT(), true)],
            rows_max,
        });
        let mut random = Random::seeded(rows.len() as u64);
        let mut numbers = Vec::new();
        let mut row = Row::default();
        row.words.resize(1, 0);
        let parts = rows.iter().map(|rows| {
            let mut part = SortRows::new(&sink);
            for _ in 0..*rows {
                numbers.push(random.below(1_000_000) as i64);
                let value = Value::I64(numbers[numbers.len() - 1]);
                SLOT().put_in(value, &mut row).unwrap();
                part.add(row.as_ref()).unwrap();
            }
            part
        });
        (parts.collect(), numbers)
    }

    fn sorted(parts: &mut [SortRows], control: &MergeControl<'_>) -> Result<Vec<i64>, ExecError> {
        for part in &mut *parts {
            // The runs of one thread; the memory of the others is not limited here.
            part.sort_runs(control)?;
        }
        let merged = SortRows::merge(parts, control)?.unwrap();
        let slot = merged.slots()[0];
        let value = |at| match slot.get(merged.row(at)) {
            Value::I64(value) => value,
            other => panic!("{other:?}"),
        };
        Ok((0..merged.len()).map(value).collect())
    }

    #[test]
    fn runs_of_all_threads_are_merged_in_order() {
        for rows_max in [None, Some(0), Some(10), Some(100_000), Some(1_000_000)] {
            let (mut parts, mut numbers) = parts(&[0, 1, RUN_ROWS + 7, 3 * RUN_ROWS], rows_max);
            let memory = QueryMemory::new(usize::MAX);
            let control = MergeControl::new(&memory, &|| false, "sort", 0);
            let merged = sorted(&mut parts, &control).unwrap();
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            numbers.truncate(rows_max.unwrap_or(u64::MAX) as usize);
            assert!(merged == numbers, "{rows_max:?}");
        }
    }

    #[test]
    fn a_stopped_query_ends_its_sort() {
        let (mut parts, _) = parts(&[RUN_ROWS + 1, RUN_ROWS + 1], None);
        let memory = QueryMemory::new(usize::MAX);
        let mut looks = 0_usize;
        loop {
            let left = Cell::new(looks);
            let is_stopped = || left.replace(left.get().saturating_sub(1)) == 0;
            let control = MergeControl::new(&memory, &is_stopped, "sort", 0);
            match sorted(&mut parts, &control) {
                Err(ExecError::Cancelled) => looks += 1,
                other => break assert!(other.is_ok()),
            }
        }
        // Each run of a thread, and each of the steps in which they are merged.
        assert!(looks > 2 * 2 + 2 * RUN_ROWS / 4096, "{looks}");
    }

    #[test]
    fn what_a_merge_holds_is_charged_before_it_is_there() {
        let (mut parts, numbers) = parts(&[50_000, 50_000], None);
        let own: usize = parts.iter().map(SortRows::bytes).sum();
        let result = numbers.len() * size_of::<u64>();
        for (bytes_max, fits) in [(own + result / 2, false), (own + result * 2, true)] {
            let memory = QueryMemory::new(bytes_max);
            memory.charge(own, "sort").unwrap();
            let control = MergeControl::new(&memory, &|| false, "sort", own);
            let merged = sorted(&mut parts, &control);
            assert_eq!(merged.is_ok(), fits, "{merged:?}");
            assert!(!fits || memory.used_bytes() >= own + result);
        }
    }
}
