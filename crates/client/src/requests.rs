//! Shared parts of the blocking and the asynchronous client: numbers, requests, and the
//! interpretation of answers.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Instant;

use crate::channel::{Answer, Channel, Key};
use crate::error::ClientError;
use crate::options::ClientOptions;
use crate::protocol::{Command, Outcome, Request, Scanned, SessionId, TableEntry, encoded_request};

/// Rows that were read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// One value for each key, in the order of the keys; `None` if the row does not exist.
    pub values: Vec<Option<Vec<u8>>>,
    /// LSN of the state that was read: the state after this entry of the log.
    pub lsn: u64,
}

/// A group that was submitted in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    pub(crate) session: SessionId,
    pub(crate) number: u64,
}

impl Group {
    /// Its number in the session.
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }
}

/// A channel to the leader with the addresses of some nodes.
pub(crate) fn channel(
    addresses: Vec<String>,
    options: ClientOptions,
) -> Result<Channel, ClientError> {
    if addresses.is_empty() {
        return Err(ClientError::NoAddress);
    }
    options.check()?;
    Ok(Channel::new(addresses, options, Instant::now()))
}

/// Asks for a session.
pub(crate) fn ask_session(channel: &mut Channel) -> Result<Key, ClientError> {
    // Asked twice with one nonce, the cluster opens one session.
    let half = || u128::from(RandomState::new().build_hasher().finish());
    let nonce = half() << 64 | half();
    ask_control(channel, &Request::OpenSession { nonce })
}

/// Sends a control request, of which only one is under way at a time.
pub(crate) fn ask_control(channel: &mut Channel, request: &Request) -> Result<Key, ClientError> {
    channel
        .exchange
        .ask(Key::Control, encoded_request(request)?);
    Ok(Key::Control)
}

/// Asks for the `number`-th read, which is made from the number that its answer repeats.
pub(crate) fn ask_read(
    channel: &mut Channel,
    number: u64,
    make: impl FnOnce(u64) -> Request,
) -> Result<Key, ClientError> {
    let key = Key::read(number);
    let Key::Read(request) = key else {
        unreachable!("a read has the key of a read")
    };
    let request = encoded_request(&make(request))?;
    channel.exchange.ask(key, request);
    Ok(key)
}

/// The numbers of a session's groups.
#[derive(Debug)]
pub(crate) struct GroupNumbers {
    pub(crate) session: SessionId,
    /// The last number that was assigned.
    last: u64,
}

impl GroupNumbers {
    pub(crate) fn new(session: SessionId) -> Self {
        Self { session, last: 0 }
    }

    /// Asks for a group under the next number.
    pub(crate) fn ask(
        &mut self,
        channel: &mut Channel,
        commands: Vec<Command>,
    ) -> Result<Group, ClientError> {
        let number = self.last + 1;
        let unanswered = channel.exchange.first_unanswered_group();
        let request = Request::Submit {
            session: self.session,
            group: number,
            acknowledged_through: unanswered.unwrap_or(number) - 1,
            commands,
        };
        channel
            .exchange
            .ask(Key::Group(number), encoded_request(&request)?);
        self.last = number;
        Ok(self.group(number))
    }

    pub(crate) fn group(&self, number: u64) -> Group {
        Group {
            session: self.session,
            number,
        }
    }

    /// The key of a group of this session, unless its results were taken.
    pub(crate) fn key(&self, channel: &Channel, group: Group) -> Result<Key, ClientError> {
        let key = Key::Group(group.number);
        if group.session != self.session || !channel.exchange.is_asked(key) {
            return Err(ClientError::NoSuchGroup {
                group: group.number,
            });
        }
        Ok(key)
    }
}

/// The error for a group after a timeout. The group stays in flight.
pub(crate) fn group_timed_out(channel: &Channel, group: u64) -> ClientError {
    if channel.exchange.was_sent(Key::Group(group)) {
        let last = channel.last();
        ClientError::OutcomeUnknown { group, last }
    } else {
        channel.unavailable()
    }
}

/// The error for an idempotent request after a timeout. The request is forgotten.
pub(crate) fn timed_out(channel: &mut Channel, key: Key) -> ClientError {
    channel.exchange.forget(key);
    channel.unavailable()
}

fn unexpected() -> ClientError {
    ClientError::Refused {
        reason: "the node has answered a different request; run the same version everywhere"
            .to_owned(),
    }
}

fn answer_of(channel: &mut Channel, key: Key) -> Result<Answer, ClientError> {
    match channel.exchange.take(key) {
        Some(Answer::Refused(reason)) => Err(ClientError::Refused { reason }),
        Some(Answer::NoSuchSession(session)) => Err(ClientError::NoSuchSession { session }),
        Some(Answer::SessionsFull(limit)) => Err(ClientError::TooManySessions { limit }),
        Some(answer) => Ok(answer),
        None => Err(unexpected()),
    }
}

pub(crate) fn outcomes_of(channel: &mut Channel, key: Key) -> Result<Vec<Outcome>, ClientError> {
    match answer_of(channel, key)? {
        Answer::Outcomes(outcomes) => Ok(outcomes),
        _ => Err(unexpected()),
    }
}

pub(crate) fn rows_of(channel: &mut Channel, key: Key) -> Result<Rows, ClientError> {
    match answer_of(channel, key)? {
        Answer::Rows { values, lsn } => Ok(Rows { values, lsn }),
        _ => Err(unexpected()),
    }
}

pub(crate) fn session_of(channel: &mut Channel, key: Key) -> Result<SessionId, ClientError> {
    match answer_of(channel, key)? {
        Answer::SessionOpened(session) => Ok(session),
        _ => Err(unexpected()),
    }
}

pub(crate) fn table_of(channel: &mut Channel, key: Key) -> Result<u32, ClientError> {
    match answer_of(channel, key)? {
        Answer::Table(table) => Ok(table),
        _ => Err(unexpected()),
    }
}

pub(crate) fn dropped_of(channel: &mut Channel, key: Key) -> Result<bool, ClientError> {
    match answer_of(channel, key)? {
        Answer::TableDropped(existed) => Ok(existed),
        _ => Err(unexpected()),
    }
}

pub(crate) fn tables_of(channel: &mut Channel, key: Key) -> Result<Vec<TableEntry>, ClientError> {
    match answer_of(channel, key)? {
        Answer::Tables(tables) => Ok(tables),
        _ => Err(unexpected()),
    }
}

pub(crate) fn scanned_of(channel: &mut Channel, key: Key) -> Result<Scanned, ClientError> {
    match answer_of(channel, key)? {
        Answer::Scanned(scanned) => Ok(scanned),
        _ => Err(unexpected()),
    }
}

pub(crate) fn replaced_of(channel: &mut Channel, key: Key) -> Result<(), ClientError> {
    match answer_of(channel, key)? {
        Answer::NodeReplaced => Ok(()),
        _ => Err(unexpected()),
    }
}

/// A session that does not exist any more also counts as closed.
pub(crate) fn closed_of(channel: &mut Channel, key: Key) -> Result<(), ClientError> {
    match answer_of(channel, key) {
        Ok(Answer::SessionClosed) | Err(ClientError::NoSuchSession { .. }) => Ok(()),
        Ok(_) => Err(unexpected()),
        Err(error) => Err(error),
    }
}
