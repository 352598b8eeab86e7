//! Flights that are launched and left alone until somebody needs them to have landed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::*;
use namiki_log::{Held, Layout, Log, LogConfig};
use namiki_platform::disk::sim::{Loss, SimDisk};
use namiki_platform::disk::{Disk, open_best};
use namiki_platform::{Epoch, Stamp, WorkerId};

const W: WorkerId = WorkerId(0);

/// Launches every group.
fn launching(streams: u16) -> LogConfig {
    LogConfig {
        launch_from: NonZeroU32::MIN,
        ..config(streams)
    }
}

fn sim() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new();
    (sim.clone(), Arc::new(sim))
}

#[test]
fn what_was_launched_is_hardened_and_released_when_somebody_comes_to_see() {
    static RELEASED: AtomicU64 = AtomicU64::new(0);
    #[derive(Default)]
    struct Locks(u64);
    impl Held for Locks {
        fn release(&mut self) {
            RELEASED.fetch_add(std::mem::take(&mut self.0), Ordering::SeqCst);
        }
        fn is_empty(&self) -> bool {
            self.0 == 0
        }
    }
    let (sim, disk) = sim();
    sim.complete_after(u64::MAX);
    let config = launching(1);
    let log: Arc<Log<Locks>> = create(&disk, config.clone());
    let stream = log.stream(W);
    let append = || {
        let hold = |held: &mut Locks| held.0 += 1;
        let appended = stream.append(Stamp(1), Epoch(1), 1, |_, _| {}, hold);
        appended.unwrap().ticket
    };
    // Makes the first segment ready.
    append();
    stream.flush().unwrap();
    assert_eq!(RELEASED.load(Ordering::SeqCst), 1);

    let launched = append();
    stream.begin_flush().unwrap();
    stream.begin_flush().unwrap();
    for _ in 0..10 {
        stream.poll().unwrap();
    }
    assert!(!stream.is_hardened(launched) && stream.has_pending());
    // Others come meanwhile, and need not wait for it.
    let behind = append();
    assert!(!stream.is_hardened(launched));
    assert_eq!(RELEASED.load(Ordering::SeqCst), 1);
    stream.wait_hardened(launched).unwrap();
    assert!(stream.is_hardened(launched) && !stream.is_hardened(behind));
    assert_eq!(RELEASED.load(Ordering::SeqCst), 2);

    // The next launch lands what is under way first.
    stream.begin_flush().unwrap();
    assert!(!stream.is_hardened(behind));
    let third = append();
    stream.begin_flush().unwrap();
    assert!(stream.is_hardened(behind));
    log.close().unwrap();
    assert!(stream.is_hardened(third));
    assert_eq!(RELEASED.load(Ordering::SeqCst), 4);
    assert_eq!(payloads(&disk, &info(&config), 0).len(), 4);
}

#[test]
fn small_groups_and_single_logs_are_not_launched() {
    for (layout, launch_from, launches) in [
        (Layout::PerWorker, 3, true),
        (Layout::PerWorker, 4, false),
        (Layout::Single, 1, false),
    ] {
        let (sim, disk) = sim();
        sim.complete_after(u64::MAX);
        let mut config = launching(1);
        config.layout = layout;
        config.launch_from = NonZeroU32::new(launch_from).unwrap();
        let log: Arc<Log<()>> = create(&disk, config);
        put(log.stream(W), 1, b"p").unwrap();
        log.stream(W).flush().unwrap();
        let mut last = None;
        for stamp in 2..5 {
            last = Some(put(log.stream(W), stamp, b"p").unwrap().0);
        }
        log.stream(W).begin_flush().unwrap();
        let hardened = log.stream(W).is_hardened(last.unwrap());
        assert_eq!(hardened, !launches, "{layout:?}, from {launch_from}");
    }
}

#[test]
fn a_launched_write_that_fails_poisons_the_log_and_releases_nothing() {
    static RELEASED: AtomicU64 = AtomicU64::new(0);
    #[derive(Default)]
    struct Lock;
    impl Held for Lock {
        fn release(&mut self) {
            RELEASED.fetch_add(1, Ordering::SeqCst);
        }
        fn is_empty(&self) -> bool {
            false
        }
    }
    // Whoever comes next learns of it.
    for next in ["append", "flush", "wait", "poll", "begin", "close"] {
        let (sim, disk) = sim();
        sim.complete_after(1);
        let log: Arc<Log<Lock>> = create(&disk, launching(2));
        let stream = log.stream(W);
        put(stream, 1, b"p").unwrap();
        stream.flush().unwrap();
        let released = RELEASED.load(Ordering::SeqCst);
        sim.fail_after(0, ErrorKind::Other);
        let (lost, _) = put(stream, 2, b"p").unwrap();
        stream.begin_flush().unwrap();
        assert!(log.poisoned().is_none(), "nobody has looked yet");
        let told = match next {
            "append" => (0..2).find_map(|stamp| put(stream, stamp, b"p").err()),
            "flush" => stream.flush().err(),
            "wait" => stream.wait_hardened(lost).err(),
            "poll" => (0..2).find_map(|_| stream.poll().err()),
            "begin" => put(stream, 3, b"p").err().or(stream.begin_flush().err()),
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
fn a_crash_while_a_launched_write_is_under_way_loses_no_more_than_it() {
    let (sim, disk) = sim();
    let mut config = launching(2);
    config.group = count(3);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let mut tickets = Vec::new();
    for stamp in 1..40 {
        let stream = log.stream(WorkerId((stamp % 2) as u16));
        let (ticket, full) = put(stream, stamp, &stamp.to_le_bytes()).unwrap();
        tickets.push((ticket, false));
        if full {
            stream.begin_flush().unwrap();
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
fn those_who_wait_for_their_group_are_woken_when_it_is_launched() {
    within_reason("a group that was launched is waited for", || {
        let (_, disk) = sim();
        let mut config = launching(1);
        config.group = count(4);
        // Nobody but the one who fills the group can be what wakes the others.
        config.group_wait_max = Duration::from_secs(3600);
        let log: Arc<Log<()>> = create(&disk, config);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for stamp in 0..500 {
                        let (ticket, full) = put(log.stream(W), stamp, b"p").unwrap();
                        // Who fills the group does not come back to it.
                        if full {
                            log.stream(W).begin_flush().unwrap();
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

#[test]
fn a_real_disk_gives_back_what_was_launched_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, _) = open_best(dir.path()).unwrap();
    let mut config = LogConfig {
        group: count(7),
        buffer_bytes: 64 << 10,
        ..launching(2)
    };
    config.placement = namiki_log::Placement::Segments {
        segment_bytes: 256 << 10,
    };
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
                        stream.begin_flush().unwrap();
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
