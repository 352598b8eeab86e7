//! Flushes under way when a log is closed or poisoned, and waits for commits that the log never
//! had.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::common::*;
use namiki_log::{AckWaiter, Entry, Layout, Log, LogError, Placement, Ticket};
use namiki_platform::disk::{Disk, DiskCall, SimDisk};
use namiki_platform::{Lsn, WorkerId};

const W: WorkerId = WorkerId(0);
const REGION: u64 = 64 << 10;

/// Blocks all threads until it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// A write to the second region waits at a gate; a write to the first can be made to fail.
struct Slow {
    gate: Gate,
    arrived: Mutex<Sender<()>>,
    armed: AtomicBool,
    writes_left: AtomicU64,
    fails: bool,
}

impl Slow {
    fn hook(&self, step: DiskCall) -> io::Result<()> {
        if !self.armed.load(Ordering::SeqCst) {
            return Ok(());
        }
        match step {
            DiskCall::Write { offset, .. } if offset >= REGION => {
                self.writes_left.fetch_add(1, Ordering::SeqCst);
                self.arrived.lock().unwrap().send(()).unwrap();
                self.gate.pass();
            }
            DiskCall::Wrote(offset) if offset >= REGION => {
                self.writes_left.fetch_sub(1, Ordering::SeqCst);
            }
            DiskCall::Write { .. } if self.fails => return Err(io::ErrorKind::Other.into()),
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn close_waits_for_writes_after_another_streams_failure() {
    for fails in [true, false] {
        let (sender, arrived) = channel();
        let slow = Arc::new(Slow {
            gate: Gate::default(),
            arrived: Mutex::new(sender),
            armed: AtomicBool::new(false),
            writes_left: AtomicU64::new(0),
            fails,
        });
        let hook = Arc::clone(&slow);
        let disk = hooked(&SimDisk::new(), move |step| hook.hook(step));
        let mut config = config(2);
        config.placement = shared(REGION);
        let log: Arc<Log<()>> = create(&disk, config);
        put(log.stream(W), 1, b"fails").unwrap();
        put(log.stream(WorkerId(1)), 2, b"slow").unwrap();
        slow.armed.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let flusher = scope.spawn(|| log.stream(WorkerId(1)).flush().is_ok());
            arrived.recv().unwrap();
            assert_eq!(log.stream(W).flush().is_err(), fails);
            let closer = scope.spawn(|| {
                assert_eq!(log.close().is_err(), fails);
                // The next opener of the log overwrites unsealed frames.
                slow.writes_left.load(Ordering::SeqCst)
            });
            // Long enough for a close that does not wait to return.
            std::thread::sleep(Duration::from_millis(50));
            slow.gate.open();
            assert_eq!(closer.join().unwrap(), 0, "close returned before a write");
            assert_eq!(flusher.join().unwrap(), !fails);
        });
    }
}

/// Panics in a step, if armed.
fn panicking(step: fn(DiskCall) -> bool) -> (Arc<dyn Disk>, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let hook = Arc::clone(&armed);
    let disk = hooked(&SimDisk::new(), move |now| {
        if step(now) && hook.load(Ordering::SeqCst) {
            // Long enough for others to begin to wait for this step.
            std::thread::sleep(Duration::from_millis(50));
            panic!("a bug in the disk");
        }
        Ok(())
    });
    (disk, armed)
}

#[test]
fn a_panic_in_a_flush_leaves_no_waiter() {
    for layout in [Layout::PerWorker, Layout::Single] {
        for group in [count(2), namiki_log::Group::Auto] {
            let (disk, armed) = panicking(|step| matches!(step, DiskCall::Write { .. }));
            let mut config = config(1);
            config.layout = layout;
            config.group = group;
            config.placement = shared(REGION);
            let log: Arc<Log<()>> = create(&disk, config);
            armed.store(true, Ordering::SeqCst);
            let threads: Vec<_> = (0..4)
                .map(|n| {
                    let log = Arc::clone(&log);
                    std::thread::spawn(move || {
                        let (ticket, full) = put(log.stream(W), n, b"p").ok()?;
                        if full {
                            log.stream(W).flush().ok()?;
                        }
                        Some(log.stream(W).wait_hardened(ticket).is_ok())
                    })
                })
                .collect();
            let (panics, hardened) = within_reason("all are woken", move || {
                let results: Vec<_> = threads.into_iter().map(|it| it.join()).collect();
                let panics = results.iter().filter(|it| it.is_err()).count();
                let hardened = results.iter().filter(|it| matches!(it, Ok(Some(true))));
                (panics, hardened.count())
            });
            assert_eq!((panics, hardened), (1, 0), "{layout:?}, {group:?}");
            let closed = within_reason("the log is closed", move || log.close());
            assert!(matches!(closed, Err(LogError::Panicked { .. })));
        }
    }
}

#[test]
fn a_panic_preparing_a_file_leaves_no_waiter() {
    let (disk, armed) = panicking(|step| matches!(step, DiskCall::Create(_)));
    let log: Arc<Log<()>> = create(&disk, config(1));
    armed.store(true, Ordering::SeqCst);
    let threads = [0, 1, 2].map(|n| {
        let log = Arc::clone(&log);
        std::thread::spawn(move || put(log.stream(W), n, b"p").map(|_| ()))
    });
    let results = within_reason("all are woken", move || threads.map(|it| it.join()));
    let panics = results.iter().filter(|it| it.is_err()).count();
    assert_eq!(panics, 1);
    for refused in results.into_iter().flatten() {
        assert!(matches!(refused, Err(LogError::Panicked { worker: W })));
    }
    let closed = within_reason("the log is closed", move || log.close());
    assert!(matches!(closed, Err(LogError::Panicked { .. })));
}

#[test]
fn a_foreign_ticket_is_an_error_and_changes_nothing() {
    for placement in [config(1).placement, shared(REGION)] {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let mut config = config(2);
        config.placement = placement;
        config.group = count(2);
        // A flusher without a tick.
        config.group_wait_max = Duration::from_secs(3600);
        let log: Arc<Log<()>> = create(&disk, config);
        let (own, _) = put(log.stream(W), 1, b"p").unwrap();
        for (worker, number) in [(W, 2), (WorkerId(1), 1), (WorkerId(7), 1)] {
            let foreign = Ticket {
                worker,
                number,
                lsn: Lsn(number),
            };
            let error = log.stream(W).wait_hardened(foreign).unwrap_err();
            assert!(
                matches!(error, LogError::ForeignTicket { worker: w, number: n, asked: W, appended: 1 }
                    if w == worker && n == number),
                "{error:?}"
            );
            assert!(!error.is_poison());
        }
        let error = log.wait_covered(Lsn(2)).unwrap_err();
        assert!(matches!(
            error,
            LogError::NeverDrawn {
                lsn: Lsn(2),
                next: Lsn(2)
            }
        ));
        // A task gets the same error. The flusher has nothing to write for it, and writes nothing.
        let (waker, mut ack_waiter) = (Waker::noop(), AckWaiter::default());
        for (worker, number) in [(W, 2), (WorkerId(1), 1), (WorkerId(7), 1)] {
            let lsn = Lsn(1);
            let foreign = Ticket {
                worker,
                number,
                lsn,
            };
            for polled in [
                log.poll_hardened(foreign, waker, &mut ack_waiter),
                log.poll_covered(Some(foreign), lsn, waker, &mut ack_waiter),
            ] {
                assert!(
                    matches!(polled, Poll::Ready(Err(LogError::ForeignTicket { worker: w, number: n, .. }))
                        if w == worker && n == number),
                    "{polled:?}"
                );
            }
        }
        assert_eq!(log.counters().flushes, 0);
        // The log continues.
        log.wait_covered(own.lsn).unwrap();
        log.stream(W).wait_hardened(own).unwrap();
        log.close().unwrap();
    }
}

#[test]
fn a_callers_panic_under_a_single_log_blocks_nothing() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config(1);
    config.layout = Layout::Single;
    config.placement = Placement::Files {
        log_file_bytes: 16 << 10,
    };
    let log: Arc<Log<()>> = create(&disk, config);
    let panicking = AssertUnwindSafe(|| {
        let encode = |_: &mut [u8], _: Lsn| panic!("a bug in the caller");
        drop(log.stream(W).append(
            Entry::Commit,
            namiki_platform::Stamp(1),
            namiki_platform::Epoch(1),
            1,
            encode,
            |()| {},
        ));
    });
    assert!(std::panic::catch_unwind(panicking).is_err());
    let closed = within_reason("the log is closed", move || log.close());
    assert!(matches!(closed, Err(LogError::Panicked { .. })));
}
