//! Real threads, each with a session and a history of its own.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki::faults::Checks;
use namiki::{Database, Error};
use namiki_platform::seeded_random::Random;

use super::{Attempt, Mix, Numbers, Run};
use crate::key_encoding::Numbered;

/// Maximum of attempts at the same steps. Without retries, transactions that conflict often would
/// hardly appear in a history, above all writers among readers that wait for no lock.
const ATTEMPTS: u32 = 64;

/// Runs transactions until `transactions` have committed, on `threads` threads.
///
/// # Errors
/// Errors of the engine other than conflicts.
pub fn run<C: Checks>(
    db: &Database,
    table: &Numbers<impl Numbered>,
    mix: Mix,
    seed: u64,
    transactions: u64,
    threads: u64,
) -> Result<Run, Error> {
    let together = Barrier::new(threads as usize);
    let started = AtomicU64::new(0);
    let committed = AtomicU64::new(0);
    let steps_done = AtomicU64::new(0);
    let one = |thread: u64| {
        let mut random = Random::stream(seed, thread);
        let mut session = db.session()?;
        let mut run = Run::default();
        together.wait();
        while committed.load(Ordering::Relaxed) < transactions {
            let number = started.fetch_add(1, Ordering::Relaxed) + 1;
            let steps = mix.steps(&mut random, number);
            for _ in 0..ATTEMPTS {
                let mut attempt = Attempt::new(number);
                let ended = session.try_faulty::<C, _>(|tx| {
                    for step in steps.clone() {
                        attempt.step(tx, table, step, &mut random)?;
                        let done = steps_done.fetch_add(1, Ordering::Relaxed) + 1;
                        if random.chance(0.3) {
                            let_another_step(&steps_done, done);
                        }
                    }
                    Ok(())
                });
                match ended {
                    Ok(((), ticket)) => {
                        run.committed(attempt, ticket.stamp());
                        committed.fetch_add(1, Ordering::Relaxed);
                        if random.chance(0.1) {
                            session.wait(&ticket)?;
                        }
                        break;
                    }
                    Err(Error::Conflict(_)) => run.conflicts += 1,
                    Err(error) => return Err(error),
                }
                std::thread::yield_now();
            }
        }
        session.flush()?;
        Ok(run)
    };
    std::thread::scope(|scope| {
        let one = &one;
        let handles: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || one(thread)))
            .collect();
        let mut all = Run::default();
        for handle in handles {
            let run = handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.absorb(run?);
        }
        Ok(all)
    })
}

/// Lets another thread do a step, so that transactions overlap even on few and busy processors.
///
/// It gives up in the end: all other threads may have finished, or wait for the log.
fn let_another_step(steps_done: &AtomicU64, done: u64) {
    for _ in 0..200 {
        std::thread::yield_now();
        if steps_done.load(Ordering::Relaxed) != done {
            return;
        }
    }
}
