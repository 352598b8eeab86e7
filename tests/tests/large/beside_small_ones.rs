//! Large and small transactions at the same time, from several threads.

use std::num::NonZeroU16;
use std::time::Duration;

use namiki::{Database, Prepare, WorkerId};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_tests::crash::tested_combinations;

use crate::round_trips::{Texts, small, value};

const THREADS: u64 = 4;
const EACH: u64 = 6;

/// Threads 0 and 1 write large values, 2 and 3 small ones; all of them add to one counter, and two share a stream.
fn run(db: &Database) {
    let texts: Texts = db.table("texts").unwrap();
    let counters = db.table::<u64, u64>("counters").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (texts, counters) = (&texts, &counters);
            scope.spawn(move || {
                let mut session = db.session_on(WorkerId(thread as u16)).unwrap();
                for n in 0..EACH {
                    let key = thread * 100 + n;
                    let bytes = match thread {
                        0 => 17_000 + 3000 * n,
                        1 => 8_000 + 2000 * n,
                        _ => 10 * n,
                    } as usize;
                    session
                        .transact(|tx| {
                            tx.put(texts, &key, &value(key, n, bytes))?;
                            tx.add(counters, &1, 1)
                        })
                        .unwrap();
                }
            });
        }
    });
}

fn check(db: &Database, context: &str) {
    let texts: Texts = db.table("texts").unwrap();
    let counters = db.table::<u64, u64>("counters").unwrap();
    let (rows, count) = db
        .transact(|tx| Ok((tx.scan(&texts, ..)?, tx.get(&counters, &1)?)))
        .unwrap();
    assert_eq!(count, Some(THREADS * EACH), "{context}");
    assert_eq!(rows.len() as u64, THREADS * EACH, "{context}");
    for (key, found) in rows {
        assert!(
            found == value(key, key % 100, found.len()),
            "{context}: {key}"
        );
    }
}

#[test]
fn large_ones_commit_beside_small_ones_under_every_protocol() {
    for (seed, (spec, shared)) in (1..).zip(tested_combinations()) {
        let context = format!("{spec}, shared {shared}, seed {seed}");
        let disk = SimDisk::new().with_yields(seed);
        let open = |disk: &SimDisk| {
            small(spec, shared, disk)
                .streams(NonZeroU16::new(2).unwrap())
                .prepare(Prepare::Background)
                .group_wait_max(Duration::from_millis(1))
                .open("/db")
                .unwrap()
        };
        let db = open(&disk);
        run(&db);
        check(&db, &context);
        let crashed = disk.crash_image(disk.events(), Loss::All);
        db.close().unwrap();
        for disk in [crashed, disk] {
            check(&open(&disk), &context);
        }
    }
}
