//! Groups by count and by time, waiting, acknowledging.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use namiki_log::{Entry, Group, GroupResource, Layout, Log, SequencerKind};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::{Epoch, Lsn, Stamp, WorkerId};

const W: WorkerId = WorkerId(0);

/// A watchdog for events that are expected soon and would otherwise hang the test.
fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_group_of_n_makes_one_flush_per_n_commits() {
    for (n, commits) in [(1, 30), (16, 160), (7, 70)] {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let mut config = config(1);
        config.group = count(n);
        let log: Arc<Log<()>> = create(&disk, config);
        for stamp in 0..commits {
            let (_, full) = put(log.stream(W), stamp, b"payload").unwrap();
            assert_eq!(full, (stamp + 1) % u64::from(n) == 0);
            if full {
                log.stream(W).flush().unwrap();
            }
        }
        let counters = log.counters();
        assert_eq!(counters.flushes, commits / u64::from(n));
        assert_eq!(counters.commits, commits);
        assert!(!log.stream(W).has_pending());
    }
}

#[test]
fn one_commit_of_a_group_learns_it_is_full() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config(1);
    config.group = count(5);
    let log: Arc<Log<()>> = create(&disk, config);
    let fulls = (0..20)
        .filter(|&stamp| put(log.stream(W), stamp, b"p").unwrap().1)
        .count();
    // No thread flushes, so there is one group and it became full once.
    assert_eq!(fulls, 1);
    assert_eq!(log.counters().flushes, 0);
}

/// The records in each frame of stream 0.
fn records_per_frame(disk: &Arc<dyn Disk>, config: &namiki_log::LogConfig) -> Vec<u32> {
    let mut reader = reader(disk, &info(config), 0).unwrap();
    let mut records = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        records.push(frame.header.records);
    }
    records
}

#[test]
fn a_single_log_flushes_full_groups_before_another_append() {
    for n in [1, 5, 16] {
        for threads in [1, 4] {
            let disk: Arc<dyn Disk> = Arc::new(SimDisk::new().with_yields(u64::from(n)));
            let mut config = config(threads);
            config.layout = Layout::Single;
            config.group = count(n);
            let log: Arc<Log<()>> = create(&disk, config.clone());
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let log = &log;
                    scope.spawn(move || {
                        for stamp in 0..80 {
                            // A commit that fills its group finds it hardened; no caller is asked
                            // to flush.
                            let (ticket, full) =
                                put(log.stream(WorkerId(thread)), stamp, b"p").unwrap();
                            assert!(!full);
                            let fills = ticket.number % u64::from(n) == 0;
                            assert!(!fills || log.stream(W).is_hardened(ticket));
                        }
                    });
                }
            });
            let groups = 80 * u32::from(threads) / n;
            assert!(!log.stream(W).has_pending());
            assert_eq!(log.counters().flushes, u64::from(groups));
            assert_eq!(
                records_per_frame(&disk, &config),
                vec![n; groups as usize],
                "groups of {n}, {threads} threads"
            );
        }
    }
}

#[test]
fn the_flusher_bounds_the_wait_of_unattended_commits() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config(4);
    config.group = count(1000);
    config.group_wait_max = Duration::from_millis(2);
    let log: Arc<Log<()>> = create(&disk, config);
    for round in 0..20 {
        let (ticket, full) = put(log.stream(WorkerId(round % 4)), 1, b"p").unwrap();
        assert!(!full);
        let stream = log.stream(ticket.worker);
        eventually("flushed", || stream.is_hardened(ticket));
        if round % 5 == 0 {
            // Long enough for the flusher to park.
            std::thread::sleep(Duration::from_millis(60));
        }
    }
    drop(log);
}

#[test]
fn a_commit_waits_at_most_group_wait_max() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    for wait in [Duration::from_millis(5), Duration::ZERO, Duration::MAX] {
        let mut config = config(1);
        config.generation.0 += wait.subsec_nanos();
        config.group = count(1000);
        config.group_wait_max = wait;
        let log: Arc<Log<()>> = create(&disk, config);
        let (ticket, _) = put(log.stream(W), 1, b"p").unwrap();
        log.stream(W).wait_hardened(ticket).unwrap();
        assert!(log.stream(W).is_hardened(ticket));
        log.close().unwrap();
    }
}

#[test]
fn the_commit_that_fills_a_group_wakes_its_waiters() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config(1);
    config.group = count(4);
    config.group_wait_max = Duration::from_secs(3600);
    let log: Arc<Log<()>> = create(&disk, config);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (ticket, full) = put(log.stream(W), 1, b"p").unwrap();
                if full {
                    log.stream(W).flush().unwrap();
                }
                log.stream(W).wait_hardened(ticket).unwrap();
            });
        }
    });
    assert_eq!(log.counters().flushes, 1);
}

#[test]
fn an_idle_stream_does_not_hold_the_horizon() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, config(16));
    for n in 1..=5 {
        let (ticket, _) = put(log.stream(W), n, b"p").unwrap();
        assert!(!log.is_covered(ticket.lsn));
        log.stream(W).flush().unwrap();
        assert!(log.is_covered(ticket.lsn));
        assert_eq!(log.horizon(), ticket.lsn.next());
    }
}

#[test]
fn pending_commits_hold_the_horizon_until_flushed() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, config(2));
    let (first, _) = put(log.stream(WorkerId(1)), 1, b"p").unwrap();
    let (second, _) = put(log.stream(W), 1, b"p").unwrap();
    log.stream(W).flush().unwrap();
    assert_eq!(log.horizon(), first.lsn);
    assert!(!log.is_covered(second.lsn));
    log.wait_covered(second.lsn).unwrap();
    assert!(log.stream(WorkerId(1)).is_hardened(first));
    assert_eq!(log.horizon(), Lsn(3));
}

#[test]
fn a_drawn_lsn_not_yet_buffered_is_never_jumped() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, config(2));
    let stream = log.stream(W);
    let encode = |_: &mut [u8], lsn: Lsn| {
        assert_eq!(lsn, Lsn(1));
        // The LSN is drawn and the commit is not buffered; at the same time the other stream
        // commits and flushes.
        let (ticket, _) = put(log.stream(WorkerId(1)), 2, b"q").unwrap();
        log.stream(WorkerId(1)).flush().unwrap();
        assert_eq!(ticket.lsn, Lsn(2));
        assert_eq!(log.horizon(), Lsn(1));
        assert!(!log.is_covered(ticket.lsn));
    };
    let appended = stream.append(Entry::Commit, Stamp(1), Epoch(1), 1, encode, |()| {});
    stream.wait_hardened(appended.unwrap().ticket).unwrap();
    assert_eq!(log.horizon(), Lsn(3));
}

#[test]
fn the_next_file_is_ready_before_it_is_needed() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config(1);
    config.prepare = namiki_log::Prepare::Background;
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let files = || disk.list(&wal().join("0000")).unwrap().len();
    put(log.stream(W), 1, b"p").unwrap();
    log.stream(W).flush().unwrap();
    assert_eq!(files(), 1);
    // Beyond the middle of the log file, far from its end.
    for n in 0..3 {
        put(log.stream(W), n, &[1; 3000]).unwrap();
        log.stream(W).flush().unwrap();
    }
    eventually("prepared", || files() == 2);
    // Again after rolling over, until many log files are written.
    for n in 0..60 {
        put(log.stream(W), n, &[1; 3000]).unwrap();
        log.stream(W).flush().unwrap();
    }
    let seal = log.close().unwrap();
    assert_eq!(seal.last_sequences, [64]);
    assert_eq!(payloads(&disk, &info(&config), 0).len(), 64);
}

static RELEASED: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct Locks(u64);

impl GroupResource for Locks {
    fn release(&mut self) {
        RELEASED.fetch_add(self.0, Ordering::SeqCst);
        self.0 = 0;
    }
    fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

#[test]
fn group_resources_are_released_once_when_hardened() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<Locks>> = create(&disk, config(1));
    let append = || {
        let appended = log.stream(W).append(
            Entry::Commit,
            Stamp(1),
            Epoch(1),
            1,
            |_, _| {},
            |held| held.0 += 1,
        );
        appended.unwrap().ticket
    };
    append();
    let ticket = append();
    assert_eq!(RELEASED.load(Ordering::SeqCst), 0);
    log.stream(W).wait_hardened(ticket).unwrap();
    assert_eq!(RELEASED.load(Ordering::SeqCst), 2);
    append();
    log.stream(W).flush().unwrap();
    assert_eq!(RELEASED.load(Ordering::SeqCst), 3);
    log.flush_all().unwrap();
    log.close().unwrap();
    assert_eq!(RELEASED.load(Ordering::SeqCst), 3);
}

#[test]
fn without_a_sequencer_the_horizon_delays_no_commit() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config(2);
    config.sequencer = SequencerKind::None;
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let (ticket, _) = put(log.stream(W), 7, b"p").unwrap();
    assert_eq!(ticket.lsn, Lsn(0));
    assert!(log.is_covered(ticket.lsn));
    log.stream(W).wait_hardened(ticket).unwrap();
    let seal = log.close().unwrap();
    assert_eq!((seal.last_lsn, seal.max_stamp), (Lsn(0), Stamp(7)));
}

#[test]
fn automatic_groups_accumulate_during_a_flush() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new().with_yields(11));
    let mut config = config(1);
    config.group = Group::Auto;
    let log: Arc<Log<()>> = create(&disk, config);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let log = &log;
            scope.spawn(move || {
                for n in 0..50 {
                    let (ticket, full) = put(log.stream(W), thread * 50 + n, b"p").unwrap();
                    assert!(!full);
                    log.stream(W).wait_hardened(ticket).unwrap();
                }
            });
        }
    });
    let counters = log.counters();
    assert_eq!(counters.commits, 200);
    assert!(counters.flushes <= 200);
}

#[test]
fn compare_and_swap_draws_every_number_once() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config(2);
    config.sequencer = SequencerKind::CompareAndSwap;
    config.buffer_bytes = 1 << 20;
    config.placement = namiki_log::Placement::Files {
        log_file_bytes: 4 << 20,
    };
    let log: Arc<Log<()>> = create(&disk, config);
    let mut lsns = std::thread::scope(|scope| {
        let threads = [0, 1].map(|worker| {
            let log = &log;
            scope.spawn(move || {
                let one = |n| put(log.stream(WorkerId(worker)), n, b"p").unwrap().0.lsn;
                (0..10_000).map(one).collect::<Vec<_>>()
            })
        });
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    lsns.sort();
    assert_eq!(lsns, (1..=20_000).map(Lsn).collect::<Vec<_>>());
    assert_eq!(log.last_drawn(), Lsn(20_000));
}
