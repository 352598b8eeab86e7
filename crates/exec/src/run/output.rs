//! The rows of the answer on their way to the consumer, in batches, bounded.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::row::RowStore;

/// Rows of a batch, about.
pub(super) const BATCH_ROWS: usize = 256;

/// A bounded queue of batches. Its lock is taken once for a batch.
pub(super) struct Output {
    state: Mutex<State>,
    rows_max: usize,
    has_room: Condvar,
    has_rows: Condvar,
}

#[derive(Default)]
struct State {
    batches: VecDeque<RowStore>,
    rows: usize,
    /// No more rows come, or none are wanted.
    is_closed: bool,
}

impl Output {
    pub(super) fn new(rows_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            rows_max: rows_max.max(1),
            has_room: Condvar::new(),
            has_rows: Condvar::new(),
        }
    }

    /// Adds a batch. Waits while there are too many rows, unless the queue is closed: then the batch is dropped.
    pub(super) fn send(&self, batch: RowStore) {
        let mut state = self.state.lock();
        while state.rows >= self.rows_max && !state.is_closed {
            self.has_room.wait(&mut state);
        }
        if !state.is_closed {
            state.rows += batch.len();
            state.batches.push_back(batch);
            self.has_rows.notify_one();
        }
    }

    /// The next batch; nothing once the queue is closed and empty.
    pub(super) fn receive(&self) -> Option<RowStore> {
        let mut state = self.state.lock();
        loop {
            if let Some(batch) = state.batches.pop_front() {
                state.rows -= batch.len();
                self.has_room.notify_all();
                return Some(batch);
            }
            if state.is_closed {
                return None;
            }
            self.has_rows.wait(&mut state);
        }
    }

    /// No more rows come.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.has_room.notify_all();
        self.has_rows.notify_all();
    }

    /// No more rows are wanted: those there are go, too.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.rows = 0;
        state.batches.clear();
        drop(state);
        self.has_room.notify_all();
        self.has_rows.notify_all();
    }
}
