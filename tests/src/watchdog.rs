//! Runs threads with a deadline.

use std::sync::Barrier;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Far longer than any of these tests takes.
const LONGEST: Duration = Duration::from_secs(240);

/// Runs a closure on threads that start together and are numbered from 0. If they do not end in
/// time, the process aborts.
pub fn on_threads(threads: u64, one: impl Fn(u64) + Sync) {
    let (done, watch) = mpsc::channel::<()>();
    let together = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (one, together, done) = (&one, &together, done.clone());
            scope.spawn(move || {
                together.wait();
                one(thread);
                drop(done);
            });
        }
        drop(done);
        if watch.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
            // No other means could end the threads.
            eprintln!("deadlock: the threads do not come to an end");
            std::process::abort();
        }
    });
}
