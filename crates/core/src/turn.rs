//! Whose turn it is: a transaction that has met too many conflicts commits while the others wait.
//!
//! An optimistic transaction that reads much can be overtaken again and again by short ones that write. After some
//! conflicts in a row its session asks for the turn, of which there is one; as long as somebody has it, whoever else
//! wants to commit a write waits before locking anything. The wait is bounded, because the one whose turn it is may
//! itself wait for another (a body that runs a transaction of another session, say); it is long against
//! most transactions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

/// The longest that a commit waits for somebody else's turn to end.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// How often it gives up the processor before it sleeps.
const YIELDS: u32 = 16;
const SLEEP: Duration = Duration::from_micros(100);

/// The turn of a database.
#[derive(Default)]
pub(crate) struct Turn {
    taken: CachePadded<AtomicBool>,
}

impl Turn {
    /// Takes the turn, unless somebody has it.
    pub(crate) fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::Relaxed)
    }

    /// Ends the turn, by whoever has it.
    pub(crate) fn end(&self) {
        self.taken.store(false, Ordering::Relaxed);
    }

    /// Whether somebody has the turn.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        // Relaxed: nothing depends on it but who goes first.
        self.taken.load(Ordering::Relaxed)
    }

    /// Waits until nobody has the turn any more.
    pub(crate) fn wait(&self) {
        let began = Instant::now();
        for round in 0.. {
            if round < YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(SLEEP);
            }
            if !self.is_taken() || began.elapsed() > WAIT_MAX {
                return;
            }
        }
    }
}
