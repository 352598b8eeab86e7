//! The log of a program that runs for long: lines on standard error.
//!
//! ```text
//! 2026-03-01T09:30:00.123Z WARN refused a node address=10.0.0.9:4711 reason="it belongs to another cluster"
//! ```
//!
//! A thread of its own writes them: writes to standard error may block (a pipe that is not read, a
//! full disk), and a node that waits for them would miss its heartbeats, a server its clients. Lines
//! that do not fit into the queue are dropped, and counted.

use std::fmt::{self, Write as _};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use slog::{Drain, KV, Key, Level, Logger, Never, OwnedKVList, Record, Serializer, o};

use crate::time_of_day::utc;

/// Capacity of the queue, in lines.
const LINES_MAX: usize = 1024;
/// Time that the end of the process waits for lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A logger of all levels above debug, and a guard that flushes its lines when it is dropped.
///
/// # Errors
/// If the system cannot start a thread.
pub fn logger() -> io::Result<(Logger, Flush)> {
    let (queue, items) = sync_channel(LINES_MAX);
    let name = "log-lines".to_owned();
    thread::Builder::new()
        .name(name)
        .spawn(move || write_lines(items, io::stderr()))?;
    let flush = Flush(queue.clone());
    let dropped = AtomicU64::new(0);
    Ok((Logger::root(Lines { queue, dropped }, o!()), flush))
}

enum Item {
    Line(String),
    /// Asks for a notification when the lines before it are written.
    Flush(SyncSender<()>),
}

fn write_lines(items: Receiver<Item>, mut to: impl io::Write) {
    for item in items {
        match item {
            // One write, so that lines are not mixed with others. A failed write to the log does
            // not stop the node.
            Item::Line(line) => drop(to.write_all(line.as_bytes())),
            Item::Flush(done) => drop(done.try_send(())),
        }
    }
}

/// Waits a little for the lines to be written, when it is dropped.
#[derive(Debug)]
pub struct Flush(SyncSender<Item>);

impl Drop for Flush {
    fn drop(&mut self) {
        let (done, is_done) = sync_channel(1);
        if self.0.try_send(Item::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

struct Lines {
    queue: SyncSender<Item>,
    /// Number of lines that were dropped since the last one that was queued.
    dropped: AtomicU64,
}

impl Lines {
    fn put(&self, mut line: String) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let _ = write!(line, " lines_dropped_before={dropped}");
        }
        line.push('\n');
        if self.queue.try_send(Item::Line(line)).is_err() {
            self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
        }
    }
}

impl Drain for Lines {
    type Ok = ();
    type Err = Never;

    fn log(&self, record: &Record<'_>, values: &OwnedKVList) -> Result<(), Never> {
        if !record.level().is_at_least(Level::Info) {
            return Ok(());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_millis() as u64);
        let mut line = Line(String::with_capacity(128));
        let level = record.level().as_short_str();
        let _ = write!(line.0, "{} {level} {}", utc(now), record.msg());
        let _ = record.kv().serialize(record, &mut line);
        let _ = values.serialize(record, &mut line);
        self.put(line.0);
        Ok(())
    }
}

struct Line(String);

impl Serializer for Line {
    fn emit_arguments(&mut self, key: Key, value: &fmt::Arguments<'_>) -> slog::Result {
        let value = value.to_string();
        let plain = |it: char| it.is_ascii_alphanumeric() || "-_.:/[]".contains(it);
        if !value.is_empty() && value.chars().all(plain) {
            write!(self.0, " {key}={value}")?;
        } else {
            write!(self.0, " {key}={value:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_room_are_dropped_and_counted() {
        let (queue, items) = sync_channel(1);
        let dropped = AtomicU64::new(0);
        let lines = Lines { queue, dropped };
        for line in ["first", "second", "third"] {
            lines.put(line.to_owned());
        }
        let line = |item| match item {
            Ok(Item::Line(line)) => line,
            _ => String::new(),
        };
        assert_eq!(line(items.try_recv()), "first\n");
        lines.put("fourth".to_owned());
        assert_eq!(line(items.try_recv()), "fourth lines_dropped_before=2\n");
    }

    #[test]
    fn a_flush_waits_for_the_lines_before_it() {
        let (queue, items) = sync_channel(2);
        queue.try_send(Item::Line("a line\n".to_owned())).unwrap();
        let writer = thread::spawn(move || {
            let mut written = Vec::new();
            write_lines(items, &mut written);
            written
        });
        drop(Flush(queue));
        assert_eq!(writer.join().unwrap(), b"a line\n");
    }

    #[test]
    fn values_with_spaces_are_quoted() {
        let mut line = Line(String::new());
        line.emit_arguments("a", &format_args!("10.0.0.1:7"))
            .unwrap();
        line.emit_arguments("b", &format_args!("two words"))
            .unwrap();
        assert_eq!(line.0, " a=10.0.0.1:7 b=\"two words\"");
    }
}
