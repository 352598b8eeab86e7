//! Checks that commands were refused correctly.
//!
//! A command is refused correctly if, at one moment between its start and its end, one of the named
//! rows does not hold the named value. This is impossible if every named row was observed with its
//! value, or a later one, before the start, and with its value, or an earlier one, after the end.
//! Values of a row only rise (`registers.rs`), so each row then held its value all the time.
//!
//! ```text
//!   write row 3 := 7          read row 3 = 7            nothing newer than 7 can have come before this read began
//!   ├──────────┤              ├─────────┤
//!                ├─────────┤
//!                if row 3 = 7: refused            a violation
//! ```
//! Changes by other commands of the same operation lie between its start and its end, so no
//! conclusion is drawn from them.

use std::collections::HashMap;

/// Observations of one row: values with times.
#[derive(Debug, Default)]
struct RowHistory {
    /// At this time at the latest, the row held this value or a later one.
    reached: Vec<(u64, u64)>,
    /// At this time, the row held this value or an earlier one, or was still unchanged.
    not_beyond: Vec<(u64, u64)>,
}

/// Observations of all rows.
#[derive(Debug, Default)]
pub(super) struct Rows(HashMap<u64, RowHistory>);

impl Rows {
    /// Adds an observation: an operation that started at `start_ns` has read this value.
    pub(super) fn saw(&mut self, row: u64, value: u64, start_ns: u64, end_ns: Option<u64>) {
        let known = self.0.entry(row).or_default();
        known.not_beyond.push((start_ns, value));
        known.reached.extend(end_ns.map(|end| (end, value)));
    }

    /// Adds an observation: an operation that ended at `end_ns` has written this value.
    pub(super) fn wrote(&mut self, row: u64, value: u64, end_ns: Option<u64>) {
        let known = self.0.entry(row).or_default();
        known.reached.extend(end_ns.map(|end| (end, value)));
    }

    /// Sorts the observations, once all are added.
    pub(super) fn sorted(mut self) -> SortedRows {
        for known in self.0.values_mut() {
            known.reached.sort_unstable();
            let mut highest = 0;
            for (_, value) in &mut known.reached {
                highest = highest.max(*value);
                *value = highest;
            }
            known.not_beyond.sort_unstable();
            let mut lowest = u64::MAX;
            for (_, value) in known.not_beyond.iter_mut().rev() {
                lowest = lowest.min(*value);
                *value = lowest;
            }
        }
        SortedRows(self.0)
    }
}

/// Observations of all rows, in order of time: the highest value reached up to each time, and the
/// lowest value not exceeded from each time on.
#[derive(Debug)]
pub(super) struct SortedRows(HashMap<u64, RowHistory>);

impl SortedRows {
    /// Whether a row held exactly this value at every moment of an operation.
    fn held_throughout(&self, row: u64, value: u64, start_ns: u64, end_ns: u64) -> bool {
        let Some(known) = self.0.get(&row) else {
            return false;
        };
        let before = known.reached.partition_point(|(end, _)| *end < start_ns);
        // Each row starts without a value.
        let reached = before.checked_sub(1).map_or(0, |at| known.reached[at].1);
        let after = known
            .not_beyond
            .partition_point(|(start, _)| *start <= end_ns);
        let not_beyond = known.not_beyond.get(after).map(|(_, value)| *value);
        reached >= value && not_beyond.is_some_and(|lowest| lowest <= value)
    }

    /// Checks whether a command with these conditions may have been refused while its operation
    /// ran.
    ///
    /// # Errors
    /// The reason why not.
    pub(super) fn check_refusal(
        &self,
        conditions: &[(u64, u64)],
        start_ns: u64,
        end_ns: u64,
    ) -> Result<(), String> {
        let held = |&(row, value): &(u64, u64)| self.held_throughout(row, value, start_ns, end_ns);
        if !conditions.iter().all(held) {
            return Ok(());
        }
        let rows = conditions
            .iter()
            .map(|(row, value)| format!("row {row} held {value}"));
        let rows: Vec<String> = rows.collect();
        Err(format!(
            "from {start_ns} ns, when it was asked for, to {end_ns} ns, when it was refused, {} all the time, as it demanded",
            rows.join(" and ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row 1 is set to 7 in 0..10, which is read in 40..50, and to 9 in 60..70, which is read in
    /// 80..90.
    fn rows() -> SortedRows {
        let mut rows = Rows::default();
        rows.saw(1, 0, 0, Some(10));
        rows.wrote(1, 7, Some(10));
        rows.saw(1, 7, 40, Some(50));
        rows.saw(1, 7, 60, Some(70));
        rows.wrote(1, 9, Some(70));
        rows.saw(1, 9, 80, Some(90));
        rows.saw(2, 0, 80, Some(90));
        rows.sorted()
    }

    #[test]
    fn a_refusal_is_false_if_the_value_stayed() {
        let rows = rows();
        for (start, end) in [(11, 20), (11, 59), (30, 45)] {
            let refused = rows.check_refusal(&[(1, 7)], start, end);
            assert!(refused.unwrap_err().contains("row 1 held 7"));
            // Row 2 never had a value.
            assert!(rows.check_refusal(&[(1, 7), (2, 0)], start, end).is_err());
        }
    }

    #[test]
    fn a_refusal_may_be_true_while_the_value_changes() {
        let rows = rows();
        let possible = [
            // Before it was certainly written, and while it may be overwritten.
            (&[(1, 7)][..], 5, 20),
            (&[(1, 7)], 10, 20),
            (&[(1, 7)], 11, 60),
            (&[(1, 7)], 65, 68),
            // A value that is no longer there, or not yet.
            (&[(1, 0)], 11, 20),
            (&[(1, 9)], 11, 20),
            // One row suffices, and nothing is known about row 3.
            (&[(1, 7), (2, 5)], 11, 20),
            (&[(1, 7), (3, 0)], 11, 20),
        ];
        for (conditions, start, end) in possible {
            let refused = rows.check_refusal(conditions, start, end);
            assert_eq!(refused, Ok(()), "{conditions:?} in {start}..{end}");
        }
    }
}
