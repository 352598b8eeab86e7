//! Threads that must come to an end.

use std::sync::Barrier;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Far longer than any of it takes.
const LONGEST: Duration = Duration::from_secs(240);

/// Runs the same on threads that begin together and have numbers from 0 on. If they do not come to an end, the whole
/// process does.
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
            // Nothing else could end the threads.
            eprintln!("deadlock: the threads do not come to an end");
            std::process::abort();
        }
    });
}
