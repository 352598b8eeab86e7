//! A node of a cluster on this machine that has lost its directory gets a new one.
//!
//! ```text
//! lost directory ── moved aside ──> new directory, next incarnation ──> the node runs
//!   ── the leader admits it as a learner ──> it catches up ──> the leader lets it vote
//! ```

use std::time::Duration;

use namiki_client::protocol::MemberChange;
use namiki_client::status;

use super::layout::{LocalCluster, LocalNode, move_aside};
use super::start_node;
use crate::failure::{Failure, print};
use crate::members::add_and_wait;
use crate::node::{NewDirectory, init};
use crate::status::ProcessState;

/// Timeout of a status request to a node.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Replaces a node of a cluster on this machine.
pub(crate) fn replace(cluster: &LocalCluster, number: u64) -> Result<(), Failure> {
    let node = cluster.node(number)?;
    let mut members = cluster.members(number)?;
    let incarnation = match node.process()? {
        ProcessState::Down => {
            let directory = members.next_directory()?;
            renew(node, &directory)?;
            start_node(cluster, node)?;
            cluster.repeat_cuts()?;
            directory.incarnation
        }
        // It may run because an earlier replacement was interrupted.
        state => {
            let running = status(node.address(), &cluster.within(TIMEOUT)).ok();
            let incarnation = running.map(|it| it.incarnation);
            let leader = members.leader()?;
            let member = members.member(&leader)?;
            let is_unfinished = |it: &u64| *it > member.incarnation || !member.votes;
            incarnation.filter(is_unfinished).ok_or(Failure::NotLost {
                node: number,
                pid: state.pid().unwrap_or(0),
            })?
        }
    };
    let change = MemberChange::Replace {
        node: number,
        incarnation,
    };
    add_and_wait(&mut members, &change, incarnation, || node.check_runs())
}

/// Moves the rest of the directory aside, if there is any, and creates the next one.
fn renew(node: &LocalNode, new: &NewDirectory) -> Result<(), Failure> {
    let directory = &node.config.directory;
    if directory.exists() {
        let aside = move_aside(directory, "lost")?;
        let text = format!(
            "the rest of node {}'s old directory is in {}\n",
            node.id,
            aside.display()
        );
        print(&text)?;
    }
    init(&node.config, new)
}
