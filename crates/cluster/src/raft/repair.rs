//! Data that this node has lost (decision 0084): payloads of its log, or its tables.
//!
//! A node that lacks payloads of persisted entries does not participate, and fetches them from the others in turn. If none
//! comes, the others may have truncated them: it asks for an image, which is installed at another place. So does a node that was
//! to append an entry, if no node has the payload any more. A node without tables participates, but does not lead; it needs an image
//! in any case.

use std::collections::HashSet;

use super::driver::RaftDriver;
use super::events_and_effects::RaftEffect;
use super::held_appends::Payloads;
use super::lost_data::{FETCH_BYTES, FETCH_MAX, FETCH_TICKS, HELD_TIMEOUTS, Lacking};
use crate::entry::{EntryBody, PayloadRef};
use crate::fault_injection::Fault;
use crate::network::{NodeId, PeerMessage};

impl RaftDriver {
    /// Whether the node participates: nothing that it has acknowledged is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.lost.missing.is_empty()
    }

    /// Forgets the missing payloads that are durable now.
    pub(super) fn forget_restored(&mut self) {
        if self.is_whole() {
            return;
        }
        let here = &self.here;
        self.lost
            .missing
            .retain(|payload| !here.is_durable(payload));
        if self.is_whole() {
            self.effects.push(RaftEffect::PayloadsRestored);
        }
    }

    /// Asks the other nodes in turn for an image if data does not come for some time that this node has lost, or never
    /// had: they may have truncated it, or lost it, too.
    pub(super) fn ask_for_image(&mut self) {
        let lacking = Lacking {
            missing: self.lost.missing.len(),
            held_from: self.held.awaited_entry(),
        };
        let election_timeouts = match lacking {
            _ if self.lost.tables_lost => 1,
            Lacking { missing: 1.., .. } => 2,
            // All nodes were asked for it again and again.
            Lacking {
                held_from: Some(_), ..
            } => HELD_TIMEOUTS,
            _ => {
                self.lost.ticks = 0;
                return;
            }
        };
        if lacking != self.lost.then {
            self.lost.ticks = 0;
        }
        self.lost.then = lacking;
        self.lost.ticks += 1;
        if self.lost.ticks < election_timeouts * self.election_ticks {
            return;
        }
        self.lost.ticks = (election_timeouts - 1) * self.election_ticks;
        let mut others: Vec<NodeId> = self.members.others().collect();
        if self.planted.has(Fault::ImagesFromLeaderOnly) {
            others.retain(|it| Some(*it) == self.leader());
        }
        if others.is_empty() {
            return;
        }
        let node = others[self.lost.asked % others.len()];
        self.lost.asked += 1;
        let through = lacking.held_from.unwrap_or(0).max(self.last_missing());
        self.effects.push(RaftEffect::AskForImage(node, through));
    }

    /// The last entry with a missing payload; 0: there is none.
    fn last_missing(&self) -> u64 {
        let missing: HashSet<&PayloadRef> = self.lost.missing.iter().collect();
        let log = self.raft.store();
        let is_missing = |index: &u64| match log.get(*index).map(|entry| entry.body) {
            Some(EntryBody::Group(payload)) => missing.contains(&payload),
            _ => false,
        };
        let last = (log.first()..=log.last()).rev().find(is_missing);
        last.unwrap_or(0)
    }

    /// Fetches missing payloads: from the leader first, then from the others in turn.
    pub(super) fn fetch_missing(&mut self) {
        let missing: Vec<PayloadRef> = if !self.is_whole() {
            let missing = self.lost.missing.iter().filter(|it| !self.here.has(it));
            missing.take(FETCH_MAX).copied().collect()
        } else if self.held.is_empty() {
            return;
        } else {
            (self.held).missing(FETCH_MAX, FETCH_TICKS, &self.here)
        };
        let leader = self.leader();
        let mut others: Vec<NodeId> = self.members.others().collect();
        if let Some(leader) = leader
            && leader != self.node
            && !others.contains(&leader)
        {
            // It has become a member by an entry that has not arrived here yet.
            others.push(leader);
        }
        if missing.is_empty() || others.is_empty() {
            return;
        }
        self.ticks_since_fetch = 0;
        let at = match others.iter().position(|it| Some(*it) == leader) {
            Some(at) if self.fetches.is_multiple_of(2) => at,
            _ => self.fetches / 2 % others.len(),
        };
        // After a complete answer, the same node is asked again.
        self.fetches += usize::from(!self.fetching.is_empty());
        let mut bytes = 0;
        let payloads = missing.into_iter().take_while(|payload| {
            let is_first = bytes == 0;
            bytes += payload.length as usize;
            is_first || bytes <= FETCH_BYTES
        });
        let payloads: Vec<_> = payloads.collect();
        self.fetching = payloads.iter().map(|payload| payload.name).collect();
        let message = PeerMessage::FetchPayloads { payloads };
        self.effects.push(RaftEffect::Send(others[at], message));
    }
}
