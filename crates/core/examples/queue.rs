//! A work queue with several workers: `cargo run -p namiki --example queue`
//!
//! A job is in one of four tables, and each step moves it from one to the next in a transaction: so
//! no job is lost or finished twice, whatever fails. The work between two steps may be repeated
//! after a crash: it should be idempotent, or be written to the database in the transaction that
//! finishes the job.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error as StdError;
use std::thread;

use namiki::{Database, Error, Table, Value};

const WORKERS: usize = 4;
const ATTEMPTS_MAX: u32 = 3;

#[derive(Value, Clone, Debug, PartialEq)]
struct Job {
    word: String,
    /// How often it was begun and failed.
    failures: u32,
}

/// The queue. Cloned for each worker: a table's handle and the database's are cheap to clone.
#[derive(Clone)]
struct Queue {
    db: Database,
    /// The number of the next job.
    next: Table<(), u64>,
    /// By failures, then by number: what has failed waits behind what was not tried yet.
    waiting: Table<(u32, u64), Job>,
    running: Table<u64, Job>,
    /// The result for each word.
    done: Table<u64, String>,
    given_up: Table<u64, Job>,
}

impl Queue {
    fn open(dir: &str) -> Result<Self, Box<dyn StdError>> {
        let db = Database::open(dir)?;
        let queue = Self {
            next: db.table("next")?,
            waiting: db.table("waiting")?,
            running: db.table("running")?,
            done: db.table("done")?,
            given_up: db.table("given_up")?,
            db,
        };
        let found = queue.put_back_what_was_running()?;
        if found > 0 {
            println!("{found} interrupted, back in the queue");
        }
        Ok(queue)
    }

    /// Puts jobs back that the last process had begun. Called before workers start.
    fn put_back_what_was_running(&self) -> Result<usize, Error> {
        self.db.transact(|tx| {
            let running = tx.scan(&self.running, ..)?;
            for (number, job) in &running {
                tx.delete(&self.running, number)?;
                tx.insert(&self.waiting, &(job.failures, *number), job)?;
            }
            Ok(running.len())
        })
    }

    /// Adds jobs, all of them or none.
    fn add(&self, words: &[String]) -> Result<(), Error> {
        self.db.transact(|tx| {
            let first = tx.get(&self.next, &())?.unwrap_or(0);
            for (number, word) in (first..).zip(words) {
                let job = Job {
                    word: word.clone(),
                    failures: 0,
                };
                tx.insert(&self.waiting, &(0, number), &job)?;
            }
            tx.put(&self.next, &(), &(first + words.len() as u64))
        })
    }

    /// Takes the next job. Of workers that come at the same time, each gets another one.
    ///
    /// `pop_first` skips the keys of removed jobs, for a moment or for as long as a view may see
    /// them. While long views are open, a queue should remember where it found the last job, and
    /// take the next from `tx.range(&waiting, there..)`.
    fn take(&self) -> Result<Option<(u64, Job)>, Error> {
        self.db.transact(|tx| {
            let Some(((_, number), job)) = tx.pop_first(&self.waiting)? else {
                return Ok(None);
            };
            tx.insert(&self.running, &number, &job)?;
            Ok(Some((number, job)))
        })
    }

    /// The job is done. `insert` fails if it was before.
    fn finish(&self, number: u64, made: &str) -> Result<(), Error> {
        self.db.transact(|tx| {
            tx.delete(&self.running, &number)?;
            tx.insert(&self.done, &number, &made.to_owned())
        })
    }

    /// The job has failed: it waits again, or it is given up.
    fn fail(&self, number: u64, job: &Job) -> Result<(), Error> {
        let failures = job.failures + 1;
        let job = Job {
            failures,
            ..job.clone()
        };
        self.db.transact(|tx| {
            tx.delete(&self.running, &number)?;
            if failures < ATTEMPTS_MAX {
                tx.insert(&self.waiting, &(failures, number), &job)
            } else {
                tx.insert(&self.given_up, &number, &job)
            }
        })
    }

    /// Each worker runs this until no job is waiting. (A worker that expects more jobs would check
    /// again.)
    fn work(&self) -> Result<(), Error> {
        while let Some((number, job)) = self.take()? {
            match reverse(&job) {
                Ok(made) => self.finish(number, &made)?,
                Err(Unlucky) => self.fail(number, &job)?,
            }
        }
        Ok(())
    }
}

struct Unlucky;

/// The work: each third word fails once, and one fails always.
fn reverse(job: &Job) -> Result<String, Unlucky> {
    let unlucky = job.word.len().is_multiple_of(3) && job.failures == 0;
    if unlucky || job.word == "never" {
        return Err(Unlucky);
    }
    Ok(job.word.chars().rev().collect())
}

fn main() -> Result<(), Box<dyn StdError>> {
    let queue = Queue::open("queue")?;
    let words = (0..50)
        .map(|length| "x".repeat(length))
        .chain(["never".to_owned()]);
    queue.add(&words.collect::<Vec<_>>())?;

    // As if the process ended in the middle of a job.
    let taken = queue.take()?;
    println!("taken and not finished: {}", taken.is_some());
    queue.db.close()?;
    drop(queue);
    let queue = Queue::open("queue")?;

    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let queue = queue.clone();
            thread::spawn(move || queue.work())
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| "a worker has panicked")??;
    }

    queue.db.transact(|tx| {
        let left = tx.count(&queue.waiting, ..)? + tx.count(&queue.running, ..)?;
        let done = tx.count(&queue.done, ..)?;
        println!("{done} done, {left} left");
        for (_, job) in tx.scan(&queue.given_up, ..)? {
            println!("given up after {} attempts: {}", job.failures, job.word);
        }
        Ok(())
    })?;
    queue.db.close()?;
    Ok(())
}
