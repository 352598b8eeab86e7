//! Appending, grouping, waiting.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use namiki_log::{Group, Layout, Log, Merge, Prepare, StreamReader};
use namiki_platform::disk::{Disk, SimDisk, open_best};
use namiki_platform::{Generation, Lsn, WorkerId};

#[test]
fn what_is_appended_and_flushed_is_read_back_in_order() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = config(3);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    for n in 0..300u64 {
        let stream = log.stream(WorkerId((n % 3) as u16));
        let (ticket, _) = put(stream, n, &n.to_le_bytes()).unwrap();
        assert_eq!(ticket.lsn, Lsn(n + 1));
        if n % 7 == 0 {
            stream.flush().unwrap();
            assert!(stream.is_hardened(ticket));
        }
    }
    let seal = log.close().unwrap();
    let mut info = info(&config);
    let readers = (0..3).map(|w| reader(&disk, &info, w).unwrap()).collect();
    let mut merge = Merge::by_lsn(readers, Lsn(1), None);
    for n in 0..300u64 {
        let record = merge.next_record().unwrap().unwrap();
        assert_eq!(
            (record.lsn, record.payload),
            (Lsn(n + 1), &n.to_le_bytes()[..])
        );
    }
    assert!(merge.next_record().unwrap().is_none());
    let end = merge.finish().unwrap();
    assert_eq!((end.last_lsn, end.dropped), (Lsn(300), 0));
    assert_eq!(seal.last_lsn, Lsn(300));
    info.seal = Some(seal);
    assert_eq!(payloads(&disk, &info, 1).len(), 100);
}

#[test]
fn the_single_layout_has_one_stream_for_all_workers() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config(4);
    config.layout = Layout::Single;
    config.group = Group::Auto;
    let log: Arc<Log<()>> = create(&disk, config.clone());
    assert_eq!(log.streams(), 1);
    for worker in 0..4 {
        let stream = log.stream(WorkerId(worker));
        let (ticket, _) = put(stream, 1, b"x").unwrap();
        stream.wait_hardened(ticket).unwrap();
        assert!(log.is_covered(ticket.lsn));
    }
    assert_eq!(payloads(&disk, &info(&config), 0).len(), 4);
}

#[test]
fn real_files_give_back_what_four_threads_wrote_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, _) = open_best(dir.path()).unwrap();
    let wal = dir.path().join("wal");
    for (generation, placement) in [
        (1, config(1).placement),
        (
            2,
            namiki_log::Placement::Shared {
                path: dir.path().join("device"),
                region_bytes: 1 << 20,
            },
        ),
    ] {
        let mut config = config(4);
        config.generation = Generation(generation);
        config.group = count(8);
        config.group_wait_max = Duration::from_millis(1);
        config.prepare = Prepare::Background;
        config.placement = placement;
        let log: Arc<Log<()>> = Log::create(Arc::clone(&disk), &wal, config.clone()).unwrap();
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let stream = log.stream(WorkerId(worker));
                let log = &log;
                scope.spawn(move || {
                    for n in 0..200u64 {
                        let (ticket, full) = put(stream, n, &n.to_le_bytes()).unwrap();
                        if full {
                            stream.flush().unwrap();
                        }
                        if n % 50 == 0 {
                            stream.wait_hardened(ticket).unwrap();
                            log.wait_covered(ticket.lsn).unwrap();
                        }
                    }
                });
            }
        });
        let seal = log.close().unwrap();
        assert_eq!(seal.last_lsn, Lsn(800));
        let mut info = info(&config);
        info.seal = Some(seal);
        let readers = (0..4).map(|worker| {
            let disk = Arc::clone(&disk);
            StreamReader::open(disk, &wal, IDENTITY, &info, WorkerId(worker)).unwrap()
        });
        let merge = Merge::by_lsn(readers.collect(), Lsn(1), None);
        let end = merge.finish().unwrap();
        assert_eq!((end.records, end.dropped), (800, 0));
    }
}
