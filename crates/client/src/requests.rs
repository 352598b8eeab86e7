//! Shared parts of the blocking and the asynchronous client: numbers, requests, and the
//! interpretation of answers.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Instant;

use crate::channel::{Answer, Channel, Key, ResumedSession, SeenLsn, Target};
use crate::error::ClientError;
use crate::options::ClientOptions;
use crate::protocol::{
    Command, Freshness, Outcome, Request, Scanned, SessionId, TableEntry, encoded_request,
};
use crate::read_options::{Consistency, ReadNode, ReadOptions};
use crate::token::SessionToken;

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

/// The fate of a group, once the session is resumed: it is final until the group is submitted again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupOutcomes {
    /// Every command of the group is committed, and has this outcome.
    All(Vec<Outcome>),
    /// The commands with an outcome are committed. The others are not executed, unless the group is
    /// submitted again: a change of the leader came between them.
    Some(Vec<Option<Outcome>>),
    /// No command of the group is executed, unless the group is submitted again.
    NotExecuted,
    /// A holder of the session has acknowledged the group, or a later one: what became of it is
    /// forgotten.
    Forgotten,
}

impl From<Option<Vec<Option<Outcome>>>> for GroupOutcomes {
    fn from(outcomes: Option<Vec<Option<Outcome>>>) -> Self {
        match outcomes {
            None => Self::Forgotten,
            Some(none) if none.is_empty() => Self::NotExecuted,
            Some(some) => match some.iter().copied().collect() {
                Some(all) => Self::All(all),
                None => Self::Some(some),
            },
        }
    }
}

/// A channel to the leader with the addresses of some nodes.
pub(crate) fn channel(
    addresses: Vec<String>,
    options: ClientOptions,
    seen: SeenLsn,
) -> Result<Channel, ClientError> {
    if addresses.is_empty() {
        return Err(ClientError::NoAddress);
    }
    options.check()?;
    let now = Instant::now();
    Ok(Channel::new(addresses, options, Target::Leader, seen, now))
}

/// A channel to the leader for a session of the same client.
pub(crate) fn channel_of_session(client: &Channel) -> Result<Channel, ClientError> {
    let options = client.options().clone();
    channel(client.addresses(), options, client.seen.clone())
}

/// A channel for reads from any node, or from the one at the address; `None` for the leader.
pub(crate) fn channel_of_reads(client: &Channel, node: &ReadNode) -> Option<Channel> {
    let (addresses, target) = match node {
        ReadNode::Leader => return None,
        ReadNode::Any => (client.addresses(), Target::Any),
        ReadNode::Address(address) => (vec![address.clone()], Target::One),
    };
    let (options, seen) = (client.options().clone(), client.seen.clone());
    let now = Instant::now();
    Some(Channel::new(addresses, options, target, seen, now))
}

/// What the answer to a read must have seen.
pub(crate) fn freshness(options: &ReadOptions, seen: &SeenLsn) -> Freshness {
    match (options.consistency, &options.node) {
        (Consistency::Strong, ReadNode::Leader) => Freshness::Leader,
        (Consistency::Strong, _) => Freshness::Strong,
        (Consistency::Session, _) => Freshness::AtLeast(seen.get()),
        (Consistency::Stale, _) => Freshness::AtLeast(0),
    }
}

fn random_number() -> u128 {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    half() << 64 | half()
}

/// Asks for a session. Returns its nonce, too: asked twice with one, the cluster opens one session.
pub(crate) fn ask_session(channel: &mut Channel) -> Result<(Key, u128), ClientError> {
    let nonce = random_number();
    let key = ask_control(channel, Request::OpenSession { nonce })?;
    Ok((key, nonce))
}

/// Asks to resume a session.
pub(crate) fn ask_resume(channel: &mut Channel, token: &SessionToken) -> Result<Key, ClientError> {
    let request = Request::ResumeSession {
        session: token.session,
        nonce: token.nonce,
        attempt: random_number(),
    };
    ask_control(channel, request)
}

/// Checks that a client is of the token's cluster.
pub(crate) fn check_token(channel: &Channel, token: &SessionToken) -> Result<(), ClientError> {
    match channel.options().cluster {
        Some(found) if found != token.cluster => Err(ClientError::SessionElsewhere {
            expected: token.cluster,
            found,
        }),
        _ => Ok(()),
    }
}

/// Asks a control request, of which only one is under way at a time: it replaces the one before.
pub(crate) fn ask_control(channel: &mut Channel, request: Request) -> Result<Key, ClientError> {
    let frame = encoded_request(&request)?;
    channel.exchange.ask_control(request, frame);
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

/// A session's identity, and the numbers of its groups.
#[derive(Debug)]
pub(crate) struct HeldSession {
    pub(crate) token: SessionToken,
    /// The entry that opened or resumed it.
    fence: u64,
    /// The last number that was assigned.
    last: u64,
    /// The largest number that earlier holders may have used; 0 without earlier holders.
    earlier: u64,
    /// No group beyond this one is acknowledged.
    acknowledged_max: u64,
    /// Groups of earlier holders with kept outcomes.
    pub(crate) earlier_groups: Vec<u64>,
}

impl HeldSession {
    /// A session that the cluster has opened.
    pub(crate) fn opened(channel: &Channel, session: SessionId, nonce: u128) -> Self {
        Self {
            token: SessionToken {
                // A node has answered, so the cluster is known.
                cluster: channel.options().cluster.unwrap_or_default(),
                session,
                nonce,
            },
            fence: session.0,
            last: 0,
            earlier: 0,
            acknowledged_max: u64::MAX,
            earlier_groups: Vec::new(),
        }
    }

    /// A session that the cluster has resumed.
    pub(crate) fn resumed(token: SessionToken, resumed: ResumedSession) -> Self {
        Self {
            token,
            fence: resumed.fence,
            last: resumed.first_group - 1,
            earlier: resumed.first_group - 1,
            acknowledged_max: resumed.acknowledged_through,
            earlier_groups: resumed.groups,
        }
    }

    pub(crate) fn next(&self) -> u64 {
        self.last + 1
    }

    pub(crate) fn hold_outcomes(&mut self) {
        self.acknowledged_max = self.acknowledged_max.min(self.last);
    }

    pub(crate) fn acknowledge_through(&mut self, group: u64) {
        self.acknowledged_max = self.acknowledged_max.max(group);
    }

    pub(crate) fn acknowledge_taken(&mut self) {
        self.acknowledged_max = u64::MAX;
        self.earlier_groups = Vec::new();
    }

    /// Asks for a group under the next number.
    pub(crate) fn ask(
        &mut self,
        channel: &mut Channel,
        commands: Vec<Command>,
    ) -> Result<Group, ClientError> {
        let number = self.next();
        let group = self.ask_as(channel, number, commands)?;
        self.last = number;
        Ok(group)
    }

    /// Asks for a group under the number that an earlier holder has given it.
    pub(crate) fn ask_again(
        &mut self,
        channel: &mut Channel,
        number: u64,
        commands: Vec<Command>,
    ) -> Result<Group, ClientError> {
        if number == 0 || number > self.earlier {
            return Err(ClientError::NoEarlierGroup { group: number });
        }
        self.check_not_asked(channel, number)?;
        self.ask_as(channel, number, commands)
    }

    fn ask_as(
        &self,
        channel: &mut Channel,
        number: u64,
        commands: Vec<Command>,
    ) -> Result<Group, ClientError> {
        let untaken = channel.exchange.first_group();
        let first = untaken.map_or(number, |it| it.min(number));
        let request = Request::Submit {
            session: self.token.session,
            fence: self.fence,
            group: number,
            acknowledged_through: (first - 1).min(self.acknowledged_max),
            commands,
        };
        channel
            .exchange
            .ask(Key::Group(number), encoded_request(&request)?);
        Ok(self.group(number))
    }

    fn check_not_asked(&self, channel: &Channel, number: u64) -> Result<(), ClientError> {
        if channel.exchange.is_asked(Key::Group(number)) {
            return Err(ClientError::GroupInFlight { group: number });
        }
        Ok(())
    }

    /// Asks for the outcomes of a group that is not in flight here, in the `number`-th read.
    pub(crate) fn ask_outcomes(
        &self,
        channel: &mut Channel,
        number: u64,
        group: u64,
    ) -> Result<Key, ClientError> {
        self.check_not_asked(channel, group)?;
        ask_read(channel, number, |request| Request::Outcomes {
            request,
            session: self.token.session,
            fence: self.fence,
            group,
        })
    }

    /// Asks to close the session.
    pub(crate) fn ask_close(&self, channel: &mut Channel) -> Result<Key, ClientError> {
        let request = Request::CloseSession {
            session: self.token.session,
            fence: self.fence,
        };
        ask_control(channel, request)
    }

    pub(crate) fn group(&self, number: u64) -> Group {
        Group {
            session: self.token.session,
            number,
        }
    }

    /// The key of a group of this session, unless its results were taken.
    pub(crate) fn key(&self, channel: &Channel, group: Group) -> Result<Key, ClientError> {
        let key = Key::Group(group.number);
        if group.session != self.token.session || !channel.exchange.is_asked(key) {
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
        Some(Answer::SessionTaken(session)) => Err(ClientError::SessionTaken { session }),
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

pub(crate) fn resumed_of(channel: &mut Channel, key: Key) -> Result<ResumedSession, ClientError> {
    match answer_of(channel, key)? {
        Answer::SessionResumed(resumed) => Ok(resumed),
        _ => Err(unexpected()),
    }
}

pub(crate) fn group_outcomes_of(
    channel: &mut Channel,
    key: Key,
) -> Result<GroupOutcomes, ClientError> {
    match answer_of(channel, key)? {
        Answer::GroupOutcomes(outcomes) => Ok(outcomes.into()),
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

pub(crate) fn cleared_of(channel: &mut Channel, key: Key) -> Result<Option<u32>, ClientError> {
    match answer_of(channel, key)? {
        Answer::TableCleared(successor) => Ok(successor),
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

pub(crate) fn members_changed_of(channel: &mut Channel, key: Key) -> Result<(), ClientError> {
    match answer_of(channel, key)? {
        Answer::MembersChanged => Ok(()),
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
