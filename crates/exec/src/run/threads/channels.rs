//! One thread's ends of the rings between it and the others, and what goes through them.
//!
//! Paper: oode §2

use crate::rings::{Receiver, Sender, ring};
use crate::row::Row;
use crate::run::tasks::State;

/// Items of the rings that a thread receives from, together; and of one of them.
const RING_ITEMS_ALL: usize = 2048;
const RING_ITEMS_MIN: usize = 8;
const RING_ITEMS_MAX: usize = 128;

/// What one thread says to another.
pub(crate) enum Message {
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
pub(crate) struct Channels {
    pub(crate) senders: Vec<Option<Sender<Message>>>,
    pub(crate) receivers: Vec<Option<Receiver<Message>>>,
    /// Which threads have asked for work and got none yet.
    pub(crate) has_requested: Vec<bool>,
    /// Items of each ring.
    pub(crate) ring_items: usize,
}

/// Rows that begin their next step are given to another thread.
pub(crate) struct Handoff {
    pub(crate) to: usize,
    /// How many more.
    pub(crate) left: usize,
}

/// The rings between so many threads.
pub(crate) fn channels(threads: usize) -> Vec<Channels> {
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
    pub(crate) fn forget_requests(&mut self) {
        self.has_requested.fill(false);
    }

    pub(crate) fn has_messages(&mut self) -> bool {
        self.receivers
            .iter_mut()
            .flatten()
            .any(|receiver| !receiver.is_empty())
    }
}
