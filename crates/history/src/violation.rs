//! Violations of a promise, with messages that explain them.

use std::fmt;

use super::transactions::{NEVER_WRITTEN, VersionStamp};

/// The way in which a history breaks its promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Two committed transactions are called the same: the recording is wrong.
    #[error("two transactions are called T{id}; give every recording thread its own range of ids")]
    SameIdTwice {
        /// The id they share.
        id: u64,
    },
    /// The recording's clock ran backwards.
    #[error("T{id} ended ({ended}) before it started ({started})")]
    EndedBeforeItStarted {
        /// The transaction of these instants.
        id: u64,
        /// When it says it started.
        started: u64,
        /// When it says it ended.
        ended: u64,
    },
    /// A writer committed with the stamp that means "never written".
    #[error("T{writer} wrote but committed with stamp 0, which means \"never written\"")]
    WroteWithoutStamp {
        /// The writer.
        writer: u64,
    },
    /// A key's versions are not ordered by their stamps.
    #[error("{} and {} both wrote version {stamp} of {key}", writers[0], writers[1])]
    TwoWriters {
        /// The key.
        key: String,
        /// The stamp both used.
        stamp: VersionStamp,
        /// The transactions that used it.
        writers: [Party; 2],
    },
    /// A transaction saw a version that an aborted one wrote, or that was never written.
    #[error(
        "T{reader} read version {stamp} of {key}, which no committed transaction wrote; \
         {}",
        Neighbours(neighbours)
    )]
    UnknownVersion {
        /// The reader.
        reader: u64,
        /// The key.
        key: String,
        /// The version it saw.
        stamp: VersionStamp,
        /// The versions just older and just newer than that.
        neighbours: [Option<(Party, VersionStamp)>; 2],
    },
    /// No serial order explains the reads.
    #[error(transparent)]
    Cycle(Cycle),
}

/// The transaction at one end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The state before the first transaction.
    Initial,
    /// The transaction of this id.
    Transaction(u64),
}

/// A circle of transactions, each of which has to come before the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The arrows; each starts where the one before it ended, the first where the last ended.
    pub steps: Vec<Step>,
    /// A summary of each transaction, one line each.
    pub transactions: Vec<String>,
}

/// One arrow of a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The party that has to come first.
    pub before: Party,
    /// The party that has to come later.
    pub after: Party,
    /// The reason.
    pub why: Why,
}

/// The reason for a [`Step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// wr: `after` read what `before` wrote.
    ReadFrom {
        /// The key.
        key: String,
        /// The version, which is the writer's stamp.
        stamp: VersionStamp,
    },
    /// ww: `after` wrote the next version after the one `before` wrote.
    Overwrote {
        /// The key.
        key: String,
        /// The version `before` wrote.
        stamp: VersionStamp,
        /// The version `after` wrote.
        overwritten_at: VersionStamp,
    },
    /// rw: `before` read a version and `after` wrote the next one.
    ReadOver {
        /// The key.
        key: String,
        /// The version `before` read.
        stamp: VersionStamp,
        /// Its writer, unless it is [`NEVER_WRITTEN`].
        writer: Party,
        /// The version `after` wrote.
        overwritten_at: VersionStamp,
    },
    /// `before` had ended when `after` started.
    EndedBeforeStart {
        /// When `before` ended.
        ended: u64,
        /// When `after` started.
        started: u64,
    },
    /// `before` is the initial state.
    InitialState,
}

impl Cycle {
    /// The textbook's name for a circle of this form.
    #[must_use]
    pub fn anomaly(&self) -> &'static str {
        let whys = || self.steps.iter().map(|step| &step.why);
        if whys().any(|why| matches!(why, Why::EndedBeforeStart { .. })) {
            return "real-time violation";
        }
        if whys().any(|why| matches!(why, Why::InitialState)) {
            return "initial state ignored";
        }
        let read_over = || whys().filter(|why| matches!(why, Why::ReadOver { .. }));
        if let [one, other] = &self.steps[..] {
            let on_one_key = one.why.key() == other.why.key();
            match (&one.why, &other.why) {
                (Why::ReadOver { .. }, Why::Overwrote { .. })
                | (Why::Overwrote { .. }, Why::ReadOver { .. })
                    if on_one_key =>
                {
                    return "lost update";
                }
                (Why::ReadOver { .. }, Why::ReadFrom { .. })
                | (Why::ReadFrom { .. }, Why::ReadOver { .. })
                    if on_one_key =>
                {
                    return "non-repeatable read";
                }
                _ => {}
            }
        }
        if read_over().any(|why| {
            matches!(
                why,
                Why::ReadOver {
                    stamp: NEVER_WRITTEN,
                    ..
                }
            )
        }) {
            return "phantom";
        }
        match read_over().count() {
            0 => "writes and reads out of order",
            1 => "read skew",
            _ => "write skew",
        }
    }
}

impl Why {
    fn key(&self) -> Option<&str> {
        match self {
            Self::ReadFrom { key, .. }
            | Self::Overwrote { key, .. }
            | Self::ReadOver { key, .. } => Some(key),
            Self::EndedBeforeStart { .. } | Self::InitialState => None,
        }
    }
}

impl std::error::Error for Cycle {}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strictly = match self.anomaly() {
            "real-time violation" => "strictly ",
            _ => "",
        };
        writeln!(f, "not {strictly}serializable ({}):", self.anomaly())?;
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        write!(f, "What they did (key@version):")?;
        for transaction in &self.transactions {
            write!(f, "\n  {transaction}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after, why } = self;
        match why {
            Why::ReadFrom { key, stamp } => {
                write!(
                    f,
                    "{after} read {key} as written by {before} (stamp {stamp})"
                )?;
            }
            Why::Overwrote {
                key,
                stamp,
                overwritten_at,
            } => {
                write!(f, "{before} wrote {key} at stamp {stamp}; ")?;
                write!(f, "{after} overwrote it at stamp {overwritten_at}")?;
            }
            Why::ReadOver {
                key,
                stamp: NEVER_WRITTEN,
                overwritten_at,
                ..
            } => {
                write!(f, "{before} read {key} as never written; ")?;
                write!(f, "{after} wrote it at stamp {overwritten_at}")?;
            }
            Why::ReadOver {
                key,
                stamp,
                writer,
                overwritten_at,
            } => {
                write!(
                    f,
                    "{before} read {key} as written by {writer} (stamp {stamp}); "
                )?;
                write!(f, "{after} overwrote it at stamp {overwritten_at}")?;
            }
            Why::EndedBeforeStart { ended, started } => {
                write!(
                    f,
                    "{before} had ended (at {ended}) when {after} started (at {started})"
                )?;
            }
            Why::InitialState => return write!(f, "{before} is before every transaction"),
        }
        write!(f, ", so {before} is before {after}")
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Initial => write!(f, "the initial state"),
            Self::Transaction(id) => write!(f, "T{id}"),
        }
    }
}

struct Neighbours<'a>(&'a [Option<(Party, VersionStamp)>; 2]);

impl fmt::Display for Neighbours<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [None, None] => write!(f, "that key was never written"),
            [Some((writer, stamp)), None] => write!(f, "its newest version is {stamp} by {writer}"),
            [None, Some((writer, stamp))] => write!(f, "its oldest version is {stamp} by {writer}"),
            [Some((older, at)), Some((newer, then))] => {
                write!(
                    f,
                    "version {at} by {older} was followed by {then} by {newer}"
                )
            }
        }
    }
}
