//! A wait list: the requests of parked threads, and of tasks, behind one mutex.
//!
//! The priority token, admission control and the lock wait list park their waiters here. Each request (`T`) is in the
//! list with the handle that unparks its thread, or that has its task woken. Under the same mutex lies the state (`S`) that requests depend on.
//!
//! A request ends in one of two ways. It is *granted*: the granting thread removes the request and
//! unparks its waiter. Or it is *withdrawn*: the waiter removes it, because it no longer needs the
//! grant, or gives up. A waiter that is only *woken* stays in the list, looks at the state again,
//! and may park again.
//!
//! # Invariants
//! - P1. The list and the state change under the mutex only, and a waiter enters under it before it parks. So a change
//!   is seen by the waiter's last look before the park, or its maker sees the request: no wake-up is lost.
//! - P2. A request leaves the list once. It was granted exactly if it has left the list, however
//!   the park has ended: a grant and a timeout at the same moment are one grant.
//! - P3. An unpark that comes before the park ends it (`platform/src/sync.rs`). So the mutex need not be held while parking begins.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use namiki_platform::sync::{Mutex, MutexGuard, Parker, Unparker};

use super::task_timer::TimerHandle;

/// Requests of parked threads (`T`), and what they depend on (`S`).
pub(crate) struct WaitList<T, S = ()> {
    waiters: Mutex<Waiters<T, S>>,
}

/// The state under the mutex of a [`WaitList`].
pub(crate) struct Waiters<T, S = ()> {
    /// The state on which the requests depend.
    pub(crate) state: S,
    /// In no order: a request is taken out from anywhere.
    list: Vec<Waiter<T>>,
    /// How many requests ever came.
    arrivals: u64,
}

/// A request in the list. Requests are ordered by their arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestId(u64);

/// A thread that waits, or is about to look again.
pub(crate) struct Waiter<T> {
    id: RequestId,
    wake: Wake,
    pub(crate) request: T,
}

/// How a waiter is woken.
enum Wake {
    Thread(Unparker),
    Task(TimerHandle),
}

impl Wake {
    fn wake(&self) {
        match self {
            Self::Thread(unparker) => unparker.unpark(),
            Self::Task(handle) => handle.fire(),
        }
    }
}

impl<T, S> WaitList<T, S> {
    /// Without requests.
    pub(crate) fn new(state: S) -> Self {
        Self {
            waiters: Mutex::new(Waiters {
                state,
                list: Vec::new(),
                arrivals: 0,
            }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Waiters<T, S>> {
        self.waiters.lock()
    }

    /// Releases the mutex, parks until this waiter was granted its request or woken, no longer than `longest`, and
    /// acquires the mutex again.
    pub(crate) fn park<'a>(
        &'a self,
        waiters: MutexGuard<'a, Waiters<T, S>>,
        parker: &Parker,
        longest: Duration,
    ) -> MutexGuard<'a, Waiters<T, S>> {
        drop(waiters);
        parker.park(longest);
        self.lock()
    }
}

impl<T, S> Waiters<T, S> {
    /// Adds a request of the thread that will park with this parker.
    pub(crate) fn enter(&mut self, parker: &Parker, request: T) -> RequestId {
        self.add(Wake::Thread(parker.unparker()), request)
    }

    /// Adds a request of a task that this handle wakes.
    pub(crate) fn enter_task(&mut self, handle: TimerHandle, request: T) -> RequestId {
        self.add(Wake::Task(handle), request)
    }

    fn add(&mut self, wake: Wake, request: T) -> RequestId {
        let id = RequestId(self.arrivals);
        self.arrivals += 1;
        self.list.push(Waiter { id, wake, request });
        id
    }

    /// Whether a request is neither granted nor withdrawn.
    pub(crate) fn is_waiting(&self, id: RequestId) -> bool {
        self.position(id).is_some()
    }

    /// Removes a request, for its own waiter. `None` if it was granted.
    pub(crate) fn withdraw(&mut self, id: RequestId) -> Option<T> {
        let at = self.position(id)?;
        Some(self.list.swap_remove(at).request)
    }

    /// Grants the request with the least key: removes it, and wakes its waiter. `None` if the list
    /// is empty.
    pub(crate) fn grant_first<K: Ord>(&mut self, key: impl Fn(RequestId, &T) -> K) -> Option<T> {
        self.take_first(key).map(|(request, _)| request)
    }

    /// The same; returns whether the waiter is a task, which may take long to be polled.
    pub(crate) fn take_first<K: Ord>(
        &mut self,
        key: impl Fn(RequestId, &T) -> K,
    ) -> Option<(T, bool)> {
        let keys = self.list.iter().map(|it| key(it.id, &it.request));
        let (at, _) = keys.enumerate().min_by(|(_, a), (_, b)| a.cmp(b))?;
        let Waiter { wake, request, .. } = self.list.swap_remove(at);
        wake.wake();
        Some((request, matches!(wake, Wake::Task(_))))
    }

    /// All waiters, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiter<T>> {
        self.list.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Waiter<T>> {
        self.list.iter_mut()
    }

    /// How many requests are in the list.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    fn position(&self, id: RequestId) -> Option<usize> {
        self.list.iter().position(|it| it.id == id)
    }
}

impl<T, S> Index<RequestId> for Waiters<T, S> {
    type Output = T;

    /// A request that is in the list.
    fn index(&self, id: RequestId) -> &T {
        let at = self.position(id).expect("the request is in the list");
        &self.list[at].request
    }
}

impl<T, S> IndexMut<RequestId> for Waiters<T, S> {
    fn index_mut(&mut self, id: RequestId) -> &mut T {
        let at = self.position(id).expect("the request is in the list");
        &mut self.list[at].request
    }
}

impl<T> Waiter<T> {
    pub(crate) fn id(&self) -> RequestId {
        self.id
    }

    /// Makes the waiter look at the state again. Its request stays.
    pub(crate) fn wake(&self) {
        self.wake.wake();
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::thread;
    use namiki_platform::model_checker::explore;
    use std::sync::Arc;

    use super::*;

    /// Items for waiters, one for each grant.
    type Stock = WaitList<usize, Vec<usize>>;

    /// Takes an item from the stock, or parks until one is granted.
    fn receive(stock: &Stock, own: usize) -> usize {
        let parker = Parker::new();
        let mut waiters = stock.lock();
        if let Some(item) = waiters.state.pop() {
            return item;
        }
        let id = waiters.enter(&parker, own);
        waiters = stock.park(waiters, &parker, Duration::MAX);
        assert!(!waiters.is_waiting(id), "no park ends here but by a grant");
        assert!(waiters.withdraw(id).is_none());
        own
    }

    fn give(stock: &Stock, item: usize) {
        let mut waiters = stock.lock();
        if waiters.grant_first(|_, own| *own).is_none() {
            waiters.state.push(item);
        }
    }

    /// A grant that no waiter is parked for yet is not lost, and none is given twice: a lost one hangs.
    #[test]
    fn each_grant_ends_the_park_of_one_waiter() {
        explore(3, || {
            let stock = Arc::new(Stock::new(Vec::new()));
            let receivers = [1, 2].map(|own| {
                let stock = Arc::clone(&stock);
                thread::spawn(move || receive(&stock, own))
            });
            give(&stock, 3);
            give(&stock, 4);
            for receiver in receivers {
                receiver.join().unwrap();
            }
            let waiters = stock.lock();
            assert!(waiters.state.is_empty() && waiters.len() == 0);
        });
    }

    /// One waiter is woken and not granted, and withdraws; a grant at the same moment is its own, or the other's.
    #[test]
    fn a_grant_and_a_withdrawal_do_not_both_happen() {
        explore(3, || {
            let stock = Arc::new(Stock::new(Vec::new()));
            let parker = Parker::new();
            let first = stock.lock().enter(&parker, 0);
            let other = {
                let stock = Arc::clone(&stock);
                thread::spawn(move || {
                    stock.lock().iter().for_each(Waiter::wake);
                    give(&stock, 1);
                })
            };
            let mut waiters = stock.park(stock.lock(), &parker, Duration::MAX);
            let is_granted = waiters.withdraw(first).is_none();
            drop(waiters);
            other.join().unwrap();
            let left = stock.lock().state.len();
            assert_eq!(
                left,
                usize::from(!is_granted),
                "in stock or granted, not both"
            );
        });
    }

    /// A waiter that is woken for each change of the state sees the last one.
    #[test]
    fn a_woken_waiter_sees_the_change() {
        explore(3, || {
            let list = Arc::new(WaitList::<(), u32>::new(0));
            let changer = {
                let list = Arc::clone(&list);
                thread::spawn(move || {
                    for _ in 0..2 {
                        let mut waiters = list.lock();
                        waiters.state += 1;
                        waiters.iter().for_each(Waiter::wake);
                    }
                })
            };
            let parker = Parker::new();
            let mut waiters = list.lock();
            let id = waiters.enter(&parker, ());
            while waiters.state < 2 {
                waiters = list.park(waiters, &parker, Duration::MAX);
            }
            assert!(waiters.withdraw(id).is_some());
            drop(waiters);
            changer.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_granted_or_withdrawn_once() {
        let list = WaitList::<char>::new(());
        let parker = Parker::new();
        let mut waiters = list.lock();
        let [first, second, third] = ['c', 'a', 'b'].map(|it| waiters.enter(&parker, it));
        assert_eq!(waiters.grant_first(|_, letter| *letter), Some('a'));
        assert!(!waiters.is_waiting(second));
        assert_eq!(waiters.withdraw(second), None);
        assert_eq!(waiters.grant_first(|arrival, _| arrival), Some('c'));
        assert_eq!(waiters[third], 'b');
        assert_eq!(waiters.withdraw(third), Some('b'));
        assert_eq!(waiters.withdraw(third), None);
        assert_eq!(waiters.grant_first(|arrival, _| arrival), None);
        assert!(!waiters.is_waiting(first));
    }

    #[test]
    fn a_grant_before_the_park_ends_it() {
        let list = WaitList::<()>::new(());
        let parker = Parker::new();
        let id = list.lock().enter(&parker, ());
        list.lock().grant_first(|arrival, _| arrival);
        // It would not return.
        let waiters = list.park(list.lock(), &parker, Duration::MAX);
        assert!(!waiters.is_waiting(id));
    }
}
