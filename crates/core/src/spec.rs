//! How a database runs its transactions, as one value with one spelling.
//!
//! ```text
//!   TT(ELR)+PWAL(16)
//!   │   │   │    └── commits per flush: a number (1 is the papers' "NoGroup"), or auto
//!   │   │   └─────── log layout: PWAL one stream per worker, SWAL a single one, NOLOG none
//!   │   └─────────── lock release: NLR after the flush, ELR before it, EPOCH before it and
//!   │                    without log sequence numbers
//!   └─────────────── concurrency control: TT is TicToc, SILO, S2PL strict two-phase locking
//! ```
//!
//! The same spelling serves command-line flags, plot legends, test names and the manifest.
//!
//! Paper: tictoc-pwal §3.3

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

pub use namiki_log::{Group, Layout};

/// Which transactions may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConcurrencyControl {
    /// TicToc: optimistic, with commit stamps computed from the records touched. Serializable,
    /// but not strictly: see [`Isolation`](crate#isolation).
    TicToc,
    /// Silo: optimistic, with validation of all that was read. Strictly serializable.
    Silo,
    /// Strict two-phase locking: records and gaps are locked before they are read. Strictly serializable.
    TwoPhase,
}

impl ConcurrencyControl {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::TicToc, Self::Silo, Self::TwoPhase];

    /// Whether the order of transactions is that of time: who had returned before another began is before it.
    /// (External consistency.)
    #[must_use]
    pub fn is_strict(self) -> bool {
        match self {
            Self::TicToc => false,
            Self::Silo | Self::TwoPhase => true,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::TicToc => "TT",
            Self::Silo => "SILO",
            Self::TwoPhase => "S2PL",
        }
    }
}

/// What a transaction does when it wants a lock that another one has, under strict two-phase locking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitPolicy {
    /// It waits, and deadlocks are ruled out by age: an older transaction does not wait for a younger one that
    /// waits itself, but has it let go of its locks and run again (*wounds* it). Transactions that take their locks
    /// in the one order of all records, like those that [lock all keys up
    /// front](crate::Transaction::lock_many), wait for each other without that.
    #[default]
    WoundWait,
    /// It ends with a conflict at once.
    NoWait,
}

/// When a commit's locks are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockRelease {
    /// After its log record is durable (NLR). Nothing that is not durable is ever read.
    Normal,
    /// As soon as its log record is in the buffer (ELR). A commit is acknowledged when every
    /// earlier log sequence number is durable too.
    Early,
    /// As soon as its log record is in the buffer (EPOCH). No log sequence number is drawn: a commit is
    /// acknowledged when everything of its epoch and of those before is durable too, or, if it has read
    /// nothing that is not durable, with its own group.
    EpochEarly,
}

/// Where commits are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logging {
    /// Nowhere: commits are lost when the process ends.
    None,
    /// In one stream per worker, or in a single one, flushed in groups.
    Log {
        /// One stream per worker or a single one.
        layout: Layout,
        /// How many commits share a flush.
        group: Group,
    },
}

/// The protocol of a database: concurrency control, lock release, log layout and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Which transactions may run at the same time.
    pub concurrency: ConcurrencyControl,
    /// When locks are released.
    pub release: LockRelease,
    /// Where commits are logged.
    pub logging: Logging,
}

impl Spec {
    /// Normal lock release, one stream per worker, and groups that form by themselves while the
    /// previous flush is under way: durable, and fast at every number of threads.
    pub const DEFAULT: Self = Self {
        concurrency: ConcurrencyControl::TicToc,
        release: LockRelease::Normal,
        logging: Logging::Log {
            layout: Layout::PerWorker,
            group: Group::Auto,
        },
    };

    /// Why lock release and log do not go together, if they do not.
    #[must_use]
    pub fn contradiction(&self) -> Option<&'static str> {
        let layout = match self.logging {
            Logging::None => None,
            Logging::Log { layout, .. } => Some(layout),
        };
        match (self.release, layout) {
            (LockRelease::Early | LockRelease::EpochEarly, None) => {
                Some("without a log, locks have nothing to be released earlier than")
            }
            (LockRelease::EpochEarly, Some(Layout::Single)) => Some(
                "a single stream needs no epochs, as it is in order by itself: ELR gives the same",
            ),
            _ => None,
        }
    }

    /// Every concurrency control with the combinations of `tictoc-pwal` §4, with groups of 16 for its "Group",
    /// and those that complete the matrix.
    #[must_use]
    pub fn all_durable() -> Vec<Self> {
        let rest = [
            "(NLR)+PWAL(1)",
            "(NLR)+PWAL(16)",
            "(ELR)+PWAL(1)",
            "(ELR)+PWAL(16)",
            "(ELR)+SWAL(16)",
            "(NLR)+SWAL(16)",
            "(NLR)+PWAL(auto)",
            "(ELR)+PWAL(auto)",
            "(EPOCH)+PWAL(1)",
            "(EPOCH)+PWAL(16)",
            "(EPOCH)+PWAL(auto)",
        ];
        let of = |concurrency: ConcurrencyControl| {
            rest.iter().map(move |rest| {
                let text = format!("{}{rest}", concurrency.name());
                text.parse().expect("these are spelled as this file says")
            })
        };
        ConcurrencyControl::ALL.into_iter().flat_map(of).collect()
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let concurrency = self.concurrency.name();
        let release = match self.release {
            LockRelease::Normal => "NLR",
            LockRelease::Early => "ELR",
            LockRelease::EpochEarly => "EPOCH",
        };
        write!(f, "{concurrency}({release})+")?;
        match self.logging {
            Logging::None => f.write_str("NOLOG"),
            Logging::Log { layout, group } => {
                f.write_str(match layout {
                    Layout::PerWorker => "PWAL",
                    Layout::Single => "SWAL",
                })?;
                match group {
                    Group::Auto => f.write_str("(auto)"),
                    Group::Count(n) => write!(f, "({n})"),
                }
            }
        }
    }
}

/// Why a text is not a [`Spec`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a protocol: {why} (an example: \"TT(ELR)+PWAL(16)\")")]
pub struct ParseSpecError {
    text: String,
    why: &'static str,
}

impl FromStr for Spec {
    type Err = ParseSpecError;

    fn from_str(text: &str) -> Result<Self, ParseSpecError> {
        let fail = |why| ParseSpecError {
            text: text.to_owned(),
            why,
        };
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (front, back) = compact
            .split_once('+')
            .ok_or_else(|| fail("it has no '+'"))?;
        let (concurrency, release) =
            named_argument(front).ok_or_else(|| fail("a lock release in brackets is missing"))?;
        let concurrency = ConcurrencyControl::ALL
            .into_iter()
            .find(|known| known.name().eq_ignore_ascii_case(concurrency))
            .ok_or_else(|| fail("the concurrency control is not TT, SILO or S2PL"))?;
        let release = match release.to_ascii_uppercase().as_str() {
            "NLR" => LockRelease::Normal,
            "ELR" => LockRelease::Early,
            "EPOCH" => LockRelease::EpochEarly,
            _ => return Err(fail("the lock release is not NLR, ELR or EPOCH")),
        };
        let logging = if back.eq_ignore_ascii_case("NOLOG") {
            Logging::None
        } else {
            let (layout, group) = named_argument(back)
                .ok_or_else(|| fail("a group in brackets is missing after the log layout"))?;
            let layout = match layout.to_ascii_uppercase().as_str() {
                "PWAL" => Layout::PerWorker,
                "SWAL" => Layout::Single,
                _ => return Err(fail("the log layout is not PWAL, SWAL or NOLOG")),
            };
            let group = match group.to_ascii_lowercase().as_str() {
                "auto" => Group::Auto,
                "nogroup" => Group::Count(NonZeroU32::MIN),
                n => Group::Count(n.parse().map_err(|_| {
                    fail("the group is neither auto nor a number from 1 to 4294967295")
                })?),
            };
            Logging::Log { layout, group }
        };
        let spec = Self {
            concurrency,
            release,
            logging,
        };
        spec.contradiction().map_or(Ok(spec), |why| Err(fail(why)))
    }
}

/// `NAME(ARGUMENT)` taken apart.
fn named_argument(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('(')?;
    Some((name, rest.strip_suffix(')')?))
}

impl serde::Serialize for Spec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Spec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spec_is_printed_as_it_is_parsed() {
        for text in [
            "TT(NLR)+PWAL(1)",
            "TT(ELR)+SWAL(16)",
            "TT(NLR)+PWAL(auto)",
            "TT(NLR)+NOLOG",
            "SILO(ELR)+PWAL(1)",
            "S2PL(NLR)+SWAL(auto)",
            "TT(EPOCH)+PWAL(auto)",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
        assert_eq!(
            " tt( elr ) + pwal( NoGroup )"
                .parse::<Spec>()
                .unwrap()
                .to_string(),
            "TT(ELR)+PWAL(1)"
        );
    }

    #[test]
    fn what_is_not_a_spec_is_refused_with_a_reason() {
        for (text, why) in [
            ("TT(NLR)", "'+'"),
            ("TT+PWAL(1)", "lock release"),
            ("XX(NLR)+PWAL(1)", "concurrency"),
            ("TT(NLR)+PWAL(0)", "number from 1 to"),
            ("TT(NLR)+PWAL", "group"),
            ("TT(NLR)+XWAL(1)", "layout"),
            ("TT(ELR)+NOLOG", "nothing to be released"),
            ("TT(EPOCH)+NOLOG", "nothing to be released"),
            ("TT(EPOCH)+SWAL(16)", "a single stream needs no epochs"),
            ("TT(XLR)+PWAL(1)", "not NLR, ELR or EPOCH"),
        ] {
            let error = text.parse::<Spec>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
