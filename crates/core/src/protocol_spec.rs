//! The protocol of a database, as one value with one spelling.
//!
//! ```text
//!   S2PL(ELR)+PWAL(16)+ARIES
//!   │    │   │    │    └── logging style: each operation by itself; without it, commits;
//!   │    │   │    │        for experiments also ARIES(reads): of transactions that only read, too
//!   │    │   │    └─────── commits per flush: a number (1 is the papers' "NoGroup"), or auto
//!   │    │   └──────────── log layout: PWAL one stream per worker, SWAL a single one, NOLOG none
//!   │    └──────────────── lock release: NLR after the flush, ELR before it, EPOCH before it and
//!   │                          without log sequence numbers
//!   └───────────────────── concurrency control: TT is TicToc, SILO, S2PL strict two-phase locking
//! ```
//!
//! The same spelling serves command-line flags, plot legends, test names and the manifest.
//!
//! Paper: tictoc-pwal §3.3, pwal §5, §6.3.1

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use namiki_platform::debug_as_sentence;

pub use namiki_log::{Group, Layout};

/// The concurrency control.
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

    /// Strict serializability (external consistency): whether a transaction that had returned
    /// before another began precedes it in the serial order.
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

/// The deadlock policy under strict two-phase locking: what a transaction does when it requests a
/// lock that another one holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitPolicy {
    /// Wound-wait: it waits, and deadlocks are ruled out by age. An older transaction does not wait
    /// for a younger one that waits itself, but *wounds* it: the younger one releases its locks and
    /// is retried. Transactions that take their locks in the global order of records, like those
    /// that [lock all keys up front](crate::Transaction::lock_all), wait for each other without
    /// that.
    #[default]
    WoundWait,
    /// It ends with a conflict immediately. A transaction that [`transact`](crate::Database::transact) retries
    /// repeatedly is eventually granted commit priority: the others wait before their first lock.
    NoWait,
}

/// When a commit's locks are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockRelease {
    /// After its log record is durable (NLR). Only durable versions are ever read.
    Normal,
    /// As soon as its log record is in the buffer (ELR). A commit is acknowledged when every
    /// earlier log sequence number is durable too.
    Early,
    /// As soon as its log record is in the buffer (EPOCH). No log sequence number is drawn: a
    /// commit is acknowledged when all commits of its epoch and of earlier ones are durable too,
    /// or, if it has read only durable versions, with its own group.
    EpochEarly,
}

/// The log records of a transaction, and when they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogStyle {
    /// Its changes, at the commit, in one piece. A transaction that does not commit is never
    /// logged.
    #[default]
    Redo,
    /// Each operation when it is done, with its before-image (ARIES). Records change in place,
    /// under the transaction's locks; operations may reach the disk before the commit does, and a
    /// transaction may be longer than the log's buffer. Its changes are undone from its log, at a
    /// rollback and after a crash.
    Operations,
    /// For experiments: [`Operations`](Self::Operations), and a transaction that only reads logs its begin and its end,
    /// too, as in `pwal` §6.3.1. It is acknowledged like one that writes, when its end is durable, and needs
    /// room in the log. Recovery passes over it.
    OperationsAndReads,
}

impl LogStyle {
    fn suffix(self) -> &'static str {
        match self {
            Self::Redo => "",
            Self::Operations => "+ARIES",
            Self::OperationsAndReads => "+ARIES(reads)",
        }
    }
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
        /// The log records of a transaction.
        style: LogStyle,
    },
}

/// The protocol of a database: concurrency control, lock release, log layout, group and logging style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolSpec {
    /// The concurrency control.
    pub concurrency: ConcurrencyControl,
    /// When locks are released.
    pub release: LockRelease,
    /// Where commits are logged.
    pub logging: Logging,
}

impl ProtocolSpec {
    /// Silo with release by epochs, one stream per worker, and groups that form by themselves while the previous flush is
    /// under way (`SILO(EPOCH)+PWAL(auto)`): strictly serializable, durable, fast at every number of threads, and no
    /// transaction waits for a lock during a device write.
    pub const DEFAULT: Self = Self {
        concurrency: ConcurrencyControl::Silo,
        release: LockRelease::EpochEarly,
        logging: Logging::Log {
            layout: Layout::PerWorker,
            group: Group::Auto,
            style: LogStyle::Redo,
        },
    };

    /// The log records of a transaction; `None` without a log.
    #[must_use]
    pub fn style(&self) -> Option<LogStyle> {
        match self.logging {
            Logging::None => None,
            Logging::Log { style, .. } => Some(style),
        }
    }

    /// Whether operations are logged one by one, and records change before the commit.
    #[must_use]
    pub fn logs_operations(&self) -> bool {
        match self.style() {
            None | Some(LogStyle::Redo) => false,
            Some(LogStyle::Operations | LogStyle::OperationsAndReads) => true,
        }
    }

    /// Whether transactions that only read are logged.
    #[must_use]
    pub fn logs_reads(&self) -> bool {
        self.style() == Some(LogStyle::OperationsAndReads)
    }

    /// Why the parts are incompatible, if they are.
    #[must_use]
    pub fn contradiction(&self) -> Option<&'static str> {
        let layout = match self.logging {
            Logging::None => None,
            Logging::Log { layout, .. } => Some(layout),
        };
        if self.logs_operations() {
            if self.concurrency != ConcurrencyControl::TwoPhase {
                return Some(
                    "ARIES changes records before the commit, and only the locks of S2PL keep others from them",
                );
            }
            if self.release == LockRelease::EpochEarly {
                return Some(
                    "ARIES goes by log sequence numbers, and EPOCH draws none: ELR gives the same",
                );
            }
        }
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
            "(ELR)+SWAL(1)",
            "(NLR)+SWAL(1)",
            "(ELR)+SWAL(auto)",
            "(NLR)+SWAL(auto)",
            "(EPOCH)+PWAL(1)",
            "(EPOCH)+PWAL(16)",
            "(EPOCH)+PWAL(auto)",
        ];
        let of = |concurrency: ConcurrencyControl| {
            let text = move |rest| format!("{}{rest}", concurrency.name());
            rest.iter().map(text)
        };
        let redo = ConcurrencyControl::ALL.into_iter().flat_map(of);
        let operations = (rest.iter().filter(|rest| !rest.contains("EPOCH")))
            .map(|rest| format!("S2PL{rest}+ARIES"));
        redo.chain(operations)
            .map(|text| text.parse().expect("these are spelled as this file says"))
            .collect()
    }

    /// A covering array of [`all_durable`](Self::all_durable): each pair of choices that go together occurs in one of
    /// these, and so does each triple of concurrency control, lock release and logging style. The default is among them.
    #[doc(hidden)]
    #[must_use]
    pub fn covering() -> Vec<Self> {
        [
            "TT(EPOCH)+PWAL(auto)",
            "TT(NLR)+SWAL(1)",
            "TT(ELR)+PWAL(16)",
            "SILO(EPOCH)+PWAL(auto)",
            "SILO(EPOCH)+PWAL(1)",
            "SILO(NLR)+PWAL(16)",
            "SILO(ELR)+SWAL(auto)",
            "S2PL(EPOCH)+PWAL(16)",
            "S2PL(NLR)+PWAL(1)",
            "S2PL(ELR)+SWAL(1)",
            "S2PL(NLR)+PWAL(auto)+ARIES",
            "S2PL(ELR)+PWAL(1)+ARIES",
            "S2PL(NLR)+SWAL(16)+ARIES",
        ]
        .map(|text| text.parse().expect("these are spelled as this file says"))
        .into()
    }

    /// The protocols of a test that is about every protocol: [`covering`](Self::covering) before a merge, and all of
    /// them where the environment has `NAMIKI_SPECS=all`, as `cargo xtask soak specs` sets it.
    ///
    /// # Panics
    /// If the variable has another value.
    #[doc(hidden)]
    #[must_use]
    pub fn tested() -> Vec<Self> {
        match std::env::var("NAMIKI_SPECS").as_deref() {
            Err(std::env::VarError::NotPresent) => Self::covering(),
            Ok("all") => Self::all_durable(),
            other => panic!("NAMIKI_SPECS is `all` or not set, not {other:?}"),
        }
    }
}

impl Default for ProtocolSpec {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for ProtocolSpec {
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
            Logging::Log {
                layout,
                group,
                style,
            } => {
                f.write_str(match layout {
                    Layout::PerWorker => "PWAL",
                    Layout::Single => "SWAL",
                })?;
                match group {
                    Group::Auto => f.write_str("(auto)"),
                    Group::Count(n) => write!(f, "({n})"),
                }?;
                f.write_str(style.suffix())
            }
        }
    }
}

debug_as_sentence!(ParseSpecError);

/// Why a text is not a [`ProtocolSpec`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a protocol: {why} (an example: \"TT(ELR)+PWAL(16)\")")]
pub struct ParseSpecError {
    text: String,
    why: &'static str,
}

impl FromStr for ProtocolSpec {
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
        let (back, style) = match back.split_once('+') {
            None => (back, LogStyle::Redo),
            Some((back, style)) if style.eq_ignore_ascii_case("ARIES") => {
                (back, LogStyle::Operations)
            }
            Some((back, style)) if style.eq_ignore_ascii_case("ARIES(reads)") => {
                (back, LogStyle::OperationsAndReads)
            }
            Some(_) => return Err(fail("the logging style is not ARIES or ARIES(reads)")),
        };
        let logging = if back.eq_ignore_ascii_case("NOLOG") {
            if style != LogStyle::Redo {
                return Err(fail("ARIES says what a log holds, and there is none"));
            }
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
            Logging::Log {
                layout,
                group,
                style,
            }
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

impl serde::Serialize for ProtocolSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for ProtocolSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
            "SILO(EPOCH)+PWAL(auto)",
            "S2PL(NLR)+PWAL(auto)+ARIES",
            "S2PL(ELR)+SWAL(1)+ARIES",
            "S2PL(ELR)+PWAL(16)+ARIES(reads)",
        ] {
            assert_eq!(text.parse::<ProtocolSpec>().unwrap().to_string(), text);
        }
        assert_eq!(
            " tt( elr ) + pwal( NoGroup )"
                .parse::<ProtocolSpec>()
                .unwrap()
                .to_string(),
            "TT(ELR)+PWAL(1)"
        );
    }

    /// The choices of a protocol, each with the name of its axis.
    fn choices(spec: ProtocolSpec) -> [String; 5] {
        let Logging::Log {
            layout,
            group,
            style,
        } = spec.logging
        else {
            panic!("{spec} has no log");
        };
        [
            format!("{:?}", spec.concurrency),
            format!("{:?}", spec.release),
            format!("{layout:?}"),
            format!("{group:?}"),
            format!("{style:?}"),
        ]
    }

    /// Every pair of choices of these protocols, and every triple of the three that the commit path branches on.
    fn combinations(specs: &[ProtocolSpec]) -> BTreeSet<Vec<String>> {
        let mut found = BTreeSet::new();
        for choices in specs.iter().map(|spec| choices(*spec)) {
            for (at, first) in choices.iter().enumerate() {
                let pairs = choices[at + 1..].iter();
                found.extend(pairs.map(|second| vec![first.clone(), second.clone()]));
            }
            let [concurrency, release, _, _, style] = choices;
            found.insert(vec![concurrency, release, style]);
        }
        found
    }

    #[test]
    fn the_covering_protocols_have_every_pair_of_choices() {
        let (all, covering) = (ProtocolSpec::all_durable(), ProtocolSpec::covering());
        let missing: Vec<_> = combinations(&all)
            .difference(&combinations(&covering))
            .cloned()
            .collect();
        assert_eq!(missing, Vec::<Vec<String>>::new());
        assert!(covering.contains(&ProtocolSpec::DEFAULT));
        assert!(covering.iter().all(|spec| all.contains(spec)));
    }

    #[test]
    fn the_default_is_strict() {
        assert_eq!(ProtocolSpec::DEFAULT.to_string(), "SILO(EPOCH)+PWAL(auto)");
        assert!(ProtocolSpec::default().concurrency.is_strict());
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
            ("S2PL(NLR)+PWAL(1)+REDO", "logging style"),
            ("S2PL(NLR)+NOLOG+ARIES", "there is none"),
            ("S2PL(NLR)+PWAL(1)+ARIES(writes)", "logging style"),
            ("S2PL(NLR)+NOLOG+ARIES(reads)", "there is none"),
            ("TT(NLR)+PWAL(1)+ARIES", "only the locks of S2PL"),
            ("TT(NLR)+PWAL(1)+ARIES(reads)", "only the locks of S2PL"),
            ("S2PL(EPOCH)+PWAL(1)+ARIES", "EPOCH draws none"),
        ] {
            let error = text.parse::<ProtocolSpec>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
