//! Consensus: raft-rs behind a state machine of events and effects.
//!
//! [`RaftDriver`] does no I/O. Its events are ticks, messages, arrived payloads and durable writes;
//! its effects are messages to send, records for stream 0, and committed entries. It adds to
//! raft-rs:
//!
//! - **Payload before entry** (`held_appends.rs`): an entry is handed to Raft only when its payload is here and matches its digest. A dead
//!   leader's missing bytes would otherwise keep this node from persisting, and so from voting, for ever.
//! - **Persisted means both** (`persistence.rs`): an entry counts as persisted when its record of
//!   stream 0 and its payload are durable; votes and acknowledgements that depend on the entry wait
//!   for that.
//! - **A codec of its own** (`message_codec.rs`): no byte from the network reaches raft-rs's parser.
//! - **A node that starts asks before it speaks** (`start_inquiry/mod.rs`): its disk may have gone back to
//!   an earlier state.
//! - **Members** (`member_changes.rs`): entries of the log assign a lost node's number to its
//!   replacement.
//! - **Randomness from a seed**: the driver draws the election timeouts.
//!
//! Paper: raft-pwal §2.1, §3.2

#[cfg(test)]
mod damage_tests;
mod driver;
mod entry_codec;
mod entry_log;
mod events_and_effects;
mod held_appends;
mod lost_data;
mod member_changes;
mod members;
#[cfg(test)]
mod members_tests;
mod message_codec;
mod payloads_here;
mod persistence;
mod progress;
mod reads;
mod repair;
mod send;
mod start_inquiry;
mod start_messages;
#[cfg(test)]
mod start_tests;
mod starts;
#[cfg(test)]
mod test_options;
#[cfg(test)]
mod truncation_tests;

pub(crate) use driver::RaftError;
pub(crate) use driver::{LAG_MAX, RaftDriver, RaftOptions, RestoredRaft};
pub(crate) use events_and_effects::{
    RAFT_BYTES_MAX, RAFT_MESSAGE_BYTES, RaftEffect, RaftEvent, RaftView, ReadId, StartView,
};
pub(crate) use lost_data::FETCH_MAX;
pub(crate) use members::ChangeRefusal;
#[cfg(feature = "hostile-bytes")]
pub(crate) use message_codec::{look_at_message, messages};
#[cfg(feature = "hostile-bytes")]
pub(crate) use start_messages::{look_at_start_message, start_messages};
