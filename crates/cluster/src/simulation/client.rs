//! A client of the simulation: sends groups of transfers, and reads, until it is told to stop;
//! repeats unanswered requests.

use std::collections::BTreeMap;

use namiki_client::protocol::{Command, Outcome, Request, Response, SessionId, Write};
use namiki_platform::seeded_random::Random;

/// The table of accounts.
pub(super) const ACCOUNTS_TABLE: &str = "accounts";
/// Initial balance of every account.
pub(super) const OPENING_BALANCE: u64 = 100;

/// An unanswered request.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) request: Request,
    /// The LSN of the last command that any client knew to be done when this was first sent.
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
        floor: u64,
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

impl SimClient {
    pub(super) fn new(number: u64, accounts: u64, nodes: usize, random: Random) -> Self {
        Self {
            number,
            accounts,
            random,
            table: None,
            session: None,
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

    /// Whether it has no request in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// The requests that it sends now.
    pub(super) fn act(&mut self, now_ns: u64, floor: u64) -> Vec<Request> {
        let mut sent = Vec::new();
        // A request without an answer for a second goes to another node.
        let is_late = |it: &Pending| now_ns >= it.sent_ns + 1_000_000_000;
        if self.pending.values().any(is_late) {
            self.node = self.random.index(self.nodes);
            sent.extend(self.again(now_ns));
        }
        if self.is_finishing {
            return sent;
        }
        let (session, table) = match (self.session, self.table) {
            (Some(session), Some(table)) => (session, table),
            _ if self.pending.is_empty() => {
                let name = ACCOUNTS_TABLE.to_owned();
                let table = Request::CreateTable {
                    name,
                    eight_byte_keys: true,
                };
                let nonce = u128::from(self.number) + 1;
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
        } else if self.random.chance(0.4) {
            let request = self.next_read;
            self.next_read += 1;
            let keys = (0..self.accounts).map(|it| (table, it.to_be_bytes().to_vec()));
            let read = Request::Read {
                request,
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
            group,
            acknowledged_through: self.answered_through,
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

    /// Handles a response. Returns the report, and the requests to send at once.
    pub(super) fn take(
        &mut self,
        response: Response,
        now_ns: u64,
    ) -> Result<(Option<Answered>, Vec<Request>), String> {
        let answered = match response {
            Response::SessionOpened { session, .. } => {
                self.pending.remove(&(SETUP, 1));
                self.session = Some(session);
                None
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
            } => match self.pending.remove(&(GROUP, group)) {
                Some(Pending {
                    request: Request::Submit { commands, .. },
                    floor,
                    ..
                }) => {
                    self.answered.push(group);
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
                        floor,
                    })
                }
                _ => None,
            },
            Response::Rows {
                request,
                values,
                lsn,
            } => self
                .pending
                .remove(&(READ, request))
                .map(|pending| Answered::Rows {
                    lsn,
                    values,
                    floor: pending.floor,
                }),
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
            Response::Refused { request, .. } if !self.pending.contains_key(&(GROUP, request)) => {
                None
            }
            other => return Err(format!("client {} was told {other:?}", self.number)),
        };
        Ok((answered, Vec::new()))
    }
}
