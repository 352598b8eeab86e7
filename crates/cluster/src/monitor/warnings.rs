//! When conditions are logged: once they have lasted, again from time to time, and when they end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::conditions::{Condition, Severity, Subject};

/// The conditions of a node over time.
pub(crate) struct Warnings {
    election_timeout: Duration,
    known: BTreeMap<Subject, Known>,
}

/// A condition that holds, or an event that was logged.
struct Known {
    since: Instant,
    /// When it was logged last, and as how bad.
    logged: Option<(Instant, Severity)>,
    /// Events since then.
    suppressed: u64,
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// `None`: a condition is over.
    pub(crate) severity: Option<Severity>,
    pub(crate) text: String,
    /// How long the condition has lasted.
    pub(crate) lasted: Duration,
    /// Events of this kind that were not logged since the line before.
    pub(crate) suppressed: u64,
}

impl Warnings {
    pub(crate) fn new(election_timeout: Duration) -> Self {
        Self {
            election_timeout,
            known: BTreeMap::new(),
        }
    }

    /// The lines that are due, given all conditions that hold now.
    pub(crate) fn check(&mut self, now: Instant, conditions: &[Condition]) -> Vec<Line> {
        let mut lines = self.take_ended(now, conditions);
        for condition in conditions {
            let subject = condition.subject;
            let known = self.known.entry(subject).or_insert(Known {
                since: now,
                logged: None,
                suppressed: 0,
            });
            let log_after = subject.log_after(self.election_timeout);
            let lasted = now.saturating_duration_since(known.since);
            let is_due = match known.logged {
                None => lasted >= log_after,
                Some((_, severity)) if condition.severity > severity => true,
                Some((at, _)) => now.saturating_duration_since(at) >= subject.lines_apart(),
            };
            if !is_due {
                known.suppressed += u64::from(subject.is_event());
                continue;
            }
            known.logged = Some((now, condition.severity));
            lines.push(Line {
                severity: Some(condition.severity),
                text: condition.text.clone(),
                lasted: if subject.is_event() {
                    Duration::ZERO
                } else {
                    lasted
                },
                suppressed: std::mem::take(&mut known.suppressed),
            });
        }
        lines
    }

    /// Forgets what is over.
    fn take_ended(&mut self, now: Instant, conditions: &[Condition]) -> Vec<Line> {
        let mut lines = Vec::new();
        self.known.retain(|subject, known| {
            if subject.is_event() || conditions.iter().any(|it| it.subject == *subject) {
                return true;
            }
            if known.logged.is_some() {
                lines.push(Line {
                    severity: None,
                    text: subject.ended(),
                    lasted: now.saturating_duration_since(known.since),
                    suppressed: 0,
                });
            }
            false
        });
        lines
    }
}

/// Writes a line.
pub(crate) fn log(logger: &slog::Logger, line: &Line) {
    let Line {
        severity,
        text,
        lasted,
        suppressed,
    } = line;
    let (seconds, suppressed) = (lasted.as_secs(), *suppressed);
    match (severity, suppressed) {
        (None, _) => slog::info!(logger, "{}", text; "after_s" => seconds),
        (Some(Severity::Warning), 0) => slog::warn!(logger, "{}", text; "for_s" => seconds),
        (Some(Severity::Error), 0) => slog::error!(logger, "{}", text; "for_s" => seconds),
        (Some(Severity::Warning), _) => {
            slog::warn!(logger, "{}", text; "suppressed" => suppressed);
        }
        (Some(Severity::Error), _) => {
            slog::error!(logger, "{}", text; "suppressed" => suppressed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(300);

    fn condition(subject: Subject, severity: Severity) -> Condition {
        Condition {
            subject,
            severity,
            text: "text".to_owned(),
        }
    }

    /// The severities of the lines at these seconds, at each of which the conditions hold.
    fn lines_at(warnings: &mut Warnings, begin: Instant, at: u64, held: &[Condition]) -> Vec<Line> {
        warnings.check(begin + Duration::from_secs(at), held)
    }

    #[test]
    fn a_condition_is_logged_when_it_lasts_and_ends() {
        let (mut warnings, begin) = (Warnings::new(TIMEOUT), Instant::now());
        let held = [condition(Subject::Leader, Severity::Error)];
        assert_eq!(lines_at(&mut warnings, begin, 0, &held), []);
        assert_eq!(lines_at(&mut warnings, begin, 1, &held), []);
        let lines = lines_at(&mut warnings, begin, 3, &held);
        assert_eq!(lines[0].severity, Some(Severity::Error));
        assert_eq!(lines[0].lasted, Duration::from_secs(3));
        assert_eq!(lines_at(&mut warnings, begin, 4, &held), []);
        assert_eq!(lines_at(&mut warnings, begin, 700, &held).len(), 1);
        let over = lines_at(&mut warnings, begin, 701, &[]);
        assert_eq!(over[0].severity, None);
        assert_eq!(over[0].text, "a leader is known again");
        assert_eq!(lines_at(&mut warnings, begin, 702, &[]), []);
    }

    #[test]
    fn a_condition_that_ends_soon_is_not_logged() {
        let (mut warnings, begin) = (Warnings::new(TIMEOUT), Instant::now());
        let held = [condition(Subject::Peer(2), Severity::Warning)];
        for second in 0..100 {
            let held = if second % 8 == 7 { &[][..] } else { &held };
            assert_eq!(lines_at(&mut warnings, begin, second, held), []);
        }
    }

    #[test]
    fn a_condition_that_gets_worse_is_logged_again() {
        let (mut warnings, begin) = (Warnings::new(TIMEOUT), Instant::now());
        let severities = [Severity::Warning, Severity::Error, Severity::Warning];
        let logged = severities.iter().zip(0..).map(|(severity, second)| {
            let held = [condition(Subject::Disk, *severity)];
            lines_at(&mut warnings, begin, second, &held).len()
        });
        assert_eq!(logged.collect::<Vec<_>>(), [1, 1, 0]);
    }

    #[test]
    fn events_are_counted_between_their_lines() {
        let (mut warnings, begin) = (Warnings::new(TIMEOUT), Instant::now());
        let held = [condition(Subject::Flush, Severity::Warning)];
        assert_eq!(lines_at(&mut warnings, begin, 0, &held)[0].suppressed, 0);
        for second in 1..60 {
            let held = if second % 2 == 0 { &[][..] } else { &held };
            assert_eq!(lines_at(&mut warnings, begin, second, held), []);
        }
        assert_eq!(lines_at(&mut warnings, begin, 61, &held)[0].suppressed, 30);
    }
}
