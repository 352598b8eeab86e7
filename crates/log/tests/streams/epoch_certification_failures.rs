//! Epochs that are to be certified where there is no room for the evidence.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::parking_waker::ParkedTask;
use crate::common::*;
use namiki_log::{AckWaiter, EpochSource, Log, LogConfig, LogError, SequencerKind, Ticket};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::{Epoch, Lsn, WorkerId};

/// Epochs of which the first has commits.
#[derive(Debug)]
struct Epochs {
    current: AtomicU64,
    /// All commits of the first have been appended.
    are_appended: AtomicBool,
}

/// That of [`put`].
const FIRST: Epoch = Epoch(1);

impl EpochSource for Epochs {
    fn current(&self) -> Epoch {
        Epoch(self.current.load(Ordering::SeqCst))
    }

    fn finished(&self) -> Epoch {
        match self.are_appended.load(Ordering::SeqCst) {
            true => Epoch(self.current().0 - 1),
            false => Epoch(FIRST.0 - 1),
        }
    }

    fn close(&self, Epoch(epoch): Epoch) {
        let (old, new) = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.current.compare_exchange(epoch, epoch + 1, old, new);
    }
}

/// Ticks of the flusher, and none at all.
const WAITS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(3600)];

/// A log by epochs with a flusher.
fn by_epochs(streams: u16, group_wait_max: Duration) -> (LogConfig, Arc<Epochs>) {
    let source = Arc::new(Epochs {
        current: AtomicU64::new(FIRST.0),
        are_appended: AtomicBool::new(false),
    });
    let config = LogConfig {
        sequencer: SequencerKind::None,
        epochs: Some(source.clone()),
        group_wait_max,
        ..config(streams)
    };
    (config, source)
}

/// Commits until there is no room in any stream, and has the epoch of these commits certified, which takes a frame without
/// records. Returns why it was not.
fn fill(log: &Log<()>, source: &Epochs) -> LogError {
    for worker in (0..log.streams() as u16).map(WorkerId) {
        let stream = log.stream(worker);
        while put(stream, 1, &[]).is_ok() {
            stream.flush().unwrap();
        }
    }
    source.are_appended.store(true, Ordering::SeqCst);
    log.wait_certified(None, FIRST).unwrap_err()
}

/// Waits as a task does, which is polled only when it was woken.
fn wait_as_task(log: &Log<()>, epoch: Epoch) -> Result<(), LogError> {
    let parked = ParkedTask::here();
    let waker = Arc::clone(&parked).into();
    let mut ack_waiter = AckWaiter::default();
    let mut task = pin!(poll_fn(|context| {
        log.poll_certified(None, epoch, context.waker(), &mut ack_waiter)
    }));
    loop {
        if let Poll::Ready(ended) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            return ended;
        }
        parked.sleep();
    }
}

#[test]
fn a_task_learns_that_no_marker_has_room() {
    for wait in WAITS {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let (mut config, source) = by_epochs(2, wait);
        config.placement = shared(16 << 10);
        let log: Arc<Log<()>> = create(&disk, config);
        within_reason("both are told", move || {
            let error = fill(&log, &source);
            assert!(matches!(error, LogError::RegionFull { .. }), "{error:?}");
            for _ in 0..3 {
                let told = wait_as_task(&log, FIRST);
                assert!(matches!(told, Err(LogError::RegionFull { .. })), "{told:?}");
            }
            // What is certified stays so, and the log accepts what it has room for: nothing has failed.
            wait_as_task(&log, Epoch(FIRST.0 - 1)).unwrap();
            assert!(log.poisoned().is_none());
        });
    }
}

#[test]
fn a_foreign_ticket_certifies_nothing() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (config, source) = by_epochs(2, WAITS[1]);
    let log: Arc<Log<()>> = create(&disk, config);
    let foreign = Ticket {
        worker: WorkerId(1),
        number: 3,
        lsn: Lsn(0),
    };
    let mut ack_waiter = AckWaiter::default();
    let polled = log.poll_certified(
        Some(foreign),
        source.current(),
        Waker::noop(),
        &mut ack_waiter,
    );
    assert!(
        matches!(polled, Poll::Ready(Err(LogError::ForeignTicket { .. }))),
        "{polled:?}"
    );
    assert_eq!(log.counters().flushes, 0);
    source.are_appended.store(true, Ordering::SeqCst);
    wait_as_task(&log, source.current()).unwrap();
    log.close().unwrap();
}

#[test]
fn a_task_learns_nothing_of_earlier_refusals() {
    for wait in WAITS {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (config, source) = by_epochs(1, wait);
        sim.set_capacity(Some(2 * (16 << 10)));
        let log: Arc<Log<()>> = create(&disk, config);
        within_reason("both are told", move || {
            let error = fill(&log, &source);
            assert!(matches!(error, LogError::DiskFull { .. }), "{error:?}");
            let told = wait_as_task(&log, FIRST);
            assert!(matches!(told, Err(LogError::DiskFull { .. })), "{told:?}");
            sim.set_capacity(None);
            // An attempt may have been under way.
            while wait_as_task(&log, FIRST).is_err() {}
            log.close().unwrap();
        });
    }
}
