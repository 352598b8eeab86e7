//! The check of log matching when a node has restarted.

use super::node::SimNode;
use super::world::World;
use crate::entry::LogEntry;

impl World {
    /// Log matching: if two logs have an entry of the same index and term, they agree up to it.
    /// Checked when a node has restarted.
    pub(super) fn check_logs(&self, node: usize) -> Result<(), String> {
        let raft = |it: &SimNode| it.running.as_ref().map(|it| it.parts.raft.entries());
        let Some(entries) = raft(&self.nodes[node]) else {
            return Ok(());
        };
        if !entries.is_sorted_by_key(|entry| entry.term) {
            return Err(format!(
                "node {} has restarted with terms that fall",
                node + 1
            ));
        }
        for other in &self.nodes {
            let others = raft(other).unwrap_or_default();
            // Logs begin at different entries.
            let first = |log: &[LogEntry]| log.first().map_or(u64::MAX, |entry| entry.index);
            let begin = first(&entries).max(first(&others));
            let from = |log: &[LogEntry]| {
                log.iter()
                    .filter(move |entry| entry.index >= begin)
                    .cloned()
                    .collect::<Vec<_>>()
            };
            let (own, others) = (from(&entries), from(&others));
            let both = own.iter().zip(&others);
            let agree = both.clone().rposition(|(one, two)| one.term == two.term);
            let until = agree.map_or(0, |last| last + 1);
            if let Some((one, two)) = both.take(until).find(|(one, two)| one != two) {
                return Err(format!(
                    "node {} has restarted with {one:?}, node {} has {two:?}, and later ones of both agree",
                    node + 1,
                    other.id
                ));
            }
        }
        Ok(())
    }
}
