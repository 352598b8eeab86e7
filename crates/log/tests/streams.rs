//! Appending, grouping, waiting.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::*;
use namiki_log::{Group, Layout, Log, Merge};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::{Lsn, WorkerId};

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
