//! The same load from threads and from tasks, by turns: how many durable transactions in a second.
//! `cargo run --release -p namiki --example tasks_beside_threads`
//!
//! Each caller runs one transaction after the other: it reads a row, and writes two of its own. As many callers are
//! threads that wait, and tasks of a runtime with as many threads as there are processors.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use namiki::{Database, Table, Transaction};

const CALLERS: u64 = 64;
const ROUNDS: usize = 5;

fn body(
    tx: &mut Transaction,
    table: &Table<u64, u64>,
    caller: u64,
    n: u64,
) -> Result<(), namiki::Error> {
    let key = caller * 1_000 + n % 500;
    let before = tx.get(table, &key)?.unwrap_or(0);
    tx.put(table, &key, &(before + 1))?;
    tx.put(table, &(key + 500), &n)
}

/// Transactions a second, of threads.
fn by_threads(
    db: &Database,
    table: &Table<u64, u64>,
    time: Duration,
) -> Result<f64, namiki::Error> {
    let (done, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (done, count) = (&done, &count);
                scope.spawn(move || {
                    for n in 0.. {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        db.transact(|tx| body(tx, table, caller, n))?;
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        thread::sleep(time);
        done.store(true, Ordering::Relaxed);
        callers
            .into_iter()
            .try_for_each(|caller| caller.join().unwrap_or(Ok(())))
    })?;
    Ok(count.into_inner() as f64 / began.elapsed().as_secs_f64())
}

/// Transactions a second, of tasks.
fn by_tasks(db: &Database, table: &Table<u64, u64>, time: Duration) -> Result<f64, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let began = Instant::now();
    let tasks: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (db, table) = (db.clone(), table.clone());
            runtime.spawn(async move {
                let mut count = 0;
                while began.elapsed() < time {
                    db.transact_in_task(|tx| body(tx, &table, caller, count))
                        .await?;
                    count += 1;
                }
                Ok::<_, namiki::Error>(count)
            })
        })
        .collect();
    let count = runtime.block_on(async {
        let mut sum = 0;
        for task in tasks {
            sum += task.await??;
        }
        Ok::<_, Box<dyn Error>>(sum)
    })?;
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(3.0), |text| text.parse::<f64>())?;
    let time = Duration::from_secs_f64(seconds);
    let dir = std::env::args()
        .nth(2)
        .unwrap_or_else(|| "tasks_beside_threads.db".to_owned());
    let db = Database::open(&dir)?;
    let table = db.table("rows")?;
    let (mut threads, mut tasks) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        threads.push(by_threads(&db, &table, time)?);
        tasks.push(by_tasks(&db, &table, time)?);
        println!(
            "round {round}: {:.0}/s by {CALLERS} threads, {:.0}/s by {CALLERS} tasks",
            threads[round - 1],
            tasks[round - 1]
        );
    }
    let ratios = threads
        .iter()
        .zip(&tasks)
        .map(|(threads, tasks)| tasks / threads)
        .collect();
    println!("tasks to threads, median: {:.2}", median(ratios));
    db.close()?;
    Ok(())
}
