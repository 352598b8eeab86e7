//! The options of drivers without disks, for tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::driver::RaftOptions;
use super::payloads_here::DurablePayloads;
use crate::entry::{PayloadName, PayloadRef};
use crate::fault_injection::FaultInjection;
use crate::network::NodeId;

/// Starts of all tests, so that no two are the same.
static STARTS: AtomicU64 = AtomicU64::new(1);

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
        start: STARTS.fetch_add(1, Ordering::Relaxed),
        asks_all: false,
        addresses: BTreeMap::new(),
        planted,
    }
}
