//! Recorded history of an index: calls with their answers, in the real-time order of begins and
//! ends.
//!
//! One counter is the clock. A call takes a number before it begins and another after it has ended.
//! One call precedes another if its end has a smaller number than the other's begin; otherwise they
//! overlap. The first number is never used again and serves as the payload that the call writes:
//! each payload then tells which call wrote it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The effect of a call on one key, answer included. `found` is the payload that the key had when
/// the call took effect, by the call's answer; `None`: it was absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Looked the key up, by any read operation.
    Read {
        /// See above.
        found: Option<u64>,
    },
    /// Added the key if it was absent.
    Insert {
        /// The payload to be added.
        payload: u64,
        /// See above.
        found: Option<u64>,
    },
    /// Set the payload, or added the key.
    Write {
        /// The new payload.
        payload: u64,
        /// See above.
        found: Option<u64>,
    },
    /// The same without an answer.
    Put {
        /// The new payload.
        payload: u64,
    },
    /// Set the payload if the key was present.
    Update {
        /// The new payload.
        payload: u64,
        /// See above.
        found: Option<u64>,
    },
    /// Removed the key.
    Delete {
        /// See above.
        found: Option<u64>,
    },
    /// Removed the key if it had this payload.
    RemoveIf {
        /// The payload to be removed.
        expected: u64,
        /// The answer.
        removed: bool,
    },
}

impl Action {
    /// The payload of a key after the action, if it had `held` before. `None`: the action's answer
    /// is wrong for such a key.
    #[must_use]
    pub(super) fn apply(self, held: Option<u64>) -> Option<Option<u64>> {
        let (right, after) = match self {
            Self::Read { found } => (found == held, held),
            Self::Insert { payload, found } => (found == held, held.or(Some(payload))),
            Self::Write { payload, found } => (found == held, Some(payload)),
            Self::Put { payload } => (true, Some(payload)),
            Self::Update { payload, found } => (found == held, held.map(|_| payload)),
            Self::Delete { found } => (found == held, None),
            Self::RemoveIf { expected, removed } => (
                removed == (held == Some(expected)),
                held.filter(|held| *held != expected),
            ),
        };
        right.then_some(after)
    }
}

/// A payload, or its absence, for display.
pub(super) struct Held(pub(super) Option<u64>);

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(payload) => write!(f, "{payload}"),
            None => f.write_str("absent"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Read { found } => write!(f, "read: {}", Held(found)),
            Self::Insert { payload, found } => write!(f, "insert {payload}: was {}", Held(found)),
            Self::Write { payload, found } => write!(f, "write {payload}: was {}", Held(found)),
            Self::Put { payload } => write!(f, "put {payload}"),
            Self::Update { payload, found } => write!(f, "update {payload}: was {}", Held(found)),
            Self::Delete { found } => write!(f, "delete: was {}", Held(found)),
            Self::RemoveIf { expected, removed } => {
                let not = if removed { "" } else { "not " };
                write!(f, "remove if {expected}: {not}removed")
            }
        }
    }
}

/// One call's action on one key, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operation {
    /// Drawn before the call.
    pub(super) begun: u64,
    /// Drawn after it.
    pub(super) ended: u64,
    /// The calling thread.
    pub(super) thread: u64,
    /// What it did.
    pub(super) action: Action,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            begun,
            ended,
            thread,
            action,
        } = self;
        write!(f, "{begun:>8} to {ended:>8}, thread {thread}: {action}")
    }
}

/// The clock that all recorders of a test share.
#[derive(Debug)]
pub(super) struct Clock(AtomicU64);

impl Clock {
    /// Begins at 1: zero is no call's payload.
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// The operations on each key, by its number.
pub(super) type Histories = BTreeMap<u64, Vec<Operation>>;

/// Writes down what one thread does.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    clock: &'a Clock,
    thread: u64,
    histories: Histories,
}

impl<'a> Recorder<'a> {
    pub(super) const fn new(clock: &'a Clock, thread: u64) -> Self {
        Self {
            clock,
            thread,
            histories: Histories::new(),
        }
    }

    /// Makes a call, which gets its own number and returns what it did to which keys.
    pub(super) fn record<A>(&mut self, call: impl FnOnce(u64) -> A)
    where
        A: IntoIterator<Item = (u64, Action)>,
    {
        let begun = self.clock.tick();
        let actions = call(begun);
        let ended = self.clock.tick();
        for (n, action) in actions {
            self.histories.entry(n).or_default().push(Operation {
                begun,
                ended,
                thread: self.thread,
                action,
            });
        }
    }

    pub(super) fn finish(self) -> Histories {
        self.histories
    }
}
