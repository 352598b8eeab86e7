//! Clients that open sessions until none is opened any more, and close them again, in runs with small limits. They submit
//! nothing; each shares its name, and so a limit, with some of the other clients.

use std::collections::BTreeMap;

use namiki_client::protocol::{Request, Response, SessionId};
use namiki_platform::seeded_random::Random;

use super::session_model::SessionAnswer;
use crate::control::SessionLimits;
use crate::network::ClientName;

/// Number of users, each with a name.
pub(super) const USERS: usize = 3;
/// The users' connections have numbers from here on.
pub(super) const FIRST_USER: usize = 1 << 20;

/// The name of a client or user.
pub(super) fn client_name(client: usize) -> ClientName {
    let number = client % FIRST_USER % USERS;
    ClientName::of_address([10, 0, 0, number as u8 + 1].into())
}

/// Limits that the users reach, alone or together. All other clients find room as long as the users leave it.
pub(super) fn small_limits(clients: usize, random: &mut Random) -> SessionLimits {
    SessionLimits {
        all: clients as u32 + 2 + random.below(4) as u32,
        client: clients.div_ceil(USERS) as u32 + 1 + random.below(3) as u32,
    }
}

/// An unanswered request.
struct Waiting {
    request: Request,
    sent_ns: u64,
    /// The last entry that clients were told of when it was first sent.
    told: u64,
    /// Times that it was sent.
    copies: u32,
}

/// One user.
pub(super) struct SessionUser {
    number: usize,
    pub(super) random: Random,
    nonces: u128,
    /// By nonce, or by session.
    opening: BTreeMap<u128, Waiting>,
    closing: BTreeMap<SessionId, Waiting>,
    open: Vec<SessionId>,
    /// Number of sessions that it wants at the moment.
    wanted: usize,
    pub(super) node: usize,
    nodes: usize,
    /// It opens no more, and closes all.
    pub(super) is_finishing: bool,
}

impl SessionUser {
    pub(super) fn new(number: usize, nodes: usize, random: Random) -> Self {
        Self {
            number,
            random,
            nonces: (1 + number as u128) << 64,
            opening: BTreeMap::new(),
            closing: BTreeMap::new(),
            open: Vec::new(),
            wanted: 0,
            node: 0,
            nodes,
            is_finishing: false,
        }
    }

    /// Whether it has no session, and no request in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.opening.is_empty() && self.closing.is_empty() && self.open.is_empty()
    }

    /// The requests that it sends now.
    pub(super) fn act(&mut self, now_ns: u64, told: u64) -> Vec<Request> {
        let mut sent = Vec::new();
        let waiting = self.opening.values_mut().chain(self.closing.values_mut());
        for it in waiting.filter(|it| now_ns >= it.sent_ns + 1_000_000_000) {
            self.node = self.random.index(self.nodes);
            (it.sent_ns, it.copies) = (now_ns, it.copies + 1);
            sent.push(it.request.clone());
        }
        if self.random.chance(0.02) {
            self.wanted = self.random.index(8);
        }
        if self.is_finishing {
            self.wanted = 0;
        }
        let waiting = |request: &Request| Waiting {
            request: request.clone(),
            sent_ns: now_ns,
            told,
            copies: 1,
        };
        if self.open.len() > self.wanted && self.closing.is_empty() {
            let session = self.open[self.random.index(self.open.len())];
            let close = Request::CloseSession {
                session,
                fence: session.0,
            };
            self.closing.insert(session, waiting(&close));
            sent.push(close);
        } else if self.open.len() < self.wanted && self.opening.len() < 2 {
            self.nonces += 1;
            let open = Request::OpenSession { nonce: self.nonces };
            self.opening.insert(self.nonces, waiting(&open));
            sent.push(open);
        }
        sent
    }

    /// Handles a response.
    pub(super) fn take(&mut self, response: Response) -> Option<SessionAnswer> {
        match response {
            Response::SessionOpened { nonce, session } => {
                self.opening.remove(&nonce)?;
                self.open.push(session);
                Some(SessionAnswer::Opened { nonce, session })
            }
            Response::SessionsFull { nonce, limit } => {
                // A copy may still open it.
                let waiting = self.opening.get(&nonce)?;
                let (told, is_final) = (waiting.told, waiting.copies == 1);
                if is_final {
                    self.opening.remove(&nonce);
                }
                let client = client_name(self.number);
                Some(SessionAnswer::Refused {
                    client,
                    nonce,
                    limit,
                    told,
                    is_final,
                })
            }
            Response::SessionClosed { session } => {
                self.closing.remove(&session)?;
                self.open.retain(|it| *it != session);
                Some(SessionAnswer::Closed { session })
            }
            Response::NotLeader { leader, .. } => {
                self.node = match leader {
                    Some((leader, _)) => leader as usize - 1,
                    None => self.random.index(self.nodes),
                };
                let waiting = self.opening.values_mut().chain(self.closing.values_mut());
                for it in waiting {
                    it.sent_ns = it.sent_ns.saturating_sub(900_000_000);
                }
                None
            }
            _ => None,
        }
    }
}
