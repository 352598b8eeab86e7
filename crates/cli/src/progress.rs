//! Progress of long work, as a line on standard error.
//!
//! On a terminal it is one line that is redrawn, with a bar if the total is known; elsewhere it
//! prints lines at longer intervals.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const INTERVAL_ON_A_TERMINAL: Duration = Duration::from_millis(100);
const INTERVAL_ELSEWHERE: Duration = Duration::from_secs(1);
const WITH_A_BAR: &str = "[{bar:24.#-}] {percent}% {msg}";
const WITHOUT: &str = "{msg}";

/// A progress display. It shows nothing if the work is done before the first interval is over.
pub(crate) struct Progress {
    terminal: bool,
    last: Instant,
    /// The bar on the terminal's line.
    shown: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            last: Instant::now(),
            shown: None,
        }
    }

    /// Shows `line`, if the interval is over.
    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        self.say_if_due(None, line);
    }

    /// Shows `line` and the done part of the total, if the interval is over.
    pub(crate) fn say_of(&mut self, done: u64, total: u64, line: impl FnOnce() -> String) {
        self.say_if_due(Some((done, total)), line);
    }

    fn say_if_due(&mut self, part: Option<(u64, u64)>, line: impl FnOnce() -> String) {
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
        if self.terminal {
            self.draw(part, line);
            return;
        }
        let percent = part.and_then(|(done, total)| (done * 100).checked_div(total));
        // Progress that cannot be shown does not stop the work.
        let _ = match percent {
            Some(percent) => writeln!(std::io::stderr(), "{percent}% {line}"),
            None => writeln!(std::io::stderr(), "{line}"),
        };
    }

    fn draw(&mut self, part: Option<(u64, u64)>, line: String) {
        let bar = self.shown.get_or_insert_with(|| {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        });
        let template = if part.is_some() { WITH_A_BAR } else { WITHOUT };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if let Some((done, total)) = part {
            bar.set_length(total);
            bar.set_position(done);
        }
        bar.set_message(line);
        bar.tick();
    }

    /// Clears the terminal's line for the next output.
    pub(crate) fn clear(&mut self) {
        if let Some(shown) = self.shown.take() {
            shown.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_can_be_drawn() {
        for template in [WITH_A_BAR, WITHOUT] {
            ProgressStyle::with_template(template).unwrap();
        }
        let mut progress = Progress::new();
        progress.draw(None, "recovering".to_owned());
        progress.draw(Some((5, 4)), "more than all".to_owned());
        progress.draw(Some((0, 0)), "nothing".to_owned());
        progress.clear();
        progress.draw(None, "again".to_owned());
        assert!(progress.shown.is_some());
    }
}
