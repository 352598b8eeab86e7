//! `namiki cluster replace`: replaces the lost directory of a node by a new one.
//!
//! ```text
//! lost directory ── moved aside ──> new directory, next incarnation ──> the node runs
//!   ── the leader admits it as a learner ──> it catches up ──> the leader lets it vote
//! ```
//! Every step can be repeated, so the same command completes an interrupted replacement.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use namiki_client::protocol::NodeStatus;
use namiki_client::{ClientOptions, status};
use namiki_terminal::interrupt;
use namiki_terminal::number_format::grouped;

use super::layout::{LocalCluster, LocalNode};
use super::start_node;
use crate::failure::{Failure, device, print};
use crate::node::{Members, init, options_of, read_config};
use crate::status::ProcessState;

/// Interval between two status requests to a node that catches up.
const INTERVAL: Duration = Duration::from_millis(100);
/// Status requests between two printed lines.
const LOOKS_PER_LINE: u32 = 10;
const TIMEOUT: Duration = Duration::from_secs(2);

/// Replaces a node of a cluster on this machine.
pub(super) fn local(cluster: &LocalCluster, number: u64) -> Result<(), Failure> {
    let node = cluster.node(number)?;
    let mut members = Members::find(&node.config, number, &cluster.options)?;
    let incarnation = match node.process()? {
        ProcessState::Down => {
            let incarnation = members.next_incarnation()?;
            renew(node, incarnation)?;
            start_node(cluster, node)?;
            cluster.repeat_cuts()?;
            incarnation
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
    take_in(&mut members, number, incarnation, || {
        match node.process()? {
            ProcessState::Down => Err(node.why_ended()),
            _ => Ok(()),
        }
    })
}

/// Replaces a node on another machine, where it runs with its new directory.
pub(super) fn remote(number: u64, config: &Path) -> Result<(), Failure> {
    let config = read_config(config)?;
    let options = ClientOptions {
        timeout: TIMEOUT,
        ..options_of(&config)?
    };
    let mut members = Members::find(&config, number, &options)?;
    let addresses = config.members.iter().filter(|it| it.id.number() == number);
    let address = addresses.map(|it| it.client.clone()).next();
    let address = address.ok_or_else(|| Failure::NoNode(number.to_string()))?;
    let running = status(&address, &options)?;
    if running.node != number {
        return Err(Failure::OtherNode {
            address,
            expected: number,
            found: running.node,
        });
    }
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
    take_in(&mut members, number, running.incarnation, || Ok(()))
}

/// Moves the rest of the directory aside, if there is any, and creates the next one.
fn renew(node: &LocalNode, incarnation: u64) -> Result<(), Failure> {
    let directory = &node.config.directory;
    if directory.exists() {
        let aside = unused_name(directory);
        fs::rename(directory, &aside).map_err(device("move aside", directory))?;
        let text = format!(
            "the rest of node {}'s old directory is in {}\n",
            node.id,
            aside.display()
        );
        print(&text)?;
    }
    init(&node.config, incarnation)
}

/// data.lost, data.lost-2 and so on.
fn unused_name(directory: &Path) -> PathBuf {
    let with = |suffix: &str| {
        let mut name = directory.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let numbered = (2..).map(|number: u32| with(&format!(".lost-{number}")));
    let mut names = std::iter::once(with(".lost")).chain(numbered);
    names
        .find(|it| !it.exists())
        .unwrap_or_else(|| with(".lost"))
}

/// Makes the directory a member, and waits until it votes.
fn take_in(
    members: &mut Members,
    number: u64,
    incarnation: u64,
    look: impl Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    interrupt::listen();
    members.replace(incarnation)?;
    print(&format!(
        "node {number} is a member as incarnation {incarnation}, and votes when it has caught up\n"
    ))?;
    for looks in 1_u32.. {
        interrupt::check()?;
        look()?;
        let leader = members.leader()?;
        let member = members.member(&leader)?;
        if member.incarnation != incarnation {
            return Err(Failure::ReplacedAgain {
                node: number,
                incarnation: member.incarnation,
            });
        }
        if member.votes {
            break;
        }
        if looks.is_multiple_of(LOOKS_PER_LINE) {
            print(&format!("node {number} {}\n", lag(&leader, number)))?;
        }
        thread::sleep(INTERVAL);
    }
    print(&format!("node {number} votes\n"))
}

/// The lag of a node, as its leader sees it.
fn lag(leader: &NodeStatus, number: u64) -> String {
    let matched = leader.matched.iter().find(|(node, _)| *node == number);
    let matched = matched.map_or(0, |(_, lsn)| *lsn);
    let (last, behind) = (leader.last_lsn, leader.last_lsn.saturating_sub(matched));
    format!(
        "has {} of {} entries, and lags by {}",
        grouped(matched),
        grouped(last),
        grouped(behind)
    )
}
