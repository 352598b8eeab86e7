//! The connections of a client: one to the leader, and those to nodes that it reads from.

use std::collections::HashMap;

use crate::channel::Channel;
use crate::read_options::ReadNode;
use crate::requests;

/// A channel with its connection.
pub(crate) trait OverChannel {
    fn over(channel: Channel) -> Self;
    fn channel(&self) -> &Channel;
}

#[derive(Debug)]
pub(crate) struct Links<L> {
    pub(crate) leader: L,
    /// For reads from other nodes.
    readers: HashMap<ReadNode, L>,
    /// Number of reads.
    reads: u64,
}

impl<L: OverChannel> Links<L> {
    pub(crate) fn new(leader: L) -> Self {
        Self {
            leader,
            readers: HashMap::new(),
            reads: 0,
        }
    }

    /// The connection for reads from a node, and the number of the next read.
    pub(crate) fn for_reads(&mut self, node: &ReadNode) -> (&mut L, u64) {
        self.reads += 1;
        let link = match requests::channel_of_reads(self.leader.channel(), node) {
            None => &mut self.leader,
            Some(channel) => {
                let link = self.readers.entry(node.clone());
                link.or_insert_with(|| L::over(channel))
            }
        };
        (link, self.reads)
    }
}
