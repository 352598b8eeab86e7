//! A node that has lost its directory is replaced by its next one.

use std::path::Path;

use namiki_client::protocol::MemberChange;

use super::{add_and_wait, configured};
use crate::failure::{Failure, print};
use crate::node::{Members, running_node};

/// Replaces a node on another machine, where it runs with its new directory.
pub(crate) fn replace(number: u64, config: &Path) -> Result<(), Failure> {
    let (config, options) = configured(config)?;
    let mut members = Members::find(&config, number, &options)?;
    let running = running_node(&config, number, &options)?;
    let leader = members.leader()?;
    let member = members.member(&leader)?;
    if member.votes && member.incarnation == running.incarnation {
        if running.incarnation == 1 {
            return Err(Failure::NothingToReplace { node: number });
        }
        return print(&format!(
            "node {number} votes as incarnation {} already: nothing was replaced\n",
            running.incarnation
        ));
    }
    let incarnation = running.incarnation;
    let change = MemberChange::Replace {
        node: number,
        incarnation,
    };
    add_and_wait(&mut members, &change, incarnation, || Ok(()))
}
