//! Segments have the contents of a map, whatever the keys and values.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::Bound;

use crate::common::*;
use namiki_platform::Stamp;
use namiki_platform::seeded_random::Random;
use namiki_segment::{
    Cursor, Found, KEY_BYTES_MAX, PAGE_BYTES, Pages, Segment, SegmentError, VALUE_BYTES_INLINE_MAX,
    Writer,
};
use proptest::prelude::*;

/// Every look-up and scan, with all pages resident.
fn compare(pages: &namiki_segment::MemoryPages, model: &Model, shape: Shape, random: &mut Random) {
    let segment = pages.segment();
    assert_eq!(segment.rows(), model.len() as u64);
    assert_eq!(walk(segment, pages, Cursor::default()), as_list(model));
    let mut backwards = Vec::new();
    let mut cursor = segment.end();
    while let Some(row) = is(segment.prev(pages, &mut cursor)) {
        backwards.push(owned(segment, pages, &row));
    }
    backwards.reverse();
    assert_eq!(backwards, as_list(model));
    let probes: Vec<Vec<u8>> = probes(model, shape, random).into_iter().collect();
    for probe in &probes {
        let row = is(segment.get(pages, probe));
        let found = row.map(|row| owned(segment, pages, &row));
        let expected = model.get_key_value(probe);
        assert_eq!(found, expected.map(|(k, v)| (k.clone(), v.clone())));
        let mut cursor = Cursor::default();
        let row = is(segment.seek(pages, probe, &mut cursor));
        let mut after = model.range::<[u8], _>((Bound::Included(&probe[..]), Bound::Unbounded));
        let expected = after.next().map(|(k, v)| (k.clone(), v.clone()));
        assert_eq!(row.map(|row| owned(segment, pages, &row)), expected);
        // The cursor is after that row: one step back returns it again, and one more the row
        // before.
        let again = is(segment.prev(pages, &mut cursor)).map(|row| row.key.to_vec());
        let before = model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&probe[..])));
        let before = before.map(|(k, _)| k.clone()).next_back();
        match expected {
            Some((key, _)) => {
                assert_eq!(again, Some(key));
                let second = is(segment.prev(pages, &mut cursor)).map(|row| row.key.to_vec());
                assert_eq!(second, before);
            }
            None => assert_eq!(again, before),
        }
    }
    let mut many = vec![None; probes.len()];
    let add = |at: usize, row: Option<namiki_segment::Row<'_>>| {
        assert!(many[at].is_none());
        many[at] = Some(row.map(|row| row.key.to_vec()));
    };
    segment.get_many(pages, &probes, add, |fault| panic!("{fault:?}"));
    for (probe, found) in probes.iter().zip(many) {
        assert_eq!(
            found.unwrap().as_ref(),
            model.get_key_value(probe).map(|(k, _)| k)
        );
    }
}

fn as_list(model: &Model) -> Vec<(Vec<u8>, (Vec<u8>, Stamp))> {
    model.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn walk(
    segment: &Segment,
    pages: &impl Pages,
    mut cursor: Cursor,
) -> Vec<(Vec<u8>, (Vec<u8>, Stamp))> {
    let mut found = Vec::new();
    while let Some(row) = is(segment.next(pages, &mut cursor)) {
        found.push(owned(segment, pages, &row));
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn look_ups_find_what_a_map_finds(
        seed in any::<u64>(),
        shape in 0..SHAPES.len(),
        count in prop_oneof![0_u64..4, 4_u64..60, 60_u64..1500],
        longest in prop_oneof![Just(0_usize), Just(1500), Just(30_000)],
    ) {
        let mut random = Random::seeded(seed);
        let shape = SHAPES[shape];
        let model = rows(shape, &mut random, count, longest);
        compare(&loaded(&model), &model, shape, &mut random);
    }

    #[test]
    fn ranges_give_what_a_map_gives(
        seed in any::<u64>(),
        shape in 0..SHAPES.len(),
        count in 0_u64..700,
    ) {
        let mut random = Random::seeded(seed);
        let shape = SHAPES[shape];
        let model = rows(shape, &mut random, count, 3000);
        let disk = disk();
        write(&disk, &model);
        let segment = open(&disk);
        for _ in 0..20 {
            let mut bound = || {
                let key = key(shape, &mut random, count.max(1));
                match random.index(4) {
                    0 => Bound::Unbounded,
                    1 => Bound::Excluded(key),
                    _ => Bound::Included(key),
                }
            };
            let (lower, upper) = (bound(), bound());
            let bounds = (lower.as_ref().map(|k| &k[..]), upper.as_ref().map(|k| &k[..]));
            let is_in = |key: &[u8]| std::ops::RangeBounds::<[u8]>::contains(&bounds, key);
            let expected: Vec<Vec<u8>> = model.keys().filter(|key| is_in(key)).cloned().collect();
            // Every page faults once, and only predicted pages are asked for.
            let mut pages = FaultingPages::new(&segment);
            let foretold = segment.key_range_pages(bounds.0, bounds.1);
            let mut range = segment.range(bounds.0, bounds.1);
            prop_assert_eq!(range.pages_left(&segment), foretold.clone());
            let mut found = Vec::new();
            while let Some(key) = pages.until(|pages| {
                range.next(&segment, pages).map(|row| row.map(|row| row.key.to_vec()))
            }) {
                found.push(key);
            }
            prop_assert_eq!(found, expected);
            for (page, reads) in &pages.reads {
                prop_assert!(foretold.contains(page) && *reads == 1, "page {} of {:?}", page, foretold);
            }
            prop_assert_eq!(range.pages_left(&segment), 0..0);
        }
    }
}

#[test]
fn an_empty_segment_has_no_rows() {
    let pages = loaded(&Model::new());
    let segment = pages.segment();
    assert_eq!(
        (segment.pages(), segment.leaves(), segment.rows()),
        (1, 0, 0)
    );
    assert_eq!(segment.leaf_of(b"a"), None);
    assert!(is(segment.get(&pages, b"a")).is_none());
    assert!(is(segment.seek(&pages, b"", &mut Cursor::default())).is_none());
    assert!(is(segment.prev(&pages, &mut segment.end())).is_none());
    assert_eq!(
        segment.key_range_pages(Bound::Unbounded, Bound::Unbounded),
        0..0
    );
}

#[test]
fn keys_that_do_not_rise_are_refused_by_name() {
    let disk = disk();
    for key in [&b"b"[..], b"a", b""] {
        let mut writer = Writer::create(&disk, &path(), ID).unwrap();
        writer.push(b"b", b"", Stamp(1)).unwrap();
        let error = writer.push(key, b"", Stamp(1)).unwrap_err();
        let SegmentError::KeysOutOfOrder {
            previous,
            key: refused,
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!((&previous.0[..], &refused.0[..]), (&b"b"[..], key));
        assert!(error.to_string().contains("0x62"), "{error}");
        // Without that row, the segment would not be the intended one.
        let after = writer.push(b"c", b"", Stamp(1)).unwrap_err();
        assert!(matches!(after, SegmentError::Unfinished { .. }), "{after}");
        let finished = writer.finish().unwrap_err();
        assert!(
            matches!(finished, SegmentError::Unfinished { .. }),
            "{finished}"
        );
        assert!(disk.open(&path()).is_err());
    }
}

#[test]
fn the_order_is_checked_from_leaf_to_leaf() {
    let disk = disk();
    // Four rows fill a leaf, so some are the first of one.
    for rows in 1..10_u8 {
        let mut writer = Writer::create(&disk, &path(), ID).unwrap();
        for key in 0..rows {
            writer
                .push(&[key], &[0; VALUE_BYTES_INLINE_MAX], Stamp(1))
                .unwrap();
        }
        let error = writer.push(&[rows - 1], b"", Stamp(1)).unwrap_err();
        assert!(
            matches!(error, SegmentError::KeysOutOfOrder { .. }),
            "{error}"
        );
    }
}

#[test]
fn a_key_that_fits_no_page_is_refused() {
    let disk = disk();
    for len in [KEY_BYTES_MAX + 1, PAGE_BYTES, 100_000] {
        let mut writer = Writer::create(&disk, &path(), ID).unwrap();
        let error = writer.push(&vec![1; len], b"", Stamp(1)).unwrap_err();
        let SegmentError::KeyTooLong {
            bytes, bytes_max, ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((bytes, bytes_max), (len, KEY_BYTES_MAX));
    }
    let mut writer = Writer::create(&disk, &path(), ID).unwrap();
    let error = writer.push(b"a", b"", Stamp(1 << 48)).unwrap_err();
    assert!(
        matches!(error, SegmentError::StampTooLarge { .. }),
        "{error}"
    );
}

#[test]
fn the_longest_keys_and_values_fit_in_any_combination() {
    let mut random = Random::seeded(5);
    let mut model = Model::new();
    for first in 0..40_u8 {
        let mut key = vec![7; KEY_BYTES_MAX];
        key[if first % 2 == 0 { 0 } else { KEY_BYTES_MAX - 1 }] = first;
        let len = [
            0,
            VALUE_BYTES_INLINE_MAX,
            VALUE_BYTES_INLINE_MAX + 1,
            100_000,
        ][first as usize % 4];
        let mut value = vec![0; len];
        random.fill(&mut value);
        model.insert(key, (value, Stamp(u64::from(first) << 40)));
    }
    let pages = loaded(&model);
    compare(&pages, &model, Shape::Long, &mut random);
}

#[test]
fn stamps_cost_nothing_where_all_are_the_same() {
    let bytes = |stamp: fn(u64) -> Stamp| {
        let row = |n: u64| (n.to_be_bytes().to_vec(), (vec![0; 8], stamp(n)));
        let disk = disk();
        write(&disk, &(0..50_000).map(row).collect()).bytes
    };
    let same = bytes(|_| Stamp::MAX);
    let near = bytes(|n| Stamp(1_000_000 + n % 200));
    let far = bytes(|n| Stamp(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16));
    assert!(
        same * 21 / 20 < near + 4096 * 4 && near < far,
        "{same} {near} {far}"
    );
}

#[test]
fn a_page_is_read_once_for_all_its_keys() {
    let row = |n: u64| ((n * 2).to_be_bytes().to_vec(), (vec![3; 90], Stamp(1)));
    let disk = disk();
    write(&disk, &(0..5000).map(row).collect());
    let segment = open(&disk);
    let keys: Vec<[u8; 8]> = (1000..3000_u64).map(u64::to_be_bytes).collect();
    let mut pages = FaultingPages::new(&segment);
    let mut faults = Vec::new();
    segment.get_many(
        &pages,
        &keys,
        |_, _| panic!("nothing is resident"),
        |fault| faults.push(fault),
    );
    let together: Vec<_> = segment.leaves_of(&keys).collect();
    assert_eq!(faults, together);
    let all: Vec<usize> = faults.iter().flat_map(|fault| fault.keys.clone()).collect();
    assert_eq!(all, (0..keys.len()).collect::<Vec<_>>());
    assert!(faults.is_sorted_by_key(|fault| fault.page) && faults.len() > 20);
    let mut found = 0;
    for fault in faults {
        let group = &keys[fault.keys.clone()];
        // A page has to fault before it may be loaded.
        segment.get_many(&pages, group, |_, _| {}, |_| {});
        pages.load(fault.page);
        segment.get_many(
            &pages,
            group,
            |_, row| found += usize::from(row.is_some()),
            |_| panic!(),
        );
    }
    assert_eq!(found, 1000);
    assert!(pages.reads.values().all(|reads| *reads == 1));
}

#[test]
fn a_long_value_is_read_a_page_at_a_time() {
    let mut random = Random::seeded(9);
    let mut model = Model::new();
    for n in 0..30_u8 {
        let mut value = vec![0; 1001 + random.index(20_000)];
        random.fill(&mut value);
        model.insert(vec![n], (value, Stamp(1)));
    }
    let disk = disk();
    write(&disk, &model);
    let segment = open(&disk);
    let mut pages = FaultingPages::new(&segment);
    for (key, (value, _)) in &model {
        let long = pages.until(|pages| {
            segment.get(pages, key).map(|row| match row.unwrap().value {
                namiki_segment::Value::Long(long) => long,
                inline => panic!("{inline:?}"),
            })
        });
        let mut reader = namiki_segment::LongReader::new(long);
        assert_eq!(reader.pages_left().len() as u64, long.pages());
        assert_eq!(reader.pages_left().start, long.first_page().0);
        let mut found = Vec::new();
        loop {
            // The worst case: each page is evicted when the next one is resident.
            let piece = pages.until(|pages| {
                let piece = reader.next(&segment, pages).unwrap();
                piece.map(|piece| piece.map(<[u8]>::to_vec))
            });
            pages.evict_all();
            match piece {
                Some(piece) => found.extend(piece),
                None => break,
            }
        }
        assert_eq!(&found, value);
        assert_eq!((reader.left_bytes(), reader.pages_left().len()), (0, 0));
    }
}

#[test]
fn a_cursor_goes_on_after_faults_wherever_it_is() {
    let mut random = Random::seeded(11);
    let model = rows(Shape::Sparse, &mut random, 3000, 0);
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    let disk = disk();
    write(&disk, &model);
    let segment = open(&disk);
    let mut pages = FaultingPages::new(&segment);
    let mut cursor = Cursor::default();
    let mut at = 0;
    for _ in 0..3000 {
        if random.chance(0.3) {
            pages.evict_all();
        }
        let mut step = |forward: bool, cursor: &mut Cursor| {
            pages.until(|pages| {
                let row = if forward {
                    segment.next(pages, cursor)
                } else {
                    segment.prev(pages, cursor)
                };
                row.map(|row| row.map(|row| row.key.to_vec()))
            })
        };
        match random.index(5) {
            0 => {
                at = random.index(keys.len());
                let positioned =
                    pages.until(|pages| segment.position(pages, keys[at], &mut cursor));
                assert!(positioned);
            }
            1 | 2 => {
                assert_eq!(step(true, &mut cursor).as_ref(), keys.get(at).copied());
                at = (at + 1).min(keys.len());
            }
            _ => {
                let expected = at.checked_sub(1).map(|before| keys[before]);
                assert_eq!(step(false, &mut cursor).as_ref(), expected);
                at = at.saturating_sub(1);
            }
        }
    }
}

#[test]
fn a_fault_names_the_page_that_the_index_names() {
    let row = |n: u64| (n.to_be_bytes().to_vec(), (vec![3; 90], Stamp(1)));
    let disk = disk();
    write(&disk, &(0..500).map(row).collect());
    let segment = open(&disk);
    let pages = FaultingPages::new(&segment);
    for n in 0..500_u64 {
        let key = n.to_be_bytes();
        let Found::Fault(page) = segment.get(&pages, &key) else {
            panic!("nothing is resident");
        };
        assert_eq!(Some(page), segment.leaf_of(&key));
    }
}
