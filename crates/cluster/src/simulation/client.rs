//! A client of the simulation: sends groups of transfers, and reads, until it is told to stop;
//! repeats unanswered requests.
//!
//! A client that dies leaves a journal of its unanswered groups. Its successor resumes the session,
//! asks for their outcomes, and submits those that were not executed again, or gives them up: then
//! they must never be executed. Sometimes the client was not dead, and goes on until it is told that
//! its session was taken.

use std::collections::BTreeMap;

use namiki_client::protocol::{Command, Freshness, Outcome, Request, Response, SessionId, Write};
use namiki_platform::seeded_random::Random;

/// The table of accounts.
pub(super) const ACCOUNTS_TABLE: &str = "accounts";
/// Initial balance of every account.
pub(super) const OPENING_BALANCE: u64 = 100;

/// An unanswered request.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) request: Request,
    /// What the answer must have seen. In general the LSN of the last command that any client knew to
    /// be done when this was first sent.
    pub(super) floor: u64,
    pub(super) sent_ns: u64,
}

/// Reports of a client to the checker.
#[derive(Debug)]
pub(super) enum Answered {
    Group {
        session: SessionId,
        group: u64,
        commands: Vec<Command>,
        outcomes: Vec<Outcome>,
        lsn: u64,
        floor: u64,
    },
    /// The fate of a group of an earlier holder of the session.
    Fate {
        session: SessionId,
        group: u64,
        outcomes: Option<Vec<Option<Outcome>>>,
        /// Those that are not executed will not be submitted again.
        is_given_up: bool,
    },
    Rows {
        lsn: u64,
        values: Vec<Option<Vec<u8>>>,
        floor: u64,
    },
}

/// One client.
pub(super) struct SimClient {
    pub(super) number: u64,
    accounts: u64,
    random: Random,
    table: Option<u32>,
    session: Option<SessionId>,
    /// The session to be resumed.
    resumes: Option<SessionId>,
    nonce: u128,
    fence: u64,
    /// Unanswered groups of the earlier holder, with the requests for their outcomes.
    journal: BTreeMap<u64, Vec<Command>>,
    /// Groups are acknowledged through this one at most.
    acknowledged_max: u64,
    /// The highest LSN that it has seen.
    seen: u64,
    /// It is dead, or its session was taken.
    is_gone: bool,
    /// Another one resumes its session, and may submit groups again that this one has given up.
    pub(super) has_successor: bool,
    /// The earlier holder had not resumed the session yet: if it does so later, it may submit the same
    /// groups again.
    shares_journal: bool,
    /// Its first group.
    first_group: u64,
    next_group: u64,
    next_read: u64,
    answered_through: u64,
    answered: Vec<u64>,
    /// By kind and number.
    pub(super) pending: BTreeMap<(u8, u64), Pending>,
    /// The node that it talks to.
    pub(super) node: usize,
    nodes: usize,
    /// Whether it creates the accounts.
    is_first: bool,
    has_opened: bool,
    /// It sends no new requests.
    pub(super) is_finishing: bool,
}

const SETUP: u8 = 0;
const GROUP: u8 = 1;
const READ: u8 = 2;
const FATE: u8 = 3;

impl SimClient {
    pub(super) fn new(number: u64, accounts: u64, nodes: usize, random: Random) -> Self {
        Self {
            number,
            accounts,
            random,
            table: None,
            session: None,
            resumes: None,
            nonce: u128::from(number) + 1,
            fence: 0,
            journal: BTreeMap::new(),
            acknowledged_max: u64::MAX,
            seen: 0,
            is_gone: false,
            has_successor: false,
            shares_journal: false,
            first_group: 1,
            next_group: 1,
            next_read: 1 << 40,
            answered_through: 0,
            answered: Vec::new(),
            pending: BTreeMap::new(),
            node: number as usize % nodes,
            nodes,
            is_first: number == 0,
            has_opened: false,
            is_finishing: false,
        }
    }

    /// Another process that resumes its session, perhaps while this one does so; `None` if there is one
    /// already: it may have acknowledged groups of this one that it does not know.
    pub(super) fn successor(&self, number: u64, random: Random) -> Option<Self> {
        let session = self.session.or(self.resumes);
        // Otherwise both would create the accounts.
        let has_begun = self.has_opened || !self.is_first;
        let session = session.filter(|_| has_begun && !self.is_gone && !self.has_successor)?;
        let new = Self::new(number, self.accounts, self.nodes, random);
        // What the other one had not finished is in its journal, too.
        let mut journal = self.journal.clone();
        for ((kind, number), pending) in &self.pending {
            if let (GROUP, Request::Submit { commands, .. }) = (*kind, &pending.request) {
                journal.insert(*number, commands.clone());
            }
        }
        Some(Self {
            table: self.table,
            resumes: Some(session),
            nonce: self.nonce,
            journal,
            shares_journal: self.resumes.is_some(),
            seen: self.seen,
            is_first: self.is_first,
            has_opened: self.has_opened,
            ..new
        })
    }

    /// It is dead, or was told that its session was taken.
    pub(super) fn end(&mut self) {
        self.is_gone = true;
        self.pending.clear();
    }

    /// Whether it has no request in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// The requests that it sends now.
    pub(super) fn act(&mut self, now_ns: u64, floor: u64) -> Vec<Request> {
        let mut sent = Vec::new();
        if self.is_gone {
            return sent;
        }
        // A request without an answer for a second goes to another node.
        let is_late = |it: &Pending| now_ns >= it.sent_ns + 1_000_000_000;
        if self.pending.values().any(is_late) {
            self.node = self.random.index(self.nodes);
            sent.extend(self.again(now_ns));
        }
        if self.is_finishing && self.resumes.is_none() && self.journal.is_empty() {
            return sent;
        }
        if let Some(session) = self.resumes {
            if self.pending.is_empty() {
                let resume = Request::ResumeSession {
                    session,
                    nonce: self.nonce,
                    attempt: u128::from(self.number) + 1,
                };
                self.send((SETUP, 2), resume, now_ns, floor, &mut sent);
            }
            return sent;
        }
        if let (Some(session), Some((group, _))) = (self.session, self.journal.first_key_value()) {
            let group = *group;
            if !self.pending.keys().any(|(kind, _)| *kind == FATE) {
                let request = self.next_read();
                let fate = Request::Outcomes {
                    request,
                    session,
                    fence: self.fence,
                    group,
                };
                self.send((FATE, request), fate, now_ns, floor, &mut sent);
            }
            if self.is_finishing {
                return sent;
            }
        }
        let (session, table) = match (self.session, self.table) {
            (Some(session), Some(table)) => (session, table),
            _ if self.pending.is_empty() => {
                let name = ACCOUNTS_TABLE.to_owned();
                let table = Request::CreateTable {
                    name,
                    eight_byte_keys: true,
                };
                let nonce = self.nonce;
                self.send((SETUP, 0), table, now_ns, floor, &mut sent);
                self.send(
                    (SETUP, 1),
                    Request::OpenSession { nonce },
                    now_ns,
                    floor,
                    &mut sent,
                );
                return sent;
            }
            _ => return sent,
        };
        if self.pending.len() >= 3 {
            return sent;
        }
        if self.is_first && !self.has_opened {
            self.has_opened = true;
            let open = (0..self.accounts).map(|account| {
                let value = OPENING_BALANCE.to_le_bytes().to_vec();
                let key = account.to_be_bytes().to_vec();
                Command::Write(Box::new(Write {
                    conditions: Vec::new(),
                    rows: vec![(table, key, Some(value))],
                }))
            });
            let open = open.collect();
            self.submit(session, open, now_ns, floor, &mut sent);
        } else if self.random.chance(0.55) {
            let (freshness, floor) = match self.random.below(11) {
                0 => (Freshness::Strong, floor),
                1 => (Freshness::AtLeast(self.seen), self.seen),
                2 => (Freshness::AtLeast(0), 0),
                _ => (Freshness::Leader, floor),
            };
            let request = self.next_read();
            let keys = (0..self.accounts).map(|it| (table, it.to_be_bytes().to_vec()));
            let read = Request::Read {
                request,
                freshness,
                keys: keys.collect(),
            };
            self.send((READ, request), read, now_ns, floor, &mut sent);
        } else {
            let count = 1 + self.random.below(8);
            let commands = (0..count).map(|_| {
                let from = self.random.below(self.accounts);
                Command::Transfer {
                    table,
                    from,
                    to: (from + 1 + self.random.below(self.accounts - 1)) % self.accounts,
                    amount: 1 + self.random.below(60),
                }
            });
            let commands = commands.collect();
            self.submit(session, commands, now_ns, floor, &mut sent);
        }
        sent
    }

    fn next_read(&mut self) -> u64 {
        self.next_read += 1;
        self.next_read
    }

    fn submit(
        &mut self,
        session: SessionId,
        commands: Vec<Command>,
        now_ns: u64,
        floor: u64,
        sent: &mut Vec<Request>,
    ) {
        let group = self.next_group;
        self.next_group += 1;
        let submit = Request::Submit {
            session,
            fence: self.fence,
            group,
            acknowledged_through: self.answered_through.min(self.acknowledged_max),
            commands,
        };
        self.send((GROUP, group), submit, now_ns, floor, sent);
    }

    fn send(
        &mut self,
        key: (u8, u64),
        request: Request,
        sent_ns: u64,
        floor: u64,
        sent: &mut Vec<Request>,
    ) {
        sent.push(request.clone());
        let pending = Pending {
            request,
            floor,
            sent_ns,
        };
        self.pending.insert(key, pending);
    }

    fn again(&mut self, now_ns: u64) -> Vec<Request> {
        let pending = self.pending.values_mut();
        let again = pending.map(|it| {
            it.sent_ns = now_ns;
            it.request.clone()
        });
        again.collect()
    }

    /// Acknowledges groups of the earlier holder, if the fate of each is known.
    fn know_earlier(&mut self) {
        let mut earlier = self.pending.range((GROUP, 0)..(GROUP, self.first_group));
        if self.journal.is_empty() && earlier.next().is_none() {
            self.acknowledged_max = u64::MAX;
        }
    }

    /// Handles a response. Returns the report, and the requests to send at once.
    pub(super) fn take(
        &mut self,
        response: Response,
        now_ns: u64,
    ) -> Result<(Option<Answered>, Vec<Request>), String> {
        if self.is_gone {
            return Ok((None, Vec::new()));
        }
        let mut sent = Vec::new();
        let answered = match response {
            Response::SessionOpened { session, .. } => {
                self.pending.remove(&(SETUP, 1));
                self.session = Some(session);
                self.fence = session.0;
                None
            }
            Response::SessionResumed {
                session,
                fence,
                first_group,
                acknowledged_through,
                ..
            } => {
                if self.pending.remove(&(SETUP, 2)).is_some() {
                    self.resumes = None;
                    self.session = Some(session);
                    self.fence = fence;
                    self.first_group = first_group;
                    self.next_group = first_group;
                    self.answered_through = first_group - 1;
                    self.acknowledged_max = acknowledged_through;
                    self.know_earlier();
                }
                None
            }
            Response::SessionTaken { .. } => {
                self.end();
                None
            }
            Response::GroupOutcomes { request, outcomes } => {
                match self.pending.remove(&(FATE, request)) {
                    Some(Pending {
                        request: Request::Outcomes { session, group, .. },
                        ..
                    }) => {
                        let commands = self.journal.remove(&group).unwrap_or_default();
                        let known = outcomes.iter().flatten();
                        let is_whole = known.clone().count() == commands.len()
                            && known.clone().all(Option::is_some);
                        // Without the accounts, a simulation has little to do.
                        let opens = matches!(commands[..], [Command::Write(_), ..]);
                        let is_again =
                            outcomes.is_some() && !is_whole && (opens || self.random.chance(0.5));
                        if is_again {
                            let submit = Request::Submit {
                                session,
                                fence: self.fence,
                                group,
                                acknowledged_through: self.acknowledged_max.min(group - 1),
                                commands,
                            };
                            // Some of its commands may have been executed long ago.
                            self.send((GROUP, group), submit, now_ns, 0, &mut sent);
                        }
                        self.know_earlier();
                        (!self.has_successor).then_some(Answered::Fate {
                            session,
                            group,
                            outcomes,
                            is_given_up: !is_again && !self.shares_journal,
                        })
                    }
                    _ => None,
                }
            }
            Response::Table { table, .. } => {
                self.pending.remove(&(SETUP, 0));
                self.table = Some(table);
                None
            }
            Response::Results {
                session,
                group,
                outcomes,
                lsn,
            } => match self.pending.remove(&(GROUP, group)) {
                Some(Pending {
                    request: Request::Submit { commands, .. },
                    floor,
                    ..
                }) => {
                    self.seen = self.seen.max(lsn);
                    self.answered.push(group);
                    self.know_earlier();
                    while let Some(at) =
                        (self.answered.iter()).position(|it| *it == self.answered_through + 1)
                    {
                        self.answered.swap_remove(at);
                        self.answered_through += 1;
                    }
                    Some(Answered::Group {
                        session,
                        group,
                        commands,
                        outcomes,
                        lsn,
                        floor,
                    })
                }
                _ => None,
            },
            Response::Rows {
                request,
                values,
                lsn,
            } => self.pending.remove(&(READ, request)).map(|pending| {
                self.seen = self.seen.max(lsn);
                Answered::Rows {
                    lsn,
                    values,
                    floor: pending.floor,
                }
            }),
            Response::Behind { request, .. } => {
                self.pending.remove(&(READ, request));
                None
            }
            // The table is not there yet.
            Response::Refused { request, .. }
                if (self.pending.get(&(READ, request))).is_some_and(|it| it.floor == 0) =>
            {
                self.pending.remove(&(READ, request));
                None
            }
            Response::NotLeader { request, .. } if self.pending.contains_key(&(READ, request)) => {
                self.pending.remove(&(READ, request));
                None
            }
            Response::NotLeader { leader, .. } => {
                // The world sends again later.
                if let Some((leader, _)) = leader {
                    self.node = leader as usize - 1;
                } else {
                    self.node = self.random.index(self.nodes);
                }
                for pending in self.pending.values_mut() {
                    pending.sent_ns = pending.sent_ns.min(now_ns.saturating_sub(900_000_000));
                }
                None
            }
            Response::OutcomeUnknown { group, .. } => {
                if let Some(pending) = self.pending.get_mut(&(GROUP, group)) {
                    pending.sent_ns = pending.sent_ns.min(now_ns.saturating_sub(900_000_000));
                }
                None
            }
            Response::Busy { .. } => None,
            // A late copy of a group that has been answered and acknowledged since.
            Response::Refused { request, .. }
                if [GROUP, READ]
                    .iter()
                    .all(|it| !self.pending.contains_key(&(*it, request))) =>
            {
                None
            }
            other => return Err(format!("client {} was told {other:?}", self.number)),
        };
        Ok((answered, sent))
    }
}
