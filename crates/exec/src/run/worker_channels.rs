//! One thread's ends of the rings between it and the others, and what goes through them.
//!
//! Paper: oode §2

use super::task::State;
use crate::rings::{Receiver, Sender, ring};
use crate::row::Row;

/// Items of the rings that a thread receives from, together; and of one of them.
const RING_ITEMS_ALL: usize = 2048;
const RING_ITEMS_MIN: usize = 8;
const RING_ITEMS_MAX: usize = 128;

/// What one thread says to another.
pub(super) enum Message {
    /// It has nothing to do.
    Request,
    /// A subtree. It counts as busy (T5) until it is taken out.
    Task {
        /// One that ended early may leave tasks in rings.
        pipeline: usize,
        position: usize,
        state: State,
        row: Row,
    },
}

/// One thread's ends of the rings between it and each other thread. None for itself.
pub(super) struct Channels {
    pub(super) senders: Vec<Option<Sender<Message>>>,
    pub(super) receivers: Vec<Option<Receiver<Message>>>,
    /// Which threads have asked for work and got none yet.
    pub(super) has_requested: Vec<bool>,
    /// Items of each ring.
    pub(super) ring_items: usize,
}

/// Rows that begin their next step are given to another thread.
pub(super) struct Handoff {
    pub(super) to: usize,
    /// How many more.
    pub(super) left: usize,
}

/// The rings between so many threads.
pub(super) fn channels(threads: usize) -> Vec<Channels> {
    let ring_items = (RING_ITEMS_ALL / threads).clamp(RING_ITEMS_MIN, RING_ITEMS_MAX);
    let none = |_| Channels {
        ring_items,
        senders: (0..threads).map(|_| None).collect(),
        receivers: (0..threads).map(|_| None).collect(),
        has_requested: vec![false; threads],
    };
    let mut all: Vec<Channels> = (0..threads).map(none).collect();
    for from in 0..threads {
        for to in (0..threads).filter(|to| *to != from) {
            let (sender, receiver) = ring(ring_items);
            all[from].senders[to] = Some(sender);
            all[to].receivers[from] = Some(receiver);
        }
    }
    all
}

impl Channels {
    /// For the next pipeline.
    pub(super) fn forget_requests(&mut self) {
        self.has_requested.fill(false);
    }

    pub(super) fn has_messages(&mut self) -> bool {
        self.receivers
            .iter_mut()
            .flatten()
            .any(|receiver| !receiver.is_empty())
    }
}
