//! Progress of the load of a table: the rate, and the time left.

use std::sync::Mutex;
use std::time::Instant;

use namiki::LoadProgress;
use namiki_terminal::number_format::grouped;

use crate::progress::Progress;

/// The progress line of a load. Its rows are one part of the work, each index another.
pub(super) struct LoadLine {
    /// Estimated number of rows.
    rows: u64,
    state: Mutex<State>,
}

struct State {
    progress: Progress,
    /// The part that is being written.
    part: Option<String>,
    began: Instant,
}

impl LoadLine {
    pub(super) fn new(rows: u64) -> Self {
        Self {
            rows,
            state: Mutex::new(State {
                progress: Progress::new(),
                part: None,
                began: Instant::now(),
            }),
        }
    }

    pub(super) fn say(&self, now: LoadProgress<'_>) {
        // A panic of the other thread ends the load; the progress does not matter then.
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        let part = now.index.map(str::to_owned);
        if state.part != part {
            state.part = part;
            state.began = Instant::now();
        }
        let seconds = state.began.elapsed().as_secs_f64();
        let total = now.total.unwrap_or(self.rows);
        // The total of rows may be an estimate.
        let done = now.written.min(total);
        state
            .progress
            .say_of(done, total, || line(now, total, seconds));
    }

    /// Clears the terminal's line for the next output.
    pub(super) fn clear(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.progress.clear();
        }
    }
}

fn line(now: LoadProgress<'_>, total: u64, seconds: f64) -> String {
    let what = match now.index {
        Some(index) => format!("{}, index {index}", now.table),
        None => now.table.to_owned(),
    };
    let rate = now.written as f64 / seconds.max(1e-3);
    let left = total.saturating_sub(now.written) as f64 / rate.max(1.0);
    format!(
        "{what}: {} of {} rows, {}/s, {} left",
        grouped(now.written),
        grouped(total),
        grouped(rate as u64),
        time(left),
    )
}

/// A duration in readable form.
fn time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rate_and_time_left() {
        let now = LoadProgress {
            table: "orders",
            index: None,
            written: 500_000,
            total: None,
        };
        assert_eq!(
            line(now, 1_500_000, 2.0),
            "orders: 500,000 of 1,500,000 rows, 250,000/s, 4 s left"
        );
        let beyond = LoadProgress {
            index: Some("o_custkey"),
            written: 9,
            ..now
        };
        let text = line(beyond, 5, 1.0);
        assert_eq!(text, "orders, index o_custkey: 9 of 5 rows, 9/s, 0 s left");
        assert!(line(now, 0, 0.0).contains("0 s left"));
        assert_eq!(time(7_261.0), "2 h 1 min");
        assert_eq!(time(61.2), "1 min 2 s");
    }
}
