//! A node gets other addresses.

use std::path::Path;

use namiki_client::protocol::{MemberChange, NodeAddresses};

use super::{addresses_of, configured};
use crate::failure::{Failure, print};
use crate::node::Members;

/// Writes the addresses of a node in a configuration into the log.
pub(crate) fn relocate(number: u64, config: &Path) -> Result<(), Failure> {
    let (config, options) = configured(config)?;
    let mut members = Members::find(&config, number, &options)?;
    let addresses = addresses_of(&config, number)?;
    let NodeAddresses { peer, client } = addresses.clone();
    members.change(&MemberChange::Move {
        node: number,
        addresses,
    })?;
    print(&format!(
        "node {number} is at {peer} for nodes, and at {client} for clients\n"
    ))
}
