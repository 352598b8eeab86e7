//! What running a portal tells.

use std::fmt;

/// How a statement stands between two synchronisation points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// It is the only one: it is committed, durable and, on conflicts, repeated within `execute`.
    Alone,
    /// Others come before or after it: `sync` commits them together.
    Part,
}

/// What became of a portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has run to its end.
    Complete(CommandTag),
    /// The text has no statement.
    Empty,
    /// As many rows were written as were asked for; there may be more.
    Suspended,
    /// The sink is full: call again when its contents were sent.
    SinkFull,
    /// Rows are expected: `copy_data`, then `copy_done` or `copy_failed`.
    CopyIn {
        /// The number of columns.
        columns: usize,
        /// Whether they are in binary format.
        binary: bool,
    },
    /// Lines follow: call `execute` again.
    CopyOut {
        /// The number of columns.
        columns: usize,
        /// Whether they are in binary format.
        binary: bool,
    },
}

/// A command's tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTag {
    pub(super) name: &'static str,
    pub(super) rows: Option<u64>,
}

impl CommandTag {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, rows: None }
    }

    pub(super) fn rows(name: &'static str, rows: u64) -> Self {
        Self {
            name,
            rows: Some(rows),
        }
    }
}

impl fmt::Display for CommandTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            None => f.write_str(self.name),
            // The number between was the row's object identifier.
            Some(rows) if self.name == "INSERT" => write!(f, "INSERT 0 {rows}"),
            Some(rows) => write!(f, "{} {rows}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_written_as_clients_read_them() {
        assert_eq!(CommandTag::rows("INSERT", 2).to_string(), "INSERT 0 2");
        assert_eq!(CommandTag::rows("SELECT", 0).to_string(), "SELECT 0");
        assert_eq!(CommandTag::new("BEGIN").to_string(), "BEGIN");
    }
}
