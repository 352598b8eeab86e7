//! Batches that are submitted, and completed when a thread needs them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::gate::{Gate, gate};
use crate::common::*;
use namiki_log::{Entry, GroupResource, Layout, Log, LogConfig, LogError, Placement};
use namiki_platform::disk::sim::{Loss, SimDisk};
use namiki_platform::disk::{AlignedBuf, Disk, DiskCall, open_best};
use namiki_platform::{Epoch, Stamp, WorkerId};

const W: WorkerId = WorkerId(0);

/// Submits every group.
fn submitting(streams: u16) -> LogConfig {
    LogConfig {
        async_flush_min_commits: Some(NonZeroU32::MIN),
        ..config(streams)
    }
}

fn sim() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new();
    (sim.clone(), Arc::new(sim))
}

#[test]
fn a_submitted_batch_completes_at_the_next_look() {
    static RELEASED: AtomicU64 = AtomicU64::new(0);
    #[derive(Default)]
    struct Locks(u64);
    impl GroupResource for Locks {
        fn release(&mut self) {
            RELEASED.fetch_add(std::mem::take(&mut self.0), Ordering::SeqCst);
        }
        fn is_empty(&self) -> bool {
            self.0 == 0
        }
    }
    let (sim, disk) = sim();
    sim.complete_after(u64::MAX);
    let config = submitting(1);
    let log: Arc<Log<Locks>> = create(&disk, config.clone());
    let stream = log.stream(W);
    let append = || {
        let hold = |held: &mut Locks| held.0 += 1;
        let appended = stream.append(Entry::Commit, Stamp(1), Epoch(1), 1, |_, _| {}, hold);
        appended.unwrap().ticket
    };
    // Creates the first log file.
    append();
    stream.flush().unwrap();
    assert_eq!(RELEASED.load(Ordering::SeqCst), 1);

    let submitted = append();
    stream.begin_flush(submitted).unwrap();
    stream.begin_flush(submitted).unwrap();
    for _ in 0..10 {
        stream.poll().unwrap();
    }
    assert!(!stream.is_hardened(submitted) && stream.has_pending());
    // Later commits need not wait for the batch.
    let behind = append();
    assert!(!stream.is_hardened(submitted));
    assert_eq!(RELEASED.load(Ordering::SeqCst), 1);
    stream.wait_hardened(submitted).unwrap();
    assert!(stream.is_hardened(submitted) && !stream.is_hardened(behind));
    assert_eq!(RELEASED.load(Ordering::SeqCst), 2);

    // The next submission completes the batch under way first.
    stream.begin_flush(behind).unwrap();
    assert!(!stream.is_hardened(behind));
    let third = append();
    stream.begin_flush(third).unwrap();
    assert!(stream.is_hardened(behind));
    log.close().unwrap();
    assert!(stream.is_hardened(third));
    assert_eq!(RELEASED.load(Ordering::SeqCst), 4);
    assert_eq!(payloads(&disk, &info(&config), 0).len(), 4);
}

#[test]
fn small_groups_and_single_logs_are_not_submitted() {
    for (layout, async_flush_min_commits, submits) in [
        (Layout::PerWorker, 3, true),
        (Layout::PerWorker, 4, false),
        (Layout::Single, 1, false),
    ] {
        let (sim, disk) = sim();
        sim.complete_after(u64::MAX);
        let mut config = submitting(1);
        config.layout = layout;
        config.async_flush_min_commits = NonZeroU32::new(async_flush_min_commits);
        let log: Arc<Log<()>> = create(&disk, config);
        put(log.stream(W), 1, b"p").unwrap();
        log.stream(W).flush().unwrap();
        let put = |stamp| put(log.stream(W), stamp, b"p").unwrap().0;
        let [_, _, last] = [2, 3, 4].map(put);
        log.stream(W).begin_flush(last).unwrap();
        let hardened = log.stream(W).is_hardened(last);
        assert_eq!(
            hardened, !submits,
            "{layout:?}, from {async_flush_min_commits}"
        );
    }
}

#[test]
fn a_failed_submitted_write_poisons_and_releases_nothing() {
    static RELEASED: AtomicU64 = AtomicU64::new(0);
    #[derive(Default)]
    struct Lock;
    impl GroupResource for Lock {
        fn release(&mut self) {
            RELEASED.fetch_add(1, Ordering::SeqCst);
        }
        fn is_empty(&self) -> bool {
            false
        }
    }
    // The next caller gets the error.
    for next in ["append", "flush", "wait", "poll", "begin", "close"] {
        let (sim, disk) = sim();
        sim.complete_after(1);
        let log: Arc<Log<Lock>> = create(&disk, submitting(2));
        let stream = log.stream(W);
        put(stream, 1, b"p").unwrap();
        stream.flush().unwrap();
        let released = RELEASED.load(Ordering::SeqCst);
        sim.fail_after(0, ErrorKind::Other);
        let (lost, _) = put(stream, 2, b"p").unwrap();
        stream.begin_flush(lost).unwrap();
        assert!(log.poisoned().is_none(), "no call has looked yet");
        let told = match next {
            "append" => (0..2).find_map(|stamp| put(stream, stamp, b"p").err()),
            "flush" => stream.flush().err(),
            "wait" => stream.wait_hardened(lost).err(),
            "poll" => (0..2).find_map(|_| stream.poll().err()),
            "begin" => match put(stream, 3, b"p") {
                Ok((ticket, _)) => stream.begin_flush(ticket).err(),
                Err(error) => Some(error),
            },
            _ => log.close().err(),
        }
        .unwrap();
        assert!(told.is_poison(), "{next}: {told:?}");
        assert!(told.to_string().contains("wal"), "{told}");
        sim.heal();
        assert!(!stream.is_hardened(lost) && log.poisoned().is_some());
        assert!(put(log.stream(WorkerId(1)), 1, b"p").is_err());
        assert!(log.close().is_err());
        assert_eq!(RELEASED.load(Ordering::SeqCst), released, "{next}");
    }
}

#[test]
fn a_crash_during_a_submitted_write_loses_only_it() {
    let (sim, disk) = sim();
    let mut config = submitting(2);
    config.group = count(3);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let mut tickets = Vec::new();
    for stamp in 1..40 {
        let stream = log.stream(WorkerId((stamp % 2) as u16));
        let (ticket, full) = put(stream, stamp, &stamp.to_le_bytes()).unwrap();
        tickets.push((ticket, false));
        if full {
            stream.begin_flush(ticket).unwrap();
        }
        for (ticket, marked) in &mut tickets {
            if !*marked && log.stream(ticket.worker).is_hardened(*ticket) {
                *marked = true;
                sim.mark(u64::from(ticket.worker.0) << 32 | ticket.number);
            }
        }
    }
    drop(log);
    let mut under_way = 0;
    for at in 0..=sim.events() {
        let sectors = sim.pending_sectors(at);
        under_way += usize::from(sectors > 0);
        let losses = (0..sectors).map(Loss::Only).chain([Loss::All, Loss::None]);
        for loss in losses {
            let image: Arc<dyn Disk> = Arc::new(sim.crash_image(at, loss));
            let marks = sim.marks_before(at);
            for worker in 0..2 {
                let acknowledged = marks.iter().filter(|mark| *mark >> 32 == worker).count();
                if acknowledged > 0 {
                    let kept = payloads(&image, &info(&config), worker as u16).len();
                    assert!(
                        kept >= acknowledged,
                        "{kept} of {acknowledged} at {at}, {loss:?}"
                    );
                }
            }
        }
    }
    assert!(under_way > 20, "{under_way}");
}

#[test]
fn a_filler_of_a_flushed_group_leaves_the_next() {
    let (_, disk) = sim();
    let mut config = submitting(1);
    config.group = count(2);
    config.group_wait_max = Duration::from_secs(3600);
    let log: Arc<Log<()>> = create(&disk, config);
    let stream = log.stream(W);
    let (first, _) = put(stream, 1, b"p").unwrap();
    let (filled, full) = put(stream, 2, b"p").unwrap();
    assert!(full);
    stream.wait_hardened(first).unwrap();
    let (next, _) = put(stream, 3, b"p").unwrap();
    stream.begin_flush(filled).unwrap();
    stream.poll().unwrap();
    assert!(stream.is_hardened(filled) && !stream.is_hardened(next));
    assert_eq!(log.counters().flushes, 1);
}

#[test]
fn waiters_are_woken_when_their_group_is_submitted() {
    within_reason("a group that was submitted is waited for", || {
        let (_, disk) = sim();
        let mut config = submitting(1);
        config.group = count(4);
        // Only the thread that fills the group can wake the others.
        config.group_wait_max = Duration::from_secs(3600);
        let log: Arc<Log<()>> = create(&disk, config);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for stamp in 0..500 {
                        let (ticket, full) = put(log.stream(W), stamp, b"p").unwrap();
                        // The thread that fills the group does not use it again.
                        if full {
                            log.stream(W).begin_flush(ticket).unwrap();
                            continue;
                        }
                        log.stream(W).wait_hardened(ticket).unwrap();
                        assert!(log.stream(W).is_hardened(ticket));
                    }
                });
            }
        });
    });
}

/// A log on a disk on which begun writes never complete by themselves. Once the gate is closed, the
/// next begun write waits until it is opened.
struct Gated {
    log: Arc<Log<()>>,
    gate: Gate,
    /// Synchronous writes fail.
    failing: Arc<AtomicBool>,
}

impl Gated {
    fn new(config: LogConfig) -> Self {
        let sim = SimDisk::new();
        sim.complete_after(u64::MAX);
        let failing = Arc::<AtomicBool>::default();
        let (gate, pass) = gate();
        let hook = {
            let failing = Arc::clone(&failing);
            move |step| match step {
                DiskCall::BeginWrite(_) => {
                    pass();
                    Ok(())
                }
                DiskCall::Write { .. } if failing.load(Ordering::SeqCst) => {
                    Err(ErrorKind::Other.into())
                }
                _ => Ok(()),
            }
        };
        let disk = hooked(&sim, hook);
        let log: Arc<Log<()>> = create(&disk, config);
        for worker in 0..log.streams() {
            let stream = log.stream(WorkerId(worker as u16));
            put(stream, 1, b"p").unwrap();
            stream.flush().unwrap();
        }
        Self { log, gate, failing }
    }

    /// Starts a thread that submits a batch of stream 0 and does not complete it. Returns when the
    /// thread waits at the gate.
    fn submit(&self) -> JoinHandle<()> {
        self.gate.closed.store(true, Ordering::SeqCst);
        let log = Arc::clone(&self.log);
        let submitter = std::thread::spawn(move || {
            let (ticket, _) = put(log.stream(W), 2, b"p").unwrap();
            log.stream(W).begin_flush(ticket).unwrap();
        });
        self.gate.arrived.recv().unwrap();
        submitter
    }
}

/// Long enough for a thread to park. If it does not, the test covers less.
fn doze() {
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn an_immediate_flush_is_not_delayed_by_group_waiters() {
    within_reason("the group that is wanted is hardened", || {
        let sim = SimDisk::new();
        let (gate, pass) = gate();
        let hook = move |step| {
            if matches!(step, DiskCall::Write { .. }) {
                pass();
            }
            Ok(())
        };
        let disk = hooked(&sim, hook);
        let mut config = submitting(1);
        config.async_flush_min_commits = None;
        config.group = count(3);
        config.group_wait_max = Duration::from_secs(3600);
        let log: Arc<Log<()>> = create(&disk, config);
        let stream = log.stream(W);
        put(stream, 1, b"p").unwrap();
        stream.flush().unwrap();
        gate.closed.store(true, Ordering::SeqCst);
        put(stream, 2, b"p").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| stream.flush().unwrap());
            gate.arrived.recv().unwrap();
            // The first thread that parks is woken first, although its group is not complete.
            let (ticket, _) = put(stream, 3, b"p").unwrap();
            scope.spawn(move || stream.wait_hardened(ticket).unwrap());
            doze();
            put(stream, 4, b"p").unwrap();
            scope.spawn(|| stream.flush().unwrap());
            doze();
            gate.open.send(()).unwrap();
        });
        assert!(!stream.has_pending());
    });
}

#[test]
fn a_waiter_behind_an_unattended_batch_is_woken() {
    within_reason("the batch behind is led", || {
        let gated = Gated::new(submitting(1));
        let submitter = gated.submit();
        let log = Arc::clone(&gated.log);
        let behind = std::thread::spawn(move || {
            let (ticket, _) = put(log.stream(W), 3, b"p").unwrap();
            log.stream(W).wait_hardened(ticket).unwrap();
        });
        doze();
        gated.gate.open.send(()).unwrap();
        submitter.join().unwrap();
        behind.join().unwrap();
    });
}

#[test]
fn no_waiter_sleeps_on_in_a_poisoned_log() {
    within_reason("every waiter learns of the poison", || {
        let mut config = submitting(2);
        config.group = count(100);
        // With a flusher, which does nothing for a poisoned log.
        config.group_wait_max = Duration::from_millis(1);
        let gated = Gated::new(config);
        let submitter = gated.submit();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let log = Arc::clone(&gated.log);
                std::thread::spawn(move || log.stream(W).flush())
            })
            .collect();
        doze();
        gated.failing.store(true, Ordering::SeqCst);
        let other = gated.log.stream(WorkerId(1));
        put(other, 2, b"p").unwrap();
        assert!(other.flush().unwrap_err().is_poison());
        gated.gate.open.send(()).unwrap();
        submitter.join().unwrap();
        for waiter in waiters {
            assert!(waiter.join().unwrap().unwrap_err().is_poison());
        }
        assert!(gated.log.close().is_err());
    });
}

#[test]
fn close_does_not_wait_for_a_commit_that_it_refuses() {
    within_reason("the log is closed", || {
        let gated = Gated::new(submitting(1));
        let submitter = gated.submit();
        let log = Arc::clone(&gated.log);
        let appender = std::thread::spawn(move || {
            put(log.stream(W), 3, &[0; 3000]).unwrap();
            // There is no room for it until the batch has completed.
            put(log.stream(W), 4, &[0; 3000])
        });
        doze();
        let log = Arc::clone(&gated.log);
        let closer = std::thread::spawn(move || log.close().map(drop));
        doze();
        gated.gate.open.send(()).unwrap();
        submitter.join().unwrap();
        // The append was before the close, or was refused.
        match appender.join().unwrap() {
            Ok((ticket, _)) => assert!(gated.log.stream(W).is_hardened(ticket)),
            Err(error) => assert!(matches!(error, LogError::Closed), "{error}"),
        }
        closer.join().unwrap().unwrap();
    });
}

#[test]
fn nothing_is_appended_to_a_log_that_was_closed_meanwhile() {
    static RELEASING: AtomicBool = AtomicBool::new(false);
    static GO_ON: AtomicBool = AtomicBool::new(false);
    /// Slow to release.
    #[derive(Default)]
    struct Slow(bool);
    impl GroupResource for Slow {
        fn release(&mut self) {
            if std::mem::take(&mut self.0) {
                RELEASING.store(true, Ordering::SeqCst);
                while !GO_ON.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
        }
        fn is_empty(&self) -> bool {
            !self.0
        }
    }
    within_reason("the log is closed", || {
        let (sim, disk) = sim();
        sim.complete_after(0);
        let config = submitting(1);
        let log: Arc<Log<Slow>> = create(&disk, config.clone());
        let stream = log.stream(W);
        let hold = |held: &mut Slow| held.0 = true;
        let appended = stream.append(Entry::Commit, Stamp(1), Epoch(1), 1, |_, _| {}, hold);
        stream.begin_flush(appended.unwrap().ticket).unwrap();
        // Completes the batch while the log is being closed.
        let late = {
            let log = Arc::clone(&log);
            std::thread::spawn(move || put(log.stream(W), 2, b"late"))
        };
        while !RELEASING.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let closer = {
            let log = Arc::clone(&log);
            std::thread::spawn(move || log.close())
        };
        doze();
        GO_ON.store(true, Ordering::SeqCst);
        let late = late.join().unwrap();
        let seal = closer.join().unwrap().unwrap();
        // An accepted commit is there, before the seal.
        let mut info = info(&config);
        info.seal = Some(seal);
        let expected = 1 + usize::from(late.is_ok());
        assert_eq!(payloads(&disk, &info, 0).len(), expected, "{late:?}");
    });
}

#[test]
fn a_real_disk_returns_submitted_writes() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, _) = open_best(dir.path()).unwrap();
    let mut config = LogConfig {
        group: count(7),
        buffer_bytes: 64 << 10,
        ..submitting(2)
    };
    config.placement = Placement::Files {
        log_file_bytes: 256 << 10,
    };
    let probe = disk.create(&dir.path().join("probe"), 4096).unwrap();
    let can_begin = probe.begin_write(0, AlignedBuf::zeroed(4096), 4096).is_ok();
    let wal = dir.path().join("wal");
    let log: Arc<Log<()>> = Log::create(Arc::clone(&disk), &wal, config.clone()).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let stream = log.stream(WorkerId(worker));
            scope.spawn(move || {
                let mut seen = 0;
                for stamp in 1..3000_u64 {
                    let payload = vec![stamp as u8; (stamp % 1500) as usize];
                    let (ticket, full) = put(stream, stamp, &payload).unwrap();
                    if full {
                        stream.begin_flush(ticket).unwrap();
                    }
                    stream.poll().unwrap();
                    let hardened = stream.hardened_commits();
                    assert!(hardened >= seen && hardened <= ticket.number);
                    seen = hardened;
                }
            });
        }
    });
    log.close().unwrap();
    assert_eq!(log.counters().submitted > 0, can_begin);
    for worker in 0..2 {
        let info = info(&config);
        let mut reader = namiki_log::StreamReader::open(
            Arc::clone(&disk),
            &wal,
            IDENTITY,
            &info,
            WorkerId(worker),
        )
        .unwrap();
        let mut stamp = 0;
        while let Some(frame) = reader.next_frame().unwrap() {
            for record in frame.records() {
                stamp += 1;
                assert_eq!(record.stamp, Stamp(stamp));
                assert_eq!(record.payload.len() as u64, stamp % 1500);
                assert!(record.payload.iter().all(|byte| *byte == stamp as u8));
            }
        }
        assert_eq!(stamp, 2999);
    }
}
