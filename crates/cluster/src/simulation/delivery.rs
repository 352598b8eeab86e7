//! Messages on their way: which nodes are connected, and when a message arrives.

use std::sync::atomic::Ordering;

use super::event::Event;
use super::network::{OPERATOR, Sent, admits};
use super::node::{Part, Running};
use super::world::{MS, World};
use crate::network::{Inbox as _, NodeId, PeerMessage};

impl World {
    /// Schedules the sent messages.
    pub(super) fn deliver(&mut self) {
        let all = std::mem::take(&mut *self.outbox.lock());
        for sent in all {
            match sent {
                Sent::Peer { from, to, .. } if self.is_told_gone(from, to) => {
                    // It looks why it has stopped.
                    let sender = self.nodes.iter().position(|it| it.id == from);
                    if let Some(node) = sender {
                        let (life, part) = (self.nodes[node].life, Part::Raft);
                        self.after(0, Event::Run { node, life, part });
                    }
                }
                Sent::Peer { from, to, .. } if !self.is_connected(from, to) => {}
                Sent::Peer { from, to, message } => {
                    for delay in self.links.delays(from, to, &mut self.random) {
                        let message = message.clone();
                        self.after(delay, Event::Deliver { from, to, message });
                    }
                }
                // The network checks the members.
                Sent::Client { to, .. } if to == OPERATOR => {}
                Sent::Client { to, response } => {
                    if self.has_faults && self.random.chance(0.02) {
                        continue;
                    }
                    let delay = 50_000 + self.random.below(2 * MS);
                    let client = to.0 as usize;
                    self.after(delay, Event::Respond { client, response });
                }
            }
        }
    }

    /// A message arrives. A node with little room takes no payload ahead of its entry.
    pub(super) fn receive(
        &self,
        from: NodeId,
        to: NodeId,
        message: PeerMessage,
    ) -> Result<(), String> {
        let Some(receiver) = self.running(to) else {
            return Ok(());
        };
        let shared = &receiver.parts.shared;
        let is_ahead = matches!(message, PeerMessage::Payload { .. });
        let has_little_space = is_ahead && shared.own_log_space().is_low;
        let taken = || shared.unwritten_bytes.load(Ordering::Relaxed);
        let before = taken();
        receiver.inbox.receive(from, message);
        if has_little_space && taken() > before {
            return Err(format!(
                "{to:?} has taken a payload ahead of its entry with little room"
            ));
        }
        Ok(())
    }

    fn running(&self, id: NodeId) -> Option<&Running> {
        let mut nodes = self.nodes.iter().filter(|it| it.id == id);
        nodes.find_map(|it| it.running.as_ref())
    }

    /// Tells a node that is no member any more, if the other one knows. Returns whether it was told.
    fn is_told_gone(&self, from: NodeId, to: NodeId) -> bool {
        let is_cut = self.links.cut.contains(&(from, to)) || self.links.cut.contains(&(to, from));
        let (Some(sender), Some(receiver)) = (self.running(from), self.running(to)) else {
            return false;
        };
        let is_told = !is_cut && receiver.admitted.lock().has_gone(from);
        if is_told {
            sender.inbox.gone(to);
        }
        is_told
    }

    /// Whether the networks of both nodes let messages of the first one through.
    fn is_connected(&self, from: NodeId, to: NodeId) -> bool {
        let (Some(sender), Some(receiver)) = (self.running(from), self.running(to)) else {
            // It may run when the message arrives.
            return true;
        };
        let admits = |node: &Running, other| {
            let configured = node.configured.as_slice();
            admits(&node.admitted.lock(), configured, other)
        };
        admits(sender, to) && admits(receiver, from)
    }
}
