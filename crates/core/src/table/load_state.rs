//! The load state of a table: whether all its rows are in memory, and waiting until they are.
//!
//! After an opening, tables are loaded from the image in the background
//! (`recovery/load_image/image_loader.rs`). Until then a table's index is empty: transactions wait,
//! and views read the table from the image.
//!
//! # Invariants
//! - T1. Before a table is loaded, only its loading uses its index and creates records in its
//!   arena.
//! - T2. A table that is loaded stays so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use namiki_platform::sync::{AtomicBool, Ordering};
use parking_lot::{Condvar, Mutex};

use crate::error::Error;

/// The numbers of tables with waiters, in the order in which the waits began: those are loaded
/// first.
#[derive(Default)]
pub(crate) struct WantedTables {
    queue: Mutex<WantedQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct WantedQueue {
    numbers: VecDeque<usize>,
    /// Whether any wait has ever begun.
    is_urgent: bool,
}

impl WantedTables {
    /// The table with the longest wait, each table once.
    pub(crate) fn next(&self) -> Option<usize> {
        self.queue.lock().numbers.pop_front()
    }

    /// From now on, all threads that can load tables do.
    pub(crate) fn make_urgent(&self) {
        self.queue.lock().is_urgent = true;
        self.changed.notify_all();
    }

    /// Waits until any caller waits for a table, or for all.
    pub(crate) fn wait_until_urgent(&self) {
        let mut queue = self.queue.lock();
        while !queue.is_urgent {
            self.changed.wait(&mut queue);
        }
    }

    fn push(&self, number: usize) {
        self.queue.lock().numbers.push_back(number);
        self.make_urgent();
    }
}

/// Whether a table is loaded.
pub(crate) struct LoadState {
    is_loaded: AtomicBool,
    loading: Mutex<Loading>,
    ended: Condvar,
}

/// While a table is loaded.
#[derive(Default)]
struct Loading {
    /// The list into which the table is put when a wait for it begins, and its number there.
    wanted: Option<(Arc<WantedTables>, usize)>,
    /// The outcome of its loading.
    outcome: Option<Result<(), Box<Error>>>,
    wakers: Vec<Waker>,
}

impl Loading {
    fn want(&mut self) {
        if let Some((wanted, number)) = self.wanted.take() {
            wanted.push(number);
        }
    }

    fn outcome(&self) -> Option<Result<(), Error>> {
        let outcome = self.outcome.as_ref()?;
        Some(outcome.clone().map_err(|error| *error))
    }
}

impl LoadState {
    /// The state of a table that begins without rows.
    pub(crate) fn loaded() -> Self {
        Self {
            is_loaded: AtomicBool::new(true),
            loading: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Whether it is loaded.
    #[inline]
    pub(crate) fn is_loaded(&self) -> bool {
        // Pairs with the `Release` in `end`.
        self.is_loaded.load(Ordering::Acquire)
    }

    /// The table is to be loaded, before anything uses it. It is put into `wanted` by this number
    /// when a wait for it begins.
    pub(crate) fn begin(&self, wanted: &Arc<WantedTables>, number: usize) {
        self.loading.lock().wanted = Some((Arc::clone(wanted), number));
        self.is_loaded.store(false, Ordering::Release);
    }

    /// The loading has ended; the first end counts.
    pub(crate) fn end(&self, outcome: Result<(), Error>) {
        let mut loading = self.loading.lock();
        if loading.outcome.is_some() {
            return;
        }
        if outcome.is_ok() {
            // A thread that sees this flag sees all rows that were put into the index.
            self.is_loaded.store(true, Ordering::Release);
        }
        loading.outcome = Some(outcome.map_err(Box::new));
        loading.wanted = None;
        let wakers = std::mem::take(&mut loading.wakers);
        drop(loading);
        self.ended.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until the table is loaded.
    ///
    /// # Errors
    /// Why it is not: [`Error::TableNotLoaded`], [`Error::TableDropped`], [`Error::Closed`].
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let mut loading = self.loading.lock();
        while !self.is_loaded() {
            if let Some(outcome) = loading.outcome() {
                return outcome;
            }
            loading.want();
            self.ended.wait(&mut loading);
        }
        Ok(())
    }

    /// The same for a task, which is woken if this is not ready.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<(), Error>> {
        let mut loading = self.loading.lock();
        if self.is_loaded() {
            return Some(Ok(()));
        }
        if loading.outcome.is_none() {
            loading.want();
            if !loading.wakers.iter().any(|other| other.will_wake(waker)) {
                loading.wakers.push(waker.clone());
            }
        }
        loading.outcome()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_wanted_once_and_in_order() {
        let wanted = Arc::<WantedTables>::default();
        let states = [(); 3].map(|()| LoadState::loaded());
        for (number, state) in states.iter().enumerate() {
            state.begin(&wanted, number);
            assert!(!state.is_loaded());
        }
        for number in [2, 0, 2] {
            assert!(states[number].poll(Waker::noop()).is_none());
        }
        assert_eq!((wanted.next(), wanted.next()), (Some(2), Some(0)));
        assert_eq!(wanted.next(), None);
        states[2].end(Ok(()));
        states[2].end(Err(Error::Closed));
        assert!(matches!(states[2].poll(Waker::noop()), Some(Ok(()))));
        states[2].wait().unwrap();
    }

    #[test]
    fn every_waiter_learns_of_the_end() {
        let wanted = Arc::<WantedTables>::default();
        for is_loaded in [true, false] {
            let state = LoadState::loaded();
            state.begin(&wanted, 0);
            std::thread::scope(|scope| {
                let waiters = [(); 2].map(|()| scope.spawn(|| state.wait()));
                // Either after a wait has begun, or later.
                while wanted.next().is_none() {
                    std::thread::yield_now();
                }
                state.end(if is_loaded {
                    Ok(())
                } else {
                    Err(Error::Closed)
                });
                for waiter in waiters {
                    assert_eq!(waiter.join().unwrap().is_ok(), is_loaded);
                }
            });
            assert_eq!(state.is_loaded(), is_loaded);
            assert_eq!(state.wait().is_ok(), is_loaded);
        }
    }
}
