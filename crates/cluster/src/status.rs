//! The status of a node.

use std::num::NonZeroU128;
use std::sync::atomic::Ordering;

use namiki_client::protocol::{MemberStatus, NodeStatus, Role};

use crate::network::NodeId;
use crate::office::Office;
use crate::raft::RaftView;
use crate::shared::Shared;

/// The role of a node that is in office in this term, if in any.
pub(crate) fn role_of(view: &RaftView, in_office: Option<u64>) -> Role {
    match view.role {
        Role::TakingOffice if in_office == Some(view.term) => Role::Leader,
        role => role,
    }
}

/// The state of a node.
pub(crate) fn status(shared: &Shared, office: &Office) -> NodeStatus {
    let view = shared.view.lock();
    let membership = shared.membership();
    let members = membership.members().iter().map(|member| MemberStatus {
        node: member.node.number(),
        incarnation: member.node.incarnation(),
        votes: member.votes,
        addresses: member.addresses.clone(),
    });
    let removed = membership.removed().iter();
    NodeStatus {
        node: shared.node.number(),
        incarnation: shared.node.incarnation(),
        members: members.collect(),
        removed: (removed.map(|it| (it.number(), it.incarnation()))).collect(),
        founders: shared.founders.iter().map(|it| it.number()).collect(),
        backup: shared.backup.map(NonZeroU128::get),
        role: role_of(&view, office.term),
        term: view.term,
        leader: view.leader.map(NodeId::number),
        last_lsn: view.last,
        persisted_lsn: view.persisted,
        committed_lsn: view.committed,
        applied_lsn: shared.applied(),
        commands_applied: (shared.commands_applied).load(Ordering::Relaxed),
        log_bytes: shared.store.log_bytes(),
        log_bytes_max: Some(shared.store.log_bytes_max()).filter(|it| *it != u64::MAX),
        missing_payloads: view.missing,
        waits_for_room: shared.flow_control.is_full(),
        tables_lost: shared.tables_lost,
        may_have_forgotten: view.start.may_have_forgotten,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        refused_messages: view.refused,
        matched: view
            .matched
            .iter()
            .map(|(node, lsn)| (node.number(), *lsn))
            .collect(),
        state_hash: None,
    }
}
