//! The payloads that a node has, as its Raft sees them.

use std::collections::HashMap;
use std::sync::Arc;

use super::held_appends::Payloads;
use crate::entry::{PayloadName, PayloadRef};
use crate::storage::NodeStore;

/// The driver's view of the node's storage.
pub(crate) trait DurablePayloads: Send + Sync {
    /// The payload of this name that is durable here.
    fn durable(&self, name: PayloadName) -> Option<PayloadRef>;
}

impl DurablePayloads for NodeStore {
    fn durable(&self, name: PayloadName) -> Option<PayloadRef> {
        self.durable_payload(name)
    }
}

/// The payloads that this node has.
pub(super) struct Here {
    pub(super) durable: Arc<dyn DurablePayloads>,
    /// The payloads that are not yet durable.
    pub(super) in_flight: HashMap<PayloadName, PayloadRef>,
}

impl Here {
    /// Whether the payload is on the disk.
    pub(super) fn is_durable(&self, payload: &PayloadRef) -> bool {
        !self.in_flight.contains_key(&payload.name)
            && self.durable.durable(payload.name).as_ref() == Some(payload)
    }
}

impl Payloads for Here {
    fn has(&self, payload: &PayloadRef) -> bool {
        self.in_flight.get(&payload.name) == Some(payload)
            || self.durable.durable(payload.name).as_ref() == Some(payload)
    }
}
