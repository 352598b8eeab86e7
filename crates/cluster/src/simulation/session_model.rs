//! The sessions as the log says: which entries open one within its limits, and which close one.
//!
//! The model counts the sessions of each client anew for each entry, and shares no code with the nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use namiki_client::protocol::{SessionId, SessionLimit};

use crate::control::{Control, SessionLimits};
use crate::network::ClientName;
use crate::session::{ATTEMPTS_KEPT, SessionTable};

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenSession {
    client: ClientName,
    nonce: u128,
    fence: u64,
    /// The attempt that has resumed it last.
    attempt: u128,
    /// The attempts before it that the session remembers.
    earlier: Vec<u128>,
}

type OpenSessions = BTreeMap<SessionId, OpenSession>;

/// All sessions.
#[derive(Default)]
pub(super) struct SessionModel {
    /// The open ones, by the entry that has changed them.
    versions: BTreeMap<u64, OpenSessions>,
    /// Those that were ever opened, with their entries.
    opened: HashMap<u128, SessionId>,
    /// The entries that have closed one.
    closed: HashMap<SessionId, u64>,
    /// Nonces that were refused, and will not be sent again.
    refused: HashSet<u128>,
    /// The last entry by which a session was opened or closed that a client was told of.
    pub(super) told: u64,
}

/// What a client was told.
#[derive(Debug)]
pub(super) enum SessionAnswer {
    Opened {
        nonce: u128,
        session: SessionId,
    },
    Refused {
        client: ClientName,
        nonce: u128,
        limit: SessionLimit,
        /// The last entry that clients were told of when the request was first sent.
        told: u64,
        /// No request with this nonce is on its way.
        is_final: bool,
    },
    Closed {
        session: SessionId,
    },
}

impl SessionModel {
    /// The open sessions after an entry.
    fn at(&self, lsn: u64) -> OpenSessions {
        let version = self.versions.range(..=lsn).next_back();
        version.map(|(_, open)| open.clone()).unwrap_or_default()
    }

    /// Applies an entry.
    pub(super) fn control(&mut self, lsn: u64, control: &Control) -> Result<(), String> {
        let mut open = self.at(lsn);
        match control {
            Control::OpenSession {
                nonce,
                client,
                limits,
            } => {
                let is_known = open.values().any(|it| it.nonce == *nonce);
                if is_known || reached(&open, client, *limits).is_some() {
                    return Ok(());
                }
                if self.refused.contains(nonce) {
                    return Err(format!(
                        "entry {lsn} opens a session of {client}, which was refused"
                    ));
                }
                let session = OpenSession {
                    client: client.clone(),
                    nonce: *nonce,
                    fence: lsn,
                    attempt: 0,
                    earlier: Vec::new(),
                };
                open.insert(SessionId(lsn), session);
                self.opened.insert(*nonce, SessionId(lsn));
            }
            Control::CloseSession { session, fence } => {
                if open.get(session).is_none_or(|it| it.fence != *fence) {
                    return Ok(());
                }
                open.remove(session);
                self.closed.insert(*session, lsn);
            }
            Control::ResumeSession {
                session,
                nonce,
                attempt,
            } => match open.get_mut(session).filter(|it| it.nonce == *nonce) {
                Some(it)
                    if !it.earlier.contains(attempt)
                        && (it.fence == session.0 || it.attempt != *attempt) =>
                {
                    if it.fence != session.0 {
                        it.earlier.push(it.attempt);
                    }
                    if it.earlier.len() > ATTEMPTS_KEPT {
                        it.earlier.remove(0);
                    }
                    (it.fence, it.attempt) = (lsn, *attempt);
                }
                _ => return Ok(()),
            },
            _ => return Ok(()),
        }
        self.versions.insert(lsn, open);
        Ok(())
    }

    /// Checks the sessions of a node that has applied `applied` entries, and its count for each client.
    pub(super) fn check(&self, applied: u64, table: &SessionTable) -> Result<(), String> {
        let open = self.at(applied);
        let expected: BTreeSet<SessionId> = open.keys().copied().collect();
        let found: BTreeSet<SessionId> = table.ids().collect();
        if found != expected {
            return Err(format!(
                "the sessions {found:?} after entry {applied}, not {expected:?}"
            ));
        }
        let mut counts: BTreeMap<&ClientName, u32> = BTreeMap::new();
        for session in open.values() {
            *counts.entry(&session.client).or_default() += 1;
        }
        let counted: BTreeMap<_, _> = table.of_clients().collect();
        if counted != counts {
            return Err(format!(
                "counted {counted:?} sessions after entry {applied}, not {counts:?}"
            ));
        }
        Ok(())
    }

    /// Checks an answer to a client.
    pub(super) fn answered(
        &mut self,
        answer: &SessionAnswer,
        limits: SessionLimits,
    ) -> Result<(), String> {
        match answer {
            SessionAnswer::Opened { nonce, session } => {
                if self.opened.get(nonce) != Some(session) {
                    return Err(format!("{session:?} was acknowledged and is not opened"));
                }
                self.told = self.told.max(session.0);
            }
            SessionAnswer::Closed { session } => {
                let closed = self.closed.get(session);
                let closed = closed.ok_or_else(|| format!("{session:?} is not closed"))?;
                self.told = self.told.max(*closed);
            }
            SessionAnswer::Refused {
                client,
                nonce,
                limit,
                told,
                is_final,
            } => {
                let later = self.versions.range(told + 1..);
                let first = self.at(*told);
                let mut versions = std::iter::once(&first).chain(later.map(|(_, open)| open));
                if !versions.any(|open| reached(open, client, limits) == Some(*limit)) {
                    return Err(format!(
                        "{client} was refused a session ({limit}), begun after entry {told}: there was room since"
                    ));
                }
                if *is_final {
                    if let Some(session) = self.opened.get(nonce) {
                        return Err(format!("{session:?} was refused, and is open"));
                    }
                    self.refused.insert(*nonce);
                }
            }
        }
        Ok(())
    }
}

/// The limit that leaves no room for a session of this client.
fn reached(
    open: &OpenSessions,
    client: &ClientName,
    limits: SessionLimits,
) -> Option<SessionLimit> {
    let own = open.values().filter(|it| it.client == *client).count();
    let all = open.len();
    if own >= limits.client as usize {
        Some(SessionLimit::Client(own as u64))
    } else if all >= limits.all as usize {
        Some(SessionLimit::Cluster(all as u64))
    } else {
        None
    }
}
