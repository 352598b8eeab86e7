//! Tasks with commits that only the flusher flushes, long before its next tick.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::poll_fn;
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::common::gate::{Gate, gate};
use crate::common::parking_waker::ParkedTask;
use crate::common::*;
use namiki_log::{AckWaiter, Group, Layout, Log, LogConfig, LogError, Ticket};
use namiki_platform::WorkerId;
use namiki_platform::disk::{Disk, DiskCall, SimDisk};

/// With a flusher, and a tick longer than any test.
fn awaited(streams: u16) -> LogConfig {
    LogConfig {
        group_wait_max: Duration::from_secs(3600),
        async_flush_min_commits: Some(NonZeroU32::MIN),
        ..config(streams)
    }
}

/// Runs tasks until all have ended. Whenever one is woken, all are polled in this order.
fn run(
    log: &Log<()>,
    tickets: impl IntoIterator<Item = Ticket>,
    poll: fn(&Log<()>, Ticket, &Waker, &mut AckWaiter) -> Poll<Result<(), LogError>>,
) -> Vec<Result<(), LogError>> {
    let parked = ParkedTask::here();
    let waker = Waker::from(Arc::clone(&parked));
    let mut tasks: Vec<_> = tickets
        .into_iter()
        .map(|ticket| (ticket, AckWaiter::default(), None))
        .collect();
    loop {
        for (ticket, ack_waiter, ended) in &mut tasks {
            if ended.is_none()
                && let Poll::Ready(outcome) = poll(log, *ticket, &waker, ack_waiter)
            {
                *ended = Some(outcome);
            }
        }
        if tasks.iter().all(|(.., ended)| ended.is_some()) {
            return tasks.into_iter().filter_map(|(.., ended)| ended).collect();
        }
        parked.sleep();
    }
}

fn hardened(
    log: &Log<()>,
    ticket: Ticket,
    waker: &Waker,
    ack_waiter: &mut AckWaiter,
) -> Poll<Result<(), LogError>> {
    log.poll_hardened(ticket, waker, ack_waiter)
}

fn covered(
    log: &Log<()>,
    ticket: Ticket,
    waker: &Waker,
    ack_waiter: &mut AckWaiter,
) -> Poll<Result<(), LogError>> {
    log.poll_covered(Some(ticket), ticket.lsn, waker, ack_waiter)
}

#[test]
fn an_awaited_commit_needs_no_tick_in_any_layout() {
    for (layout, streams) in [
        (Layout::Single, 1),
        (Layout::PerWorker, 1),
        (Layout::PerWorker, 3),
    ] {
        for is_shared in [false, true] {
            let mut config = awaited(streams);
            config.layout = layout;
            if is_shared {
                config.placement = shared(256 << 10);
            }
            within_reason("the flusher flushes for tasks", move || {
                let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
                let log: Arc<Log<()>> = create(&disk, config);
                for stamp in 0..20 {
                    for poll in [hardened, covered] {
                        let tickets: Vec<_> = (0..log.streams() as u16)
                            .map(|worker| put(log.stream(WorkerId(worker)), stamp, b"p").unwrap().0)
                            .collect();
                        // Includes the last ticket, so that streams without a task lag behind.
                        for outcome in run(&log, tickets.last().copied(), poll) {
                            outcome.unwrap();
                        }
                        for outcome in run(&log, tickets, poll) {
                            outcome.unwrap();
                        }
                    }
                }
                log.close().unwrap();
            });
        }
    }
}

#[test]
fn a_full_group_that_was_submitted_is_completed_for_tasks() {
    within_reason("the flusher completes what was submitted", || {
        let sim = SimDisk::new();
        sim.complete_after(u64::MAX);
        let disk: Arc<dyn Disk> = Arc::new(sim);
        let mut config = awaited(1);
        config.group = count(2);
        let log: Arc<Log<()>> = create(&disk, config);
        let stream = log.stream(WorkerId(0));
        for stamp in 0..50 {
            let (first, _) = put(stream, stamp, b"p").unwrap();
            let parked = ParkedTask::here();
            let waker = Arc::clone(&parked).into();
            let mut ack_waiter = AckWaiter::default();
            let mut task = pin!(poll_fn(|context| log.poll_hardened(
                first,
                context.waker(),
                &mut ack_waiter
            )));
            let mut context = Context::from_waker(&waker);
            let flushes = log.counters().flushes;
            assert!(task.as_mut().poll(&mut context).is_pending());
            // It waits for its group, as a thread would, although the flusher polls it.
            for _ in 0..20 {
                thread::yield_now();
                assert!(task.as_mut().poll(&mut context).is_pending());
            }
            assert_eq!(log.counters().flushes, flushes);
            let (second, full) = put(stream, stamp, b"p").unwrap();
            assert!(full);
            stream.begin_flush(second).unwrap();
            loop {
                if let Poll::Ready(outcome) = task.as_mut().poll(&mut context) {
                    outcome.unwrap();
                    break;
                }
                parked.sleep();
            }
        }
        let counters = log.counters();
        assert_eq!((counters.flushes, counters.commits), (50, 100));
        // The first task of a group called the flusher, which may write a full group before it is
        // submitted.
        assert!((1..=50).contains(&counters.submitted), "{counters:?}");
    });
}

/// A disk on which one write waits at a gate.
fn gated() -> (Gate, Arc<dyn Disk>) {
    let (gate, pass) = gate();
    let hook = move |step| {
        if matches!(step, DiskCall::Write { .. }) {
            pass();
        }
        Ok(())
    };
    (gate, hooked(&SimDisk::new(), hook))
}

#[test]
fn polls_never_block_and_sixteen_tasks_take_two_writes() {
    within_reason("tasks are polled while the disk writes", || {
        let (gate, disk) = gated();
        let log: Arc<Log<()>> = create(&disk, awaited(1));
        let stream = log.stream(WorkerId(0));
        put(stream, 1, b"p").unwrap();
        stream.flush().unwrap();
        let flushes = log.counters().flushes;
        gate.closed.store(true, Ordering::SeqCst);
        let (first, _) = put(stream, 2, b"p").unwrap();
        let parked = ParkedTask::here();
        let waker = Waker::from(Arc::clone(&parked));
        let mut ack_waiter = AckWaiter::default();
        let polled = log.poll_hardened(first, &waker, &mut ack_waiter);
        assert!(polled.is_pending());
        gate.arrived.recv().unwrap();
        // The write is under way, and the polls of all these return pending.
        let rest: Vec<_> = (3..18)
            .map(|stamp| put(stream, stamp, b"p").unwrap().0)
            .collect();
        let mut ack_waiters: Vec<_> = rest.iter().map(|_| AckWaiter::default()).collect();
        for (ticket, ack_waiter) in rest.iter().zip(&mut ack_waiters) {
            assert!(log.poll_hardened(*ticket, &waker, ack_waiter).is_pending());
        }
        gate.open.send(()).unwrap();
        for outcome in run(&log, [&[first][..], &rest].concat(), hardened) {
            outcome.unwrap();
        }
        assert_eq!(log.counters().flushes - flushes, 2);
    });
}

#[test]
fn tasks_of_several_streams_are_flushed_in_parallel() {
    within_reason("no write waits for another", || {
        let sim = SimDisk::new();
        sim.complete_after(u64::MAX);
        let disk: Arc<dyn Disk> = Arc::new(sim);
        let log: Arc<Log<()>> = create(&disk, awaited(4));
        for stamp in 0..200 {
            let tickets =
                (0..4).map(|worker| put(log.stream(WorkerId(worker)), stamp, b"p").unwrap().0);
            let tickets: Vec<_> = tickets.collect();
            for outcome in run(&log, tickets, hardened) {
                outcome.unwrap();
            }
            if log.counters().submitted > 0 {
                return;
            }
        }
        panic!("no batch was submitted for tasks");
    });
}

#[test]
fn every_task_learns_of_a_failed_write() {
    for group in [Group::Auto, count(2)] {
        for poll in [hardened, covered] {
            within_reason("every task is told", move || {
                let failing = Arc::new(AtomicBool::new(false));
                let hook = {
                    let failing = Arc::clone(&failing);
                    move |step| match step {
                        DiskCall::Write { .. } | DiskCall::BeginWrite(_)
                            if failing.load(Ordering::SeqCst) =>
                        {
                            Err(ErrorKind::Other.into())
                        }
                        _ => Ok(()),
                    }
                };
                let disk = hooked(&SimDisk::new(), hook);
                let mut config = awaited(2);
                config.group = group;
                let log: Arc<Log<()>> = create(&disk, config);
                let streams = [0, 1].map(|worker| log.stream(WorkerId(worker)));
                for stream in streams {
                    put(stream, 1, b"p").unwrap();
                    stream.flush().unwrap();
                }
                failing.store(true, Ordering::SeqCst);
                let tickets = streams.map(|stream| put(stream, 2, b"p").unwrap().0);
                if group != Group::Auto {
                    // None of the tasks poisons the log: another thread does.
                    let log = Arc::clone(&log);
                    thread::spawn(move || {
                        thread::yield_now();
                        log.stream(WorkerId(0)).flush().unwrap_err();
                    });
                }
                for outcome in run(&log, tickets, poll) {
                    assert!(
                        matches!(outcome, Err(LogError::Device { .. })),
                        "{outcome:?}"
                    );
                }
            });
        }
    }
}

#[test]
fn a_task_learns_of_a_panic_in_the_flusher() {
    within_reason("the task is told", || {
        let panicking = Arc::new(AtomicBool::new(false));
        let hook = {
            let panicking = Arc::clone(&panicking);
            move |step| {
                let is_write = matches!(step, DiskCall::Write { .. });
                assert!(!is_write || !panicking.load(Ordering::SeqCst), "as planned");
                Ok(())
            }
        };
        let disk = hooked(&SimDisk::new(), hook);
        let log: Arc<Log<()>> = create(&disk, awaited(1));
        put(log.stream(WorkerId(0)), 1, b"p").unwrap();
        log.flush_all().unwrap();
        panicking.store(true, Ordering::SeqCst);
        let (ticket, _) = put(log.stream(WorkerId(0)), 2, b"p").unwrap();
        for outcome in run(&log, [ticket], hardened) {
            assert!(
                matches!(outcome, Err(LogError::Panicked { .. })),
                "{outcome:?}"
            );
        }
    });
}

#[test]
fn a_task_that_leaves_takes_no_flush_from_the_next() {
    within_reason("the next task is woken", || {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let log: Arc<Log<()>> = create(&disk, awaited(1));
        for stamp in 0..100 {
            let [left, kept] = [0, 1].map(|_| put(log.stream(WorkerId(0)), stamp, b"p").unwrap().0);
            let mut ack_waiter = AckWaiter::default();
            let polled = log.poll_hardened(left, &Waker::from(ParkedTask::here()), &mut ack_waiter);
            drop(polled);
            log.leave(&mut ack_waiter);
            for outcome in run(&log, [kept], hardened) {
                outcome.unwrap();
            }
        }
    });
}
