//! The channels of a worker: requests for work and tasks, over rings to and from each other thread.
//!
//! # Invariants
//! - C1. A thread sends subtrees: a part of a range, or a row that begins its next step
//!   (`run/mod.rs`, T4).
//! - C2. Every task in a ring is counted as busy ([`Peers`]), from before it is pushed until it is
//!   taken out.
//! - C3. A hand-over sends at most half a ring of rows, so that it never waits for the other
//!   thread.
//!
//! Paper: oode §2

use super::peers::Peers;
use super::ring_ends::{Message, RingEnds};
use crate::rings::Receiver;
use crate::row::Row;
use crate::run::counters::WorkerCounters;
use crate::run::tasks::{Schedule, State, WorkerTasks, trace};

/// A hand-over: rows that begin their next step go to another thread.
struct HandOver {
    to: usize,
    /// Rows still to send.
    left: usize,
}

/// See the module.
pub(crate) struct WorkerChannels<'s> {
    peers: &'s Peers,
    counters: &'s WorkerCounters,
    /// Number of this thread.
    number: usize,
    /// Number of the pipeline that runs.
    pipeline: usize,
    /// Whether other threads run the pipeline, too.
    is_shared: bool,
    ends: RingEnds,
    /// Threads that have requested work and got none since.
    has_requested: Vec<bool>,
    hand_over: Option<HandOver>,
}

impl<'s> WorkerChannels<'s> {
    pub(crate) fn new(
        peers: &'s Peers,
        counters: &'s WorkerCounters,
        number: usize,
        ends: RingEnds,
    ) -> Self {
        Self {
            peers,
            counters,
            number,
            pipeline: 0,
            is_shared: false,
            ends,
            has_requested: vec![false; peers.count()],
            hand_over: None,
        }
    }

    /// Prepares for a pipeline. `in_order`: one thread runs it.
    pub(crate) fn begin(&mut self, pipeline: usize, in_order: bool) {
        self.pipeline = pipeline;
        self.is_shared = self.peers.count() > 1 && !in_order;
        self.has_requested.fill(false);
        self.hand_over = None;
    }

    /// Whether other threads run the pipeline, too.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }
}

/// Receiving.
impl WorkerChannels<'_> {
    /// Takes requests and tasks of other threads, and shows them how many tasks there are.
    pub(crate) fn receive(&mut self, tasks: &mut WorkerTasks<'_>) {
        let received = self.take_messages(tasks);
        let load = tasks.schedule().load();
        self.peers.publish_load(self.number, load);
        // This thread is busy already.
        self.peers.tasks_left_rings(received);
    }

    /// Takes all messages out. Returns the number of tasks among them.
    fn take_messages(&mut self, tasks: &mut WorkerTasks<'_>) -> usize {
        let mut received = 0;
        for from in 0..self.ends.receivers.len() {
            let receiver = &mut self.ends.receivers[from];
            while let Some(message) = receiver.as_mut().and_then(Receiver::pop) {
                match message {
                    Message::Request => self.has_requested[from] = true,
                    Message::Task { pipeline, .. } if pipeline != self.pipeline => {
                        self.counters.tasks_ended.add(1);
                    }
                    Message::Task {
                        position,
                        state,
                        row,
                        ..
                    } => {
                        tasks.adopt(position, state, row);
                        received += 1;
                    }
                }
            }
        }
        received
    }

    /// Declares that this thread has no work, and asks all others for some. Returns whether the
    /// pipeline has ended instead.
    pub(crate) fn ask_for_work(&mut self) -> bool {
        if self.peers.runs_out_of_work(self.number) {
            return true;
        }
        if self.is_shared {
            for (to, sender) in self.ends.senders.iter_mut().enumerate() {
                // A full ring contains enough requests.
                if let Some(sender) = sender
                    && sender.push(Message::Request).is_ok()
                {
                    self.peers.wake(to);
                }
            }
        }
        false
    }

    /// Takes tasks of other threads, after [`WorkerChannels::ask_for_work`]. Returns whether there
    /// were any; then this thread is busy.
    pub(crate) fn take_work(&mut self, tasks: &mut WorkerTasks<'_>) -> bool {
        let received = self.take_messages(tasks);
        if received > 0 {
            self.peers.becomes_busy(received);
        }
        received > 0
    }

    /// Sleeps until there is a message, or the pipeline has ended.
    pub(crate) fn sleep(&mut self) {
        let receivers = &mut self.ends.receivers;
        let has_messages = || receivers.iter_mut().flatten().any(|it| !it.is_empty());
        self.peers.sleep_unless(self.number, has_messages);
    }
}

/// Sending.
impl WorkerChannels<'_> {
    /// Whether a thread has requested work, or is underloaded: it has less than half of the tasks
    /// that this one may have, and this one has all.
    pub(crate) fn wants_work(&self, to: usize, own: &Schedule) -> bool {
        let is_underloaded = own.is_at_degree() && self.peers.load(to) * 2 < own.degree();
        to != self.number && (self.has_requested[to] || is_underloaded)
    }

    /// A thread got the work that it requested.
    pub(crate) fn has_served(&mut self, to: usize) {
        self.has_requested[to] = false;
    }

    /// Sends a part of the driver's range.
    ///
    /// # Errors
    /// The part, if the ring is full.
    pub(crate) fn send_part(&mut self, to: usize, state: State) -> Result<(), State> {
        let sent = self.send(to, 0, state, Row::default());
        sent.map_err(|(state, _)| state)
    }

    /// Sends a task. It was made here or is about to be counted as made.
    ///
    /// # Errors
    /// The task, if the ring is full.
    fn send(
        &mut self,
        to: usize,
        position: usize,
        state: State,
        row: Row,
    ) -> Result<(), (State, Row)> {
        let Some(sender) = &mut self.ends.senders[to] else {
            return Err((state, row));
        };
        self.peers.task_enters_ring();
        trace::sent(to, position, &state);
        let message = Message::Task {
            pipeline: self.pipeline,
            position,
            state,
            row,
        };
        let Err(back) = sender.push(message) else {
            self.counters.handed_over.add(1);
            self.peers.wake(to);
            return Ok(());
        };
        self.peers.tasks_left_rings(1);
        Err(match back {
            Message::Task { state, row, .. } => (state, row),
            Message::Request => (State::Start, Row::default()),
        })
    }

    /// Begins a hand-over of up to half of the `degree` rows.
    pub(crate) fn begin_hand_over(&mut self, to: usize, degree: usize) {
        let left = (degree / 2).clamp(1, self.ends.ring_items / 2);
        self.hand_over = Some(HandOver { to, left });
    }

    pub(crate) fn end_hand_over(&mut self) {
        self.hand_over = None;
    }

    /// Whether rows that begin their next step go to another thread.
    #[inline]
    pub(crate) fn is_handing_over(&self) -> bool {
        self.hand_over.is_some()
    }

    /// Sends a row that begins a step, during a hand-over. Ends the hand-over with the last row, or
    /// if the ring is full. Returns whether the row was sent.
    pub(crate) fn hand_over_row(&mut self, position: usize, row: &Row, words: usize) -> bool {
        let Some(hand_over) = &mut self.hand_over else {
            return false;
        };
        let to = hand_over.to;
        hand_over.left -= 1;
        if hand_over.left == 0 {
            self.hand_over = None;
        }
        let mut own = Row::default();
        own.copy_from(row, words, row.heap.len());
        let is_sent = self.send(to, position, State::Start, own).is_ok();
        if is_sent {
            self.counters.tasks.add(1);
        } else {
            self.hand_over = None;
        }
        is_sent
    }
}

impl Drop for WorkerChannels<'_> {
    /// Ends the tasks in the rings to this thread. No other thread sends any more: all have ended
    /// the last pipeline, or wait at its end for this one, which has panicked there.
    fn drop(&mut self) {
        for receiver in self.ends.receivers.iter_mut().flatten() {
            while let Some(message) = receiver.pop() {
                if let Message::Task { .. } = message {
                    self.counters.tasks_ended.add(1);
                }
            }
        }
    }
}
