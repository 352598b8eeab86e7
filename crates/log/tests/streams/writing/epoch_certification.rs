//! Epochs without room for the evidence of their certification.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::parking_waker::ParkedTask;
use crate::common::*;
use namiki_log::{
    AckWaiter, Appended, Entry, EpochSource, Log, LogConfig, LogError, SequencerKind, Stream,
    Ticket,
};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::{Epoch, Lsn, Stamp, WorkerId};

/// Epochs that end when the test closes them.
#[derive(Debug)]
struct Epochs {
    current: AtomicU64,
    finished: AtomicU64,
}

impl EpochSource for Epochs {
    fn current(&self) -> Epoch {
        Epoch(self.current.load(Ordering::SeqCst))
    }

    fn finished(&self) -> Epoch {
        Epoch(self.finished.load(Ordering::SeqCst))
    }

    fn close(&self, Epoch(epoch): Epoch) {
        let (old, new) = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.current.compare_exchange(epoch, epoch + 1, old, new);
    }
}

/// An epoch log with a flusher that certifies only on request: its next tick is far away.
fn by_epochs(streams: u16) -> (LogConfig, Arc<Epochs>) {
    let source = Arc::new(Epochs {
        current: AtomicU64::new(1),
        finished: AtomicU64::new(0),
    });
    let config = LogConfig {
        sequencer: SequencerKind::None,
        epochs: Some(source.clone()),
        group_wait_max: Duration::from_secs(3600),
        ..config(streams)
    };
    (config, source)
}

/// Epochs with commits: more than the number of markers that two streams keep room for.
const EPOCHS: u64 = 20;

/// Appends a commit of this epoch.
fn put_in(stream: &Stream<()>, epoch: u64) -> Result<Appended, LogError> {
    let (stamp, write) = (Stamp(epoch), |_: &mut [u8], _| {});
    stream.append(Entry::Commit, stamp, Epoch(epoch), 0, write, |_| {})
}

/// Commits until no stream has room for more. Then certifies one epoch after the other until there
/// is no room for that either. Returns the first epoch that was not certified.
fn fill(log: &Log<()>, source: &Epochs) -> (Epoch, LogError) {
    let commit = |worker: u16, epoch: u64| {
        let stream = log.stream(WorkerId(worker));
        let _appended = put_in(stream, epoch)?;
        stream.flush()
    };
    for epoch in 1..EPOCHS {
        commit(0, epoch).unwrap();
        source.close(Epoch(epoch));
    }
    for worker in 0..log.streams() as u16 {
        while commit(worker, EPOCHS).is_ok() {}
    }
    for epoch in 1..=EPOCHS {
        source.finished.store(epoch, Ordering::SeqCst);
        if let Err(error) = log.wait_certified(None, Epoch(epoch)) {
            // The flusher tries to certify the last of them.
            source.finished.store(EPOCHS, Ordering::SeqCst);
            return (Epoch(epoch), error);
        }
    }
    panic!("there was room for all");
}

/// Waits like a task that is polled only after a wake-up.
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
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (mut config, source) = by_epochs(2);
    config.placement = shared(16 << 10);
    let log: Arc<Log<()>> = create(&disk, config);
    within_reason("both are told", move || {
        let (epoch, error) = fill(&log, &source);
        assert!(matches!(error, LogError::RegionFull { .. }), "{error:?}");
        for _ in 0..3 {
            let told = wait_as_task(&log, epoch);
            assert!(matches!(told, Err(LogError::RegionFull { .. })), "{told:?}");
        }
        // Certified epochs stay certified, and nothing has failed.
        wait_as_task(&log, Epoch(epoch.0 - 1)).unwrap();
        assert!(log.poisoned().is_none());
    });
}

#[test]
fn a_foreign_ticket_certifies_nothing() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (config, source) = by_epochs(2);
    let log: Arc<Log<()>> = create(&disk, config);
    let foreign = Ticket {
        worker: WorkerId(1),
        number: 3,
        lsn: Lsn(0),
    };
    let mut ack_waiter = AckWaiter::default();
    let polled = log.poll_certified(Some(foreign), Epoch(1), Waker::noop(), &mut ack_waiter);
    assert!(
        matches!(polled, Poll::Ready(Err(LogError::ForeignTicket { .. }))),
        "{polled:?}"
    );
    assert_eq!(log.counters().flushes, 0);
    source.finished.store(1, Ordering::SeqCst);
    wait_as_task(&log, Epoch(1)).unwrap();
    // Without commits there is nothing to write.
    assert_eq!(log.counters().flushes, 0);
    log.close().unwrap();
}

#[test]
fn an_epoch_without_commits_needs_no_marker() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (config, source) = by_epochs(2);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    for epoch in (1..10).step_by(3) {
        let _appended = put_in(log.stream(WorkerId(1)), epoch).unwrap();
        log.stream(WorkerId(1)).flush().unwrap();
        let flushes = log.counters().flushes;
        for (later, markers) in [(0, 1), (1, 1), (2, 1)] {
            source.finished.store(epoch + later, Ordering::SeqCst);
            log.wait_certified(None, Epoch(epoch + later)).unwrap();
            assert_eq!(log.certified_epoch(), Epoch(epoch + later));
            assert_eq!(log.counters().flushes, flushes + markers);
        }
    }
    drop(log);
    let (all, _) = read(&disk, &info(&config), 1).unwrap();
    assert_eq!(all.len(), 3);
}

#[test]
fn a_task_learns_nothing_of_earlier_refusals() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (config, source) = by_epochs(1);
    sim.set_capacity(Some(2 * (16 << 10)));
    let log: Arc<Log<()>> = create(&disk, config);
    within_reason("both are told", move || {
        let (epoch, error) = fill(&log, &source);
        assert!(matches!(error, LogError::DiskFull { .. }), "{error:?}");
        let told = wait_as_task(&log, epoch);
        assert!(matches!(told, Err(LogError::DiskFull { .. })), "{told:?}");
        sim.set_capacity(None);
        // An attempt may have been under way.
        while wait_as_task(&log, epoch).is_err() {}
        log.close().unwrap();
    });
}
