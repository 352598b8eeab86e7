//! Linearizable reads: Raft's ReadIndex, on the leader and from other nodes.
//!
//! A leader answers with its commit index, once a majority has confirmed that it still leads, and
//! only if it has committed an entry of its own term. Other nodes ask it. Raft drops a request that
//! cannot be answered; the caller repeats it.
//!
//! raft-rs tells requests apart by their contexts alone: a leader that has a request under way drops
//! another one with the same context, and a node takes any answer. So a context names the node and
//! its start: a late answer to a node that has restarted since would allow reads of an old state.
//! ```text
//! | node (8) | start (8) | id (8) |   little-endian
//! ```
//!
//! Ongaro, Consensus: Bridging Theory and Practice, §6.4

use raft::ReadState;

use super::driver::RaftDriver;
use super::events_and_effects::{RaftEffect, ReadId};

impl RaftDriver {
    /// Asks for the index that a read must see: of the own log if this node leads, otherwise of the
    /// leader's, if the read may be answered by a follower.
    pub(super) fn read_index(&mut self, id: ReadId) {
        if self.leads == Some(self.raft.raft.term) || id.is_of_node() {
            let context = self.context(id);
            self.raft.read_index(context);
        }
    }

    fn context(&self, id: ReadId) -> Vec<u8> {
        let numbers = [self.node.to_raft(), self.start, id.0];
        numbers.map(u64::to_le_bytes).concat()
    }

    /// The leader, or this node as the leader, has confirmed reads.
    pub(super) fn note_confirmed_reads(&mut self, reads: Vec<ReadState>) {
        for read in reads {
            let id = read.request_ctx.last_chunk().copied();
            let id = ReadId(id.map_or(0, u64::from_le_bytes));
            // Others belong to an earlier start.
            if read.request_ctx == self.context(id) {
                self.effects.push(RaftEffect::ReadReady(id, read.index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::fault_injection::FaultInjection;
    use crate::network::{NodeId, PeerMessage};
    use crate::raft::RaftEvent;
    use crate::raft::driver::{RaftOptions, RestoredRaft};
    use crate::raft::test_options::{ELECTION_TICKS, NoPayloads, options};

    const READ: ReadId = ReadId(ReadId::FIRST_OF_NODE.0 + 1);

    fn driver(node: NodeId, start: u64) -> RaftDriver {
        let restored = RestoredRaft {
            founders: (1..=3).map(NodeId::first).collect(),
            ..RestoredRaft::default()
        };
        let options = RaftOptions {
            start,
            ..options(node, FaultInjection::default())
        };
        RaftDriver::new(&options, restored, Arc::new(NoPayloads)).expect("the log is empty")
    }

    /// Delivers messages, and makes records durable, until nothing is in flight. Returns the
    /// confirmed reads.
    fn run(drivers: &mut BTreeMap<NodeId, RaftDriver>) -> Vec<(NodeId, ReadId, u64)> {
        let mut confirmed = Vec::new();
        loop {
            let mut events = Vec::new();
            for (node, driver) in &mut *drivers {
                for effect in driver.take_effects() {
                    match effect {
                        RaftEffect::Send(to, PeerMessage::Raft(bytes)) => {
                            events.push((to, RaftEvent::Message(*node, bytes)));
                        }
                        RaftEffect::Send(to, PeerMessage::Start(bytes)) => {
                            events.push((to, RaftEvent::Start(*node, bytes)));
                        }
                        RaftEffect::AppendRaft { batch, .. } => {
                            events.push((*node, RaftEvent::BatchDurable(batch)));
                        }
                        RaftEffect::ReadReady(id, index) => confirmed.push((*node, id, index)),
                        _ => {}
                    }
                }
            }
            if events.is_empty() {
                return confirmed;
            }
            for (to, event) in events {
                if let Some(driver) = drivers.get_mut(&to) {
                    driver.handle([event]);
                }
            }
        }
    }

    fn ask(drivers: &mut BTreeMap<NodeId, RaftDriver>, node: u64, id: ReadId) {
        let driver = drivers.get_mut(&NodeId::first(node));
        driver
            .expect("it exists")
            .handle([RaftEvent::ReadIndex(id)]);
    }

    fn cluster() -> BTreeMap<NodeId, RaftDriver> {
        let nodes = (1..=3).map(NodeId::first);
        nodes
            .map(|node| (node, driver(node, node.number())))
            .collect()
    }

    #[test]
    fn every_node_learns_the_commit_index_of_the_leader() {
        let mut drivers = cluster();
        run(&mut drivers);
        ask(&mut drivers, 2, READ);
        assert!(run(&mut drivers).is_empty(), "there is no leader");
        let first = drivers.get_mut(&NodeId::first(1)).expect("it exists");
        first.handle(vec![RaftEvent::Tick; 2 * ELECTION_TICKS]);
        assert!(run(&mut drivers).is_empty());
        // All nodes use the same id, at the same time.
        for node in 1..=3 {
            ask(&mut drivers, node, READ);
        }
        let mut confirmed = run(&mut drivers);
        confirmed.sort_unstable();
        let expected = (1..=3).map(|node| (NodeId::first(node), READ, 1));
        assert_eq!(confirmed, expected.collect::<Vec<_>>());
        // Only a leader answers its own kind.
        for node in 1..=3 {
            ask(&mut drivers, node, ReadId(9));
        }
        assert_eq!(run(&mut drivers), [(NodeId::first(1), ReadId(9), 1)]);
    }

    #[test]
    fn an_answer_to_an_earlier_start_confirms_nothing() {
        let node = NodeId::first(2);
        let earlier = driver(node, 1).context(READ);
        let mut driver = driver(node, 2);
        let own = driver.context(READ);
        for (context, is_taken) in [(earlier, false), (own, true)] {
            driver.note_confirmed_reads(vec![ReadState {
                index: 7,
                request_ctx: context,
            }]);
            let effects = driver.take_effects();
            let mut effects = effects.iter();
            let is_read = |it: &RaftEffect| matches!(it, RaftEffect::ReadReady(READ, 7));
            assert_eq!(effects.any(is_read), is_taken);
        }
    }
}
