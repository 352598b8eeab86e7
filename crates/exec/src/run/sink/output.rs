//! The output queue: answer rows in batches, bounded.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::row::RowStore;

/// Approximate rows of a batch; long rows make smaller batches.
pub(crate) const BATCH_ROWS: usize = 256;
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// A bounded queue of batches. Its lock is taken once for a batch.
pub(crate) struct Output {
    state: Mutex<State>,
    rows_max: usize,
    bytes_max: usize,
    has_room: Condvar,
    has_rows: Condvar,
}

#[derive(Default)]
struct State {
    batches: VecDeque<RowStore>,
    rows: usize,
    bytes: usize,
    /// No more rows come, or are needed.
    is_closed: bool,
}

impl Output {
    pub(crate) fn new(rows_max: usize, bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            rows_max: rows_max.max(1),
            bytes_max: bytes_max.max(1),
            has_room: Condvar::new(),
            has_rows: Condvar::new(),
        }
    }

    /// Adds a batch. Waits while there are too many rows or bytes. Drops the batch if the queue is
    /// closed.
    pub(crate) fn send(&self, batch: RowStore) {
        let mut state = self.state.lock();
        while (state.rows >= self.rows_max || state.bytes >= self.bytes_max) && !state.is_closed {
            self.has_room.wait(&mut state);
        }
        if !state.is_closed {
            state.rows += batch.len();
            state.bytes += batch.bytes();
            state.batches.push_back(batch);
            self.has_rows.notify_one();
        }
    }

    /// The next batch; nothing once the queue is closed and empty.
    pub(crate) fn receive(&self) -> Option<RowStore> {
        let mut state = self.state.lock();
        loop {
            if let Some(batch) = state.batches.pop_front() {
                state.rows -= batch.len();
                state.bytes -= batch.bytes();
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
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.has_room.notify_all();
        self.has_rows.notify_all();
    }

    /// No more rows are needed: drops those in the queue.
    pub(crate) fn abandon(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        (state.rows, state.bytes) = (0, 0);
        state.batches.clear();
        drop(state);
        self.has_room.notify_all();
        self.has_rows.notify_all();
    }
}
