//! A session: groups of commands, each executed once, however often it is sent.

use std::time::Instant;

use super::link::Link;
use crate::channel::Channel;
use crate::error::ClientError;
use crate::links::OverChannel;
use crate::options::later;
use crate::protocol::{Command, Outcome, SessionId};
use crate::requests::{self, Group, GroupOutcomes, HeldSession};
use crate::token::SessionToken;

/// A session, with its own connection to the leader.
///
/// Several groups may be in flight. After a lost connection or a change of the leader, all
/// unanswered groups are sent again under their numbers, and not executed twice. All work happens
/// in calls, on the caller's thread.
#[derive(Debug)]
pub struct Session {
    link: Link,
    held: HeldSession,
    reads: u64,
}

impl Session {
    pub(super) fn open(channel: Channel) -> Result<Self, ClientError> {
        let mut link = Link::over(channel);
        let (key, nonce) = requests::ask_session(&mut link.channel)?;
        let deadline = later(Instant::now(), link.channel.options().timeout);
        if !link.drive(|channel| channel.exchange.is_answered(key), deadline) {
            return Err(requests::timed_out(&mut link.channel, key));
        }
        let session = requests::session_of(&mut link.channel, key)?;
        Ok(Self {
            held: HeldSession::opened(&link.channel, session, nonce),
            link,
            reads: 0,
        })
    }

    pub(super) fn resume(channel: Channel, token: SessionToken) -> Result<Self, ClientError> {
        let mut link = Link::over(channel);
        let key = requests::ask_resume(&mut link.channel, &token)?;
        let deadline = later(Instant::now(), link.channel.options().timeout);
        if !link.drive(|channel| channel.exchange.is_answered(key), deadline) {
            return Err(requests::timed_out(&mut link.channel, key));
        }
        let resumed = requests::resumed_of(&mut link.channel, key)?;
        Ok(Self {
            link,
            held: HeldSession::resumed(token, resumed),
            reads: 0,
        })
    }

    /// The session's number.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.held.token.session
    }

    /// What a program stores to [`resume`](crate::Client::resume) the session in another process.
    #[must_use]
    pub fn token(&self) -> SessionToken {
        self.held.token
    }

    /// The number of the next group. A program that stores it before it submits a payment can ask
    /// for the payment's [`outcomes`](Self::outcomes) after a crash. A session that is resumed
    /// continues with numbers that no earlier holder can have used.
    #[must_use]
    pub fn next_group(&self) -> u64 {
        self.held.next()
    }

    /// For a resumed session: the numbers of earlier groups with outcomes that the cluster keeps.
    #[must_use]
    pub fn earlier_groups(&self) -> &[u64] {
        &self.held.earlier_groups
    }

    /// The fate of a group of an earlier holder, by its number.
    ///
    /// # Errors
    /// [`ClientError::GroupInFlight`] if it was submitted in this session and its outcomes were not
    /// taken. [`ClientError::SessionTaken`], [`ClientError::NoSuchSession`],
    /// [`ClientError::Unavailable`].
    pub fn outcomes(&mut self, group: u64) -> Result<GroupOutcomes, ClientError> {
        self.reads += 1;
        let channel = &mut self.link.channel;
        let key = self.held.ask_outcomes(channel, self.reads, group)?;
        let deadline = later(Instant::now(), channel.options().timeout);
        let is_answered = |channel: &Channel| channel.exchange.is_answered(key);
        if !self.link.drive(is_answered, deadline) {
            return Err(requests::timed_out(&mut self.link.channel, key));
        }
        requests::group_outcomes_of(&mut self.link.channel, key)
    }

    /// Submits a group of an earlier holder again, under its number and with the same commands. Only
    /// those without an outcome are executed.
    ///
    /// # Errors
    /// As [`submit`](Self::submit). [`ClientError::NoEarlierGroup`] if no earlier holder had the
    /// number, [`ClientError::GroupInFlight`] if it was submitted again already.
    pub fn submit_again(
        &mut self,
        group: u64,
        commands: Vec<Command>,
    ) -> Result<Group, ClientError> {
        self.wait_for_room(1)?;
        let group = self
            .held
            .ask_again(&mut self.link.channel, group, commands)?;
        self.link.pump();
        Ok(group)
    }

    /// Has the cluster keep the outcomes of all further groups until the program acknowledges them by
    /// [`acknowledge_through`](Self::acknowledge_through), when it has recorded them: if it dies
    /// before, the next holder finds them. A resumed session begins so, with the groups of earlier
    /// holders. The cluster keeps the outcomes of 1024 groups of a session and refuses more.
    ///
    /// Otherwise, a group is acknowledged by the first one that is submitted when the results of it
    /// and of all earlier ones were taken.
    pub fn hold_outcomes(&mut self) {
        self.held.hold_outcomes();
    }

    /// The program has recorded the outcomes of all groups through this one: the cluster may forget
    /// them, from the next group on. Has no effect unless [outcomes are held](Self::hold_outcomes).
    pub fn acknowledge_through(&mut self, group: u64) {
        self.held.acknowledge_through(group);
    }

    /// From now on, groups are acknowledged when their results are taken; those of earlier holders
    /// of a resumed session are acknowledged with the next group.
    pub fn acknowledge_taken(&mut self) {
        self.held.acknowledge_taken();
    }

    /// Sends a group of commands and returns without waiting for its results. If
    /// [`window`](crate::ClientOptions::window) groups are in flight already, it first waits until
    /// there are fewer.
    ///
    /// # Errors
    /// [`ClientError::OutcomeUnknown`] of the oldest group in flight if none is answered in time: these commands were not sent.
    pub fn submit(&mut self, commands: Vec<Command>) -> Result<Group, ClientError> {
        self.wait_for_room(1)?;
        let group = self.held.ask(&mut self.link.channel, commands)?;
        self.link.pump();
        Ok(group)
    }

    /// Sends several groups together, each as [`submit`](Self::submit) does.
    ///
    /// # Errors
    /// As [`submit`](Self::submit): none of the groups was sent. [`ClientError::Refused`] if one is
    /// too long: the groups before it are in flight; [`next_answered`](Self::next_answered) returns
    /// them.
    pub fn submit_all(
        &mut self,
        groups: impl IntoIterator<Item = Vec<Command>, IntoIter: ExactSizeIterator>,
    ) -> Result<Vec<Group>, ClientError> {
        let groups = groups.into_iter();
        self.wait_for_room(groups.len())?;
        let channel = &mut self.link.channel;
        let asked = groups.map(|commands| self.held.ask(channel, commands));
        let asked = asked.collect();
        self.link.pump();
        asked
    }

    /// Waits until the window has room for `groups` more groups. More groups than the window are
    /// sent when none is in flight.
    fn wait_for_room(&mut self, groups: usize) -> Result<(), ClientError> {
        let options = self.link.channel.options();
        let room = options.window.max(1).saturating_sub(groups);
        let deadline = later(Instant::now(), options.timeout);
        let has_room = |channel: &Channel| channel.exchange.groups_in_flight() <= room;
        if self.link.drive(has_room, deadline) {
            return Ok(());
        }
        let oldest = self.link.channel.exchange.first_unanswered_group();
        let oldest = oldest.unwrap_or_default();
        Err(requests::group_timed_out(&self.link.channel, oldest))
    }

    /// The outcomes of a group's commands, in the order of the commands. They can be taken once.
    ///
    /// # Errors
    /// [`ClientError::OutcomeUnknown`] after the timeout. The group stays in flight and can be
    /// waited for again. [`ClientError::Refused`], [`ClientError::NoSuchSession`],
    /// [`ClientError::NoSuchGroup`].
    pub fn wait(&mut self, group: Group) -> Result<Vec<Outcome>, ClientError> {
        let deadline = later(Instant::now(), self.link.channel.options().timeout);
        self.wait_until(group, deadline)
    }

    /// As [`wait`](Self::wait), with its own deadline.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_until(
        &mut self,
        group: Group,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, ClientError> {
        let key = self.held.key(&self.link.channel, group)?;
        let is_answered = |channel: &Channel| channel.exchange.is_answered(key);
        if !self.link.drive(is_answered, deadline) {
            return Err(requests::group_timed_out(&self.link.channel, group.number));
        }
        requests::outcomes_of(&mut self.link.channel, key)
    }

    /// The first group with available results, if there is one by the deadline.
    /// [`wait`](Self::wait) then returns them at once.
    pub fn next_answered(&mut self, deadline: Instant) -> Option<Group> {
        let first = |channel: &Channel| channel.exchange.first_answered_group();
        self.link
            .drive(|channel| first(channel).is_some(), deadline);
        let number = first(&self.link.channel)?;
        Some(self.held.group(number))
    }

    /// Number of unanswered groups.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.link.channel.exchange.groups_in_flight()
    }

    /// The address of the last node that was asked.
    #[must_use]
    pub fn leader(&self) -> Option<&str> {
        self.link.channel.leader()
    }

    /// Closes the session: the cluster forgets it and its results.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`]: the session may still be closed later.
    /// [`ClientError::SessionTaken`] if another process holds it.
    pub fn close(mut self) -> Result<(), ClientError> {
        let channel = &mut self.link.channel;
        let key = self.held.ask_close(channel)?;
        let deadline = later(Instant::now(), channel.options().timeout);
        let is_answered = |channel: &Channel| channel.exchange.is_answered(key);
        if !self.link.drive(is_answered, deadline) {
            return Err(requests::timed_out(&mut self.link.channel, key));
        }
        requests::closed_of(&mut self.link.channel, key)
    }
}
