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
//! Paper: raft §6.4 (Ongaro's dissertation)

use raft::ReadState;

use super::driver::RaftDriver;
use super::events_and_effects::{RaftEffect, ReadId};

/// Bytes of a context.
pub(super) const READ_CONTEXT_BYTES: usize = 24;

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
