//! Transactions in the middle of another one's body.

use std::panic::resume_unwind;
use std::thread;

/// Runs a closure on a thread of its own, and returns when it has ended: inside the body of a
/// transaction its own thread cannot run another one.
pub fn on_another_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    let joined = thread::scope(|scope| scope.spawn(run).join());
    joined.unwrap_or_else(|panic| resume_unwind(panic))
}
