//! A client of the simulation: sends groups of commands, reads, scans, and requests that drop and create tables, until it is
//! told to stop; repeats unanswered requests.
//!
//! A client that dies leaves a journal of its unanswered groups. Its successor resumes the session,
//! asks for their outcomes, and submits those that were not executed again, or gives them up: then
//! they must never be executed. Sometimes the client was not dead, and goes on until it is told that
//! its session was taken.

mod answers;

use std::collections::BTreeMap;

use namiki_client::protocol::{
    Command, Freshness, Outcome, Request, ScanRange, Scanned, SessionId, TableEntry,
};
use namiki_platform::seeded_random::Random;

use super::value_chain::RowValue;
use super::workload::{ACCOUNTS_TABLE, TABLES, Workload, has_eight_byte_keys};

/// What was known when a request was first sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floor {
    /// The last LSN that a client had seen, which the answer must have seen, too.
    pub(super) seen: u64,
    /// The last LSN by which a command or a request about a table was acknowledged. A follower may have applied more than the
    /// leader, and shows that a table is gone to which a command of the leader still finds its way.
    pub(super) acknowledged: u64,
}

/// An unanswered request.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) request: Request,
    pub(super) floor: Floor,
    pub(super) sent_ns: u64,
}

/// An answer, for the checker.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) floor: Floor,
    pub(super) answer: Answer,
}

/// Reports of a client to the checker.
#[derive(Debug)]
pub(super) enum Answer {
    Group {
        session: SessionId,
        group: u64,
        commands: Vec<Command>,
        outcomes: Vec<Outcome>,
        lsn: u64,
    },
    /// The fate of a group of an earlier holder of the session.
    Fate {
        session: SessionId,
        group: u64,
        outcomes: Option<Vec<Option<Outcome>>>,
        lsn: u64,
        /// Those that are not executed will not be submitted again.
        is_given_up: bool,
    },
    Rows {
        lsn: u64,
        rows: Vec<((u32, Vec<u8>), RowValue)>,
    },
    Scanned {
        range: ScanRange,
        scanned: Scanned,
    },
    Tables {
        lsn: u64,
        tables: Vec<TableEntry>,
    },
    Created {
        lsn: u64,
        name: String,
        table: u32,
    },
    Dropped {
        lsn: u64,
        table: u32,
        existed: bool,
        /// It was cleared, and this table is in its place.
        successor: Option<u32>,
    },
    /// One of these tables does not exist.
    NoSuchTable {
        tables: Vec<u32>,
    },
}

/// One client.
pub(super) struct SimClient {
    pub(super) number: u64,
    random: Random,
    workload: Workload,
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
/// By the place in [`TABLES`].
const TABLE: u8 = 4;
/// By the number of the table.
const DROP: u8 = 5;

impl SimClient {
    pub(super) fn new(number: u64, accounts: u64, nodes: usize, random: Random) -> Self {
        Self {
            number,
            workload: Workload::new(number, accounts),
            random,
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
        let session = session.filter(|_| !self.is_gone && !self.has_successor)?;
        let new = Self::new(number, 0, self.nodes, random);
        // What the other one had not finished is in its journal, too.
        let mut journal = self.journal.clone();
        for ((kind, number), pending) in &self.pending {
            if let (GROUP, Request::Submit { commands, .. }) = (*kind, &pending.request) {
                journal.insert(*number, commands.clone());
            }
        }
        Some(Self {
            workload: self.workload.of_successor(number),
            resumes: Some(session),
            nonce: self.nonce,
            journal,
            shares_journal: self.shares_journal || self.resumes.is_some(),
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
    pub(super) fn act(&mut self, now_ns: u64, floor: Floor) -> Vec<Request> {
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
        for (place, name) in TABLES.into_iter().enumerate() {
            let key = (TABLE, place as u64);
            if self.workload.number(name).is_none() && !self.pending.contains_key(&key) {
                let table = Request::CreateTable {
                    name: name.to_owned(),
                    eight_byte_keys: has_eight_byte_keys(name),
                };
                self.send(key, table, now_ns, floor, &mut sent);
            }
        }
        let Some(session) = self.session else {
            if !self.pending.contains_key(&(SETUP, 1)) {
                let nonce = self.nonce;
                let open = Request::OpenSession { nonce };
                self.send((SETUP, 1), open, now_ns, floor, &mut sent);
            }
            return sent;
        };
        let Some(accounts) = self.workload.number(ACCOUNTS_TABLE) else {
            return sent;
        };
        if self.pending.len() >= 3 {
            return sent;
        }
        if self.is_first && !self.has_opened {
            self.has_opened = true;
            let open = self.workload.open_accounts(accounts);
            self.submit(session, open, now_ns, floor, &mut sent);
        } else if self.random.chance(0.01) {
            let table = self.workload.any_item_table(&mut self.random);
            // An answer does not say which of two requests about one table it belongs to.
            let is_asked = |table: &u32| self.pending.contains_key(&(DROP, (*table).into()));
            if let Some(table) = table.filter(|it| !is_asked(it)) {
                // Both kinds, without a further draw.
                let drop = if table % 2 == 0 {
                    Request::ClearTable { table }
                } else {
                    Request::DropTable { table }
                };
                self.send((DROP, table.into()), drop, now_ns, floor, &mut sent);
            }
        } else if self.random.chance(0.5) {
            self.read(now_ns, floor, &mut sent);
        } else {
            let count = 1 + self.random.below(8);
            let commands = (0..count).map(|_| {
                let (workload, random) = (&mut self.workload, &mut self.random);
                let command = match random.below(20) {
                    0..=6 => workload.change_item(random),
                    7 | 8 => workload.transfer_items(random),
                    _ => None,
                };
                command.unwrap_or_else(|| workload.transfer(accounts, random))
            });
            let commands = commands.collect();
            self.submit(session, commands, now_ns, floor, &mut sent);
        }
        sent
    }

    /// Reads rows, a range, or the list of the tables.
    fn read(&mut self, now_ns: u64, floor: Floor, sent: &mut Vec<Request>) {
        let (freshness, floor) = match self.random.below(11) {
            0 => (Freshness::Strong, floor),
            1 => (
                Freshness::AtLeast(self.seen),
                Floor {
                    seen: self.seen,
                    ..floor
                },
            ),
            2 => (Freshness::AtLeast(0), Floor::default()),
            _ => (Freshness::Leader, floor),
        };
        let request = self.next_read();
        let range = self.workload.range(&mut self.random);
        let read = match (self.random.below(20), range) {
            (0, _) => Request::Tables { request, freshness },
            (1..=6, Some(range)) => Request::Scan {
                request,
                freshness,
                range,
            },
            _ => Request::Read {
                request,
                freshness,
                keys: self.workload.keys(&mut self.random),
            },
        };
        self.send((READ, request), read, now_ns, floor, sent);
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
        floor: Floor,
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
        floor: Floor,
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
}
