//! A rolling restart, as the manual tells operators to change a setting: one node after the other is stopped in good order and
//! started, each once the one before is whole, the leader last.

use super::fault_context::{FaultContext, FaultReport};
use crate::error::BenchError;

/// Restarts every node, unless the run is over before.
pub(super) fn go_round(
    context: FaultContext<'_>,
    report: &mut FaultReport,
) -> Result<(), BenchError> {
    let cluster = context.cluster;
    let mut left: Vec<u64> = cluster.nodes.iter().map(|node| node.id).collect();
    while !context.is_over()
        && let Some(node) = next(&left, cluster.leader())
    {
        left.retain(|it| *it != node);
        report.note("restart", &[node], true);
        cluster.restart_in_order(node)?;
        cluster.wait_until_whole(node)?;
        report.note("whole", &[node], false);
    }
    report.rounds += u64::from(left.is_empty());
    Ok(())
}

/// The node to restart: the leader, which may have changed, when no other is left.
fn next(left: &[u64], leader: Option<u64>) -> Option<u64> {
    let mut others = left.iter().filter(|node| Some(**node) != leader);
    others.next().or(left.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_is_last() {
        assert_eq!(next(&[1, 2, 3], Some(1)), Some(2));
        assert_eq!(next(&[1, 3], Some(1)), Some(3));
        assert_eq!(next(&[1], Some(1)), Some(1));
        assert_eq!(next(&[1, 3], None), Some(1));
        assert_eq!(next(&[], Some(1)), None);
    }
}
