//! Checks whether a history is strictly serializable.
//!
//! Each executed command is a transaction: it has read the rows that it names and written some of
//! them. A read is a transaction, too. A command with an unknown outcome counts as executed if
//! anything has observed the value that it writes. That suffices: a value is only overwritten by a
//! command that names it, and all rows are read at the end, so every executed command is observed.
//!
//! A refused command has read, too: it must have been possible to observe something other than it
//! demanded (`refusals.rs`).

use std::collections::HashMap;

use namiki_client::protocol::Outcome;
use namiki_history::{History, KeyId, Promise, Transaction};

use super::super::registers::RegisterWrite;
use super::refusals::Rows;
use super::{Operation, What};

/// In the checker's explanations, a transaction is identified by its line in the history file, and
/// its position in that line.
const PLACES: u64 = 100;

/// The counts of a successful check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Verdict {
    pub(in super::super) transactions: usize,
    /// Number of reads of a value that another transaction has written.
    pub(in super::super) reads_from: usize,
    /// Number of reads of a value that another transaction has overwritten.
    pub(in super::super) reads_overwritten: usize,
    /// Number of abandoned commands: executed ones, and others.
    pub(in super::super) unknown_done: usize,
    pub(in super::super) unknown_not_done: usize,
    /// Number of refused commands; each could have observed something other than it demanded.
    pub(in super::super) refused: usize,
}

/// Checks the operations of all clients.
///
/// # Errors
/// An explanation of the violation of strict serializability.
pub(in super::super) fn check(operations: &[Operation]) -> Result<Verdict, String> {
    require_rising_lsns(operations)?;
    let unknown = Unknown::sort_out(operations);
    let mut history = Translation::default();
    let mut verdict = Verdict::default();
    for (at, operation) in operations.iter().enumerate() {
        // The first line of the file is not an operation.
        let first_id = (at as u64 + 2) * PLACES;
        let transaction = |place: usize, stamp| {
            let transaction = Transaction::new(first_id + place as u64, stamp);
            Transaction {
                started: Some(operation.start_ns),
                ended: operation.end_ns,
                ..transaction
            }
        };
        match &operation.what {
            What::Read { read, values, .. } => {
                let seen = read.iter().copied().zip(values.iter().copied());
                history.push(transaction(0, 0), seen, &[]);
            }
            What::Submit { submit, outcomes } => {
                for (place, write) in submit.iter().enumerate() {
                    let is_done = unknown.is_done_at(write, outcomes.as_deref(), place);
                    if outcomes.is_none() {
                        verdict.unknown_done += usize::from(is_done);
                        verdict.unknown_not_done += usize::from(!is_done);
                    }
                    if is_done {
                        let transaction = transaction(place, write.value);
                        history.push(transaction, write.conditions.iter().copied(), &write.set);
                    }
                }
            }
        }
    }
    verdict.transactions = history.history.transactions().len();
    let proof = namiki_history::check(&history.history, Promise::StrictlySerializable);
    let proof = proof.map_err(|violation| {
        format!(
            "{violation}\n(T of a number: its last two digits are the place of the command in its operation, the others the line of the history)"
        )
    })?;
    verdict.reads_from = proof.reads_from;
    verdict.reads_overwritten = proof.reads_overwritten;
    verdict.refused = check_refusals(operations, &unknown)?;
    Ok(verdict)
}

/// Checks every refused command. Returns their number.
fn check_refusals(operations: &[Operation], unknown: &Unknown<'_>) -> Result<usize, String> {
    let mut rows = Rows::default();
    for operation in operations {
        let (start, end) = (operation.start_ns, operation.end_ns);
        match &operation.what {
            What::Read { read, values, .. } => {
                for (row, value) in read.iter().zip(values) {
                    rows.saw(*row, *value, start, end);
                }
            }
            What::Submit { submit, outcomes } => {
                for (place, write) in submit.iter().enumerate() {
                    if !unknown.is_done_at(write, outcomes.as_deref(), place) {
                        continue;
                    }
                    for (row, value) in &write.conditions {
                        rows.saw(*row, *value, start, end);
                    }
                    for row in &write.set {
                        rows.wrote(*row, write.value, end);
                    }
                }
            }
        }
    }
    let rows = rows.sorted();
    let mut refused = 0;
    for (at, operation) in operations.iter().enumerate() {
        let What::Submit {
            submit,
            outcomes: Some(outcomes),
        } = &operation.what
        else {
            continue;
        };
        let line = at + 2;
        for (place, (write, outcome)) in submit.iter().zip(outcomes).enumerate() {
            let checked = match outcome {
                Outcome::Done => continue,
                Outcome::ConditionFailed => {
                    let end = operation.end_ns.unwrap_or(u64::MAX);
                    rows.check_refusal(&write.conditions, operation.start_ns, end)
                }
                other => Err(format!("it makes sense, and its outcome is {other:?}")),
            };
            checked.map_err(|why| format!("command {place} of line {line}: {why}"))?;
            refused += 1;
        }
    }
    Ok(refused)
}

/// A history in which rows have numbers.
#[derive(Default)]
struct Translation {
    history: History,
    keys: HashMap<u64, KeyId>,
}

impl Translation {
    fn push(
        &mut self,
        mut transaction: Transaction,
        seen: impl Iterator<Item = (u64, u64)>,
        written: &[u64],
    ) {
        let history = &mut self.history;
        let keys = &mut self.keys;
        let mut key = |row: u64| {
            let new = || history.key(1, &row.to_be_bytes());
            *keys.entry(row).or_insert_with(new)
        };
        transaction.reads = seen.map(|(row, value)| (key(row), value)).collect();
        transaction.writes = written.iter().map(|row| key(*row)).collect();
        self.history.push(transaction);
    }
}

/// Commands with outcomes unknown to the clients.
struct Unknown<'a> {
    /// By the value that they write, with a flag whether they were executed.
    writes: HashMap<u64, (&'a RegisterWrite, bool)>,
}

impl<'a> Unknown<'a> {
    fn sort_out(operations: &'a [Operation]) -> Self {
        let mut writes = HashMap::new();
        let mut seen: Vec<u64> = Vec::new();
        for operation in operations {
            match &operation.what {
                What::Read { values, .. } => seen.extend(values),
                What::Submit { submit, outcomes } => {
                    for (place, write) in submit.iter().enumerate() {
                        match outcomes {
                            None => {
                                writes.insert(write.value, (write, false));
                            }
                            Some(outcomes) if outcomes.get(place) == Some(&Outcome::Done) => {
                                seen.extend(write.conditions.iter().map(|(_, value)| value));
                            }
                            Some(_) => {}
                        }
                    }
                }
            }
        }
        // An executed command has observed something, too.
        while let Some(value) = seen.pop() {
            if let Some((write, is_done)) = writes.get_mut(&value)
                && !std::mem::replace(is_done, true)
            {
                seen.extend(write.conditions.iter().map(|(_, value)| value));
            }
        }
        Self { writes }
    }

    /// Whether a command was executed: the one at `place` in an operation with these outcomes.
    fn is_done_at(
        &self,
        write: &RegisterWrite,
        outcomes: Option<&[Outcome]>,
        place: usize,
    ) -> bool {
        match outcomes {
            Some(outcomes) => outcomes.get(place) == Some(&Outcome::Done),
            None => self.writes.get(&write.value).is_some_and(|(_, done)| *done),
        }
    }
}

/// A read reports the state that it has observed. A read that starts after another has ended must
/// not observe an earlier state.
fn require_rising_lsns(operations: &[Operation]) -> Result<(), String> {
    let mut reads: Vec<(u64, u64, u64)> = Vec::new();
    for operation in operations {
        if let (What::Read { lsn, .. }, Some(end)) = (&operation.what, operation.end_ns) {
            reads.push((operation.start_ns, end, *lsn));
        }
    }
    let mut ends: Vec<(u64, u64)> = reads.iter().map(|(_, end, lsn)| (*end, *lsn)).collect();
    ends.sort_unstable();
    reads.sort_unstable();
    let mut ended = ends.into_iter().peekable();
    let mut last = 0;
    for (start, _, lsn) in reads {
        while let Some((_, seen)) = ended.next_if(|(end, _)| *end < start) {
            last = last.max(seen);
        }
        if lsn < last {
            return Err(format!(
                "the read that began at {start} ns has seen entry {lsn}, and one that had ended before has seen entry {last}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(start_ns: u64, end_ns: Option<u64>, what: What) -> Operation {
        Operation {
            client: 0,
            start_ns,
            end_ns,
            what,
        }
    }

    fn read(times: (u64, u64), seen: &[(u64, u64)], lsn: u64) -> Operation {
        let what = What::Read {
            read: seen.iter().map(|(row, _)| *row).collect(),
            values: seen.iter().map(|(_, value)| *value).collect(),
            lsn,
        };
        operation(times.0, Some(times.1), what)
    }

    fn write(
        times: (u64, Option<u64>),
        conditions: &[(u64, u64)],
        set: &[u64],
        value: u64,
        outcome: Outcome,
    ) -> Operation {
        let write = RegisterWrite {
            conditions: conditions.to_vec(),
            set: set.to_vec(),
            value,
        };
        let what = What::Submit {
            submit: vec![write],
            outcomes: times.1.map(|_| vec![outcome]),
        };
        operation(times.0, times.1, what)
    }

    fn is_refused(operations: &[Operation], because: &str) {
        let said = check(operations).unwrap_err();
        assert!(said.contains(because), "{said}");
    }

    /// The first command writes rows 1 and 2, the next one row 1, and both are read.
    fn sound() -> Vec<Operation> {
        vec![
            write((0, Some(10)), &[(1, 0), (2, 0)], &[1, 2], 11, Outcome::Done),
            read((12, 14), &[(1, 11), (2, 11)], 5),
            write((20, Some(30)), &[(1, 11)], &[1], 22, Outcome::Done),
            write(
                (21, Some(31)),
                &[(1, 11)],
                &[1],
                23,
                Outcome::ConditionFailed,
            ),
            read((32, 34), &[(1, 22), (2, 11)], 6),
        ]
    }

    #[test]
    fn a_sound_history_is_accepted() {
        let verdict = check(&sound()).unwrap();
        assert_eq!((verdict.transactions, verdict.reads_from), (4, 5));
        assert_eq!(verdict.refused, 1);
    }

    #[test]
    fn a_false_refusal_is_refused() {
        let demand = |times: (u64, u64), conditions: &[(u64, u64)], outcome| {
            let times = (times.0, Some(times.1));
            write(times, conditions, &[1], 24, outcome)
        };
        // Row 1 held 11 from 10 ns at the latest, and certainly until 20 ns.
        let mut history = sound();
        let both = [(1, 11), (2, 11)];
        history.push(demand((15, 19), &both, Outcome::ConditionFailed));
        is_refused(&history, "row 1 held 11 and row 2 held 11 all the time");
        // It may not be there yet, or no longer.
        for times in [(9, 19), (15, 20)] {
            history[5] = demand(times, &both, Outcome::ConditionFailed);
            assert_eq!(check(&history).unwrap().refused, 2, "{times:?}");
        }
        // A value read at the end has been there since it was written.
        history[5] = demand((31, 31), &[(1, 22)], Outcome::ConditionFailed);
        is_refused(&history, "row 1 held 22");
        history[5] = demand((9, 19), &both, Outcome::InsufficientBalance);
        is_refused(&history, "its outcome is InsufficientBalance");
    }

    #[test]
    fn a_lost_write_is_refused() {
        let mut history = sound();
        history[4] = read((32, 34), &[(1, 11), (2, 11)], 6);
        is_refused(&history, "T");
    }

    #[test]
    fn half_a_write_is_refused() {
        let mut history = sound();
        history[1] = read((5, 14), &[(1, 11), (2, 0)], 5);
        is_refused(&history, "T");
    }

    #[test]
    fn a_value_that_no_command_has_left_is_refused() {
        let mut history = sound();
        history[4] = read((32, 34), &[(1, 23), (2, 11)], 6);
        is_refused(&history, "which no committed transaction wrote");
    }

    #[test]
    fn a_lost_update_is_refused() {
        let mut history = sound();
        history[3] = write((21, Some(31)), &[(1, 11)], &[1], 23, Outcome::Done);
        is_refused(&history, "T");
    }

    #[test]
    fn a_read_of_an_earlier_state_is_refused() {
        let mut history = sound();
        history[4] = read((32, 34), &[(1, 22), (2, 11)], 4);
        is_refused(&history, "has seen entry 4");
    }

    #[test]
    fn an_unknown_command_counts_if_it_was_seen() {
        let mut history = sound();
        // If that command was not executed, the refusal because of it was wrong.
        history.remove(3);
        history[2] = write((20, None), &[(1, 11)], &[1], 22, Outcome::Done);
        let verdict = check(&history).unwrap();
        assert_eq!((verdict.unknown_done, verdict.unknown_not_done), (1, 0));
        history[3] = read((32, 34), &[(1, 11), (2, 11)], 6);
        let verdict = check(&history).unwrap();
        assert_eq!((verdict.unknown_done, verdict.unknown_not_done), (0, 1));
        // It is observed only by another command with an unknown outcome, which is observed itself.
        history.push(write((22, None), &[(1, 22)], &[1], 33, Outcome::Done));
        history[3] = read((32, 34), &[(1, 33), (2, 11)], 6);
        assert_eq!(check(&history).unwrap().unknown_done, 2);
    }
}
