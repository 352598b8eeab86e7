//! Any damage to a segment's bytes is detected and named, and damaged bytes are never used.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use namiki_platform::Stamp;
use namiki_platform::disk::Disk;
use namiki_platform::seeded_random::Random;
use namiki_segment::{
    CheckProgress, CheckVisitor, MemoryPages, PAGE_BYTES, PageNo, Segment, SegmentError, SegmentId,
    check, check_with,
};

/// A segment with all kinds of pages, and its bytes.
fn written(seed: u64) -> (Arc<dyn Disk>, Vec<u8>) {
    let mut random = Random::seeded(seed);
    let disk = disk();
    write(&disk, &rows(Shape::Sparse, &mut random, 150, 9000));
    let bytes = disk.read(&path()).unwrap();
    (disk, bytes)
}

/// Opens it and reads every page, as a program does that uses all of it.
fn use_all(disk: &Arc<dyn Disk>) -> Result<(), SegmentError> {
    let segment = Arc::new(Segment::open(disk, &path(), ID)?);
    MemoryPages::load(&segment).map(drop)
}

/// The page that an error names.
fn page_of(error: &SegmentError) -> Option<PageNo> {
    match error {
        SegmentError::Damaged { page, .. } => Some(*page),
        _ => None,
    }
}

/// The progress reported by a check: pages done, and rows.
#[derive(Default)]
struct Told {
    pages_done: Vec<u32>,
    rows: Vec<(Vec<u8>, (Vec<u8>, Stamp))>,
    /// Ends the check at the first progress.
    stop: bool,
}

#[derive(Debug)]
enum Stopped {
    Asked,
}

impl From<SegmentError> for Stopped {
    fn from(error: SegmentError) -> Self {
        panic!("{error}")
    }
}

impl CheckVisitor for Told {
    type Error = Stopped;

    fn on_progress(&mut self, progress: CheckProgress) -> Result<(), Stopped> {
        self.pages_done.push(progress.pages_done);
        if self.stop {
            return Err(Stopped::Asked);
        }
        Ok(())
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn on_row(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), Stopped> {
        self.rows.push((key.to_vec(), (value.to_vec(), stamp)));
        Ok(())
    }
}

#[test]
fn a_check_tells_all_rows_with_long_values_and_stamps() {
    let disk = disk();
    let model = rows(Shape::Sparse, &mut Random::seeded(4), 600, 12_000);
    write(&disk, &model);
    let mut told = Told::default();
    check_with(&disk, &path(), ID, &mut told).unwrap();
    let expected: Vec<_> = model.into_iter().collect();
    assert!(
        expected
            .iter()
            .any(|(_, (value, _))| value.len() > PAGE_BYTES)
    );
    assert!(told.rows == expected);
}

#[test]
fn a_check_can_be_ended_within_a_segment() {
    let disk = disk();
    let model = rows(Shape::Sparse, &mut Random::seeded(5), 1500, 12_000);
    write(&disk, &model);
    let mut told = Told {
        stop: true,
        ..Told::default()
    };
    let Stopped::Asked = check_with(&disk, &path(), ID, &mut told).unwrap_err();
    assert!(told.rows.len() < model.len() && told.pages_done.len() == 1);
}

#[test]
fn a_sound_segment_is_found_sound() {
    let (disk, bytes) = written(1);
    let mut told = Told::default();
    let report = check_with(&disk, &path(), ID, &mut told).unwrap();
    let seen = told.pages_done;
    assert_eq!(report.summary.bytes, bytes.len() as u64);
    assert!(report.value_pages > 2 && report.leaves > 2);
    assert_eq!(report.summary, open(&disk).summary());
    assert!(seen.is_sorted());
    assert_eq!(seen.last(), Some(&report.summary.pages));
}

/// One bit of every 37 bytes, and every bit of the footer, because its checksum depends on its
/// contents.
#[test]
fn every_flipped_bit_is_found_and_its_page_named() {
    let mut random = Random::seeded(2);
    let disk = sim_disk();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    write(&shared, &rows(Shape::Sparse, &mut random, 150, 9000));
    let bytes = disk.read(&path()).unwrap();
    let footer = bytes.len() / PAGE_BYTES - 1;
    let some = (0..footer * PAGE_BYTES).step_by(37).map(|at| (at, at % 8));
    let all = (footer * PAGE_BYTES..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit)));
    for (at, bit) in some.chain(all) {
        disk.flip(&path(), at as u64, 1 << bit).unwrap();
        let error = use_all(&shared).expect_err("a flipped bit");
        assert!(error.is_damage() || matches!(error, SegmentError::OtherVersion { .. }));
        let page = at / PAGE_BYTES;
        if page != footer {
            assert_eq!(page_of(&error), Some(PageNo(page as u32)), "{error}");
            assert_eq!(
                page_of(&check(&shared, &path(), ID).unwrap_err()),
                page_of(&error)
            );
        }
        assert!(error.to_string().contains("/db/7.run"), "{error}");
        disk.flip(&path(), at as u64, 1 << bit).unwrap();
    }
    use_all(&shared).unwrap();
}

#[test]
fn another_format_is_said_by_its_number() {
    let (disk, bytes) = written(6);
    let at = (bytes.len() - PAGE_BYTES + 16) as u64;
    for version in [1, 3, 9] {
        let mut bytes = bytes.clone();
        bytes[at as usize..][..4].copy_from_slice(&u32::to_le_bytes(version));
        disk.replace(&path(), &bytes).unwrap();
        let error = use_all(&disk).unwrap_err();
        assert!(
            matches!(error, SegmentError::OtherVersion { version: found, .. } if found == version),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .contains("export the tables with the program that wrote it"),
            "{error}"
        );
    }
}

#[test]
fn every_truncation_is_found() {
    let (disk, bytes) = written(3);
    let lengths = (0..bytes.len()).filter(|len| len % 512 == 0 || len % 509 == 1);
    for len in lengths {
        disk.replace(&path(), &bytes[..len]).unwrap();
        let error = Segment::open(&disk, &path(), ID).expect_err("a cut file");
        assert!(error.is_damage(), "{len} bytes: {error}");
    }
    // A longer file is wrong, too.
    for more in [1, 512, PAGE_BYTES, 3 * PAGE_BYTES] {
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + more, 0);
        disk.replace(&path(), &longer).unwrap();
        assert!(
            Segment::open(&disk, &path(), ID).is_err(),
            "{more} bytes more"
        );
    }
    // Pages cut out of the middle, and some written twice.
    let pages = bytes.len() / PAGE_BYTES;
    for page in 0..pages - 1 {
        let at = page * PAGE_BYTES;
        let without = [&bytes[..at], &bytes[at + PAGE_BYTES..]].concat();
        disk.replace(&path(), &without).unwrap();
        assert!(
            Segment::open(&disk, &path(), ID).is_err(),
            "without page {page}"
        );
        let twice = [&bytes[..at], &bytes[at..at + PAGE_BYTES], &bytes[at..]].concat();
        disk.replace(&path(), &twice).unwrap();
        assert!(
            Segment::open(&disk, &path(), ID).is_err(),
            "page {page} twice"
        );
    }
}

#[test]
fn swapped_pages_are_found() {
    let (disk, bytes) = written(4);
    let pages = bytes.len() / PAGE_BYTES;
    for a in 0..pages {
        for b in (a + 1..pages).step_by(3) {
            let mut swapped = bytes.clone();
            for at in 0..PAGE_BYTES {
                swapped.swap(a * PAGE_BYTES + at, b * PAGE_BYTES + at);
            }
            disk.replace(&path(), &swapped).unwrap();
            let error = use_all(&disk).expect_err("swapped pages");
            if b != pages - 1 {
                let page = page_of(&error).expect("a page is named").0 as usize;
                assert!(page == a || page == b, "{a} and {b}: {error}");
            }
        }
    }
}

#[test]
fn a_page_of_another_segment_is_found() {
    let (disk, bytes) = written(5);
    let model = rows(Shape::Sparse, &mut Random::seeded(5), 150, 9000);
    for other in [
        SegmentId::new(ID.database, ID.number + 1),
        SegmentId::new(ID.database ^ 1 << 127, ID.number),
    ] {
        // The same rows: nothing but the identity differs.
        let elsewhere = Path::new("/db/other.run");
        try_write(&disk, elsewhere, other, &model).unwrap();
        let foreign = disk.read(elsewhere).unwrap();
        disk.remove(elsewhere).unwrap();
        assert_eq!(foreign.len(), bytes.len());
        for page in 0..bytes.len() / PAGE_BYTES {
            let part = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
            let mut mixed = bytes.clone();
            mixed[part.clone()].copy_from_slice(&foreign[part]);
            disk.replace(&path(), &mixed).unwrap();
            let error = use_all(&disk).expect_err("a page of another segment");
            if (page + 1) * PAGE_BYTES < bytes.len() {
                assert_eq!(page_of(&error), Some(PageNo(page as u32)), "{error}");
            }
        }
        disk.replace(&path(), &foreign).unwrap();
        let SegmentError::Foreign {
            found, expected, ..
        } = use_all(&disk).unwrap_err()
        else {
            panic!("another segment's file");
        };
        assert_eq!((found, expected), (other, ID));
    }
}

#[test]
fn what_was_never_a_segment_is_refused() {
    let disk = disk();
    let missing = Segment::open(&disk, &path(), ID).unwrap_err();
    assert!(matches!(missing, SegmentError::Device { .. }) && !missing.is_damage());
    let mut random = Random::seeded(6);
    for len in [0, 1, 100, PAGE_BYTES - 1, PAGE_BYTES, 5 * PAGE_BYTES] {
        for fill in 0..3 {
            let mut bytes = vec![0; len];
            match fill {
                0 => {}
                1 => bytes.fill(0xff),
                _ => random.fill(&mut bytes),
            }
            disk.replace(&path(), &bytes).unwrap();
            let error = Segment::open(&disk, &path(), ID).unwrap_err();
            assert!(matches!(error, SegmentError::NotASegment { .. }), "{error}");
            assert!(
                error.to_string().contains("load its table again"),
                "{error}"
            );
        }
    }
}
