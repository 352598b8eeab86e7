//! The state of a cluster as a table.

use std::fmt::Write as _;

use namiki_client::protocol::{NodeStatus, Role};
use namiki_terminal::number_format;

use super::Links;
use super::look::{ProcessState, Seen};

const COLUMNS: [&str; 13] = [
    "node",
    "process",
    "role",
    "version",
    "term",
    "last",
    "on disk",
    "committed",
    "applied",
    "lag",
    "tps",
    "log",
    "clients at",
];
/// The columns of numbers: from the term to the log.
const NUMBERS: std::ops::Range<usize> = 4..COLUMNS.len() - 1;

/// The table, with the problems and the cut links below it.
pub(super) fn table(before: &[Seen], now: &[Seen], problems: &[String], cuts: &Links) -> String {
    // The committed entries; a node lags by those that it has not applied.
    let statuses = now.iter().filter_map(Seen::status);
    let committed = statuses.map(|it| it.committed_lsn).max();
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    for (before, seen) in before.iter().zip(now) {
        let mut row = vec![name_of(seen), process_of(seen)];
        match seen.status() {
            Some(status) => row.extend(columns_of(status, committed, rate(before, seen))),
            None => {
                let is_silent = !matches!(
                    seen.site.process,
                    Some(ProcessState::Down | ProcessState::Paused(_))
                );
                row.push(if is_silent { "no answer" } else { "" }.to_owned());
                row.resize(COLUMNS.len() - 1, String::new());
            }
        }
        row.push(seen.site.address.clone());
        rows.push(row);
    }
    let mut text = aligned(&rows, NUMBERS);
    for problem in problems {
        let _ = writeln!(text, "{problem}");
    }
    if !cuts.is_empty() {
        let links: Vec<String> = cuts.iter().map(|(a, b)| format!("{a}-{b}")).collect();
        let _ = writeln!(text, "links that are cut: {}", links.join(", "));
    }
    text
}

fn name_of(seen: &Seen) -> String {
    let mut name = seen
        .number()
        .map_or("?".to_owned(), |number| number.to_string());
    if let Some(city) = seen.site.city {
        let _ = write!(name, " {city}");
    }
    let incarnation = seen.status().map_or(1, |it| it.incarnation);
    if incarnation > 1 {
        // The earlier directories were lost.
        let _ = write!(name, " (incarnation {incarnation})");
    }
    name
}

fn process_of(seen: &Seen) -> String {
    match seen.site.process {
        None => "-".to_owned(),
        Some(ProcessState::Down) => "down".to_owned(),
        Some(ProcessState::Paused(pid)) => format!("{pid} paused"),
        Some(ProcessState::Running(pid)) => pid.to_string(),
    }
}

pub(super) fn role_text(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::TakingOffice => "taking office",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Learner => "learner",
    }
}

fn columns_of(status: &NodeStatus, committed: Option<u64>, rate: Option<u64>) -> [String; 10] {
    let lag = committed.map(|committed| committed.saturating_sub(status.applied_lsn));
    let number = |number: Option<u64>| number.map_or(String::new(), number_format::grouped);
    [
        role_text(status.role).to_owned(),
        status.version.clone(),
        status.term.to_string(),
        number(Some(status.last_lsn)),
        number(Some(status.persisted_lsn)),
        number(Some(status.committed_lsn)),
        number(Some(status.applied_lsn)),
        number(lag),
        number(rate),
        number_format::bytes(status.log_bytes),
    ]
}

/// Commands per second that a node applied between two measurements.
pub(super) fn rate(before: &Seen, now: &Seen) -> Option<u64> {
    let (earlier, later) = (before.status()?, now.status()?);
    // A restarted node counts from zero.
    let commands = later
        .commands_applied
        .checked_sub(earlier.commands_applied)?;
    let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
    (seconds > 0.0).then(|| (commands as f64 / seconds) as u64)
}

/// Aligns columns; numbers to the right.
pub(crate) fn aligned(rows: &[Vec<String>], numbers: std::ops::Range<usize>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if numbers.contains(&column) {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:<width$}  ")
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::health::tests::healthy;
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "b", "c", "d", "e"], ["long", "x", "y", "1,000", "z"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let text = aligned(&rows, 3..4);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["a     b  c      d  e", "long  x  y  1,000  z"]);
    }

    #[test]
    fn a_node_without_an_answer_has_a_row() {
        let mut seen = healthy();
        seen[1].answer = Err("why".to_owned());
        let text = table(&seen, &seen, &["a problem".to_owned()], &Links::new());
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("1") && lines[1].contains(" leader "),
            "{text}"
        );
        assert!(
            lines[2].starts_with('?') && lines[2].contains("no answer"),
            "{text}"
        );
        assert!(lines[2].ends_with("10.0.0.2:7500"), "{text}");
        assert_eq!(lines[4], "a problem");
    }
}
