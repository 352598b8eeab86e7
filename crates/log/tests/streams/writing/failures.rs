//! Full disks, failing disks, panics, refusals.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::*;
use namiki_log::{Entry, GroupResource, Layout, Log, LogError, Placement};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Fault, SimDisk, Step};
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

const W: WorkerId = WorkerId(0);

fn sim() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new();
    (sim.clone(), Arc::new(sim))
}

#[test]
fn a_poisoned_log_acknowledges_nothing_and_releases_nothing() {
    static RELEASED: AtomicU64 = AtomicU64::new(0);
    #[derive(Default)]
    struct Locks(u64);
    impl GroupResource for Locks {
        fn release(&mut self) {
            RELEASED.fetch_add(self.0, Ordering::SeqCst);
        }
        fn is_empty(&self) -> bool {
            self.0 == 0
        }
    }
    for (layout, placement) in [
        (Layout::PerWorker, config(1).placement),
        (Layout::Single, config(1).placement),
        (Layout::PerWorker, shared(64 << 10)),
    ] {
        let (sim, disk) = sim();
        let mut config = config(2);
        config.layout = layout;
        config.placement = placement;
        let log: Arc<Log<Locks>> = create(&disk, config);
        let append = |worker| {
            let stream = log.stream(WorkerId(worker));
            let hold = |held: &mut Locks| held.0 += 1;
            stream.append(Entry::Commit, Stamp(1), Epoch(1), 1, |_, _| {}, hold)
        };
        let first = append(0).unwrap().ticket;
        log.stream(W).wait_hardened(first).unwrap();
        let released = RELEASED.load(Ordering::SeqCst);
        let lost = append(0).unwrap().ticket;
        let other = append(1).unwrap().ticket;
        sim.fail_after(0, ErrorKind::Other);
        let error = log.stream(W).flush().unwrap_err();
        assert!(error.is_poison(), "{error:?}");
        sim.heal();
        // The disk works again, but the state of its writes is unknown.
        assert!(log.stream(W).wait_hardened(lost).is_err());
        assert!(log.stream(other.worker).wait_hardened(other).is_err());
        assert!(log.wait_covered(lost.lsn).is_err());
        assert!(append(0).is_err() && append(1).is_err());
        assert!(log.flush_all().is_err());
        assert!(log.poisoned().is_some());
        assert!(!log.stream(W).is_hardened(lost));
        assert_eq!(log.horizon(), lost.lsn);
        assert!(log.close().is_err());
        assert_eq!(RELEASED.load(Ordering::SeqCst), released);
    }
}

#[test]
fn a_single_logs_flush_error_reaches_the_caller() {
    let (sim, disk) = sim();
    let mut config = config(2);
    config.layout = Layout::Single;
    config.group = count(2);
    let log: Arc<Log<()>> = create(&disk, config);
    put(log.stream(W), 1, b"p").unwrap();
    sim.fail_after(0, ErrorKind::Other);
    // The commit is in the buffer, and may reach the disk: its outcome is unknown, not refused.
    let (ticket, full) = put(log.stream(WorkerId(1)), 2, b"p").unwrap();
    assert!(full);
    assert!(log.stream(W).flush().unwrap_err().is_poison());
    assert!(log.stream(W).wait_hardened(ticket).is_err());
    assert!(!log.stream(W).is_hardened(ticket));
}

#[test]
fn a_full_disk_refuses_commits_and_keeps_accepted_ones() {
    let (sim, disk) = sim();
    let config = config(1);
    // Room for two log files.
    sim.set_capacity(Some(2 * (16 << 10)));
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let mut accepted = 0u64;
    let error = loop {
        match put(log.stream(W), accepted, &accepted.to_le_bytes().repeat(60)) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    let LogError::DiskFull { path, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(path, Path::new("/db/wal/0000/000001-00000003.log"));
    assert!(!error.is_poison() && log.poisoned().is_none());
    assert_eq!(log.last_drawn(), Lsn(accepted));
    assert!(log.stream(W).has_pending());
    // Accepted commits can be written, although the disk is still full.
    log.stream(W).flush().unwrap();
    assert!(accepted > 40, "{accepted}");
    assert_eq!(payloads(&disk, &info(&config), 0).len() as u64, accepted);
    // With space again the log continues.
    sim.set_capacity(None);
    for n in 0..100u64 {
        put(log.stream(W), n, &n.to_le_bytes().repeat(60)).unwrap();
    }
    log.close().unwrap();
    assert_eq!(
        payloads(&disk, &info(&config), 0).len() as u64,
        accepted + 100
    );
}

/// Any obstacle to the next file, and to the removal of its remains. Nothing was written, and
/// commits continue when the obstacle is gone.
#[test]
fn a_file_that_cannot_be_made_refuses_for_a_time() {
    for step in [Step::Create, Step::Write, Step::SyncDir] {
        for removal_fails in [false, true] {
            let (sim, disk) = sim();
            let config = config(1);
            let log: Arc<Log<()>> = create(&disk, config.clone());
            sim.inject(Fault::once(step, 0, ErrorKind::PermissionDenied).and_ever_after());
            if removal_fails {
                sim.inject(
                    Fault::once(Step::Remove, 0, ErrorKind::ReadOnlyFilesystem).and_ever_after(),
                );
            }
            for _ in 0..3 {
                let error = put(log.stream(W), 1, b"p").unwrap_err();
                let LogError::NotPrepared { path, .. } = &error else {
                    panic!("{step:?}: {error:?}");
                };
                assert_eq!(path, Path::new("/db/wal/0000/000001-00000001.log"));
                assert!(error.is_refusal() && log.poisoned().is_none());
                assert_eq!(log.last_drawn(), Lsn(0));
            }
            sim.heal();
            for n in 0..100_u64 {
                put(log.stream(W), n, &n.to_le_bytes().repeat(60)).unwrap();
            }
            log.close().unwrap();
            assert_eq!(payloads(&disk, &info(&config), 0).len(), 100, "{step:?}");
        }
    }
}

#[test]
fn an_oversized_commit_is_refused_with_nothing_drawn() {
    let (_, disk) = sim();
    let log: Arc<Log<()>> = create(&disk, config(1));
    let bytes_max = log.stream(W).payload_bytes_max();
    let called = |_: &mut [u8], _| panic!("nothing may be encoded");
    let error = log
        .stream(W)
        .append(
            Entry::Commit,
            Stamp(1),
            Epoch(1),
            bytes_max + 1,
            called,
            |()| {},
        )
        .unwrap_err();
    assert!(matches!(
        error,
        LogError::CommitTooLarge { bytes, bytes_max: max } if bytes == bytes_max + 1 && max == bytes_max
    ));
    assert_eq!(log.last_drawn(), Lsn(0));
    let (ticket, _) = put(log.stream(W), 1, &vec![9; bytes_max]).unwrap();
    assert_eq!(ticket.lsn, Lsn(1));
    log.close().unwrap();
}

#[test]
fn a_full_region_refuses_commits_and_keeps_accepted_ones() {
    let (_, disk) = sim();
    let mut config = config(2);
    config.placement = shared(16 << 10);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    let mut accepted = 0;
    let error = loop {
        match put(log.stream(W), accepted, &[1; 500]) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LogError::RegionFull { worker: W, .. }));
    put(log.stream(WorkerId(1)), 1, b"the other region has room").unwrap();
    let seal = log.close().unwrap();
    assert_eq!(payloads(&disk, &info(&config), 0).len() as u64, accepted);
    assert_eq!(seal.last_sequences.len(), 2);
}

#[test]
fn a_panic_between_draw_and_buffer_poisons_the_log() {
    let (_, disk) = sim();
    let log: Arc<Log<()>> = create(&disk, config(1));
    let panicking = AssertUnwindSafe(|| {
        let encode = |_: &mut [u8], _: Lsn| panic!("a bug in the caller");
        drop(
            log.stream(W)
                .append(Entry::Commit, Stamp(1), Epoch(1), 1, encode, |()| {}),
        );
    });
    assert!(std::panic::catch_unwind(panicking).is_err());
    assert!(matches!(
        log.poisoned(),
        Some(LogError::Panicked { worker: W })
    ));
    assert!(put(log.stream(W), 1, b"p").is_err());
    assert_eq!(log.horizon(), Lsn(1));
}

#[test]
fn a_panic_in_a_flush_poisons_and_wakes_waiters() {
    #[derive(Default)]
    struct Bomb;
    impl GroupResource for Bomb {
        fn release(&mut self) {
            panic!("a bug in the caller");
        }
        fn is_empty(&self) -> bool {
            false
        }
    }
    for layout in [Layout::PerWorker, Layout::Single] {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new().with_yields(5));
        let mut config = config(1);
        config.layout = layout;
        let log: Arc<Log<Bomb>> = create(&disk, config);
        let panics: usize = std::thread::scope(|scope| {
            let threads = [0, 1, 2].map(|_| {
                let log = &log;
                scope.spawn(move || {
                    let stream = log.stream(W);
                    let (ticket, _) = put(stream, 1, b"p").ok()?;
                    stream.wait_hardened(ticket).err()
                })
            });
            let results = threads.map(|thread| thread.join().is_err());
            results.iter().filter(|panicked| **panicked).count()
        });
        assert_eq!(panics, 1);
        assert!(matches!(log.poisoned(), Some(LogError::Panicked { .. })));
    }
}

#[test]
fn a_closed_log_refuses_commits_and_repeats_its_end() {
    let (_, disk) = sim();
    let log: Arc<Log<()>> = create(&disk, config(2));
    put(log.stream(W), 41, b"p").unwrap();
    put(log.stream(W), 40, b"p").unwrap();
    let seal = log.close().unwrap();
    assert_eq!(seal.last_sequences, [1, 0]);
    assert_eq!((seal.last_lsn, seal.max_stamp), (Lsn(2), Stamp(41)));
    assert!(matches!(put(log.stream(W), 1, b"p"), Err(LogError::Closed)));
    assert_eq!(log.close().unwrap(), seal);
}

#[test]
fn a_generation_cannot_be_written_twice() {
    for placement in [config(1).placement, shared(64 << 10)] {
        let (_, disk) = sim();
        let mut config = config(1);
        config.placement = placement;
        let log: Arc<Log<()>> = create(&disk, config.clone());
        put(log.stream(W), 1, b"p").unwrap();
        log.close().unwrap();
        let again = Log::<()>::create(Arc::clone(&disk), &wal(), config.clone());
        assert!(matches!(again, Err(LogError::GenerationExists { .. })));
        config.generation = Generation(2);
        create::<()>(&disk, config);
    }
}

#[test]
fn a_shared_device_of_another_database_is_left_alone() {
    let (_, disk) = sim();
    let mut config = config(1);
    config.placement = shared(64 << 10);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    put(log.stream(W), 1, b"p").unwrap();
    log.close().unwrap();
    config.generation = Generation(2);
    config.identity = 99;
    let foreign = Log::<()>::create(Arc::clone(&disk), &wal(), config.clone());
    assert!(matches!(foreign, Err(LogError::Foreign { .. })));
    config.identity = IDENTITY;
    config.streams = std::num::NonZeroU16::new(2).unwrap();
    let small = Log::<()>::create(Arc::clone(&disk), &wal(), config);
    assert!(matches!(
        small,
        Err(LogError::DeviceTooSmall { streams: 2, .. })
    ));
}

#[test]
fn a_contradictory_configuration_is_an_error_that_names_the_setting() {
    let (_, disk) = sim();
    let mut config = config(1);
    config.placement = Placement::Files {
        log_file_bytes: 4096,
    };
    let refused = Log::<()>::create(Arc::clone(&disk), &wal(), config.clone()).unwrap_err();
    assert!(refused.to_string().contains("log_file_bytes"), "{refused}");
    config.placement = shared(10_000);
    let refused = Log::<()>::create(Arc::clone(&disk), &wal(), config.clone()).unwrap_err();
    assert!(refused.to_string().contains("region_bytes"), "{refused}");
    // The length of sixteen of these overflows to zero.
    config.streams = std::num::NonZeroU16::new(16).unwrap();
    config.placement = shared(1 << 60);
    assert!(matches!(
        config.check(),
        Err(LogError::InvalidConfig { reason }) if reason.contains("region_bytes")
    ));
    assert!(Log::<()>::create(disk, &wal(), config).is_err());
}
