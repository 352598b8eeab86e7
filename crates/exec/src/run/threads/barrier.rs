//! A barrier for the threads of a query, from which a thread can withdraw for good.

use parking_lot::{Condvar, Mutex};

/// See the module.
pub(crate) struct Barrier {
    state: Mutex<State>,
    all_arrived: Condvar,
}

struct State {
    /// Threads that take part.
    threads: usize,
    /// Number of these that have arrived.
    arrived: usize,
    /// Number of times all have arrived.
    round: u64,
}

impl Barrier {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            state: Mutex::new(State {
                threads,
                arrived: 0,
                round: 0,
            }),
            all_arrived: Condvar::new(),
        }
    }

    /// Waits until all threads have arrived. The last one runs `as_last` before any of them
    /// continues, without the lock, because it may take long.
    pub(crate) fn wait(&self, as_last: impl FnOnce()) {
        let mut state = self.state.lock();
        state.arrived += 1;
        if state.arrived >= state.threads {
            drop(state);
            as_last();
            self.release(&mut self.state.lock());
            return;
        }
        let round = state.round;
        while state.round == round {
            self.all_arrived.wait(&mut state);
        }
    }

    /// Withdraws a thread. If only it was missing, the others continue, without the work of the
    /// last one: a query that loses a thread has failed.
    pub(crate) fn withdraw(&self) {
        let mut state = self.state.lock();
        state.threads -= 1;
        if state.arrived > 0 && state.arrived >= state.threads {
            self.release(&mut state);
        }
    }

    fn release(&self, state: &mut State) {
        state.arrived = 0;
        state.round += 1;
        self.all_arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn all_arrive_before_any_goes_on() {
        let (barrier, came, lasts) = (Barrier::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..50 {
                        came.fetch_add(1, Ordering::Relaxed);
                        barrier.wait(|| {
                            lasts.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(came.load(Ordering::Relaxed), 3 * round);
                        });
                        assert_eq!(lasts.load(Ordering::Relaxed), round);
                        barrier.wait(|| ());
                    }
                });
            }
        });
    }

    #[test]
    fn those_that_wait_go_on_without_one_that_withdrew() {
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| barrier.wait(|| ()));
            barrier.withdraw();
        });
    }
}
