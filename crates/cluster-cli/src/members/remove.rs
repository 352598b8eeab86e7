//! A node leaves a cluster.

use std::path::Path;

use namiki_client::protocol::MemberChange;

use super::configured;
use crate::failure::{Failure, print};
use crate::node::Members;

/// Removes a node on another machine.
pub(crate) fn remove(number: u64, config: &Path) -> Result<(), Failure> {
    let (config, options) = configured(config)?;
    remove_member(&mut Members::find(&config, number, &options)?)?;
    print(&format!(
        "node {number} is no member any more, and stops; its directory may be deleted\n"
    ))
}

/// Removes a node, unless an interrupted command has.
pub(crate) fn remove_member(members: &mut Members) -> Result<(), Failure> {
    let leader = members.leader()?;
    match members.find_member(&leader) {
        Some(member) => members.change(&MemberChange::Remove {
            node: member.node,
            incarnation: member.incarnation,
        }),
        None if members.was_removed(&leader) => Ok(()),
        None => Err(members.no_node()),
    }
}
