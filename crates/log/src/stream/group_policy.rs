//! Group-commit policy: when an automatic group is sealed.
//!
//! Threads that commit one transaction after the other commit again soon after their last one is
//! hardened. A leader that seals immediately ([`GroupMode::Immediate`]) takes the commits that came
//! during the flush before, so that two halves of the threads alternate. A leader that waits for
//! the commits of the threads which that flush acknowledged ([`GroupMode::Accumulate`]) carries all
//! of them, for the price of that wait. Which hardens more commits in a second depends on the
//! device and on what the threads do in between; so the stream measures both, and goes on with the
//! better one. No wait is longer than the last flush took.

use std::time::{Duration, Instant};

/// Batches after a change of mode until what is measured means something.
const BATCHES_TO_SETTLE: u32 = 4;
/// Batches of a trial of the other mode, and before the first.
const TRIAL_BATCHES: u32 = 32;
/// Batches between two trials: the first number initially, and up to the second while trials show
/// no gain.
const HOLD_BATCHES: [u32; 2] = [256, 4096];
/// The factor by which the other mode has to be better.
const GAIN: f64 = 1.04;
/// The shortest flush during which a thread can be parked and woken.
const SHORTEST_FLUSH: Duration = Duration::from_micros(20);
/// The maximum of the time between two completions that counts, in flush times: if it is longer,
/// there was nothing to commit.
const LONGEST_PAUSE: u32 = 4;

/// When a leader seals its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupMode {
    /// As soon as the batch before has completed.
    Immediate,
    /// When as many commits are there as were on their way when it completed.
    Accumulate,
}

impl GroupMode {
    fn other(self) -> Self {
        match self {
            Self::Immediate => Self::Accumulate,
            Self::Accumulate => Self::Immediate,
        }
    }
}

/// The stream's knowledge of its committers, under its lock.
#[derive(Debug)]
pub(super) struct GroupPolicy {
    /// The better mode by the trials.
    better: GroupMode,
    /// Its hardened commits per second when it was measured last.
    rate: f64,
    /// Whether the other one is tried right now.
    is_trial: bool,
    /// Batches between two trials.
    hold: u32,
    /// Batches since the mode changed, and with how many it changes again.
    batches: u32,
    batches_max: u32,
    /// The commits hardened since it settled, and the time they took.
    commits: u64,
    elapsed: Duration,
    last_completion: Option<Instant>,
    /// Commits that were on their way when the last batch completed.
    expected_commits: u32,
    /// The time until which the next batch waits for that number of commits.
    until: Option<Instant>,
}

impl Default for GroupPolicy {
    fn default() -> Self {
        Self {
            better: GroupMode::Immediate,
            rate: 0.0,
            is_trial: false,
            hold: HOLD_BATCHES[0],
            batches: 0,
            batches_max: TRIAL_BATCHES,
            commits: 0,
            elapsed: Duration::ZERO,
            last_completion: None,
            expected_commits: 0,
            until: None,
        }
    }
}

/// A batch that has completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchCompleted {
    pub(super) at: Instant,
    /// The time that it was under way.
    pub(super) took: Duration,
    /// The commits that it carried.
    pub(super) carried: u32,
    /// The commits that are in the buffer for the next.
    pub(super) buffered: u32,
}

impl GroupPolicy {
    /// A flush has completed; no leader waits for a group longer than `wait_max`.
    pub(super) fn completed(&mut self, completed: BatchCompleted, wait_max: Duration) {
        let BatchCompleted {
            at,
            took,
            carried,
            buffered,
        } = completed;
        let before = self.last_completion.replace(at);
        self.batches += 1;
        if self.batches > BATCHES_TO_SETTLE
            && let Some(before) = before
        {
            self.commits += u64::from(carried);
            let longest = took.saturating_mul(LONGEST_PAUSE);
            self.elapsed += at.saturating_duration_since(before).min(longest);
        }
        if self.batches == self.batches_max {
            self.change_mode();
        }
        if carried > 0 {
            // Epoch markers say nothing about committers.
            self.expected_commits = carried.saturating_add(buffered);
        }
        self.until = match self.mode() {
            GroupMode::Accumulate if took >= SHORTEST_FLUSH => at.checked_add(took.min(wait_max)),
            _ => None,
        };
    }

    fn mode(&self) -> GroupMode {
        if self.is_trial {
            self.better.other()
        } else {
            self.better
        }
    }

    /// Begins a trial of the other mode, or ends it and keeps the better one.
    fn change_mode(&mut self) {
        let rate = self.commits as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        if self.is_trial {
            let [shortest, longest] = HOLD_BATCHES;
            if rate > self.rate * GAIN {
                self.better = self.better.other();
                self.hold = shortest;
            } else {
                self.hold = (self.hold * 2).min(longest);
            }
            self.batches_max = self.hold;
        } else {
            self.rate = rate;
            self.batches_max = TRIAL_BATCHES;
        }
        self.is_trial = !self.is_trial;
        self.batches = 0;
        self.commits = 0;
        self.elapsed = Duration::ZERO;
    }

    /// The time until which a group of `commits` waits for more; `None` if it is complete.
    pub(super) fn deadline(&self, commits: u32) -> Option<Instant> {
        self.until.filter(|_| commits < self.expected_commits)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_micros(100);

    /// Threads that commit without end, and take `away` to come back: how many commits each batch
    /// carries, and how many of `batches` waited for them.
    struct Committers {
        group_policy: GroupPolicy,
        now: Instant,
        threads: u32,
        away: Duration,
        flush: Duration,
        /// Threads that commit before the next flush is sealed.
        buffered: u32,
    }

    impl Committers {
        fn new(threads: u32, away: Duration) -> Self {
            Self {
                group_policy: GroupPolicy::default(),
                now: Instant::now(),
                threads,
                away,
                flush: FLUSH,
                buffered: threads / 2,
            }
        }

        /// Flushes, and returns how many of the batches waited for the expected commits.
        fn run(&mut self, batches: u32) -> u32 {
            let mut waited = 0;
            for _ in 0..batches {
                // All that have not committed yet are about to.
                let mut carried = self.buffered.max(1);
                let deadline = self.group_policy.deadline(carried);
                if let Some(deadline) = deadline {
                    waited += 1;
                    let back = self.now + self.away;
                    (carried, self.now) = if back <= deadline {
                        (self.threads, back)
                    } else {
                        (carried, deadline)
                    };
                }
                self.now += self.flush;
                self.buffered = self.threads - carried;
                let completed = BatchCompleted {
                    at: self.now,
                    took: self.flush,
                    carried,
                    buffered: self.buffered,
                };
                self.group_policy
                    .completed(completed, Duration::from_secs(1));
            }
            waited
        }
    }

    #[test]
    fn threads_that_return_soon_share_flushes() {
        let mut committers = Committers::new(16, FLUSH / 4);
        committers.run(TRIAL_BATCHES * 2);
        let batches = HOLD_BATCHES[0];
        assert_eq!(committers.group_policy.better, GroupMode::Accumulate);
        assert!(committers.run(batches) > batches - 2);
        // And are left alone once they stay away: a trial of the other mode is not slower.
        committers.away = FLUSH * 10;
        committers.run(HOLD_BATCHES[1] * 4);
        assert_eq!(committers.group_policy.better, GroupMode::Immediate);
    }

    #[test]
    fn absent_threads_are_waited_for_in_trials_only() {
        let mut committers = Committers::new(16, FLUSH * 3);
        let batches = HOLD_BATCHES[1] * 16;
        let waited = committers.run(batches);
        assert_eq!(committers.group_policy.better, GroupMode::Immediate);
        assert!(waited >= TRIAL_BATCHES - 2);
        assert!(waited < batches / 50, "{waited} of {batches}");
    }

    #[test]
    fn a_single_thread_waits_for_no_other() {
        let mut committers = Committers::new(1, FLUSH / 4);
        assert_eq!(committers.run(HOLD_BATCHES[1] * 4), 0);
    }

    #[test]
    fn nothing_accumulates_for_a_fast_device() {
        let mut committers = Committers::new(16, Duration::ZERO);
        committers.flush = SHORTEST_FLUSH / 2;
        assert_eq!(committers.run(HOLD_BATCHES[1]), 0);
    }

    #[test]
    fn a_pause_says_nothing_about_a_mode() {
        let mut committers = Committers::new(16, FLUSH / 4);
        committers.run(TRIAL_BATCHES * 2 + HOLD_BATCHES[0] / 2);
        assert_eq!(committers.group_policy.better, GroupMode::Accumulate);
        // A thread returns after a second, in the middle of what is measured.
        committers.now += Duration::from_secs(1);
        committers.run(HOLD_BATCHES[0] / 2 + TRIAL_BATCHES);
        assert_eq!(committers.group_policy.better, GroupMode::Accumulate);
    }

    #[test]
    fn no_wait_exceeds_a_flush_or_the_limit() {
        let at = Instant::now();
        let mut group_policy = GroupPolicy {
            better: GroupMode::Accumulate,
            ..GroupPolicy::default()
        };
        let completed = BatchCompleted {
            at,
            took: FLUSH,
            carried: 3,
            buffered: 2,
        };
        group_policy.completed(completed, Duration::MAX);
        assert_eq!(group_policy.deadline(4), Some(at + FLUSH));
        assert_eq!(group_policy.deadline(5), None);
        group_policy.completed(completed, FLUSH / 2);
        assert_eq!(group_policy.deadline(0), Some(at + FLUSH / 2));
    }

    #[test]
    fn a_flush_without_commits_predicts_nothing() {
        let at = Instant::now();
        let mut group_policy = GroupPolicy {
            better: GroupMode::Accumulate,
            ..GroupPolicy::default()
        };
        for carried in [16, 0] {
            let completed = BatchCompleted {
                at,
                took: FLUSH,
                carried,
                buffered: 0,
            };
            group_policy.completed(completed, Duration::MAX);
            assert_eq!(group_policy.deadline(15), Some(at + FLUSH));
            assert_eq!(group_policy.deadline(16), None);
        }
    }
}
