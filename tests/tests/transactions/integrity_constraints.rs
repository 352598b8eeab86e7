//! Constraints that every single transaction preserves hold under concurrency, whatever the
//! concurrency control, the tree and the number of threads.
//!
//! Each transaction reads first, and writes only if the constraint would still hold. A write skew
//! or a phantom would break it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it met"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use namiki::{Database, ProtocolSpec, TreeKind};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;

const THREADS: [u64; 4] = [1, 2, 5, 16];
/// Transactions of a run, over all threads.
const TRANSACTIONS: u64 = 240;

/// Releases, groups and logs differ from run to run. The length of the list is coprime to the
/// numbers of threads and of trees.
const RESTS: [&str; 7] = [
    "(NLR)+PWAL(16)",
    "(EPOCH)+PWAL(auto)",
    "(ELR)+PWAL(1)",
    "(NLR)+NOLOG",
    "(ELR)+SWAL(16)",
    "(EPOCH)+PWAL(1)",
    "(NLR)+SWAL(auto)",
];
/// The same for operation logging.
const OPERATIONS: [&str; 3] = [
    "(NLR)+PWAL(16)+ARIES",
    "(ELR)+PWAL(auto)+ARIES",
    "(ELR)+SWAL(1)+ARIES",
];
/// The combinations of concurrency control and rest.
const PROTOCOLS: [(&str, &[&str]); 4] = [
    ("TT", &RESTS),
    ("SILO", &RESTS),
    ("S2PL", &RESTS),
    ("S2PL", &OPERATIONS),
];

/// The settings of a run.
#[derive(Clone, Copy)]
struct Run {
    concurrency: &'static str,
    rest: &'static str,
    tree: TreeKind,
    threads: u64,
}

/// Every concurrency control with every tree and number of threads, and all other settings in turn.
fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for (concurrency, rests) in PROTOCOLS {
        for tree in TreeKind::ALL {
            for threads in THREADS {
                runs.push(Run {
                    concurrency,
                    rest: rests[runs.len() % rests.len()],
                    tree: *tree,
                    threads,
                });
            }
        }
    }
    runs
}

#[test]
fn every_protocol_meets_every_thread_count_and_tree() {
    let runs = runs();
    let met = |is: &dyn Fn(&Run) -> bool| runs.iter().any(is);
    for (concurrency, rests) in PROTOCOLS {
        for rest in rests {
            assert!(
                met(&|run| run.rest == *rest && run.concurrency == concurrency),
                "{concurrency}{rest}"
            );
            for threads in THREADS {
                assert!(
                    met(&|run| run.rest == *rest && run.threads == threads),
                    "{rest}, {threads} threads"
                );
            }
            for tree in TreeKind::ALL {
                assert!(
                    met(&|run| run.rest == *rest && run.tree == *tree),
                    "{rest}, {tree}"
                );
            }
        }
    }
}

fn each_run(check: impl Fn(&Database, u64, u64)) {
    let mut conflicts = 0;
    for (seed, run) in (1..).zip(runs()) {
        let Run { tree, threads, .. } = run;
        let spec: ProtocolSpec = format!("{}{}", run.concurrency, run.rest).parse().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new().with_yields(seed));
        let db = Database::builder()
            .spec(spec)
            .index(tree)
            // A single thread would wait for each of its groups.
            .group_wait_max(Duration::from_micros(50))
            .disk(disk)
            .open("/db")
            .unwrap();
        check(&db, threads, seed);
        let counted = db.counters();
        conflicts += counted.conflicts;
        assert_eq!(
            counted.committed + counted.read_only,
            TRANSACTIONS / threads * threads + 2,
            "{spec}, {tree}, {threads} threads: and those of the test itself"
        );
    }
    println!("{conflicts} conflicts");
    assert!(conflicts > 0, "the transactions never met");
}

/// Runs a closure on this number of threads.
fn on_threads(threads: u64, seed: u64, one: impl Fn(&mut Random) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let one = &one;
            scope.spawn(move || {
                let mut random = Random::stream(seed, thread);
                for _ in 0..TRANSACTIONS / threads {
                    one(&mut random);
                }
            });
        }
    });
}

/// Doctors on call: at least one of each pair stays on call, although each only checks that the
/// other is there.
#[test]
fn no_write_skew_happens() {
    each_run(|db, threads, seed| {
        const PAIRS: u64 = 3;
        let on_call = db.table::<u64, u64>("on call").unwrap();
        db.transact(|tx| (0..2 * PAIRS).try_for_each(|doctor| tx.put(&on_call, &doctor, &1)))
            .unwrap();
        let left = AtomicU64::new(0);
        on_threads(threads, seed, |random| {
            let doctor = random.below(2 * PAIRS);
            let leaves = random.chance(0.6);
            let done = db
                .transact(|tx| {
                    let colleague = tx.get(&on_call, &(doctor ^ 1))?.unwrap_or(0);
                    std::thread::yield_now();
                    let stays = !leaves || colleague == 0;
                    tx.put(&on_call, &doctor, &u64::from(stays))?;
                    let here = colleague + u64::from(stays);
                    assert!(here > 0);
                    Ok(!stays)
                })
                .unwrap();
            left.fetch_add(u64::from(done), Ordering::Relaxed);
        });
        let all = db.transact(|tx| tx.scan(&on_call, ..)).unwrap();
        for pair in all.chunks(2) {
            assert!(pair[0].1 + pair[1].1 > 0, "{all:?}, {}", db.spec());
        }
        assert!(left.into_inner() > 0, "no transaction ever left");
    });
}

/// Seats of a row: never overbooked, although each transaction counts the taken seats and then
/// inserts a new key.
#[test]
fn no_phantom_happens() {
    each_run(|db, threads, seed| {
        const ROWS: u64 = 8;
        const SEATS: usize = 5;
        let taken = db.table::<u64, u64>("taken").unwrap();
        db.transact(|tx| tx.put(&taken, &u64::MAX, &0)).unwrap();
        let row = |row: u64| row << 32..(row + 1) << 32;
        on_threads(threads, seed, |random| {
            let (of, seat) = (random.below(ROWS), random.below(1 << 32));
            db.transact(|tx| {
                let found = tx.scan(&taken, row(of))?.len();
                std::thread::yield_now();
                if found < SEATS {
                    tx.put(&taken, &(of << 32 | seat), &1)?;
                }
                Ok(())
            })
            .unwrap();
        });
        let all = db.transact(|tx| tx.scan(&taken, ..)).unwrap();
        for of in 0..ROWS {
            let found = all.iter().filter(|(key, _)| row(of).contains(key)).count();
            assert!(found <= SEATS, "{found} in row {of}, {}", db.spec());
        }
        assert!(
            all.len() > ROWS as usize,
            "few seats were taken: {}",
            all.len()
        );
    });
}

/// A key that was read as absent is still absent when it is written.
#[test]
fn a_name_is_given_once() {
    each_run(|db, threads, seed| {
        const NAMES: u64 = 60;
        let owners = db.table::<u64, u64>("owners").unwrap();
        db.transact(|tx| tx.put(&owners, &u64::MAX, &0)).unwrap();
        let given = AtomicU64::new(0);
        on_threads(threads, seed, |random| {
            let name = random.below(NAMES) * 10;
            let won = db
                .transact(|tx| {
                    if tx.get(&owners, &name)?.is_some() {
                        return Ok(false);
                    }
                    std::thread::yield_now();
                    tx.put(&owners, &name, &1).map(|()| true)
                })
                .unwrap();
            given.fetch_add(u64::from(won), Ordering::Relaxed);
        });
        let all = db.transact(|tx| tx.scan(&owners, ..NAMES * 10)).unwrap();
        assert_eq!(given.into_inner(), all.len() as u64, "{}", db.spec());
    });
}
