//! The status of a node.

use std::sync::atomic::Ordering;

use namiki_client::protocol::{MemberStatus, NodeStatus, Role};

use crate::network::NodeId;
use crate::office::Office;
use crate::shared::Shared;

/// The state of a node.
pub(crate) fn status(shared: &Shared, office: &Office) -> NodeStatus {
    let view = shared.view.lock();
    let membership = shared.membership();
    let members = membership.members().iter().map(|member| MemberStatus {
        node: member.node.number(),
        incarnation: member.node.incarnation(),
        votes: member.votes,
    });
    let in_office = office.term == Some(view.term);
    NodeStatus {
        node: shared.node.number(),
        incarnation: shared.node.incarnation(),
        members: members.collect(),
        role: match view.role {
            Role::TakingOffice if in_office => Role::Leader,
            role => role,
        },
        term: view.term,
        leader: view.leader.map(NodeId::number),
        last_lsn: view.last,
        persisted_lsn: view.persisted,
        committed_lsn: view.committed,
        applied_lsn: shared.applied(),
        commands_applied: (shared.commands_applied).load(Ordering::Relaxed),
        log_bytes: shared.store.log_bytes(),
        refused_messages: view.refused,
        matched: view
            .matched
            .iter()
            .map(|(node, lsn)| (node.number(), *lsn))
            .collect(),
        state_hash: None,
    }
}
