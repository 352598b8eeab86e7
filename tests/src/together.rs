//! Threads that have to come to an end.

use std::sync::{Barrier, mpsc};
use std::time::Duration;

/// Runs the same on threads that begin together. If they do not come to an end, neither can the process in good order:
/// it is aborted.
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
        if watch.recv_timeout(Duration::from_secs(240)) == Err(mpsc::RecvTimeoutError::Timeout) {
            // Nobody else could end the threads.
            eprintln!("deadlock: the threads do not come to an end");
            std::process::abort();
        }
    });
}
