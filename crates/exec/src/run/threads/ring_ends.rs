//! The rings between the threads of a query, and the messages that go through them.
//!
//! Paper: oode §2

use crate::rings::{Receiver, Sender, ring};
use crate::row::Row;
use crate::run::tasks::State;

/// Items of all rings that a thread receives from, and limits of one ring.
const RING_ITEMS_ALL: usize = 2048;
const RING_ITEMS_MIN: usize = 8;
const RING_ITEMS_MAX: usize = 128;

/// A message from one thread to another.
pub(crate) enum Message {
    /// The sender has no work.
    Request,
    /// A subtree of the query (`run/mod.rs`, T4).
    Task {
        /// A pipeline that ended early may leave tasks in rings.
        pipeline: usize,
        position: usize,
        state: State,
        row: Row,
    },
}

/// A thread's ends of the rings between it and each other thread, and none for itself.
pub(crate) struct RingEnds {
    pub(crate) senders: Vec<Option<Sender<Message>>>,
    pub(crate) receivers: Vec<Option<Receiver<Message>>>,
    /// Items of each ring.
    pub(crate) ring_items: usize,
}

impl RingEnds {
    /// The rings between `threads` threads, by thread.
    pub(crate) fn between(threads: usize) -> Vec<Self> {
        let ring_items = (RING_ITEMS_ALL / threads).clamp(RING_ITEMS_MIN, RING_ITEMS_MAX);
        let none = |_| Self {
            ring_items,
            senders: (0..threads).map(|_| None).collect(),
            receivers: (0..threads).map(|_| None).collect(),
        };
        let mut all: Vec<Self> = (0..threads).map(none).collect();
        for from in 0..threads {
            for to in (0..threads).filter(|to| *to != from) {
                let (sender, receiver) = ring(ring_items);
                all[from].senders[to] = Some(sender);
                all[to].receivers[from] = Some(receiver);
            }
        }
        all
    }
}
