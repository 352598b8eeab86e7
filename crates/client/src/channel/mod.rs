//! A channel to the current leader, or to any node for reads: a state machine without I/O.
//!
//! ```text
//!              Connect                 hello                welcome
//! Disconnected ───────> Greeting ────────────────> Greeting ───────> Ready ── requests, responses
//!      ^                    │ refused, silent                           │ closed, silent, not the leader
//!      └────────────────────┴───────────────────────────────────────────┘ everything unanswered is sent again
//! ```
//!
//! A runtime (blocking or asynchronous) asks for the next [`Step`] and reports its result.
//!
//! # Invariants
//! - C1. A request that has no answer is sent on every new connection, with the same bytes, until it is answered or forgotten.
//! - C2. An answer is final.
//! - C3. All connections are to one cluster: that of the options, or else that of the first node
//!   that says welcome. Another cluster may have taken an address since.
//! - C4. A connection that owes the answer to a forgotten control request is closed before anything
//!   else is sent (X2 of the exchange).

mod control;
mod exchange;
mod leader_finder;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) use exchange::{Answer, Exchange, Key, ResumedSession};
pub(crate) use leader_finder::LeaderFinder;

use crate::error::{ClientError, ConnectionError};
use crate::options::{ClientOptions, later};
use crate::protocol::{MAGIC, PROTOCOL_VERSION, Request, Response, Role, encoded};

/// Backoff before a request is sent again to a node that is busy or was deposed.
const BACKOFF: Duration = Duration::from_millis(10);
const DOES_NOT_LEAD: &str = "it does not lead";

/// The next step of a runtime.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Connect to this address: [`Channel::connected`] or [`Channel::broken`].
    Connect(String),
    /// Close the connection.
    Close,
    /// Write these bytes; on failure [`Channel::broken`].
    Send(Arc<[u8]>),
    /// Wait for a message until then: [`Channel::received`], or [`Channel::broken`].
    Receive(Instant),
    /// Do nothing until then.
    Pause(Instant),
}

#[derive(Debug)]
enum State {
    Disconnected {
        retry_at: Instant,
    },
    Greeting {
        since: Instant,
        said_hello: bool,
    },
    Ready {
        /// Time since which nothing was received, although an answer is outstanding.
        quiet_since: Instant,
        /// It was asked whether it is alive.
        asked_alive: bool,
    },
    /// The connection is to be closed; the next one is tried after this time.
    Closing {
        retry_at: Instant,
    },
}

/// The highest LSN of the answers to a client and its sessions, which share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenLsn(Arc<AtomicU64>);

impl SeenLsn {
    pub(crate) fn note(&self, lsn: u64) {
        self.0.fetch_max(lsn, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The node of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The leader.
    Leader,
    /// Any of the addresses, and those that the nodes tell.
    Any,
    /// The node at the one address.
    One,
}

/// A channel to the leader, or to any node.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) exchange: Exchange,
    pub(crate) seen: SeenLsn,
    target: Target,
    finder: LeaderFinder,
    state: State,
    /// The options; the cluster is set once a node has sent its welcome.
    options: ClientOptions,
    /// The last reason why the leader was not reached.
    last: String,
    /// An address at which another cluster answered after the last welcome, and that cluster.
    other_cluster: Option<(String, u128)>,
    /// An address at which a node with another version of the protocol answered after the last
    /// welcome, and that version.
    other_version: Option<(String, u16)>,
    /// The last node that had not applied enough for a read: its address, the last entry that it had
    /// applied, and the entry that was wanted.
    behind: Option<(String, u64, u64)>,
}

impl Channel {
    pub(crate) fn new(
        addresses: Vec<String>,
        options: ClientOptions,
        target: Target,
        seen: SeenLsn,
        now: Instant,
    ) -> Self {
        let mut finder = LeaderFinder::new(addresses);
        if target == Target::Any {
            finder.shuffle();
        }
        Self {
            exchange: Exchange::default(),
            seen,
            target,
            finder,
            state: State::Disconnected { retry_at: now },
            options,
            last: "no node has been asked yet".to_owned(),
            other_cluster: None,
            other_version: None,
            behind: None,
        }
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// The last problem, for messages.
    pub(crate) fn last(&self) -> String {
        self.last.clone()
    }

    /// The error of a request that no leader, or no node, has answered in time.
    pub(crate) fn unavailable(&self) -> ClientError {
        if let Some((address, applied, wanted)) = self.behind.clone() {
            return ClientError::Behind {
                address,
                applied,
                wanted,
            };
        }
        if let Some((address, node)) = self.other_version.clone() {
            return ClientError::other_version(address, node);
        }
        match (&self.other_cluster, self.options.cluster) {
            (Some((address, found)), Some(expected)) => ClientError::OtherCluster {
                address: address.clone(),
                expected,
                found: *found,
            },
            _ => ClientError::Unavailable { last: self.last() },
        }
    }

    /// The address of the node that answers.
    pub(crate) fn leader(&self) -> Option<&str> {
        self.finder.current()
    }

    /// The known addresses, the leader's first.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.finder.addresses()
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    /// The step to take now.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        match &mut self.state {
            State::Disconnected { retry_at } if now < *retry_at => Step::Pause(*retry_at),
            State::Disconnected { .. } => Step::Connect(self.finder.next(now)),
            State::Closing { retry_at } => {
                self.state = State::Disconnected {
                    retry_at: *retry_at,
                };
                Step::Close
            }
            State::Greeting { since, said_hello } => {
                // A stopped node still accepts connections.
                let silence = self.options.silence.saturating_mul(2);
                let welcome_timeout = self.options.connect_timeout.min(silence);
                let until = later(*since, welcome_timeout);
                if !std::mem::replace(said_hello, true) {
                    return Step::Send(hello(self.options.cluster));
                }
                if now < until {
                    return Step::Receive(until);
                }
                self.leave_silent(now, "it sends no welcome");
                self.step(now)
            }
            State::Ready { .. } => self.step_ready(now),
        }
    }

    fn step_ready(&mut self, now: Instant) -> Step {
        if self.exchange.owes_forgotten() {
            self.note("it had not answered when the request was given up");
            self.exchange.disconnected();
            self.finder.repeat();
            self.state = State::Closing { retry_at: now };
            return self.step(now);
        }
        let owed = self.exchange.awaits_answer();
        let next = self.exchange.next_to_send(now);
        let State::Ready {
            quiet_since,
            asked_alive,
        } = &mut self.state
        else {
            return Step::Pause(now);
        };
        if !owed {
            *quiet_since = now;
            *asked_alive = false;
        }
        if let Some(frame) = next {
            return Step::Send(frame);
        }
        let silence = self.options.silence;
        if !owed {
            let until = self.exchange.next_due();
            let until = until.unwrap_or_else(|| later(now, silence));
            return Step::Receive(until);
        }
        let until = later(*quiet_since, silence);
        if now < until {
            let due = self.exchange.next_due().unwrap_or(until);
            return Step::Receive(due.min(until));
        }
        if !*asked_alive {
            // A busy node answers this, a stopped one does not.
            *asked_alive = true;
            *quiet_since = now;
            return Step::Send(frame_of(&Request::Status));
        }
        self.leave_silent(now, "it does not respond");
        self.step(now)
    }

    /// Leaves a silent node; another one is tried.
    fn leave_silent(&mut self, now: Instant, why: &str) {
        self.note(why);
        let retry_at = now + self.finder.fell_silent(now);
        self.exchange.disconnected();
        self.state = State::Closing { retry_at };
    }

    /// Gives the connection up; another node is tried.
    fn give_up(&mut self, now: Instant, why: &str) {
        self.note(why);
        let retry_at = now + self.finder.failed();
        self.exchange.disconnected();
        self.state = State::Closing { retry_at };
    }

    /// The node has answered a request.
    fn has_answered(&mut self) {
        self.finder.succeeded();
        self.behind = None;
    }

    fn note(&mut self, why: &str) {
        let address = self.finder.current().unwrap_or("no node");
        self.last = format!("{address}: {why}");
    }

    pub(crate) fn connected(&mut self, now: Instant) {
        self.state = State::Greeting {
            since: now,
            said_hello: false,
        };
    }

    /// The connection could not be made, or was lost.
    pub(crate) fn broken(&mut self, now: Instant, why: &ConnectionError) {
        self.note(&why.to_string());
        let retry_at = now + self.finder.failed();
        self.exchange.disconnected();
        self.state = State::Disconnected { retry_at };
    }

    /// A message has arrived.
    pub(crate) fn received(&mut self, response: Response, now: Instant) {
        match &mut self.state {
            State::Ready {
                quiet_since,
                asked_alive,
            } => {
                *quiet_since = now;
                *asked_alive = false;
            }
            State::Greeting { .. } => return self.received_greeting(response, now),
            State::Disconnected { .. } | State::Closing { .. } => return,
        }
        self.seen.note(lsn_of(&response));
        if let Some(control) = control_answer(&response) {
            self.has_answered();
            return self.exchange.answer_control(&response, control);
        }
        let answer = |this: &mut Self, key, answer| {
            this.has_answered();
            this.exchange.answer(key, answer);
        };
        match response {
            Response::Results {
                group, outcomes, ..
            } => answer(self, Key::Group(group), Answer::Outcomes(outcomes)),
            Response::Rows {
                request,
                values,
                lsn,
            } => answer(
                self,
                Key::from_number(request),
                Answer::Rows { values, lsn },
            ),
            Response::Tables {
                request, tables, ..
            } => answer(self, Key::from_number(request), Answer::Tables(tables)),
            Response::Scanned { request, scanned } => {
                answer(self, Key::from_number(request), Answer::Scanned(scanned));
            }
            Response::Nodes { addresses } => self.learn(addresses),
            Response::Disconnected { reason } => self.give_up(now, &reason.to_string()),
            Response::Refused { request, reason } => {
                self.note(&reason);
                answer(self, Key::from_number(request), Answer::Refused(reason));
            }
            Response::NoSuchSession { session } => {
                self.finder.succeeded();
                self.exchange.answer_all(|| Answer::NoSuchSession(session));
            }
            Response::SessionTaken { session } => {
                self.finder.succeeded();
                self.exchange.answer_all(|| Answer::SessionTaken(session));
            }
            Response::GroupOutcomes {
                request, outcomes, ..
            } => {
                let key = Key::from_number(request);
                answer(self, key, Answer::GroupOutcomes(outcomes));
            }
            Response::Behind {
                applied, wanted, ..
            } => {
                let address = self.finder.current().unwrap_or_default().to_owned();
                self.behind = Some((address, applied, wanted));
                self.redirect(None, "it lags behind", now);
            }
            Response::Busy { request } => {
                self.exchange
                    .postpone(Key::from_number(request), now + BACKOFF);
            }
            Response::OutcomeUnknown { group, .. } => {
                self.note("it has lost the leadership");
                self.exchange.postpone(Key::Group(group), now + BACKOFF);
            }
            Response::NotLeader { leader, .. } if self.target == Target::Leader => {
                self.redirect(leader.map(|(_, address)| address), DOES_NOT_LEAD, now);
            }
            Response::NotLeader { .. } => self.redirect(None, "it knows no leader", now),
            Response::Status(_) if self.target != Target::Leader => {
                self.note("it has not answered yet");
            }
            Response::Status(status) => match status.role {
                // Messages distinguish a cluster without a leader from a leader that makes no
                // progress.
                Role::Leader => self.note("it leads, but has not answered yet"),
                Role::TakingOffice => self.note("it is taking office"),
                _ => self.redirect(None, DOES_NOT_LEAD, now),
            },
            // Not asked for on a channel, or taken above.
            Response::SessionOpened { .. }
            | Response::SessionClosed { .. }
            | Response::SessionsFull { .. }
            | Response::SessionResumed { .. }
            | Response::Table { .. }
            | Response::TableDropped { .. }
            | Response::TableCleared { .. }
            | Response::MembersChanged(_)
            | Response::Welcome { .. }
            | Response::OtherCluster { .. }
            | Response::LinksCut { .. }
            | Response::BackupBegun { .. }
            | Response::BackupPart { .. }
            | Response::Sessions { .. }
            | Response::EntryPassed { .. } => {}
        }
    }

    /// A node has told where the members are.
    fn learn(&mut self, addresses: Vec<String>) {
        if self.target != Target::One {
            self.finder.learn(addresses);
        }
    }

    fn received_greeting(&mut self, response: Response, now: Instant) {
        match response {
            Response::Welcome { version, .. } if version != PROTOCOL_VERSION => {
                let address = self.finder.current().unwrap_or_default();
                self.other_version = Some((address.to_owned(), version));
                self.give_up(now, "it speaks another version of the protocol");
            }
            Response::Welcome {
                cluster, addresses, ..
            } if self.options.cluster.is_none_or(|it| it == cluster) => {
                self.learn(addresses);
                self.options.cluster = Some(cluster);
                self.other_cluster = None;
                self.other_version = None;
                self.state = State::Ready {
                    quiet_since: now,
                    asked_alive: false,
                };
            }
            Response::Welcome { cluster, .. } | Response::OtherCluster { cluster } => {
                let address = self.finder.current().unwrap_or_default();
                self.other_cluster = Some((address.to_owned(), cluster));
                self.give_up(now, "it belongs to another cluster");
            }
            Response::Refused { reason, .. } => self.give_up(now, &reason),
            _ => self.give_up(now, "it sends no welcome"),
        }
    }

    /// Another node is to be asked: the leader, if it is known.
    fn redirect(&mut self, leader: Option<String>, why: &str, now: Instant) {
        self.note(why);
        let leader = leader.filter(|address| !address.is_empty());
        let retry_at = now + self.finder.redirect(leader, now);
        self.exchange.disconnected();
        self.state = State::Closing { retry_at };
    }
}

/// The answer to a control request in a response; `None` for other responses.
fn control_answer(response: &Response) -> Option<Answer> {
    Some(match response {
        Response::SessionOpened { session, .. } => Answer::SessionOpened(*session),
        Response::SessionsFull { limit, .. } => Answer::SessionsFull(*limit),
        Response::SessionClosed { .. } => Answer::SessionClosed,
        Response::SessionResumed {
            fence,
            first_group,
            acknowledged_through,
            groups,
            ..
        } => Answer::SessionResumed(ResumedSession {
            fence: *fence,
            first_group: *first_group,
            acknowledged_through: *acknowledged_through,
            groups: groups.clone(),
        }),
        Response::Table { table, .. } => Answer::Table(*table),
        Response::TableDropped { existed, .. } => Answer::TableDropped(*existed),
        Response::TableCleared { successor, .. } => Answer::TableCleared(*successor),
        Response::MembersChanged(_) => Answer::MembersChanged,
        _ => return None,
    })
}

/// The LSN of a response, or 0.
fn lsn_of(response: &Response) -> u64 {
    match response {
        Response::Results { lsn, .. }
        | Response::Rows { lsn, .. }
        | Response::Tables { lsn, .. }
        | Response::Table { lsn, .. }
        | Response::SessionResumed { lsn, .. }
        | Response::GroupOutcomes { lsn, .. }
        | Response::TableDropped { lsn, .. }
        | Response::TableCleared { lsn, .. } => *lsn,
        Response::Scanned { scanned, .. } => scanned.lsn,
        _ => 0,
    }
}

/// A message with its length. Encoding it cannot fail.
pub(crate) fn frame_of(request: &Request) -> Arc<[u8]> {
    encoded(request)
        .expect("a short message can be encoded")
        .into()
}

/// The first message of a connection to a node of this cluster, or of any cluster.
pub(crate) fn hello(cluster: Option<u128>) -> Arc<[u8]> {
    frame_of(&Request::Hello {
        magic: MAGIC,
        version: PROTOCOL_VERSION,
        cluster: cluster.unwrap_or(0),
    })
}
