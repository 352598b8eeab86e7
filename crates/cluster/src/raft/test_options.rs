//! The options of drivers without disks, for tests.

use super::driver::{DurablePayloads, RaftOptions};
use crate::entry::{PayloadName, PayloadRef};
use crate::fault_injection::FaultInjection;
use crate::network::NodeId;

pub(super) const ELECTION_TICKS: usize = 10;

/// There are no payloads.
pub(super) struct NoPayloads;

impl DurablePayloads for NoPayloads {
    fn durable(&self, _: PayloadName) -> Option<PayloadRef> {
        None
    }
}

pub(super) fn options(node: NodeId, planted: FaultInjection) -> RaftOptions {
    RaftOptions {
        node,
        election_ticks: ELECTION_TICKS,
        heartbeat_ticks: 2,
        inflight_max: 64,
        message_bytes: 1 << 16,
        seed: 1,
        planted,
    }
}
