//! Counters that many threads change: `cargo run -p namiki --example counters`
//!
//! A transaction that reads a number and writes it back conflicts with every other that does. `add`
//! reads nothing before the commit: however many threads add to a counter, none of their
//! transactions is retried for it (`db.counters().conflicts_by_kind` counts the conflicts).
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error as StdError;
use std::thread;

use namiki::{Database, Error};

const THREADS: u64 = 8;
const VISITS: u64 = 200;

fn main() -> Result<(), Box<dyn StdError>> {
    let db = Database::open("counters")?;
    let visits = db.table::<(u64, u64), String>("visits")?; // (thread, number), page
    let counts = db.table::<str, u64>("visits_by_page")?;
    let before = db.transact(|tx| tx.count(&visits, ..))? as u64;

    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, visits, counts) = (&db, &visits, &counts);
                scope.spawn(move || -> Result<(), Error> {
                    for number in before..before + VISITS {
                        let page = if number.is_multiple_of(4) {
                            "about"
                        } else {
                            "home"
                        };
                        // The row and what it adds to its counter: both, or neither.
                        db.transact(|tx| {
                            tx.insert(visits, &(thread, number), &page.to_owned())?;
                            tx.add(counts, page, 1)?; // from 0, if there is no such key
                            tx.add(counts, "all", 1)
                        })?;
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread has panicked")??;
        }
        Ok::<_, Box<dyn StdError>>(())
    })?;

    // A transaction that reads counters sees all of them at one moment.
    for (page, count) in db.transact(|tx| tx.scan(&counts, ..))? {
        println!("{page}: {count}");
    }
    let rows = db.transact(|tx| tx.count(&visits, ..))?; // reads them all: what the counter spares
    println!("rows: {rows}");
    db.close()?;
    Ok(())
}
