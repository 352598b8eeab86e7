//! Limits on connections without a login, and delays after wrong passwords.
//!
//! - A new connection takes the room of the oldest one that has not logged in, if there are too many
//!   of those: silent connections do not keep others out. Connections over TCP do not count among
//!   those over the Unix socket.
//! - A wrong password is refused after a delay, which makes guessing slow. A delayed connection has
//!   left the room of those without a login; where too many are delayed, further ones are closed
//!   without an answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

/// Delay between a wrong password and its refusal.
const DELAY: Duration = Duration::from_millis(500);

/// The connections without a login, of one kind.
#[derive(Debug)]
pub(crate) struct Attempts {
    connections_max: usize,
    next: AtomicU64,
    /// By age: what evicts them.
    connections: Mutex<BTreeMap<u64, Arc<Notify>>>,
    delayed: Semaphore,
}

impl Attempts {
    pub(crate) fn new(connections_max: usize, delayed_max: usize) -> Arc<Self> {
        Arc::new(Self {
            connections_max: connections_max.max(1),
            next: AtomicU64::new(0),
            connections: Mutex::default(),
            delayed: Semaphore::new(delayed_max),
        })
    }

    /// Admits a connection. Returns whether an older one is evicted for it, too.
    pub(crate) fn admit(self: &Arc<Self>) -> (Admission, bool) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let eviction = Arc::new(Notify::new());
        let mut connections = self.connections.lock();
        let mut is_full = false;
        if connections.len() >= self.connections_max
            && let Some((_, oldest)) = connections.pop_first()
        {
            oldest.notify_one();
            is_full = true;
        }
        connections.insert(number, Arc::clone(&eviction));
        let admission = Admission {
            attempts: Arc::clone(self),
            number,
            eviction,
        };
        (admission, is_full)
    }
}

/// The permission to be connected without a login.
#[derive(Debug)]
pub(crate) struct Admission {
    attempts: Arc<Attempts>,
    number: u64,
    eviction: Arc<Notify>,
}

impl Admission {
    /// Tells the connection that it is evicted.
    pub(crate) fn eviction(&self) -> Arc<Notify> {
        Arc::clone(&self.eviction)
    }

    /// Waits before a wrong password is refused. Returns whether the connection is to be answered.
    pub(crate) async fn delay(self) -> bool {
        let attempts = Arc::clone(&self.attempts);
        drop(self);
        let Ok(_permit) = attempts.delayed.try_acquire() else {
            return false;
        };
        tokio::time::sleep(DELAY).await;
        true
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.attempts.connections.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_silent_connection_is_evicted() {
        let attempts = Attempts::new(2, 1);
        let (first, _) = attempts.admit();
        let (second, is_full) = attempts.admit();
        assert!(!is_full);
        drop(second);
        let (third, is_full) = attempts.admit();
        assert!(!is_full);
        let (_fourth, is_full) = attempts.admit();
        assert!(is_full);
        first.eviction().notified().await;
        drop(first);
        assert_eq!(attempts.connections.lock().len(), 2);
        drop(third);
        assert_eq!(attempts.connections.lock().len(), 1);
    }

    #[tokio::test]
    async fn guesses_at_speed_are_not_answered() {
        let attempts = Attempts::new(8, 2);
        let guesses = [(); 2].map(|()| {
            let (admission, _) = attempts.admit();
            tokio::spawn(admission.delay())
        });
        tokio::task::yield_now().await;
        assert!(attempts.connections.lock().is_empty());
        let (admission, _) = attempts.admit();
        assert!(!admission.delay().await);
        for guess in guesses {
            assert!(guess.await.unwrap());
        }
    }
}
