//! Messages of raft-rs, on their way out.

use raft::StateRole;
use raft::eraftpb::{Message, MessageType};

use super::driver::RaftDriver;
use super::events_and_effects::RaftEffect;
use super::message_codec::encode;
use crate::network::{NodeId, PeerMessage};

impl RaftDriver {
    pub(super) fn send(&mut self, messages: Vec<Message>) {
        for mut message in messages {
            if !self.mend_batch(&mut message) {
                continue;
            }
            let to = NodeId::from_raft(message.to);
            let Some(starts) = self.inquiry.starts_to(to) else {
                // It would drop the message.
                continue;
            };
            let message = PeerMessage::Raft(encode(starts, &message));
            self.effects.push(RaftEffect::Send(to, message));
        }
    }

    /// Workaround for the batching of appends in raft-rs 0.7. It adds entries to an empty append
    /// without checking its index: after a rejected append the entries may be earlier ones. raft-rs
    /// itself uses the entries' own indexes then, and so does this function.
    ///
    /// Returns whether the message can be sent: the log tells the term of the preceding entry only
    /// while this node leads in that term.
    fn mend_batch(&self, message: &mut Message) -> bool {
        let first = message.entries.first();
        let is_append = message.get_msg_type() == MessageType::MsgAppend;
        let Some(first) = first.filter(|_| is_append) else {
            return true;
        };
        let before = first.index - 1;
        if message.index == before {
            return true;
        }
        let raft = &self.raft.raft;
        if raft.state != StateRole::Leader || raft.term != message.term {
            return false;
        }
        let Ok(term) = raft.raft_log.term(before) else {
            return false;
        };
        (message.index, message.log_term) = (before, term);
        true
    }
}
