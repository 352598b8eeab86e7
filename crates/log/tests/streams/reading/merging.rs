//! Merging streams by LSN and by stamp.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::common::*;
use namiki_log::{Log, Merge, ReadError, SortedRun, merge_by_stamp, merge_sorted};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;
use namiki_platform::{Lsn, WorkerId};
use proptest::prelude::*;

fn by_lsn(disk: &Arc<dyn Disk>, streams: u16, first: u64, last: Option<Lsn>) -> Merge {
    let info = info(&config(streams));
    let readers = (0..streams).map(|w| reader(disk, &info, w).unwrap());
    Merge::by_lsn(readers.collect(), Lsn(first), last)
}

fn lsns(merge: &mut Merge) -> Vec<u64> {
    let mut all = Vec::new();
    while let Some(record) = merge.next_record().unwrap() {
        all.push(record.lsn.0);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn both_merges_give_what_sorting_everything_gives(
        seed in any::<u64>(),
        streams in 1u16..9,
        commits in 0u64..300,
    ) {
        let mut random = Random::seeded(seed);
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let log: Arc<Log<()>> = create(&disk, config(streams));
        let mut all = Vec::new();
        for _ in 0..commits {
            // The last stream stays empty.
            let worker = random.below(u64::from(streams).max(2) - 1) as u16;
            let stream = log.stream(WorkerId(worker));
            let stamp = random.below(50);
            let payload = vec![worker as u8; random.below(200) as usize];
            let (ticket, _) = put(stream, stamp, &payload).unwrap();
            all.push((stamp, worker, ticket.lsn.0, payload));
            if random.chance(0.2) {
                stream.flush().unwrap();
            }
        }
        log.close().unwrap();

        let mut merge = by_lsn(&disk, streams, 1, None);
        let mut merged = Vec::new();
        while let Some(record) = merge.next_record().unwrap() {
            merged.push((record.stamp.0, record.lsn.0, record.payload.to_vec()));
        }
        let end = merge.finish().unwrap();
        prop_assert_eq!((end.records, end.last_lsn.0, end.dropped), (commits, commits, 0));
        // They were appended in the order of their LSNs.
        let expected: Vec<_> =
            all.iter().map(|(stamp, _, lsn, payload)| (*stamp, *lsn, payload.clone())).collect();
        prop_assert_eq!(merged, expected);

        let info = info(&config(streams));
        let runs: Vec<_> = (0..streams)
            .map(|w| {
                let on_frame = |_: u64| Ok::<_, ReadError>(());
                SortedRun::read_with(reader(&disk, &info, w).unwrap(), on_frame).unwrap().0
            })
            .collect();
        let merged: Vec<_> = merge_by_stamp(&runs)
            .map(|record| (record.stamp.0, record.lsn.0, record.payload.to_vec()))
            .collect();
        // Equal stamps: by stream, and within a stream as appended.
        all.sort_by_key(|&(stamp, worker, lsn, _)| (stamp, worker, lsn));
        let expected: Vec<_> =
            all.into_iter().map(|(stamp, _, lsn, payload)| (stamp, lsn, payload)).collect();
        prop_assert_eq!(merged, expected);
    }

    #[test]
    fn merging_sorted_runs_equals_sorting(runs in prop::collection::vec(
        prop::collection::vec(0u32..100, 0..40), 0..8)
    ) {
        let mut runs = runs;
        runs.iter_mut().for_each(|run| run.sort_unstable());
        let mut expected = runs.concat();
        expected.sort_unstable();
        let iterators = runs.into_iter().map(Vec::into_iter).collect();
        let merged: Vec<_> = merge_sorted(iterators, |item: &u32| *item).collect();
        prop_assert_eq!(merged, expected);
    }
}

/// LSNs 1 to 9 over three streams, of which the middle one has lost everything after LSN 4.
fn with_a_gap() -> Arc<dyn Disk> {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, config(3));
    for lsn in 1..=9u64 {
        let stream = log.stream(WorkerId((lsn % 3) as u16));
        put(stream, 100 + lsn, &lsn.to_le_bytes()).unwrap();
        if lsn == 4 {
            stream.flush().unwrap();
        }
    }
    // LSN 7, in stream 1, is never flushed.
    log.stream(WorkerId(0)).flush().unwrap();
    log.stream(WorkerId(2)).flush().unwrap();
    disk
}

#[test]
fn the_merge_stops_at_the_first_missing_lsn() {
    let disk = with_a_gap();
    let mut merge = by_lsn(&disk, 3, 1, None);
    assert_eq!(lsns(&mut merge), [1, 2, 3, 4, 5, 6]);
    assert!(merge.next_record().unwrap().is_none());
    let end = merge.finish().unwrap();
    assert_eq!((end.last_lsn, end.records, end.dropped), (Lsn(6), 6, 2));
    // Stamps restart above those that were dropped, too.
    assert_eq!(end.max_stamp.0, 109);
}

#[derive(Debug)]
enum Stop {
    Asked,
    Failed,
}

impl From<ReadError> for Stop {
    fn from(_: ReadError) -> Self {
        Self::Failed
    }
}

#[test]
fn reading_can_be_stopped_and_says_how_much_was_read() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = config(1);
    let log: Arc<Log<()>> = create(&disk, config.clone());
    for n in 0..40 {
        put(log.stream(WorkerId(0)), n, &[1; 700]).unwrap();
        log.flush_all().unwrap();
    }
    let info = info(&config);
    let open = || reader(&disk, &info, 0).unwrap();
    let frames = std::cell::Cell::new(0);
    let on_frame = |bytes| {
        assert_eq!(bytes, 72 + 24 + 700);
        frames.set(frames.get() + 1);
        match frames.get() {
            20 => Err(Stop::Asked),
            _ => Ok(()),
        }
    };
    let stopped = SortedRun::read_with(open(), on_frame);
    assert!(matches!(stopped, Err(Stop::Asked)));
    assert_eq!(frames.get(), 20);
    // The second read is not stopped: the count has passed twenty.
    let (run, _) = SortedRun::read_with(open(), on_frame).unwrap();
    assert_eq!((run.len(), frames.get()), (40, 60));

    // Merged records are counted by their payloads, those after the merge by frames.
    let gap = with_a_gap();
    for (merge, dropped, bytes_min) in [
        (Merge::by_lsn(vec![open()], Lsn(1), None), 0, 40 * 700),
        (by_lsn(&gap, 3, 1, None), 2, 6 * 8),
    ] {
        let bytes = std::cell::Cell::new(0);
        let end = merge.finish_with(|read| {
            bytes.set(bytes.get() + read);
            Ok::<_, ReadError>(())
        });
        assert_eq!(end.unwrap().dropped, dropped);
        assert!(bytes.get() >= bytes_min);
    }
    let mut merge = by_lsn(&gap, 3, 1, None);
    assert_eq!(lsns(&mut merge).len(), 6);
    let stopped = by_lsn(&gap, 3, 1, None).finish_with(|_| Err(Stop::Asked));
    assert!(matches!(stopped, Err(Stop::Asked)));
}

#[test]
fn a_sealed_merge_ends_at_its_last_lsn() {
    let disk = with_a_gap();
    let mut merge = by_lsn(&disk, 3, 1, Some(Lsn(5)));
    assert_eq!(lsns(&mut merge), [1, 2, 3, 4, 5]);
    assert_eq!(merge.finish().unwrap().last_lsn, Lsn(5));
}

#[test]
fn gaps_are_allowed_below_the_first_required_lsn() {
    let disk = with_a_gap();
    // As if everything up to LSN 7 were in an image.
    let mut merge = by_lsn(&disk, 3, 8, None);
    assert_eq!(lsns(&mut merge), [1, 2, 3, 4, 5, 6, 8, 9]);
    assert_eq!(merge.finish().unwrap().last_lsn, Lsn(9));
}

#[test]
fn where_gaps_mean_nothing_all_that_is_there_is_merged() {
    let disk = with_a_gap();
    let info = info(&config(3));
    let readers = (0..3).map(|worker| reader(&disk, &info, worker).unwrap());
    let mut merge = Merge::by_lsn_with_gaps(readers.collect());
    assert_eq!(lsns(&mut merge), [1, 2, 3, 4, 5, 6, 8, 9]);
    let end = merge.finish().unwrap();
    assert_eq!((end.last_lsn, end.records, end.dropped), (Lsn(9), 8, 0));
}

#[test]
fn a_missing_lsn_below_a_recorded_horizon_is_an_error() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let log: Arc<Log<()>> = create(&disk, config(2));
    put(log.stream(WorkerId(1)), 1, b"p").unwrap();
    log.flush_all().unwrap();
    // This frame records that LSN 1 is hardened.
    put(log.stream(WorkerId(0)), 2, b"p").unwrap();
    log.flush_all().unwrap();
    disk.remove(std::path::Path::new("/db/wal/0001/000001-00000001.log"))
        .unwrap();
    let merge = by_lsn(&disk, 2, 1, None);
    assert!(matches!(
        merge.finish(),
        Err(ReadError::HardenedMissing {
            lsn: Lsn(1),
            horizon: Lsn(2)
        })
    ));
}
