//! Transactions that want the same keys in opposite orders all complete under every concurrency
//! control, and none starves.
//!
//! Where reads are locked, transactions wait for each other, and one that would close a cycle is
//! wounded. Where reads are validated, or under `NoWait`, no transaction waits while it holds a
//! lock; there the loser must win in the end.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it met"
)]

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use namiki::{Session, Transaction, WaitPolicy};
use namiki_platform::WorkerId;
use namiki_platform::seeded_random::Random;
use namiki_tests::watchdog::on_threads;

use crate::ten_keys::{builder, filled};

const SPECS: [&str; 20] = [
    "S2PL(NLR)+NOLOG",
    "S2PL(NLR)+PWAL(1)",
    "S2PL(NLR)+PWAL(16)",
    "S2PL(ELR)+PWAL(16)",
    "S2PL(ELR)+SWAL(16)",
    "S2PL(EPOCH)+PWAL(16)",
    "S2PL(NLR)+PWAL(16)+ARIES",
    "S2PL(ELR)+PWAL(auto)+ARIES",
    "SILO(NLR)+NOLOG",
    "SILO(NLR)+PWAL(1)",
    "SILO(NLR)+PWAL(16)",
    "SILO(ELR)+PWAL(16)",
    "SILO(ELR)+SWAL(16)",
    "SILO(EPOCH)+PWAL(16)",
    "TT(NLR)+NOLOG",
    "TT(NLR)+PWAL(16)",
    "TT(ELR)+PWAL(16)",
    "TT(ELR)+SWAL(16)",
    "TT(EPOCH)+PWAL(16)",
    "TT(EPOCH)+PWAL(auto)",
];

/// Each protocol; where reads are locked also without waits for locks.
fn runs() -> impl Iterator<Item = (&'static str, WaitPolicy)> {
    let waiting = SPECS.into_iter().map(|spec| (spec, WaitPolicy::WoundWait));
    let locking = SPECS.into_iter().filter(|spec| spec.starts_with("S2PL"));
    waiting.chain(locking.map(|spec| (spec, WaitPolicy::NoWait)))
}

/// A group holds locks until it is durable, and its waiters would accumulate more commits for an
/// hour. They stop when another transaction wants one of the locks.
#[test]
fn a_waiter_for_a_groups_lock_flushes_the_group() {
    for (spec, policy) in runs().filter(|(it, _)| it.contains("(NLR)+PWAL(16)")) {
        let db = builder(spec)
            .wait_policy(policy)
            .group_wait_max(Duration::from_secs(3600))
            .open("/db")
            .unwrap();
        let table = db.table("numbers").unwrap();
        let add = |session: &mut Session, key| {
            let one = |tx: &mut Transaction| {
                let value = tx.get_for_update(&table, key)?.unwrap_or(0);
                tx.put(&table, key, &(value + 1))
            };
            session.transact_async(one).unwrap().1
        };
        let is_appended = AtomicBool::new(false);
        on_threads(2, |thread| {
            let mut session = db.session_on(WorkerId(thread as u16)).unwrap();
            if thread == 0 {
                let ticket = add(&mut session, &0);
                is_appended.store(true, Ordering::Release);
                session.wait(&ticket).unwrap();
            } else {
                while !is_appended.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                // Also once the other thread has parked.
                std::thread::sleep(Duration::from_millis(5));
                add(&mut session, &0);
                session.flush().unwrap();
            }
        });
        let value = db.transact(|tx| tx.get(&table, &0)).unwrap();
        assert_eq!(value, Some(2), "{spec}, {policy:?}");
    }
}

/// Keys in orders that differ from transaction to transaction.
#[test]
fn keys_in_adversarial_orders_do_not_deadlock() {
    for (seed, (spec, policy)) in (1..).zip(runs()) {
        for threads in [2, 4, 16] {
            let (db, table) = filled(builder(spec).wait_policy(policy));
            on_threads(threads, |thread| {
                let mut random = Random::stream(seed, thread);
                let mut session = db.session().unwrap();
                for _ in 0..400 / threads {
                    let mut keys = [0, 10, 20, 30, 40_u64];
                    random.shuffle(&mut keys);
                    session
                        .transact_async(|tx| {
                            for key in &keys[..3] {
                                // Where reads are locked: a shared lock and its upgrade, or an
                                // exclusive lock at once.
                                let value = match key % 20 {
                                    0 => tx.get(&table, key)?,
                                    _ => tx.get_for_update(&table, key)?,
                                };
                                std::thread::yield_now();
                                tx.put(&table, key, &(value.unwrap() + 1))?;
                            }
                            Ok(())
                        })
                        .unwrap();
                }
                session.flush().unwrap();
            });
            let all = db.transact(|tx| tx.scan(&table, ..)).unwrap();
            let sum: u64 = all.into_iter().map(|(_, value)| value).sum();
            assert_eq!(sum, 3 * (400 / threads * threads), "{spec}, {policy:?}");
            let counters = db.counters();
            println!(
                "{spec}, {policy:?}, {threads} threads: {} conflicts, {:?}",
                counters.conflicts, counters.locks
            );
        }
    }
}

/// Gaps in adversarial orders: transactions read ranges and insert keys into them.
#[test]
fn gaps_in_adversarial_orders_do_not_deadlock() {
    for (seed, (spec, policy)) in (1..).zip(runs()) {
        let (db, table) = filled(builder(spec).wait_policy(policy));
        let inserted = AtomicU64::new(0);
        on_threads(4, |thread| {
            let mut random = Random::stream(seed, thread);
            let mut session = db.session().unwrap();
            for round in 0..60 {
                let (from, key) = (random.below(100), random.below(100));
                let new = session
                    .transact_async(|tx| {
                        let found = tx.scan(&table, from..from + 20)?.len() as u64;
                        std::thread::yield_now();
                        let new = tx.get(&table, &key)?.is_none();
                        tx.put(&table, &key, &(found + round))?;
                        Ok(new)
                    })
                    .unwrap()
                    .0;
                inserted.fetch_add(u64::from(new), Ordering::Relaxed);
            }
            session.flush().unwrap();
        });
        let all = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        let inserted = inserted.into_inner();
        assert_eq!(all.len() as u64, 10 + inserted, "{spec}, {policy:?}");
    }
}

/// A long transaction against many short ones that want the same keys in the opposite order. It
/// reads the keys first, so that every later change by the others conflicts with it.
#[test]
fn an_old_transaction_gets_through() {
    for (spec, policy) in runs() {
        let builder = builder(spec).wait_policy(policy);
        let (db, table) = filled(builder.attempts_max(NonZeroU32::new(1000).unwrap()));
        let over = AtomicBool::new(false);
        on_threads(4, |thread| {
            let mut session = db.session().unwrap();
            let increment = |session: &mut Session, keys: &mut dyn Iterator<Item = u64>| {
                let keys: Vec<u64> = keys.collect();
                session.transact_async(|tx| {
                    for key in &keys {
                        tx.update(&table, key, |it| it + 1)?;
                        std::thread::yield_now();
                    }
                    Ok(())
                })
            };
            if thread == 0 {
                let keys = (0..10).rev().map(|key| 10 * key);
                let mut once = |_| increment(&mut session, &mut keys.clone());
                let ended = (0..10).try_for_each(|round| once(round).map(drop));
                over.store(true, Ordering::Relaxed);
                ended.unwrap_or_else(|error| panic!("{spec}, {policy:?}: {error}"));
            } else {
                while !over.load(Ordering::Relaxed) {
                    increment(&mut session, &mut (8..10).map(|key| 10 * key)).unwrap();
                }
            }
            session.flush().unwrap();
        });
        assert_eq!(db.transact(|tx| tx.get(&table, &0)).unwrap(), Some(10));
    }
}
