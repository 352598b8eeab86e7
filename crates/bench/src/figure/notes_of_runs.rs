//! A figure's notes, with the numbers of its runs.
//!
//! A note that gives a number of the runs has its name in braces, as in `{records}`.

use std::collections::BTreeSet;

use super::medians::plain;
use super::run_row::RunRow;

/// Numbers that notes may give, by name.
const NUMBERS: &[(&str, fn(&RunRow) -> Option<u64>)] = &[
    ("{records}", |run| run.records),
    ("{operations}", |run| run.operations),
];
/// The name of the number of transactions in flight, which differs from line to line.
const IN_FLIGHT: &str = "{in_flight}";

/// The notes, with numbers instead of names.
pub(super) fn notes(notes: &[&str], runs: &[RunRow]) -> Vec<String> {
    let filled = notes.iter().map(|note| {
        let mut note = (*note).to_owned();
        for (name, number) in NUMBERS {
            if note.contains(name) {
                note = note.replace(name, &range(runs.iter().filter_map(number)));
            }
        }
        if note.contains(IN_FLIGHT) {
            note = note.replace(IN_FLIGHT, &in_flight(runs));
        }
        note
    });
    filled.collect()
}

/// One number, or the smallest and the largest.
fn range(numbers: impl Iterator<Item = u64>) -> String {
    let numbers: BTreeSet<u64> = numbers.collect();
    let text = |number: &u64| plain(*number as f64);
    match (numbers.first(), numbers.last()) {
        (Some(least), Some(most)) if least < most => format!("{} to {}", text(least), text(most)),
        (Some(number), _) => text(number),
        (None, _) => "an unknown number of".to_owned(),
    }
}

/// The transactions in flight of each group size.
fn in_flight(runs: &[RunRow]) -> String {
    let pairs = runs
        .iter()
        .filter_map(|run| run.group_size.zip(run.in_flight));
    let pairs: BTreeSet<(u32, u64)> = pairs.collect();
    let texts = pairs.iter().map(|(size, number)| {
        let (size, number) = (plain(f64::from(*size)), plain(*number as f64));
        format!("{number} in groups of {size}")
    });
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() {
        return "none".to_owned();
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::figures;
    use super::*;

    fn run(records: u64, group_size: u32) -> RunRow {
        RunRow {
            records: Some(records),
            operations: Some(20_000),
            group_size: Some(group_size),
            in_flight: Some(u64::from(group_size) * 16),
            ..RunRow::default()
        }
    }

    #[test]
    fn numbers_are_those_of_the_runs() {
        let given = [
            "Here there are {records} records.",
            "{operations}",
            "Here: {in_flight}.",
        ];
        let runs = [run(10_000, 1), run(10_000, 5_000)];
        let expected = [
            "Here there are 10,000 records.",
            "20,000",
            "Here: 16 in groups of 1, 80,000 in groups of 5,000.",
        ];
        assert_eq!(notes(&given, &runs), expected);
        let different = [run(10, 1), run(1_000_000, 1)];
        assert_eq!(
            notes(&given[..1], &different),
            ["Here there are 10 to 1,000,000 records."]
        );
    }

    #[test]
    fn every_name_in_braces_is_one_of_a_number() {
        let runs = [run(10_000, 1)];
        let mut filled = 0;
        for figure in figures() {
            for (note, given) in notes(figure.notes, &runs).iter().zip(figure.notes) {
                assert!(!note.contains(['{', '}']), "{note}");
                assert!(!note.contains("million records"), "{note}");
                filled += usize::from(note != given);
            }
        }
        assert!(filled > 0);
    }
}
