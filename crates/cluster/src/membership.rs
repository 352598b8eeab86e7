//! The members of the cluster, and how they change.
//!
//! The configuration fixes the number of nodes, numbered from 1. Only the directory behind a number
//! changes. A change takes two entries of the log, each of which changes at most one voter, so that
//! majorities before and after it overlap:
//!
//! ```text
//! voters 1 2 3 ── Replace 3 ──> voters 1 2, learner 3 (incarnation 2) ── Promote ──> voters 1 2 3 (incarnation 2)
//! ```
//! A learner gets the log and does not count. The leader promotes it when it has caught up.
//!
//! # Invariants
//! - B1. The membership is a function of the applied entries. An entry that does not fit has no
//!   effect on any node.
//! - B2. Every number has one member at any time; its incarnation never falls.
//! - B3. One voter remains.
//!
//! Changing one server at a time is from Ongaro's dissertation on Raft (2014, §4.1).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::network::NodeId;

/// A change of membership, the content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MembershipChange {
    /// A node has lost its directory: from now on its replacement has the number, and does not vote
    /// yet.
    Replace {
        /// The lost incarnation.
        lost: NodeId,
        /// Its next incarnation.
        replacement: NodeId,
    },
    /// A learner has caught up, and votes from now on.
    Promote {
        /// The learner.
        node: NodeId,
    },
}

impl MembershipChange {
    pub(crate) fn encode(&self) -> Bytes {
        postcard::to_stdvec(self)
            .expect("a change has no type that cannot be encoded")
            .into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes(bytes) {
            Ok((change, [])) => Some(change),
            _ => None,
        }
    }
}

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) node: NodeId,
    /// Otherwise it is a learner.
    pub(crate) votes: bool,
}

/// The members, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    members: Vec<Member>,
}

impl Membership {
    /// The membership of a new cluster.
    pub(crate) fn new(voters: &[NodeId]) -> Self {
        let voters = voters.iter().map(|node| Member {
            node: *node,
            votes: true,
        });
        let mut members: Vec<_> = voters.collect();
        members.sort_unstable_by_key(|it| it.node.number());
        Self { members }
    }

    /// Its bytes, for a snapshot.
    pub(crate) fn encode(&self) -> Bytes {
        postcard::to_stdvec(self)
            .expect("a membership has no type that cannot be encoded")
            .into()
    }

    /// The membership of a snapshot; `None` if the bytes are not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes::<Self>(bytes) {
            Ok((membership, [])) if membership.voters().next().is_some() => Some(membership),
            _ => None,
        }
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.members.iter().map(|it| it.node)
    }

    pub(crate) fn voters(&self) -> impl Iterator<Item = NodeId> {
        let voters = self.members.iter().filter(|it| it.votes);
        voters.map(|it| it.node)
    }

    /// The member of this number.
    pub(crate) fn of_number(&self, number: u64) -> Option<Member> {
        let mut members = self.members.iter();
        members.find(|it| it.node.number() == number).copied()
    }

    /// Whether messages of a node are accepted: it is a member, or a later incarnation of one. A
    /// node that is behind knows members by earlier incarnations.
    pub(crate) fn admits(&self, node: NodeId) -> bool {
        let member = self.of_number(node.number());
        member.is_some_and(|it| it.node.incarnation() <= node.incarnation())
    }

    /// Whether a change fits.
    pub(crate) fn allows(&self, change: &MembershipChange) -> bool {
        match change {
            MembershipChange::Replace { lost, replacement } => {
                let is_member = self.nodes().any(|it| it == *lost);
                let is_next = replacement.number() == lost.number()
                    && replacement.incarnation() == lost.incarnation() + 1;
                is_member && is_next && self.voters().any(|it| it != *lost)
            }
            MembershipChange::Promote { node } => {
                let learner = Member {
                    node: *node,
                    votes: false,
                };
                self.members.contains(&learner)
            }
        }
    }

    /// Applies a change that fits.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn apply(&mut self, change: &MembershipChange) {
        assert!(self.allows(change), "{change:?} fits {self:?}");
        let (before, after) = match change {
            MembershipChange::Replace { lost, replacement } => (*lost, (*replacement, false)),
            MembershipChange::Promote { node } => (*node, (*node, true)),
        };
        for member in &mut self.members {
            if member.node == before {
                (member.node, member.votes) = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership() -> Membership {
        Membership::new(&[NodeId::first(2), NodeId::first(1), NodeId::first(3)])
    }

    fn replace(number: u64, incarnation: u64) -> MembershipChange {
        MembershipChange::Replace {
            lost: NodeId::new(number, incarnation),
            replacement: NodeId::new(number, incarnation + 1),
        }
    }

    #[test]
    fn a_replacement_votes_once_it_is_promoted() {
        let mut it = membership();
        let node = NodeId::new(3, 2);
        let promote = MembershipChange::Promote { node };
        assert!(!it.allows(&promote));
        it.apply(&replace(3, 1));
        assert_eq!(it.voters().count(), 2);
        assert_eq!(it.of_number(3), Some(Member { node, votes: false }));
        it.apply(&promote);
        assert_eq!(it.of_number(3), Some(Member { node, votes: true }));
        assert!(!it.allows(&promote));
    }

    #[test]
    fn superseded_nodes_have_no_say() {
        let mut it = membership();
        assert!(it.admits(NodeId::first(3)) && it.admits(NodeId::new(3, 2)));
        it.apply(&replace(3, 1));
        assert!(!it.admits(NodeId::first(3)) && it.admits(NodeId::new(3, 2)));
        assert!(!it.admits(NodeId::first(4)));
    }

    #[test]
    fn changes_that_do_not_fit_are_told_apart() {
        let it = membership();
        assert!(it.allows(&replace(1, 1)));
        assert!(!it.allows(&replace(4, 1)), "no such number");
        assert!(!it.allows(&replace(1, 2)), "not the member");
        let skipping = MembershipChange::Replace {
            lost: NodeId::first(1),
            replacement: NodeId::new(1, 3),
        };
        assert!(!it.allows(&skipping));
        let other_number = MembershipChange::Replace {
            lost: NodeId::first(1),
            replacement: NodeId::new(2, 2),
        };
        assert!(!it.allows(&other_number));
        let alone = Membership::new(&[NodeId::first(1)]);
        assert!(!alone.allows(&replace(1, 1)), "no voter would remain");
    }

    #[test]
    fn a_membership_comes_back_and_one_without_voters_does_not() {
        let mut it = membership();
        it.apply(&replace(3, 1));
        assert_eq!(Membership::decode(&it.encode()), Some(it));
        assert_eq!(Membership::decode(&Membership::default().encode()), None);
        assert_eq!(Membership::decode(b"\x07"), None);
    }

    #[test]
    fn a_change_comes_back_from_its_bytes_and_no_others() {
        let change = replace(3, 7);
        let bytes = change.encode();
        assert_eq!(MembershipChange::decode(&bytes), Some(change));
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(MembershipChange::decode(&longer), None);
        assert_eq!(MembershipChange::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(MembershipChange::decode(b"\x07"), None);
    }
}
