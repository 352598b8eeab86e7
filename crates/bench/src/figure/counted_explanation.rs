//! Reasons for a claim's failure, given only if the counts of the runs show them.

use super::run_row::Count;

/// A count is low if there is at most one per this number of commits.
const FEW: f64 = 100.0;
/// Counts within this factor are equal.
const SAME: f64 = 1.1;

/// An explanation, and the counts that it requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reason {
    pub(crate) text: &'static str,
    /// The required counts, at least one.
    pub(crate) seen: &'static [Seen],
}

/// An observation that counts can support.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    /// The claim was decided at this number of threads.
    Threads(u16),
    /// On every line, at most one in a hundred commits met a lock, or failed to acquire one.
    FewMetLocks,
    /// One line counted less than the other.
    Less {
        count: Count,
        line: &'static str,
        than: &'static str,
    },
    /// The count of each of these lines has at least this value.
    Many {
        count: Count,
        lines: &'static [&'static str],
        at_least: f64,
    },
    /// At two or more numbers of threads, the line's count stayed within a tenth.
    Steady { count: Count, line: &'static str },
}

/// The counts in the runs of a figure.
pub(crate) struct Counted<'a> {
    pub(crate) lines: &'a [&'static str],
    /// All measured numbers of threads.
    pub(crate) threads: &'a [u32],
    /// The number of threads that decided the claim.
    pub(crate) at: u32,
    /// The median of a line's runs; `None` if it was not counted.
    pub(crate) count: &'a dyn Fn(&str, u32, Count) -> Option<f64>,
}

impl Reason {
    /// Whether the counts support the explanation.
    pub(crate) fn is_seen(&self, counted: &Counted<'_>) -> bool {
        !self.seen.is_empty() && self.seen.iter().all(|seen| seen.in_counts(counted))
    }
}

impl Seen {
    fn in_counts(self, counted: &Counted<'_>) -> bool {
        let at = |line: &str, count| (counted.count)(line, counted.at, count);
        match self {
            Self::Threads(threads) => counted.at == u32::from(threads),
            Self::FewMetLocks => counted.lines.iter().all(|line| {
                let met = at(line, Count::MetLocks).zip(at(line, Count::FailedLocks));
                met.zip(at(line, Count::Committed))
                    .is_some_and(|((met, failed), committed)| (met + failed) * FEW <= committed)
            }),
            Self::Less { count, line, than } => at(line, count)
                .zip(at(than, count))
                .is_some_and(|(less, more)| less < more),
            Self::Many {
                count,
                lines,
                at_least,
            } => lines
                .iter()
                .all(|line| at(line, count).is_some_and(|counted| counted >= at_least)),
            Self::Steady { count, line } => {
                let counts = counted.threads.iter();
                let counts: Option<Vec<f64>> = counts
                    .map(|&threads| (counted.count)(line, threads, count))
                    .collect();
                counts.is_some_and(|counts| {
                    let most = counts.iter().copied().fold(0.0, f64::max);
                    counts.len() > 1 && counts.iter().all(|count| count * SAME >= most)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line "a" commits 1,000 with these locks and flushes; line "b" 10 times as many flushes.
    fn is_seen(seen: Seen, locks: f64, flushes: fn(u32) -> f64, at: u32) -> bool {
        let reason = Reason {
            text: "because",
            seen: Box::leak(Box::new([seen])),
        };
        let count = |line: &str, threads: u32, count: Count| match count {
            Count::Committed => Some(1000.0),
            Count::MetLocks => Some(locks),
            Count::FailedLocks => Some(0.0),
            Count::Flushes if line == "a" => Some(flushes(threads)),
            Count::Flushes => Some(10.0 * flushes(threads)),
            _ => None,
        };
        reason.is_seen(&Counted {
            lines: &["a", "b"],
            threads: &[1, 2, 4],
            at,
            count: &count,
        })
    }

    #[test]
    fn a_reason_is_given_only_where_counts_show_it() {
        let less = |line, than| Seen::Less {
            count: Count::Flushes,
            line,
            than,
        };
        let steady = Seen::Steady {
            count: Count::Flushes,
            line: "a",
        };
        let many = |at_least| Seen::Many {
            count: Count::Flushes,
            lines: &["a", "b"],
            at_least,
        };
        let flat = |_: u32| 7.0;
        assert!(is_seen(Seen::Threads(2), 0.0, flat, 2));
        assert!(!is_seen(Seen::Threads(2), 0.0, flat, 4));
        assert!(is_seen(Seen::FewMetLocks, 10.0, flat, 2));
        assert!(!is_seen(Seen::FewMetLocks, 11.0, flat, 2));
        assert!(is_seen(less("a", "b"), 0.0, flat, 2));
        assert!(!is_seen(less("b", "a"), 0.0, flat, 2));
        assert!(is_seen(many(7.0), 0.0, flat, 2));
        assert!(!is_seen(many(7.5), 0.0, flat, 2));
        assert!(is_seen(steady, 0.0, flat, 2));
        assert!(!is_seen(steady, 0.0, f64::from, 2));
    }

    /// For example, a device that counts nothing.
    #[test]
    fn what_was_not_counted_shows_nothing() {
        for seen in [
            Seen::Less {
                count: Count::CasMisses,
                line: "a",
                than: "b",
            },
            Seen::Many {
                count: Count::CasMisses,
                lines: &["a"],
                at_least: 0.0,
            },
            Seen::Steady {
                count: Count::CasMisses,
                line: "a",
            },
        ] {
            assert!(!is_seen(seen, 0.0, |_| 7.0, 2), "{seen:?}");
        }
        let empty = Reason {
            text: "because",
            seen: &[],
        };
        assert!(!empty.is_seen(&Counted {
            lines: &[],
            threads: &[1],
            at: 1,
            count: &|_, _, _| None,
        }));
    }
}
