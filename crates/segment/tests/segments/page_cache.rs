//! The page cache keeps used pages, within its budget, and never evicts a page that a row borrows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::common::*;
use namiki_platform::Stamp;
use namiki_platform::disk::Disk;
use namiki_platform::seeded_random::Random;
use namiki_segment::{
    Cursor, Found, Inserted, PAGE_BYTES, PageCache, PageNo, PageReader, Pages, Segment,
    SegmentError, SegmentId,
};

type Frame = Box<[u8; PAGE_BYTES]>;
type Cache = PageCache<Frame>;

/// A segment of about this number of leaves, one key of eight bytes for each number.
fn segment(disk: &Arc<dyn Disk>, leaves: u64, number: u64) -> Arc<Segment> {
    let row = |n: u64| {
        (
            n.to_be_bytes().to_vec(),
            (vec![number as u8; 900], Stamp(n)),
        )
    };
    let id = SegmentId::new(ID.database, number);
    let path = std::path::PathBuf::from(format!("/db/{number}.run"));
    try_write(disk, &path, id, &(0..leaves * 4).map(row).collect()).unwrap();
    Arc::new(Segment::open(disk, &path, id).unwrap())
}

fn read(segment: &Segment, page: PageNo) -> Frame {
    let mut frame = Box::new([0; PAGE_BYTES]);
    frame.copy_from_slice(&segment.read_pages(page, 1).unwrap());
    frame
}

/// A row's value, read with as many faults as needed, and their number.
fn get(reader: &mut PageReader<Frame>, segment: &Segment, key: u64) -> (Option<u8>, usize) {
    let mut faults = 0;
    loop {
        let found = segment.get(reader, &key.to_be_bytes());
        let found = found.map(|row| row.map(|row| row.value.inline().unwrap()[0]));
        match found {
            Found::Is(value) => {
                reader.release();
                return (value, faults);
            }
            Found::Fault(page) => {
                faults += 1;
                reader.release();
                let inserted = reader.insert(segment, page, read(segment, page)).unwrap();
                assert!(matches!(inserted, Inserted::Resident));
            }
        }
    }
}

#[test]
fn a_page_that_fits_is_read_once() {
    let disk = disk();
    let segments = [segment(&disk, 20, 1), segment(&disk, 30, 2)];
    let pages: usize = segments.iter().map(|s| s.data_pages() as usize).sum();
    let cache = Cache::new(pages * PAGE_BYTES);
    let mut reader = cache.reader();
    let mut random = Random::seeded(1);
    let mut faults = 0;
    for _ in 0..5000 {
        let number = random.index(2);
        let (value, missed) = get(&mut reader, &segments[number], random.below(80));
        assert_eq!(value, Some(number as u8 + 1));
        faults += missed;
    }
    let counters = cache.counters();
    assert_eq!(counters.inserted, faults as u64);
    assert!(faults <= pages && counters.evicted == 0 && counters.resident_pages == faults);
    assert_eq!(reader.counters().misses, faults as u64);
    assert_eq!(reader.counters().hits, 5000);
}

#[test]
fn the_budget_holds_and_answers_stay_right() {
    let disk = disk();
    let segment = segment(&disk, 50, 1);
    let cache = Cache::new(7 * PAGE_BYTES + 100);
    let mut reader = cache.reader();
    let mut random = Random::seeded(2);
    for _ in 0..3000 {
        let key = random.below(250);
        let (value, _) = get(&mut reader, &segment, key);
        assert_eq!(value, (key < 200).then_some(1));
        assert!(cache.counters().resident_pages <= 7);
    }
    let counters = cache.counters();
    assert_eq!(counters.capacity_pages, 7);
    assert!(counters.evicted > 1000);
    assert_eq!(counters.inserted, counters.evicted + 7);
}

#[test]
fn what_is_used_again_outlives_a_scan() {
    let disk = disk();
    let segment = segment(&disk, 400, 1);
    let cache = Cache::new(32 * PAGE_BYTES);
    let mut reader = cache.reader();
    let mut random = Random::seeded(3);
    let mut faults = 0;
    for scanned in 16..400 {
        // Eight pages are used all the time; the scan reads each of its own once.
        for _ in 0..20 {
            faults += get(&mut reader, &segment, random.below(32)).1;
        }
        get(&mut reader, &segment, scanned * 4);
    }
    assert!(faults < 24, "{faults} faults on eight pages");
}

#[test]
fn a_row_stays_while_everything_else_is_replaced() {
    let disk = disk();
    let segment = segment(&disk, 60, 1);
    let cache = Cache::new(4 * PAGE_BYTES);
    let mut holder = cache.reader();
    let page = segment.leaf_of(&0_u64.to_be_bytes()).unwrap();
    assert!(matches!(
        holder.insert(&segment, page, read(&segment, page)),
        Ok(Inserted::Resident)
    ));
    holder.release();
    let row = is(segment.get(&holder, &0_u64.to_be_bytes())).unwrap();
    let mut other = cache.reader();
    for key in 4..240 {
        get(&mut other, &segment, key);
    }
    assert_eq!(
        (row.key.to_vec(), row.stamp),
        (0_u64.to_be_bytes().to_vec(), Stamp(0))
    );
    assert_eq!(row.value.inline().unwrap(), [1; 900]);
    assert_eq!(holder.pins(), 1);
    holder.release();
    assert_eq!(cache.evict(100), 4);
    assert!(matches!(
        segment.get(&holder, &0_u64.to_be_bytes()),
        Found::Fault(_)
    ));
}

#[test]
fn a_cache_full_of_pins_gives_the_frame_back() {
    let disk = disk();
    let segment = segment(&disk, 10, 1);
    let cache = Cache::new(2 * PAGE_BYTES);
    let mut reader = cache.reader();
    for page in 0..2 {
        let page = PageNo(page);
        assert!(matches!(
            reader.insert(&segment, page, read(&segment, page)),
            Ok(Inserted::Resident)
        ));
    }
    let third = read(&segment, PageNo(2));
    let Ok(Inserted::Full(frame)) = reader.insert(&segment, PageNo(2), third) else {
        panic!("two pages are pinned");
    };
    assert_eq!(cache.evict(1), 0);
    reader.release();
    assert!(matches!(
        reader.insert(&segment, PageNo(2), frame),
        Ok(Inserted::Resident)
    ));
    assert!(reader.page(&segment, PageNo(2)).is_some());
}

#[test]
fn the_second_read_of_a_page_is_a_duplicate() {
    let disk = disk();
    let segment = segment(&disk, 10, 1);
    let cache = Cache::new(4 * PAGE_BYTES);
    let (first, second) = (cache.reader(), cache.reader());
    let page = PageNo(3);
    let frames = [read(&segment, page), read(&segment, page)];
    let [a, b] = frames;
    assert!(matches!(
        first.insert(&segment, page, a),
        Ok(Inserted::Resident)
    ));
    assert!(matches!(
        second.insert(&segment, page, b),
        Ok(Inserted::Duplicate)
    ));
    drop(first);
    assert_eq!(cache.evict(1), 0, "the second reader has it pinned");
    drop(second);
    assert_eq!(cache.evict(1), 1);
    let counters = cache.counters();
    assert_eq!(
        (counters.inserted, counters.duplicates, counters.evicted),
        (1, 1, 1)
    );
}

#[test]
fn a_damaged_page_never_becomes_resident() {
    let disk = disk();
    let segment = segment(&disk, 10, 1);
    let cache = Cache::new(4 * PAGE_BYTES);
    let reader = cache.reader();
    let mut frame = read(&segment, PageNo(1));
    frame[100] ^= 1;
    let error = reader.insert(&segment, PageNo(1), frame).unwrap_err();
    assert!(
        matches!(
            error,
            SegmentError::Damaged {
                page: PageNo(1),
                ..
            }
        ),
        "{error}"
    );
    let moved = read(&segment, PageNo(2));
    assert!(reader.insert(&segment, PageNo(1), moved).is_err());
    assert_eq!(cache.counters().resident_pages, 0);
}

#[test]
fn a_forgotten_segment_leaves_but_for_its_pins() {
    let disk = disk();
    let (gone, kept) = (segment(&disk, 5, 1), segment(&disk, 5, 2));
    let cache = Cache::new(20 * PAGE_BYTES);
    let mut reader = cache.reader();
    for page in 0..5 {
        for segment in [&gone, &kept] {
            let page = PageNo(page);
            let inserted = reader.insert(segment, page, read(segment, page));
            assert!(matches!(inserted, Ok(Inserted::Resident)));
        }
    }
    reader.release();
    let row = is(gone.get(&reader, &0_u64.to_be_bytes())).unwrap();
    assert_eq!(cache.forget(gone.id()), 4);
    assert_eq!(row.value.inline().unwrap()[0], 1);
    assert_eq!(cache.forget(gone.id()), 0);
    reader.release();
    assert_eq!(cache.counters().resident_pages, 6);
    assert_eq!(cache.evict(20), 6);
}

#[test]
fn threads_find_the_right_rows_in_a_small_cache() {
    let disk = disk();
    let segments = [segment(&disk, 40, 1), segment(&disk, 40, 2)];
    let cache = Cache::new(12 * PAGE_BYTES);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (segments, cache) = (&segments, &cache);
            scope.spawn(move || {
                let mut random = Random::stream(4, thread);
                let mut reader = cache.reader();
                for _ in 0..4000 {
                    let number = random.index(2);
                    let segment = &segments[number];
                    let key = random.below(170).to_be_bytes();
                    let mut cursor = Cursor::default();
                    // Two or three rows at a time, with all their pins.
                    let row = loop {
                        match segment.seek(&reader, &key, &mut cursor) {
                            Found::Is(row) => break row,
                            Found::Fault(page) => {
                                reader.release();
                                let inserted = reader.insert(segment, page, read(segment, page));
                                assert!(!matches!(inserted, Ok(Inserted::Full(_)) | Err(_)));
                            }
                        }
                    };
                    if let Some(row) = row {
                        let bytes = row.value.inline().unwrap();
                        assert!(bytes.iter().all(|byte| *byte == number as u8 + 1));
                        assert!(row.key.cmp_bytes(&key).is_ge());
                    } else {
                        assert!(u64::from_be_bytes(key) >= 160);
                    }
                    if random.chance(0.3) {
                        reader.release();
                    }
                    // Few enough pins that the others find room in the cache.
                    if reader.pins() > 1 {
                        reader.release();
                    }
                }
            });
        }
    });
    let counters = cache.counters();
    assert!(counters.resident_pages <= 12 && counters.evicted > 100);
    assert_eq!(cache.evict(100), counters.resident_pages);
}
