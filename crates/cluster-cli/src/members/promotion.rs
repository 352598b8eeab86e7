//! The way of a new member to its vote: it runs, is admitted, catches up, and votes.

use std::thread;
use std::time::Duration;

use namiki_client::protocol::{MemberChange, NodeStatus};
use namiki_terminal::interrupt;
use namiki_terminal::number_format::grouped;

use crate::failure::{Failure, print};
use crate::node::Members;

/// Interval between two status requests to a node that catches up.
const INTERVAL: Duration = Duration::from_millis(100);
/// Status requests between two printed lines.
const LOOKS_PER_LINE: u32 = 10;

/// Makes a node a member, and waits until it votes. `look` fails if it has ended.
pub(crate) fn add_and_wait(
    members: &mut Members,
    change: &MemberChange,
    incarnation: u64,
    look: impl Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let number = change.node();
    interrupt::listen();
    members.change(change)?;
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
