//! What runs the models of all crates (tests under `--cfg loom`), and the atomics of the code in
//! them.
//!
//! Loom runs a model once, and then again for every two accesses of different threads to one
//! location that might come in the other order. But of each location it remembers one last access.
//! Where a thread reads a location, and another one reads it and then writes it, the first read is
//! forgotten by the time of the write, and the write never comes before it:
//!
//! ```text
//! A: read x                          remembered: A's read
//! B:         read x                  remembered: B's read
//! B:                 write x         comes after B's own read: there is no other order to try
//! ```
//!
//! That is a reader without locks and a writer that looks before it writes. A model of the two ran
//! once, and passed whatever the reader did.
//!
//! So each atomic here has a *watch*, to which each access first stores. Two stores always depend
//! on each other, on whichever threads: loom tries all orders of the stores, and with them all
//! orders of the accesses. A watch is never read, so it makes nothing happen before anything else,
//! and a load may return an old value as before.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use loom::sync::atomic;

/// Runs a model in every order of its accesses in which threads are interrupted at most
/// `preemptions` times, or as often as `LOOM_MAX_PREEMPTIONS` says; `LOOM_PREEMPTIONS_LIMIT` only
/// lowers it. Ends after `LOOM_MAX_DURATION` seconds, if that is set.
///
/// # Panics
/// If the model fails. Also if it ran once: then its threads have nothing to do with each other.
pub fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    let limit = std::env::var("LOOM_PREEMPTIONS_LIMIT").ok();
    let limit = limit.map(|limit| limit.parse().expect("LOOM_PREEMPTIONS_LIMIT is a number"));
    let bound = builder.preemption_bound.unwrap_or(preemptions);
    builder.preemption_bound = Some(limit.map_or(bound, |limit: usize| bound.min(limit)));
    builder.max_branches = 100_000;
    let runs = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let start = Instant::now();
    builder.check({
        let runs = Arc::clone(&runs);
        move || {
            runs.fetch_add(1, Ordering::Relaxed);
            model();
        }
    });
    let runs = runs.load(Ordering::Relaxed);
    eprintln!("{runs} runs, {:.1} s", start.elapsed().as_secs_f64());
    assert!(runs > 1, "the threads of the model never meet");
}

/// An atomic and its watch. A method of the atomic is called through `deref`, which stores to the
/// watch.
#[derive(Debug)]
pub struct Watched<A> {
    atomic: A,
    watch: atomic::AtomicBool,
    number: u64,
}

impl<A> Watched<A> {
    /// Larger than that of every atomic made before. Where production code goes by addresses, which
    /// differ from run to run, a model goes by these: its runs must be alike.
    pub const fn number(&self) -> u64 {
        self.number
    }
}

static MADE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl<A> Deref for Watched<A> {
    type Target = A;

    fn deref(&self) -> &A {
        self.watch.store(true, Ordering::Relaxed);
        &self.atomic
    }
}

macro_rules! watched {
    ($($name:ident $(<$parameter:ident>)? of $value:ty;)+) => {$(
        #[expect(missing_docs, reason = "as in the standard library")]
        pub type $name $(<$parameter>)? = Watched<atomic::$name $(<$parameter>)?>;

        impl $(<$parameter>)? $name $(<$parameter>)? {
            /// As in the standard library.
            #[must_use]
            #[track_caller]
            pub fn new(value: $value) -> Self {
                Self {
                    atomic: atomic::$name::new(value),
                    watch: atomic::AtomicBool::new(false),
                    number: MADE.fetch_add(1, Ordering::Relaxed),
                }
            }
        }
    )+};
}

watched! {
    AtomicBool of bool;
    AtomicU8 of u8;
    AtomicU32 of u32;
    AtomicU64 of u64;
    AtomicUsize of usize;
    AtomicPtr<T> of *mut T;
}

/// A lock as `parking_lot` has it: nothing to unwrap.
#[derive(Debug)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A free lock.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// If a thread has panicked while it held the lock, which ends the model.
    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().expect("no thread of a model panics")
    }

    /// Takes the lock if it is free.
    #[must_use]
    pub fn try_lock(&self) -> Option<loom::sync::MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use loom::thread;

    use super::*;

    /// The values that a reader of `number` can get while another thread reads it and then writes
    /// 1.
    fn seen<A: Deref<Target = atomic::AtomicU64> + Send + Sync + 'static>(
        number: fn(u64) -> A,
        run: fn(Box<dyn Fn() + Send + Sync>),
    ) -> Vec<u64> {
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let all = Arc::clone(&seen);
        run(Box::new(move || {
            let number = Arc::new(number(0));
            let writer = thread::spawn({
                let number = Arc::clone(&number);
                move || {
                    if number.load(Ordering::Relaxed) == 0 {
                        number.store(1, Ordering::Relaxed);
                    }
                }
            });
            all.lock().unwrap().insert(number.load(Ordering::Relaxed));
            writer.join().unwrap();
        }));
        let seen = seen.lock().unwrap();
        seen.iter().copied().collect()
    }

    #[test]
    fn a_write_after_an_own_read_orders_other_reads() {
        assert_eq!(seen(AtomicU64::new, |model| explore(1, model)), [0, 1]);
    }

    /// Once it is not so, this module may go.
    #[test]
    fn loom_alone_leaves_that_out() {
        let unwatched = |number| Box::new(atomic::AtomicU64::new(number));
        assert_eq!(seen(unwatched, loom::model), [0]);
    }
}
