//! Tracking of persisted Readys.
//!
//! A Ready is raft-rs's unit of data to make durable. It is persisted when its records of stream 0
//! and the payloads of its entries are durable, and every Ready before it is persisted. Only then
//! may the dependent messages be sent: votes, and acknowledgements of entries.

use std::collections::{HashSet, VecDeque};

use raft::eraftpb::Message;

use crate::entry::PayloadRef;

/// The data that one Ready waits for.
struct Pending {
    /// Its number.
    ready: u64,
    /// The batch of stream 0 with its records; the batch before it if it has none.
    batch: u64,
    /// Payloads of its entries that are not durable yet.
    payloads: HashSet<PayloadRef>,
    /// Messages to be sent once it is persisted.
    messages: Vec<Message>,
}

/// The Readys that are not persisted, in their order.
#[derive(Default)]
pub(super) struct Persistence {
    pending: VecDeque<Pending>,
    /// The last batch of stream 0 that is durable.
    durable_batch: u64,
    has_progressed: bool,
}

impl Persistence {
    pub(super) fn push(
        &mut self,
        ready: u64,
        batch: u64,
        payloads: HashSet<PayloadRef>,
        messages: Vec<Message>,
    ) {
        self.pending.push_back(Pending {
            ready,
            batch,
            payloads,
            messages,
        });
    }

    pub(super) fn batch_is_durable(&mut self, batch: u64) {
        self.durable_batch = self.durable_batch.max(batch);
    }

    /// Whether a Ready has become persisted since the last call, or none waits.
    pub(super) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progressed) || self.pending.is_empty()
    }

    /// Whether a batch of stream 0 is durable.
    pub(super) fn is_durable(&self, batch: u64) -> bool {
        batch <= self.durable_batch
    }

    pub(super) fn payload_is_durable(&mut self, payload: &PayloadRef) {
        // An entry that was overwritten and restored is in two of them.
        for pending in &mut self.pending {
            pending.payloads.remove(payload);
        }
    }

    /// The last Ready that has become persisted since the last call, and the messages that waited for it and those before.
    pub(super) fn take_persisted(&mut self) -> Option<(u64, Vec<Message>)> {
        let mut persisted = None;
        let mut messages = Vec::new();
        while let Some(first) = self.pending.front()
            && first.batch <= self.durable_batch
            && first.payloads.is_empty()
        {
            persisted = Some(first.ready);
            self.has_progressed = true;
            messages.extend(
                self.pending
                    .pop_front()
                    .into_iter()
                    .flat_map(|it| it.messages),
            );
        }
        persisted.map(|ready| (ready, messages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::PayloadName;

    fn payload(number: u64) -> PayloadRef {
        let name = PayloadName {
            term: 1,
            worker: 0,
            number,
        };
        PayloadRef::of(name, b"changes")
    }

    #[test]
    fn a_ready_waits_for_records_payloads_and_predecessors() {
        let mut it = Persistence::default();
        it.push(1, 1, HashSet::from([payload(1)]), Vec::new());
        it.push(2, 2, HashSet::new(), vec![Message::default()]);
        it.batch_is_durable(2);
        assert!(it.take_persisted().is_none());
        it.payload_is_durable(&payload(1));
        let (ready, messages) = it.take_persisted().expect("both are persisted");
        assert_eq!((ready, messages.len()), (2, 1));
        assert!(it.pending.is_empty());
    }
}
