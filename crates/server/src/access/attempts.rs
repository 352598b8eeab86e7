//! Limits on connections without a login, and delays after wrong passwords.
//!
//! Three numbers bound what clients without a password can take:
//!
//! - permits for connections that have not logged in yet,
//! - permits for connections whose refusal is delayed,
//! - the delay after a wrong password, which makes guessing slow.
//!
//! A delayed connection has given its first permit back, so that guesses at speed do not keep
//! others from logging in. Where the second permits are used up, connections are closed without a
//! delay and without an answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Delay between a wrong password and its refusal.
const DELAY: Duration = Duration::from_millis(500);

/// The permits.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    without_login: Arc<Semaphore>,
    delayed: Arc<Semaphore>,
}

impl Attempts {
    pub(crate) fn new(without_login_max: usize, delayed_max: usize) -> Self {
        Self {
            without_login: Arc::new(Semaphore::new(without_login_max)),
            delayed: Arc::new(Semaphore::new(delayed_max)),
        }
    }

    /// Admits a connection that has not logged in; `None` if there are too many.
    pub(crate) fn admit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.without_login).try_acquire_owned().ok()
    }

    /// Waits before a wrong password is refused. Returns whether the connection is to be answered.
    pub(crate) async fn delay(&self, admitted: OwnedSemaphorePermit) -> bool {
        drop(admitted);
        let Ok(_permit) = self.delayed.try_acquire() else {
            return false;
        };
        tokio::time::sleep(DELAY).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn guesses_at_speed_take_no_permits_of_others() {
        let attempts = Attempts::new(1, 2);
        let admitted = attempts.admit().unwrap();
        assert!(attempts.admit().is_none());
        let guesses = [(); 2].map(|()| attempts.clone()).map(|attempts| {
            let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
            tokio::spawn(async move { attempts.delay(permit).await })
        });
        tokio::task::yield_now().await;
        assert!(!attempts.delay(admitted).await);
        assert!(attempts.admit().is_some());
        for guess in guesses {
            assert!(guess.await.unwrap());
        }
    }
}
