//! Cache of recent payloads in memory: for the applier, and for nodes that fetch missing ones.
//!
//! The limit counts memory: the payloads and the cache's own entries, which are longer than short
//! payloads. A payload must own a buffer of its length (`transport/incoming.rs` copies what it has
//! received, a worker shrinks what it has sealed): a slice would keep a longer buffer alive.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::entry::{PayloadName, PayloadRef};

/// Memory of an entry apart from its payload: a slot of a hash table that is half empty, one of a
/// queue, and the reference count of the buffer.
const ENTRY_BYTES: usize = 320;

/// The newest payloads, up to a number of bytes. Evicted payloads are in the node's storage, once
/// they are durable.
#[derive(Debug)]
pub(crate) struct PayloadCache {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    payloads: HashMap<PayloadName, (PayloadRef, Bytes)>,
    order: VecDeque<PayloadName>,
    /// Memory of all entries.
    bytes: usize,
}

impl PayloadCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            state: Mutex::default(),
        }
    }

    pub(crate) fn insert(&self, payload: PayloadRef, bytes: Bytes) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.bytes += memory_of(&bytes);
        match state.payloads.insert(payload.name, (payload, bytes)) {
            None => state.order.push_back(payload.name),
            Some((_, before)) => state.bytes -= memory_of(&before),
        }
        while state.bytes > self.bytes_max
            && let Some(oldest) = state.order.pop_front()
        {
            if let Some((_, bytes)) = state.payloads.remove(&oldest) {
                state.bytes -= memory_of(&bytes);
            }
        }
    }

    /// Bytes of all payloads that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes as u64
    }

    /// The bytes of exactly this payload.
    pub(crate) fn get(&self, payload: &PayloadRef) -> Option<Bytes> {
        let state = self.state.lock();
        let (known, bytes) = state.payloads.get(&payload.name)?;
        (known == payload).then(|| bytes.clone())
    }
}

fn memory_of(payload: &Bytes) -> usize {
    ENTRY_BYTES + payload.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_payloads_make_room() {
        let cache = PayloadCache::new(100 + 2 * ENTRY_BYTES);
        let payloads: Vec<_> = (1..=3)
            .map(|number| {
                let bytes = vec![number as u8; 40];
                let name = PayloadName {
                    term: 1,
                    worker: 0,
                    number,
                };
                (PayloadRef::of(name, &bytes), Bytes::from(bytes))
            })
            .collect();
        for (payload, bytes) in &payloads {
            cache.insert(*payload, bytes.clone());
            cache.insert(*payload, bytes.clone());
        }
        assert_eq!(cache.get(&payloads[0].0), None);
        assert_eq!(cache.get(&payloads[2].0).as_ref(), Some(&payloads[2].1));
        let other = PayloadRef {
            digest: 0,
            ..payloads[2].0
        };
        assert_eq!(cache.get(&other), None);
        assert!(cache.get(&payloads[1].0).is_some());
    }
}
