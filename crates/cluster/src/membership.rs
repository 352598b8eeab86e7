//! The members of the cluster, and how they change.
//!
//! Each change takes an entry of the log that changes at most one voter, so that majorities before and after it overlap:
//!
//! ```text
//! voters 1 2 3 ── Add 4 ─────> voters 1 2 3, learner 4 ──────────────── Promote ──> voters 1 2 3 4
//!              ── Remove 3 ──> voters 1 2
//!              ── Replace 3 ─> voters 1 2, learner 3 (incarnation 2) ── Promote ──> voters 1 2 3 (incarnation 2)
//! ```
//! A learner gets the log and does not count. The leader promotes it when it has caught up. When all voters know that a voter
//! was removed, the leader adds `Settle`: until then a node that starts asks those that voted before, too (`raft/start_inquiry/mod.rs`).
//!
//! # Invariants
//! - B1. The membership is a function of the applied entries. An entry that does not fit has no
//!   effect on any node.
//! - B2. A number has one member at any time, and the incarnations of its members ascend: a removed one is remembered.
//! - B3. One voter remains.
//!
//! Changing one server at a time is from Ongaro's dissertation on Raft (2014, §4.1).

use bytes::Bytes;
use namiki_client::protocol::{MemberChange, NodeAddresses};
use serde::{Deserialize, Serialize};

use crate::entry::{EntryBody, LogEntry};
use crate::node_id::NodeId;

/// The most members.
pub(crate) const MEMBERS_MAX: usize = 32;
/// The most numbers of former members.
const REMOVED_MAX: usize = 4096;
/// The longest address: a host name, and a port.
const ADDRESS_BYTES_MAX: usize = 253 + 6;

/// A change of membership, the content of an entry.
///
/// The order of the variants is their encoding: new ones come last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A node has a number that no member has. It does not vote yet.
    Add {
        /// The node.
        node: NodeId,
        /// Where it is reached.
        addresses: NodeAddresses,
    },
    /// A node is no longer a member.
    Remove {
        /// The node.
        node: NodeId,
    },
    /// Members have these addresses.
    Move {
        /// At least one.
        moved: Vec<(NodeId, NodeAddresses)>,
    },
    /// All voters know the change before: a voter that it has removed counts nothing any more.
    Settle,
}

impl MembershipChange {
    pub(crate) fn encode(&self) -> Bytes {
        postcard::to_stdvec(self)
            .expect("a change has no type that cannot be encoded")
            .into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes::<Self>(bytes) {
            Ok((change, [])) if change.is_bounded() => Some(change),
            _ => None,
        }
    }

    /// The change that an entry makes.
    pub(crate) fn of(entry: &LogEntry) -> Option<Self> {
        match &entry.body {
            EntryBody::Membership(bytes) => Self::decode(bytes),
            _ => None,
        }
    }

    fn is_bounded(&self) -> bool {
        match self {
            Self::Add { node, addresses } => node.number() > 0 && is_address_pair(addresses),
            Self::Move { moved } => {
                (1..=MEMBERS_MAX).contains(&moved.len())
                    && moved
                        .iter()
                        .all(|(_, addresses)| is_address_pair(addresses))
            }
            Self::Replace { .. } | Self::Promote { .. } | Self::Remove { .. } | Self::Settle => {
                true
            }
        }
    }
}

/// Whether both are a host and a port.
pub(crate) fn is_address_pair(addresses: &NodeAddresses) -> bool {
    is_address(&addresses.peer) && is_address(&addresses.client)
}

/// Whether a text is a host and a port.
pub(crate) fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once(':');
    text.len() <= ADDRESS_BYTES_MAX
        && parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// The node.
    pub(crate) node: NodeId,
    /// Otherwise it is a learner.
    pub(crate) votes: bool,
    /// Where it is reached; `None`: the log does not say.
    pub(crate) addresses: Option<NodeAddresses>,
}

/// The members, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    members: Vec<Member>,
    /// Of each number that a member had and none has: the last one.
    removed: Vec<NodeId>,
    /// Changes that have led to these members.
    changes: u64,
    /// The voters before the last of them.
    voters_before: Vec<NodeId>,
}

impl Membership {
    /// The membership of a new cluster.
    #[must_use]
    pub fn new(voters: &[NodeId]) -> Self {
        let voters = voters.iter().map(|node| Member {
            node: *node,
            votes: true,
            addresses: None,
        });
        let mut members: Vec<_> = voters.collect();
        members.sort_unstable_by_key(|it| it.node.number());
        Self {
            voters_before: members.iter().map(|it| it.node).collect(),
            members,
            ..Self::default()
        }
    }

    /// Whether a node has no other to ask: it is alone after the committed entries of its log, and after all. `at_snapshot`: the bytes of the
    /// members there; empty: the founders.
    pub(crate) fn is_alone<'a>(
        (at_snapshot, founders): (&[u8], &[NodeId]),
        (commit, entries): (u64, impl IntoIterator<Item = &'a LogEntry>),
    ) -> bool {
        let at_snapshot = Self::decode(at_snapshot);
        let mut members = at_snapshot.unwrap_or_else(|| Self::new(founders));
        let mut most = members.members.len();
        for entry in entries {
            let Some(change) = MembershipChange::of(entry) else {
                continue;
            };
            if members.allows(&change) {
                members.apply(&change);
                let now = members.members.len();
                most = if entry.index <= commit {
                    now
                } else {
                    most.max(now)
                };
            }
        }
        most == 1
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
            Ok((membership, [])) if membership.is_sound() => Some(membership),
            _ => None,
        }
    }

    /// Whether it may come from another node: it has a voter, and its numbers ascend.
    pub(crate) fn is_sound(&self) -> bool {
        let numbers: Vec<u64> = self.nodes().map(NodeId::number).collect();
        let removed = self.removed.iter().map(|it| it.number());
        let mut all: Vec<u64> = numbers.iter().copied().chain(removed).collect();
        all.sort_unstable();
        let mut addresses = self.members.iter().filter_map(|it| it.addresses.as_ref());
        self.voters().next().is_some()
            && self.members.len() <= MEMBERS_MAX
            && self.voters_before.len() <= MEMBERS_MAX
            && self.removed.len() <= REMOVED_MAX
            && self.changes < u64::MAX / 2
            && all[0] > 0
            && all.windows(2).all(|pair| pair[0] < pair[1])
            && numbers.windows(2).all(|pair| pair[0] < pair[1])
            && addresses.all(is_address_pair)
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.members.iter().map(|it| it.node)
    }

    /// The last members of numbers that no member has.
    pub(crate) fn removed(&self) -> &[NodeId] {
        &self.removed
    }

    pub(crate) fn voters(&self) -> impl Iterator<Item = NodeId> {
        let voters = self.members.iter().filter(|it| it.votes);
        voters.map(|it| it.node)
    }

    /// The voters before the last change of the voters. A removed one may not know it yet, and count what others have sent it.
    pub(crate) fn voters_before(&self) -> &[NodeId] {
        &self.voters_before
    }

    /// Whether all voters before the last change are voters.
    pub(crate) fn is_settled(&self) -> bool {
        let votes = |node: &NodeId| self.voters().any(|it| it == *node);
        self.voters_before.iter().all(votes)
    }

    /// The member of this number.
    pub(crate) fn of_number(&self, number: u64) -> Option<&Member> {
        self.members.iter().find(|it| it.node.number() == number)
    }

    /// Whether a node is a member.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.nodes().any(|it| it == node)
    }

    /// Whether a node was removed, or a later one has its number.
    pub(crate) fn has_gone(&self, node: NodeId) -> bool {
        let same = |it: &NodeId| it.number() == node.number();
        let member = self.nodes().find(same);
        let removed = self.removed.iter().copied().find(same);
        member.is_some_and(|it| it.incarnation() > node.incarnation())
            || removed.is_some_and(|it| it.incarnation() >= node.incarnation())
    }

    /// Changes that have led to these members. Of two memberships of a cluster, the one with more is the later one.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a change is made.
    pub(crate) fn fulfils(&self, change: &MemberChange) -> bool {
        let member = self.of_number(change.node());
        let is = |incarnation: u64| member.is_some_and(|it| it.node.incarnation() == incarnation);
        match change {
            MemberChange::Replace { incarnation, .. } => is(*incarnation),
            MemberChange::Add {
                incarnation,
                addresses,
                ..
            } => {
                is(*incarnation)
                    && member.is_some_and(|it| it.addresses.as_ref() == Some(addresses))
            }
            MemberChange::Remove { node, incarnation } => {
                let mut removed = self.removed.iter();
                member.is_none()
                    && removed.any(|it| it.number() == *node && it.incarnation() == *incarnation)
            }
            MemberChange::Move { addresses, .. } => {
                member.is_some_and(|it| it.addresses.as_ref() == Some(addresses))
            }
        }
    }

    /// The incarnation of the next member of a number that no member has.
    pub(crate) fn next_incarnation(&self, number: u64) -> u64 {
        let mut removed = self.removed.iter();
        let removed = removed.find(|it| it.number() == number);
        removed.map_or(1, |it| it.incarnation() + 1)
    }

    /// Whether a change fits.
    pub(crate) fn allows(&self, change: &MembershipChange) -> bool {
        match change {
            MembershipChange::Replace { lost, replacement } => {
                let is_next = replacement.number() == lost.number()
                    && replacement.incarnation() == lost.incarnation() + 1;
                self.has(*lost) && is_next && self.voters().any(|it| it != *lost)
            }
            MembershipChange::Promote { node } => {
                (self.members.iter()).any(|it| it.node == *node && !it.votes)
            }
            MembershipChange::Add { node, .. } => {
                self.of_number(node.number()).is_none()
                    && node.incarnation() == self.next_incarnation(node.number())
                    && self.members.len() < MEMBERS_MAX
            }
            MembershipChange::Remove { node } => {
                self.has(*node)
                    && self.voters().any(|it| it != *node)
                    && self.removed.len() < REMOVED_MAX
            }
            MembershipChange::Move { moved } => moved.iter().all(|(node, _)| self.has(*node)),
            MembershipChange::Settle => !self.is_settled(),
        }
    }

    /// Applies a change that fits.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn apply(&mut self, change: &MembershipChange) {
        assert!(self.allows(change), "{change:?} fits {self:?}");
        self.changes += 1;
        let before: Vec<NodeId> = self.voters().collect();
        match change {
            MembershipChange::Replace { lost, replacement } => {
                let member = self.member_mut(*lost);
                (member.node, member.votes) = (*replacement, false);
            }
            MembershipChange::Promote { node } => self.member_mut(*node).votes = true,
            MembershipChange::Add { node, addresses } => {
                self.removed.retain(|it| it.number() != node.number());
                let place = (self.members).partition_point(|it| it.node.number() < node.number());
                let member = Member {
                    node: *node,
                    votes: false,
                    addresses: Some(addresses.clone()),
                };
                self.members.insert(place, member);
            }
            MembershipChange::Remove { node } => {
                self.members.retain(|it| it.node != *node);
                self.removed.push(*node);
            }
            MembershipChange::Move { moved } => {
                for (node, addresses) in moved {
                    self.member_mut(*node).addresses = Some(addresses.clone());
                }
            }
            MembershipChange::Settle => {}
        }
        // A change that leaves the voters settles nothing.
        if *change == MembershipChange::Settle || !self.voters().eq(before.iter().copied()) {
            self.voters_before = before;
        }
    }

    fn member_mut(&mut self, node: NodeId) -> &mut Member {
        let mut members = self.members.iter_mut();
        let member = members.find(|it| it.node == node);
        member.expect("a change that fits names members")
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

    fn addresses(number: u64) -> NodeAddresses {
        NodeAddresses {
            peer: format!("10.0.0.{number}:7400"),
            client: format!("10.0.0.{number}:7500"),
        }
    }

    fn add(number: u64, incarnation: u64) -> MembershipChange {
        MembershipChange::Add {
            node: NodeId::new(number, incarnation),
            addresses: addresses(number),
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
        assert!(it.has(node) && !it.has(NodeId::first(3)));
        it.apply(&promote);
        assert_eq!(it.voters().count(), 3);
        assert!(!it.allows(&promote));
        assert_eq!(it.changes(), 2);
    }

    #[test]
    fn an_added_node_votes_once_it_is_promoted() {
        let mut it = membership();
        assert!(!it.allows(&add(3, 1)) && !it.allows(&add(4, 2)));
        it.apply(&add(4, 1));
        assert_eq!((it.voters().count(), it.members().len()), (3, 4));
        let node = NodeId::first(4);
        it.apply(&MembershipChange::Promote { node });
        assert_eq!(it.voters().count(), 4);
        assert_eq!(it.members()[3].addresses, Some(addresses(4)));
    }

    #[test]
    fn a_removed_number_returns_as_its_next_incarnation_alone() {
        let mut it = membership();
        let node = NodeId::first(2);
        let wanted = MemberChange::Remove {
            node: 2,
            incarnation: 1,
        };
        assert!(!it.fulfils(&wanted));
        it.apply(&MembershipChange::Remove { node });
        assert!(it.fulfils(&wanted) && it.has_gone(node));
        assert!(!it.allows(&MembershipChange::Remove { node }));
        assert!(!it.allows(&add(2, 1)));
        it.apply(&add(2, 2));
        assert!(it.has_gone(node) && !it.has_gone(NodeId::new(2, 2)));
        assert!(it.removed().is_empty());
        let numbers: Vec<u64> = it.nodes().map(NodeId::number).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn removed_and_replaced_nodes_are_gone() {
        let mut it = membership();
        assert!(!it.has_gone(NodeId::first(3)) && !it.has_gone(NodeId::new(3, 2)));
        it.apply(&replace(3, 1));
        assert!(it.has_gone(NodeId::first(3)) && !it.has_gone(NodeId::new(3, 2)));
        // Another node may have learned of it before.
        assert!(!it.has_gone(NodeId::first(4)));
    }

    #[test]
    fn addresses_move_with_the_log() {
        let mut it = membership();
        let moved = vec![(NodeId::first(1), addresses(7))];
        it.apply(&MembershipChange::Move { moved });
        assert!(it.fulfils(&MemberChange::Move {
            node: 1,
            addresses: addresses(7)
        }));
        assert_eq!(it.voters().count(), 3);
        let moved = vec![(NodeId::first(9), addresses(9))];
        assert!(!it.allows(&MembershipChange::Move { moved }));
    }

    #[test]
    fn a_removal_is_settled_and_a_promotion_need_not_be() {
        let mut it = membership();
        let node = NodeId::first(4);
        assert!(it.is_settled() && !it.allows(&MembershipChange::Settle));
        it.apply(&add(4, 1));
        it.apply(&MembershipChange::Promote { node });
        assert_eq!((it.is_settled(), it.voters_before().len()), (true, 3));
        it.apply(&MembershipChange::Remove { node });
        assert_eq!((it.is_settled(), it.voters_before().len()), (false, 4));
        let moved = vec![(NodeId::first(1), addresses(1))];
        it.apply(&MembershipChange::Move { moved });
        assert!(!it.is_settled());
        it.apply(&MembershipChange::Settle);
        assert_eq!((it.is_settled(), it.voters_before().len()), (true, 3));
        it.apply(&replace(3, 1));
        assert!(!it.is_settled());
    }

    #[test]
    fn a_node_is_alone_once_a_removal_is_committed() {
        let founders = [1, 2].map(NodeId::first);
        let change = MembershipChange::Remove {
            node: NodeId::first(2),
        };
        let removal = LogEntry {
            index: 7,
            term: 1,
            body: EntryBody::Membership(change.encode()),
        };
        let is_alone = |founders: &[NodeId], commit| {
            Membership::is_alone((&[], founders), (commit, [&removal]))
        };
        assert!(is_alone(&founders, 7) && !is_alone(&founders, 6));
        assert!(is_alone(&founders[..1], 0));
        let image = Membership::new(&founders).encode();
        assert!(!Membership::is_alone((&image, &founders[..1]), (0, [])));
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
        let node = NodeId::first(1);
        assert!(!alone.allows(&MembershipChange::Remove { node }));
        let mut full = alone;
        for number in 2..=MEMBERS_MAX as u64 {
            full.apply(&add(number, 1));
        }
        assert!(!full.allows(&add(MEMBERS_MAX as u64 + 1, 1)));
    }

    #[test]
    fn a_membership_comes_back_and_senseless_ones_do_not() {
        let mut it = membership();
        it.apply(&replace(3, 1));
        it.apply(&add(4, 1));
        assert_eq!(Membership::decode(&it.encode()), Some(it.clone()));
        assert_eq!(Membership::decode(&Membership::default().encode()), None);
        assert_eq!(Membership::decode(b"\x07"), None);
        let mut twice = it.clone();
        twice.removed = vec![NodeId::first(1)];
        assert_eq!(Membership::decode(&twice.encode()), None);
        let none = Membership::new(&[NodeId::first(0), NodeId::first(1)]);
        assert_eq!(Membership::decode(&none.encode()), None);
        it.members.swap(0, 1);
        assert_eq!(Membership::decode(&it.encode()), None);
    }

    /// As `docs/on-disk-format.md` says.
    #[test]
    fn changes_have_these_bytes() {
        let node = NodeId::first(3);
        let at = NodeAddresses {
            peer: "a:1".to_owned(),
            client: "b:22".to_owned(),
        };
        let text = b"\x03a:1\x04b:22";
        for (change, bytes) in [
            (replace(3, 1), b"\x00\x03\x83\x80\x80\x80\x10".to_vec()),
            (MembershipChange::Promote { node }, vec![1, 3]),
            (
                MembershipChange::Add {
                    node,
                    addresses: at.clone(),
                },
                [&[2, 3], &text[..]].concat(),
            ),
            (MembershipChange::Remove { node }, vec![3, 3]),
            (
                MembershipChange::Move {
                    moved: vec![(node, at)],
                },
                [&[4, 1, 3], &text[..]].concat(),
            ),
            (MembershipChange::Settle, vec![5]),
        ] {
            assert_eq!(change.encode(), bytes, "{change:?}");
        }
    }

    #[test]
    fn a_change_comes_back_from_its_bytes_and_no_others() {
        for change in [replace(3, 7), add(4, 1)] {
            let bytes = change.encode();
            assert_eq!(MembershipChange::decode(&bytes), Some(change));
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(MembershipChange::decode(&longer), None);
            assert_eq!(MembershipChange::decode(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(MembershipChange::decode(b"\x07"), None);
        let empty = MembershipChange::Move { moved: Vec::new() };
        assert_eq!(MembershipChange::decode(&empty.encode()), None);
        let mut nowhere = add(4, 1);
        if let MembershipChange::Add { addresses, .. } = &mut nowhere {
            addresses.client = "x".to_owned();
        }
        assert_eq!(MembershipChange::decode(&nowhere.encode()), None);
    }
}
