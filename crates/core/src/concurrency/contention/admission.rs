//! Admission control: a cap on concurrent lock holders while transactions keep being wounded.
//!
//! Under strict two-phase locking, the probability that two transactions wait for each other grows
//! with the square of the number of open ones. If only two of them have processors, each of the
//! others holds locks while it waits, and is likely to be wounded for them. So while transactions
//! are being wounded, the number that hold locks is limited to the number of processors, and the
//! others wait without any lock. The limit ends by itself when wounds cease.
//!
//! Permits are a hint, which nothing relies on. A holder may be waiting for something other than a processor, such as
//! user input: if no permit is released within the timeout of a request, all outstanding permits expire, and others
//! are admitted in their place.
//!
//! Barging is allowed: a transaction that has just released its permit may get one again, before the waiters, because
//! a hand-off to a parked thread costs more than most transactions do. A waiter that has slept for a while queues for
//! the next permit, which is handed over in FIFO order.
//!
//! Blind writes, which are locked together at the commit, in the one order of all records, need no permit:
//! transactions that lock in order are not wounded, except by boosted waiters. (Of others it is not known before the
//! first lock that they will lock in order.)

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use namiki_platform::sync::{AtomicBool, Ordering, Parker, sleep};
use namiki_platform::threads;

use super::policy::{
    ADMISSION_BACKOFF, ADMISSION_STALL_TIMEOUT, LIMITED_AFTER_WOUND,
    LIMITED_AFTER_WOUND_PER_PERMIT, WOUNDS_COUNTED_MAX,
};
use super::wait_list::{WaitList, Waiters};

/// Admission control for the first lock of a transaction.
pub(crate) struct AdmissionControl {
    /// A copy of [`AdmissionState::limited_for`] that is read without the mutex.
    is_limited: CachePadded<AtomicBool>,
    permits: usize,
    stall_timeout: Duration,
    /// The queue for the next permit: each request is the number of the permit that it is for.
    queue: WaitList<u64, AdmissionState>,
}

#[derive(Default)]
struct AdmissionState {
    /// The number of further transactions for which the limit applies.
    limited_for: usize,
    /// The numbers of the permits.
    holders: Vec<u64>,
    /// How many wait, the queue included.
    waiters: usize,
    /// How many requests ever arrived.
    requests: u64,
    /// How often permits became free.
    released: u64,
    /// How often all permits expired.
    #[cfg(test)]
    expirations: u64,
    /// How many ever had to wait.
    admission_waits: u64,
}

/// A permit to acquire locks, until this is dropped.
pub(crate) struct AdmissionPermit {
    admission: Arc<AdmissionControl>,
    number: u64,
}

impl AdmissionControl {
    /// Admission control with a permit for each processor.
    pub(crate) fn new() -> Self {
        Self::with_permits(threads::processors().get(), ADMISSION_STALL_TIMEOUT)
    }

    /// Admission control with `permits` permits. They expire if none is released within
    /// `stall_timeout` while a request queues.
    fn with_permits(permits: usize, stall_timeout: Duration) -> Self {
        Self {
            is_limited: CachePadded::new(AtomicBool::new(false)),
            permits,
            stall_timeout,
            queue: WaitList::new(AdmissionState::default()),
        }
    }

    /// Whether a transaction without locks has to [request a permit](Self::acquire).
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        // Relaxed: a hint.
        self.is_limited.load(Ordering::Relaxed)
    }

    /// A transaction was wounded.
    pub(crate) fn note_wound(&self) {
        let each = self.after_wound();
        let mut queue = self.queue.lock();
        let limited_for = queue.state.limited_for + each;
        queue.state.limited_for = limited_for.min(WOUNDS_COUNTED_MAX * each);
        self.is_limited.store(true, Ordering::Relaxed);
    }

    fn after_wound(&self) -> usize {
        LIMITED_AFTER_WOUND.max(LIMITED_AFTER_WOUND_PER_PERMIT * self.permits)
    }

    /// How many transactions ever had to wait.
    pub(crate) fn admission_waits(&self) -> u64 {
        self.queue.lock().state.admission_waits
    }

    /// Waits for a permit.
    #[cold]
    pub(crate) fn acquire(self: &Arc<Self>) -> AdmissionPermit {
        let mut queue = self.queue.lock();
        let state = &mut queue.state;
        state.limited_for = state.limited_for.saturating_sub(1);
        if state.limited_for == 0 {
            self.is_limited.store(false, Ordering::Relaxed);
        }
        let number = state.requests;
        state.requests += 1;
        let permit = AdmissionPermit {
            admission: Arc::clone(self),
            number,
        };
        if state.holders.len() < self.permits {
            state.holders.push(number);
            return permit;
        }
        state.waiters += 1;
        state.admission_waits += 1;
        let share = state.waiters.div_ceil(self.permits);
        drop(queue);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        sleep(
            ADMISSION_BACKOFF
                .saturating_mul(share)
                .min(self.stall_timeout),
        );

        self.wait_in_queue(number);
        permit
    }

    /// Waits in the queue for a permit.
    fn wait_in_queue(&self, number: u64) {
        let parker = Parker::new();
        let mut queue = self.queue.lock();
        let request = queue.enter(&parker, number);
        queue.grant_free(self.permits);
        let (mut since, mut released) = (Duration::ZERO, queue.state.released);
        while queue.is_waiting(request) {
            let waited = parker.age().saturating_sub(since);
            let left = self.stall_timeout.saturating_sub(waited);
            queue = self.queue.park(queue, &parker, left);
            let now = parker.age();
            if queue.state.released != released {
                // A permit was released: the timeout starts anew.
                (since, released) = (now, queue.state.released);
            } else if now.saturating_sub(since) >= self.stall_timeout {
                queue.state.holders.clear();
                queue.state.released += 1;
                #[cfg(test)]
                {
                    queue.state.expirations += 1;
                }
                queue.grant_free(self.permits);
            }
        }
        queue.state.waiters -= 1;
    }
}

impl Waiters<u64, AdmissionState> {
    /// Grants free permits to the queue, in FIFO order.
    fn grant_free(&mut self, permits: usize) {
        while self.state.holders.len() < permits {
            let Some(number) = self.grant_first(|arrival, _| arrival) else {
                return;
            };
            self.state.holders.push(number);
        }
    }
}

impl Drop for AdmissionPermit {
    fn drop(&mut self) {
        let mut queue = self.admission.queue.lock();
        let holders = &mut queue.state.holders;
        let at = holders.iter().position(|it| *it == self.number);
        if let Some(at) = at {
            holders.swap_remove(at);
            queue.state.released += 1;
            queue.grant_free(self.admission.permits);
        }
    }
}

#[cfg(test)]
impl AdmissionControl {
    /// Whether no permit is held or requested.
    fn is_empty(&self) -> bool {
        let queue = self.queue.lock();
        queue.state.holders.is_empty() && queue.state.waiters == 0 && queue.len() == 0
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::thread;
    use namiki_platform::model_checker::explore;

    use super::*;
    use namiki_platform::sync::AtomicUsize;

    /// No wait ends by a timeout here: a permit that is granted to no request would hang a waiter.
    #[test]
    fn no_permit_is_granted_twice_and_none_is_lost() {
        explore(3, || {
            let admission = Arc::new(AdmissionControl::with_permits(1, Duration::MAX));
            let holders = Arc::new(AtomicUsize::new(0));
            let visit = {
                let (admission, holders) = (Arc::clone(&admission), Arc::clone(&holders));
                move || {
                    let permit = admission.acquire();
                    assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0);
                    holders.fetch_sub(1, Ordering::Relaxed);
                    drop(permit);
                }
            };
            let others = [(); 2].map(|()| thread::spawn(visit.clone()));
            visit();
            for other in others {
                other.join().unwrap();
            }
            assert!(admission.is_empty());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;
    use namiki_platform::sync::{AtomicUsize, Mutex};

    #[test]
    fn wounds_limit_admission_up_to_a_maximum() {
        for (permits, each) in [(1, LIMITED_AFTER_WOUND), (1000, 4000)] {
            for (wounds, limited) in [
                (0, 0),
                (1, each),
                (2, 2 * each),
                (99, WOUNDS_COUNTED_MAX * each),
            ] {
                let admission = Arc::new(AdmissionControl::with_permits(permits, Duration::MAX));
                (0..wounds).for_each(|_| admission.note_wound());
                for _ in 0..limited {
                    assert!(admission.is_limited());
                    drop(admission.acquire());
                }
                assert!(!admission.is_limited());
                assert_eq!(admission.admission_waits(), 0);
            }
        }
    }

    #[test]
    fn idle_holders_delay_others_once_whatever_the_wounds() {
        let admission = Arc::new(AdmissionControl::with_permits(2, Duration::ZERO));
        let idle = [(); 2].map(|()| admission.acquire());
        for wounds in 0..3 {
            admission.note_wound();
            let holders = [(); 2].map(|()| admission.acquire());
            assert_eq!(admission.admission_waits(), 1, "after {wounds} wounds");
            drop(holders);
        }
        // Other transactions have their permits now.
        let holders = [(); 2].map(|()| admission.acquire());
        drop(idle);
        assert_eq!(admission.queue.lock().state.holders.len(), 2);
        drop(holders);
        assert!(admission.is_empty());
    }

    /// And not all waiters together.
    #[test]
    fn a_stall_admits_one_set_of_permits_at_a_time() {
        const WAITERS: u64 = 8;
        let admission = Arc::new(AdmissionControl::with_permits(2, Duration::from_millis(1)));
        let idle = [(); 2].map(|()| admission.acquire());
        let holders = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..WAITERS {
                scope.spawn(|| {
                    let permit = admission.acquire();
                    holders.fetch_add(1, Ordering::Relaxed);
                    // All stall until all are admitted.
                    while holders.load(Ordering::Relaxed) < WAITERS as usize {
                        thread::yield_now();
                    }
                    drop(permit);
                });
            }
        });
        // Two of the waiters each time.
        let expirations = admission.queue.lock().state.expirations;
        assert!(expirations >= WAITERS / 2, "only {expirations} times");
        drop(idle);
        assert!(admission.is_empty());
    }

    #[test]
    fn permits_are_granted_in_fifo_order() {
        const THREADS: usize = 3;
        // As good as never, so that no permit expires.
        let admission = Arc::new(AdmissionControl::with_permits(1, Duration::MAX));
        let first = admission.acquire();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (admission, order) = (&admission, &order);
                scope.spawn(move || {
                    let permit = admission.acquire();
                    order.lock().push(thread);
                    drop(permit);
                });
                while admission.queue.lock().len() <= thread {
                    thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(*order.lock(), [0, 1, 2]);
        assert_eq!(admission.admission_waits(), THREADS as u64);
        assert!(admission.is_empty());
    }

    #[test]
    fn permits_are_limited_and_every_request_gets_one() {
        const THREADS: usize = 6;
        let admission = Arc::new(AdmissionControl::with_permits(2, Duration::MAX));
        let first = [(); 2].map(|()| admission.acquire());
        let holders = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let permit = admission.acquire();
                        assert!(holders.fetch_add(1, Ordering::Relaxed) < 2);
                        thread::yield_now();
                        holders.fetch_sub(1, Ordering::Relaxed);
                        drop(permit);
                    }
                });
            }
            while admission.queue.lock().len() < THREADS {
                thread::yield_now();
            }
            drop(first);
        });
        assert!(admission.admission_waits() >= THREADS as u64);
        assert!(admission.is_empty());
    }
}
