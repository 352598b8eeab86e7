//! The unanswered requests of a channel.
//!
//! A request keeps its bytes until it is answered, so that it can be sent again under the same
//! number, on another connection or to another leader.
//!
//! # Invariants
//! - X1. Reads and groups have numbers that are never used again on a channel, and answers repeat
//!   them. So an answer that comes after its request was forgotten answers no other one.
//! - X2. Control requests have no numbers. At most one is unanswered on a connection: if one is
//!   forgotten, or replaced by another, before its answer comes, no further request is sent on that
//!   connection, and nothing that arrives on it answers a control request.
//! - X3. An answer that repeats a name or an identity answers only the control request with the
//!   same one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::control::is_answered_by;
use crate::protocol::{Outcome, Request, Response, Scanned, SessionId, SessionLimit, TableEntry};

/// Numbers of reads have this bit, so that they differ from numbers of groups.
const READ_BIT: u64 = 1 << 63;

/// Identifies a request. The response contains its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Opening, resuming and closing a session, creating, dropping or clearing a table, changing the members: one at a time.
    Control,
    /// A group of the session.
    Group(u64),
    /// A read.
    Read(u64),
}

impl Key {
    /// The `number`-th read.
    pub(crate) fn read(number: u64) -> Self {
        Self::Read(READ_BIT | number)
    }

    pub(crate) fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Control,
            read if read & READ_BIT != 0 => Self::Read(read),
            group => Self::Group(group),
        }
    }
}

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    SessionOpened(SessionId),
    SessionResumed(ResumedSession),
    GroupOutcomes(Option<Vec<Option<Outcome>>>),
    SessionClosed,
    Table(u32),
    TableDropped(bool),
    TableCleared(Option<u32>),
    Tables(Vec<TableEntry>),
    Scanned(Scanned),
    MembersChanged,
    Outcomes(Vec<Outcome>),
    Rows {
        values: Vec<Option<Vec<u8>>>,
        lsn: u64,
    },
    Refused(String),
    NoSuchSession(SessionId),
    SessionTaken(SessionId),
    SessionsFull(SessionLimit),
}

/// The cluster's answer about a session that was resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResumedSession {
    pub(crate) fence: u64,
    pub(crate) first_group: u64,
    pub(crate) acknowledged_through: u64,
    /// Earlier groups with kept outcomes.
    pub(crate) groups: Vec<u64>,
}

/// A request.
#[derive(Debug)]
struct Asked {
    frame: Arc<[u8]>,
    /// It was sent on the current connection, and no answer has asked to send it again.
    sent: bool,
    /// It was sent on some connection.
    ever_sent: bool,
    /// The earliest time at which it is sent.
    not_before: Option<Instant>,
    answer: Option<Answer>,
}

/// The requests of one channel.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    asked: BTreeMap<Key, Asked>,
    /// The control request that was made last.
    control: Option<Request>,
    /// The current connection still owes the answer to a control request that was forgotten.
    owes_forgotten: bool,
}

impl Exchange {
    /// Adds a control request, to be sent. It replaces the one before. A frame is a message with its
    /// length.
    pub(crate) fn ask_control(&mut self, request: Request, frame: Vec<u8>) {
        self.forget(Key::Control);
        self.control = Some(request);
        self.ask(Key::Control, frame);
    }

    /// Adds a read or a group, to be sent. A frame is a message with its length.
    pub(crate) fn ask(&mut self, key: Key, frame: Vec<u8>) {
        let asked = Asked {
            frame: frame.into(),
            sent: false,
            ever_sent: false,
            not_before: None,
            answer: None,
        };
        self.asked.insert(key, asked);
    }

    /// Takes the next request to send and marks it as sent. Groups are sent in their order.
    pub(crate) fn next_to_send(&mut self, now: Instant) -> Option<Arc<[u8]>> {
        let is_due = |asked: &&mut Asked| {
            !asked.sent && asked.answer.is_none() && asked.not_before.is_none_or(|at| at <= now)
        };
        let asked = self.asked.values_mut().find(is_due)?;
        asked.sent = true;
        asked.ever_sent = true;
        Some(Arc::clone(&asked.frame))
    }

    /// The time at which the next postponed request becomes due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let unsent = self.asked.values().filter(|asked| !asked.sent);
        let unanswered = unsent.filter(|asked| asked.answer.is_none());
        unanswered.filter_map(|asked| asked.not_before).min()
    }

    /// Whether an answer is outstanding on the current connection.
    pub(crate) fn awaits_answer(&self) -> bool {
        let mut asked = self.asked.values();
        asked.any(|asked| asked.sent && asked.answer.is_none())
    }

    /// Records the answer to a request. It is ignored if the request was answered before, or is
    /// unknown.
    pub(crate) fn answer(&mut self, key: Key, answer: Answer) {
        if key == Key::Control && self.owes_forgotten {
            return;
        }
        if let Some(asked) = self.asked.get_mut(&key)
            && asked.answer.is_none()
        {
            asked.answer = Some(answer);
        }
    }

    /// Records the answer to the control request, unless `response` repeats the name or the identity
    /// of another one.
    pub(crate) fn answer_control(&mut self, response: &Response, answer: Answer) {
        let is_its_own = (self.control.as_ref()).is_some_and(|it| is_answered_by(it, response));
        if is_its_own {
            self.answer(Key::Control, answer);
        }
    }

    /// Answers all unanswered requests with this answer: each is about the channel's session.
    pub(crate) fn answer_all(&mut self, answer: impl Fn() -> Answer) {
        for asked in self.asked.values_mut() {
            if asked.answer.is_none() {
                asked.answer = Some(answer());
            }
        }
    }

    /// Schedules the request to be sent again, on the same connection if that lasts.
    pub(crate) fn postpone(&mut self, key: Key, until: Instant) {
        if let Some(asked) = self.asked.get_mut(&key) {
            asked.sent = false;
            asked.not_before = Some(until);
        }
    }

    /// The connection is lost: unanswered requests are sent on the next one.
    pub(crate) fn disconnected(&mut self) {
        self.owes_forgotten = false;
        for asked in self.asked.values_mut() {
            asked.sent = false;
            asked.not_before = None;
        }
    }

    pub(crate) fn is_asked(&self, key: Key) -> bool {
        self.asked.contains_key(&key)
    }

    pub(crate) fn is_answered(&self, key: Key) -> bool {
        let asked = self.asked.get(&key);
        asked.is_some_and(|asked| asked.answer.is_some())
    }

    pub(crate) fn was_sent(&self, key: Key) -> bool {
        self.asked.get(&key).is_some_and(|asked| asked.ever_sent)
    }

    /// Takes an answer. The request is forgotten.
    pub(crate) fn take(&mut self, key: Key) -> Option<Answer> {
        if !self.is_answered(key) {
            return None;
        }
        self.asked.remove(&key)?.answer
    }

    /// Forgets a request, which is not sent again.
    pub(crate) fn forget(&mut self, key: Key) {
        let forgotten = self.asked.remove(&key);
        let is_owed = forgotten.is_some_and(|it| it.sent && it.answer.is_none());
        if key == Key::Control && is_owed {
            self.owes_forgotten = true;
        }
    }

    /// Whether the connection is to be closed, since it owes the answer to a control request that
    /// was forgotten.
    pub(crate) fn owes_forgotten(&self) -> bool {
        self.owes_forgotten
    }

    /// Number of unanswered groups.
    pub(crate) fn groups_in_flight(&self) -> usize {
        let groups = self.asked.iter();
        let groups = groups.filter(|(key, _)| matches!(key, Key::Group(_)));
        groups.filter(|(_, asked)| asked.answer.is_none()).count()
    }

    /// The lowest unanswered group.
    pub(crate) fn first_unanswered_group(&self) -> Option<u64> {
        let mut unanswered = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.answer.is_none());
        unanswered.find_map(|(key, _)| match key {
            Key::Group(group) => Some(*group),
            _ => None,
        })
    }

    /// The lowest group with results that were not taken.
    pub(crate) fn first_group(&self) -> Option<u64> {
        self.asked.keys().find_map(|key| match key {
            Key::Group(group) => Some(*group),
            _ => None,
        })
    }

    /// The lowest group with results to be taken.
    pub(crate) fn first_answered_group(&self) -> Option<u64> {
        let mut answered = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.answer.is_some());
        answered.find_map(|(key, _)| match key {
            Key::Group(group) => Some(*group),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sent(exchange: &mut Exchange, now: Instant) -> Vec<u8> {
        std::iter::from_fn(|| exchange.next_to_send(now))
            .map(|frame| frame[0])
            .collect()
    }

    #[test]
    fn what_is_not_answered_is_sent_again_in_order() {
        let now = Instant::now();
        let mut exchange = Exchange::default();
        for group in [3, 1, 2] {
            exchange.ask(Key::Group(group), vec![group as u8]);
        }
        assert_eq!(sent(&mut exchange, now), [1, 2, 3]);
        assert!(sent(&mut exchange, now).is_empty());
        exchange.answer(Key::Group(2), Answer::Outcomes(vec![]));
        exchange.disconnected();
        assert_eq!(sent(&mut exchange, now), [1, 3]);
        assert_eq!(exchange.groups_in_flight(), 2);
        assert_eq!(exchange.first_unanswered_group(), Some(1));
        assert_eq!(exchange.first_answered_group(), Some(2));
    }

    #[test]
    fn a_postponed_request_waits_for_its_time() {
        let now = Instant::now();
        let later = now + Duration::from_millis(5);
        let mut exchange = Exchange::default();
        exchange.ask(Key::Group(1), vec![1]);
        sent(&mut exchange, now);
        exchange.postpone(Key::Group(1), later);
        assert!(sent(&mut exchange, now).is_empty());
        assert_eq!(exchange.next_due(), Some(later));
        assert!(!exchange.awaits_answer());
        assert_eq!(sent(&mut exchange, later), [1]);
    }

    #[test]
    fn the_first_answer_counts() {
        let mut exchange = Exchange::default();
        let key = Key::Group(1);
        exchange.ask(key, vec![1]);
        assert_eq!(exchange.take(key), None);
        exchange.answer(key, Answer::Outcomes(vec![Outcome::Done]));
        exchange.answer(key, Answer::Refused(String::new()));
        let first = Answer::Outcomes(vec![Outcome::Done]);
        assert_eq!(exchange.take(key), Some(first));
        exchange.answer(key, Answer::Refused(String::new()));
        assert!(!exchange.is_asked(key));
    }

    #[test]
    fn numbers_of_reads_are_none_of_groups() {
        let Key::Read(number) = Key::read(7) else {
            unreachable!()
        };
        assert_eq!(Key::from_number(number), Key::read(7));
        assert_eq!(Key::from_number(7), Key::Group(7));
        assert_eq!(Key::from_number(0), Key::Control);
    }
}
