//! Progress of a query while it runs, and its summary at the end.

use std::time::Instant;

use namiki::query::{LiveCounters, Statistics};
use namiki_terminal::number_format::{counted, grouped};

use crate::progress::Progress;

/// The progress line of a running query.
pub(super) struct ProgressLine {
    progress: Progress,
    began: Instant,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self {
            progress: Progress::new(),
            began: Instant::now(),
        }
    }

    pub(super) fn say(&mut self, now: &LiveCounters) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.progress.say(|| line(now, seconds));
    }
}

fn line(now: &LiveCounters, seconds: f64) -> String {
    let rate = now.reads as f64 / seconds.max(1e-3);
    format!(
        "{seconds:.1} s: {}, {}, {}/s, {} in flight",
        counted(now.rows, "row"),
        counted(now.reads, "read"),
        grouped(rate as u64),
        counted(now.tasks_in_flight, "task"),
    )
}

/// The summary at the end.
pub(super) fn summary(rows: u64, statistics: &Statistics) -> String {
    let seconds = statistics.elapsed.as_secs_f64();
    let LiveCounters {
        reads,
        pages,
        merged_faults,
        tasks,
        ..
    } = statistics.counters;
    let rate = reads as f64 / seconds.max(1e-6);
    let device = match &*statistics.device {
        "" => String::new(),
        device => format!(" through {device}"),
    };
    format!(
        "{} in {seconds:.3} s: {} ({}/s) of {}{device}, {} merged; {}, up to {} in flight in each of {}; {:.3} s of \
         processor time",
        counted(rows, "row"),
        counted(reads, "read"),
        grouped(rate as u64),
        counted(pages, "page"),
        counted(merged_faults, "fault"),
        counted(tasks, "task"),
        grouped(statistics.tasks_in_flight_max),
        counted(statistics.threads as u64, "thread"),
        statistics.cpu.as_secs_f64(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rows_reads_and_tasks() {
        let now = LiveCounters {
            reads: 30_000,
            rows: 1,
            tasks_in_flight: 128,
            ..LiveCounters::default()
        };
        assert_eq!(
            line(&now, 0.5),
            "0.5 s: 1 row, 30,000 reads, 60,000/s, 128 tasks in flight"
        );
    }
}
