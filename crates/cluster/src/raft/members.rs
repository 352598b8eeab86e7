//! The members, as the Raft of one node sees them: which exist, which respond, what was announced,
//! and which changes fit.

use std::collections::{BTreeMap, HashMap};

use namiki_client::protocol::{MemberChange, NodeAddresses};

use crate::membership::{MEMBERS_MAX, Membership, MembershipChange, is_address_pair};
use crate::network::NodeId;

/// The reason for which the members are not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChangeRefusal {
    /// The node does not exist.
    #[error("the cluster has no node {number}: `namiki cluster status` lists its members")]
    NoSuchNode {
        /// Its number.
        number: u64,
    },
    /// A node of this number is a member.
    #[error(
        "node {number} is a member already: choose another number, replace it if its directory is lost, or move it if it has other \
         addresses"
    )]
    IsMember {
        /// Its number.
        number: u64,
    },
    /// Numbers and incarnations that no node has.
    #[error("a node has a number and an incarnation from 1 to {}", NodeId::MAX)]
    NoNode,
    /// The addresses are none.
    #[error(
        "the addresses of node {number} are not valid: each is a host and a port, such as 10.0.0.1:7400"
    )]
    Addresses {
        /// Its number.
        number: u64,
    },
    /// Another member is there.
    #[error("{address} is an address of node {other}: give each node addresses of its own")]
    AddressTaken {
        /// The address.
        address: String,
        /// The other member.
        other: u64,
    },
    /// There are too many.
    #[error("the cluster has {MEMBERS_MAX} members, and cannot have more: remove one first")]
    Full,
    /// No voter would remain.
    #[error("node {number} is the only one that votes: add another one first")]
    LastVoter {
        /// Its number.
        number: u64,
    },
    /// Incarnations are consecutive.
    #[error(
        "the next directory of node {number} has incarnation {next}, not {asked}: make it with `namiki node init --{how}`"
    )]
    Incarnation {
        /// Its number.
        number: u64,
        /// The next incarnation.
        next: u64,
        /// The requested incarnation.
        asked: u64,
        /// The option that makes a directory.
        how: &'static str,
    },
    /// Another directory has the number.
    #[error(
        "node {number} runs as incarnation {current}, and {asked} was to be removed: another directory has its number since"
    )]
    OtherIncarnation {
        /// Its number.
        number: u64,
        /// The member's incarnation.
        current: u64,
        /// The requested incarnation.
        asked: u64,
    },
    /// It is the leader.
    #[error(
        "node {number} leads, so its directory is not lost: stop it first, and another node leads"
    )]
    Leads {
        /// Its number.
        number: u64,
    },
    /// The cluster would stop.
    #[error(
        "without node {number}, {needed} voters must run, and {running} answer: start those that are down, or wait until learners vote"
    )]
    TooFewRunning {
        /// Its number.
        number: u64,
        /// Number of voters that answer.
        running: usize,
        /// The majority that is needed.
        needed: usize,
    },
    /// Another change, or a change of the leader, is under way: the request may be repeated at
    /// once.
    #[error("another change is under way: ask again")]
    Busy,
}

/// The change of membership that a request wants, if it fits the members.
pub(super) fn change_for(
    wanted: &MemberChange,
    members: &Membership,
) -> Result<MembershipChange, ChangeRefusal> {
    let number = wanted.node();
    let node = |incarnation: u64| {
        let is_one =
            (1..=NodeId::MAX).contains(&number) && (1..=NodeId::MAX).contains(&incarnation);
        is_one
            .then(|| NodeId::new(number, incarnation))
            .ok_or(ChangeRefusal::NoNode)
    };
    let checked = |addresses: &NodeAddresses| {
        if !is_address_pair(addresses) {
            return Err(ChangeRefusal::Addresses { number });
        }
        let others = members.members().iter();
        for other in others.filter(|it| it.node.number() != number) {
            let taken = other.addresses.iter().flat_map(|it| [&it.peer, &it.client]);
            for address in taken {
                if [&addresses.peer, &addresses.client].contains(&address) {
                    let (address, other) = (address.clone(), other.node.number());
                    return Err(ChangeRefusal::AddressTaken { address, other });
                }
            }
        }
        Ok(addresses.clone())
    };
    let member = members.of_number(number).map(|it| it.node);
    let member_or = member.ok_or(ChangeRefusal::NoSuchNode { number });
    let change = match wanted {
        MemberChange::Replace { incarnation, .. } => {
            let (lost, replacement) = (member_or?, node(*incarnation)?);
            check_incarnation(replacement, lost.incarnation() + 1, "replacement")?;
            MembershipChange::Replace { lost, replacement }
        }
        MemberChange::Add {
            incarnation,
            addresses,
            ..
        } => {
            if member.is_some() {
                return Err(ChangeRefusal::IsMember { number });
            }
            let (node, addresses) = (node(*incarnation)?, checked(addresses)?);
            check_incarnation(node, members.next_incarnation(number), "join")?;
            MembershipChange::Add { node, addresses }
        }
        MemberChange::Remove { incarnation, .. } => {
            let (current, node) = (member_or?, node(*incarnation)?);
            if node != current {
                return Err(ChangeRefusal::OtherIncarnation {
                    number,
                    current: current.incarnation(),
                    asked: *incarnation,
                });
            }
            MembershipChange::Remove { node }
        }
        MemberChange::Move { addresses, .. } => {
            let moved = vec![(member_or?, checked(addresses)?)];
            MembershipChange::Move { moved }
        }
    };
    match &change {
        change if members.allows(change) => Ok(change.clone()),
        MembershipChange::Add { .. } => Err(ChangeRefusal::Full),
        _ => Err(ChangeRefusal::LastVoter { number }),
    }
}

fn check_incarnation(node: NodeId, next: u64, how: &'static str) -> Result<(), ChangeRefusal> {
    if node.incarnation() == next {
        return Ok(());
    }
    Err(ChangeRefusal::Incarnation {
        number: node.number(),
        next,
        asked: node.incarnation(),
        how,
    })
}

/// The members, as one node's Raft sees them.
pub(super) struct Members {
    node: NodeId,
    pub(super) current: Membership,
    /// The batch of stream 0 after which the current members are durable. `None`: that was
    /// reported.
    pub(super) durable_after: Option<u64>,
    /// The durable members.
    #[cfg(any(test, feature = "simulation"))]
    pub(super) durable: Membership,
    /// The entry of the last change that was handed out, or of the image.
    pub(super) changed_at: u64,
    /// A requested change that this node has proposed in its term.
    pub(super) proposed: Option<MembershipChange>,
    /// Addresses in this node's configuration, by number.
    pub(super) configured: BTreeMap<u64, NodeAddresses>,
    ticks: u64,
    /// Tick of the last message of each member.
    pub(super) heard: HashMap<NodeId, u64>,
}

impl Members {
    pub(super) fn new(
        node: NodeId,
        (current, changed_at): (Membership, u64),
        configured: BTreeMap<u64, NodeAddresses>,
    ) -> Self {
        Self {
            node,
            configured,
            #[cfg(any(test, feature = "simulation"))]
            durable: current.clone(),
            current,
            durable_after: Some(0),
            changed_at,
            proposed: None,
            ticks: 0,
            heard: HashMap::new(),
        }
    }

    /// Whether messages of a node are accepted. It may be a member that this node, which is behind,
    /// does not know yet: what it asks for is judged as Raft does, and what it answers counts only for members.
    pub(super) fn admits(&self, from: NodeId) -> bool {
        from.number() != self.node.number() && !self.current.has_gone(from)
    }

    /// All members but this node.
    pub(super) fn others(&self) -> impl Iterator<Item = NodeId> {
        self.current.nodes().filter(|it| *it != self.node)
    }

    pub(super) fn heard(&mut self, from: NodeId) {
        if self.current.has(from) {
            self.heard.insert(from, self.ticks);
        }
    }

    pub(super) fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Whether a node has sent a message within the last `ticks` ticks.
    pub(super) fn is_running(&self, node: NodeId, ticks: usize) -> bool {
        let heard = self.heard.get(&node);
        node == self.node || heard.is_some_and(|at| self.ticks - at <= ticks as u64)
    }
}
