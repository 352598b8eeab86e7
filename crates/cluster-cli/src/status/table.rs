//! A local cluster's state as a table: once, or every second.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::thread;
use std::time::{Duration, Instant};

use namiki_client::protocol::{NodeStatus, Role};
use namiki_client::status;
use namiki_terminal::{interrupt, number_format};

use super::layout::LocalCluster;
use super::processes::ProcessState;
use crate::failure::{Failure, print};

/// Timeout of a node's answer.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Interval between two measurements, for the rate.
const INTERVAL: Duration = Duration::from_millis(1000);
const INTERVAL_ONCE: Duration = Duration::from_millis(300);
/// Clears the terminal and moves the cursor to its top.
const CLEAR: &str = "\x1b[H\x1b[J";

/// The observed state of a node at one time.
pub(super) struct Seen {
    pub(super) id: u64,
    pub(super) process: ProcessState,
    pub(super) status: Option<NodeStatus>,
    at: Instant,
}

impl Seen {
    pub(super) fn is_leader(&self) -> bool {
        let status = self.status.as_ref();
        status.is_some_and(|status| status.role == Role::Leader)
    }
}

impl LocalCluster {
    /// Requests the state of all nodes at the same time.
    pub(super) fn look(&self) -> Result<Vec<Seen>, Failure> {
        let mut seen = Vec::new();
        for node in &self.nodes {
            seen.push(Seen {
                id: node.id,
                process: node.process()?,
                status: None,
                at: Instant::now(),
            });
        }
        let options = &self.within(TIMEOUT);
        thread::scope(|scope| {
            for (node, seen) in self.nodes.iter().zip(&mut seen) {
                if matches!(seen.process, ProcessState::Running(_)) {
                    scope.spawn(move || {
                        seen.status = status(node.address(), options).ok();
                        seen.at = Instant::now();
                    });
                }
            }
        });
        Ok(seen)
    }

    /// The leader, if there is one; among several, that of the latest term.
    pub(super) fn leader(&self) -> Result<Option<u64>, Failure> {
        let seen = self.look()?;
        let leaders = seen.iter().filter(|seen| seen.is_leader());
        let latest = leaders.max_by_key(|seen| seen.status.as_ref().map(|status| status.term));
        Ok(latest.map(|seen| seen.id))
    }
}

/// Prints the table once.
pub(super) fn print_once(cluster: &LocalCluster) -> Result<(), Failure> {
    let before = cluster.look()?;
    thread::sleep(INTERVAL_ONCE);
    print(&table(cluster, &before, &cluster.look()?)?)
}

/// Prints the table repeatedly until Ctrl-C.
pub(super) fn watch(cluster: &LocalCluster) -> Result<(), Failure> {
    interrupt::listen_for_the_end();
    let terminal = std::io::stdout().is_terminal();
    let mut before = cluster.look()?;
    while interrupt::check().is_ok() {
        thread::sleep(INTERVAL);
        let seen = cluster.look()?;
        let table = table(cluster, &before, &seen)?;
        let clear = if terminal { CLEAR } else { "" };
        print(&format!("{clear}{table}\n"))?;
        before = seen;
    }
    Ok(())
}

const COLUMNS: [&str; 12] = [
    "node",
    "process",
    "role",
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

fn table(cluster: &LocalCluster, before: &[Seen], seen: &[Seen]) -> Result<String, Failure> {
    // The committed entries; a node lags by those that it has not applied.
    let statuses = || seen.iter().filter_map(|seen| seen.status.as_ref());
    let committed = statuses().map(|it| it.committed_lsn).max();
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    for ((node, seen), before) in cluster.nodes.iter().zip(seen).zip(before) {
        let mut name = node.id.to_string();
        if let Some(city) = node.city() {
            let _ = write!(name, " {city}");
        }
        let incarnation = seen.status.as_ref().map_or(1, |it| it.incarnation);
        if incarnation > 1 {
            // The earlier directories were lost.
            let _ = write!(name, " (incarnation {incarnation})");
        }
        let process = match seen.process {
            ProcessState::Down => "down".to_owned(),
            ProcessState::Paused(pid) => format!("{pid} paused"),
            ProcessState::Running(pid) => pid.to_string(),
        };
        let mut row = vec![name, process];
        match &seen.status {
            Some(status) => row.extend(columns_of(status, committed, rate(before, seen))),
            None => {
                let silent = matches!(seen.process, ProcessState::Running(_));
                row.push(if silent { "no answer" } else { "" }.to_owned());
                row.resize(COLUMNS.len() - 1, String::new());
            }
        }
        row.push(node.address().to_owned());
        rows.push(row);
    }
    let mut text = aligned(&rows);
    let leaders = seen.iter().filter(|seen| seen.is_leader()).count();
    if leaders == 0 {
        let running = statuses().count();
        let _ = writeln!(
            text,
            "no leader: {running} of {} nodes answer, and {} are needed",
            seen.len(),
            seen.len() / 2 + 1
        );
    }
    let cuts = cluster.cuts()?;
    if !cuts.is_empty() {
        let links: Vec<String> = cuts.iter().map(|(a, b)| format!("{a}-{b}")).collect();
        let _ = writeln!(text, "links that are cut: {}", links.join(", "));
    }
    Ok(text)
}

fn columns_of(status: &NodeStatus, committed: Option<u64>, rate: Option<u64>) -> [String; 9] {
    let role = match status.role {
        Role::Leader => "leader",
        Role::TakingOffice => "taking office",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Learner => "learner",
    };
    let lag = committed.map(|committed| committed.saturating_sub(status.applied_lsn));
    let number = |number: Option<u64>| number.map_or(String::new(), number_format::grouped);
    [
        role.to_owned(),
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
fn rate(before: &Seen, now: &Seen) -> Option<u64> {
    let (earlier, later) = (before.status.as_ref()?, now.status.as_ref()?);
    // A restarted node counts from zero.
    let commands = later
        .commands_applied
        .checked_sub(earlier.commands_applied)?;
    let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
    (seconds > 0.0).then(|| (commands as f64 / seconds) as u64)
}

/// Aligns columns; numbers to the right.
fn aligned(rows: &[Vec<String>]) -> String {
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
            // The columns from the term to the log.
            let _ = if (3..columns - 1).contains(&column) {
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
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "b", "c", "d", "e"], ["long", "x", "y", "1,000", "z"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let text = aligned(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["a     b  c      d  e", "long  x  y  1,000  z"]);
    }
}
