//! Tasks and the flusher that serves them, under a model checker: see `loom_model.rs`.

use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use loom::thread;
use namiki_platform::WorkerId;
use namiki_platform::model_checker::{AtomicU64, explore};

use crate::horizon::async_waiters::AckWaiter;
use crate::loom_model::{Task, World};
use crate::shared_state::Notifier;
use crate::{Group, LogConfig, LogError};

/// A log with a flusher that has no tick, and its thread.
fn with_flusher(config: LogConfig, fails: bool) -> (Arc<World>, thread::JoinHandle<()>) {
    let config = LogConfig {
        group: Group::Auto,
        group_wait_max: Duration::from_secs(3600),
        async_flush_min_commits: Some(NonZeroU32::MAX),
        ..config
    };
    let world = World::with(config, fails);
    let flusher = {
        let world = Arc::clone(&world);
        thread::spawn(move || world.log.flush_late(Duration::from_secs(3600)))
    };
    (world, flusher)
}

/// Polls until the task has ended, each time it is woken.
pub(crate) fn run_task(
    mut poll: impl FnMut(&Waker) -> Poll<Result<(), LogError>>,
) -> Result<(), LogError> {
    let task = Task::new();
    let waker = Arc::clone(&task).into();
    loop {
        if let Poll::Ready(ended) = poll(&waker) {
            return ended;
        }
        task.sleep();
    }
}

#[test]
fn a_task_is_served_by_the_flusher_and_woken() {
    explore(3, || {
        let (world, flusher) = with_flusher(World::config(), false);
        let ticket = world.append(0, 8).unwrap();
        let mut ack_waiter = AckWaiter::default();
        let ended = run_task(|waker| world.log.poll_hardened(ticket, waker, &mut ack_waiter));
        ended.unwrap();
        assert!(world.disk.holds(ticket.lsn.0));
        world.log.stop_flusher();
        flusher.join().unwrap();
    });
}

#[test]
fn the_flusher_serves_a_task_behind_a_threads_batch() {
    explore(2, || {
        let (world, flusher) = with_flusher(World::config(), false);
        world.append(0, 8).unwrap();
        let thread = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.log.stream(WorkerId(0)).flush().unwrap())
        };
        let ticket = world.append(0, 8).unwrap();
        let mut ack_waiter = AckWaiter::default();
        let ended = run_task(|waker| world.log.poll_hardened(ticket, waker, &mut ack_waiter));
        ended.unwrap();
        assert!(world.disk.holds(ticket.lsn.0));
        thread.join().unwrap();
        world.log.stop_flusher();
        flusher.join().unwrap();
    });
}

#[test]
fn a_task_learns_from_the_flusher_that_the_disk_failed() {
    explore(3, || {
        let (world, flusher) = with_flusher(World::config(), true);
        let ticket = world.append(0, 8).unwrap();
        let mut ack_waiter = AckWaiter::default();
        let ended = run_task(|waker| world.log.poll_hardened(ticket, waker, &mut ack_waiter));
        ended.unwrap_err();
        world.log.stop_flusher();
        flusher.join().unwrap();
    });
}

#[test]
fn the_flusher_serves_a_task_of_another_stream() {
    explore(2, || {
        let streams = NonZeroU16::new(2).unwrap();
        let (world, flusher) = with_flusher(
            LogConfig {
                streams,
                ..World::config()
            },
            false,
        );
        // Only the flusher flushes this one.
        world.append(1, 8).unwrap();
        let ticket = world.append(0, 8).unwrap();
        let mut ack_waiter = AckWaiter::default();
        let ended = run_task(|waker| {
            (world.log).poll_covered(Some(ticket), ticket.lsn, waker, &mut ack_waiter)
        });
        ended.unwrap();
        for lsn in 1..=ticket.lsn.0 {
            assert!(world.disk.holds(lsn));
        }
        world.log.stop_flusher();
        flusher.join().unwrap();
    });
}

/// A caller may be late to wake a flusher that has seen the call by itself and sleeps again.
#[test]
fn a_flusher_hears_every_call_of_two_callers() {
    explore(3, || {
        let notifier = Arc::new(Notifier::new());
        let work = Arc::new(AtomicU64::new(0));
        let callers = [0, 1].map(|_| {
            let (notifier, work) = (Arc::clone(&notifier), Arc::clone(&work));
            thread::spawn(move || {
                work.fetch_add(1, Ordering::Relaxed);
                notifier.call();
            })
        });
        let until = Instant::now() + Duration::from_secs(3600);
        loop {
            notifier.clear();
            if work.load(Ordering::Relaxed) == 2 {
                break;
            }
            assert!(notifier.sleep(Some(until), false, || false));
        }
        for caller in callers {
            caller.join().unwrap();
        }
    });
}
