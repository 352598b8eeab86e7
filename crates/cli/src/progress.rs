//! The line that says how far long work is, on standard error.
//!
//! On a terminal it is one line that is written over; elsewhere, lines that come less often.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const INTERVAL_ON_A_TERMINAL: Duration = Duration::from_millis(100);
const INTERVAL_ELSEWHERE: Duration = Duration::from_secs(1);

/// How far something is. It says nothing if the work is done before the first interval is over.
pub(crate) struct Progress {
    terminal: bool,
    last: Instant,
    /// Something is on the terminal's line.
    shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            last: Instant::now(),
            shown: false,
        }
    }

    /// Says `line`, if it is time to.
    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        let interval = if self.terminal {
            INTERVAL_ON_A_TERMINAL
        } else {
            INTERVAL_ELSEWHERE
        };
        if self.last.elapsed() < interval {
            return;
        }
        self.last = Instant::now();
        let line = line();
        // Progress that cannot be shown is no reason to stop.
        let _ = if self.terminal {
            self.shown = true;
            write!(std::io::stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(std::io::stderr(), "{line}")
        };
    }

    /// Leaves the terminal's line empty for whatever is said next.
    pub(crate) fn clear(&mut self) {
        if self.shown {
            self.shown = false;
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
