//! A segment is complete or absent after a crash at any event of its writing, a full disk, or a
//! failure.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use namiki_platform::Stamp;
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_platform::disk::{Disk, SimDisk, open_best};
use namiki_platform::seeded_random::Random;
use namiki_segment::{Cursor, MemoryPages, Segment, SegmentError, Writer, check};

/// All rows of the segment at `path`, or the error of reading them.
fn read_all(disk: &Arc<dyn Disk>, path: &Path, model: &Model) -> Result<(), SegmentError> {
    let segment = Arc::new(Segment::open(disk, path, ID)?);
    let pages = MemoryPages::load(&segment)?;
    check(disk, path, ID)?;
    let mut rows = model.iter();
    let mut cursor = Cursor::default();
    while let Some(row) = is(segment.next(&pages, &mut cursor)) {
        let (key, value) = rows.next().expect("no row that was not written");
        assert_eq!(owned(&segment, &pages, &row), (key.clone(), value.clone()));
    }
    assert!(rows.next().is_none(), "a segment without its last rows");
    Ok(())
}

/// Whether the segment exists: then all of it does. A file with a temporary name may be damaged,
/// but not wrong.
fn is_all_or_nothing(disk: &SimDisk, model: &Model) -> bool {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let _ = read_all(&disk, Path::new("/db/7.run.tmp"), model);
    match read_all(&disk, &path(), model) {
        Ok(()) => true,
        Err(SegmentError::Device { source, .. }) if source.kind() == ErrorKind::NotFound => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_crash_leaves_all_rows_or_no_segment() {
    let mut random = Random::seeded(1);
    // Several pieces are written, each of many sectors.
    let model = rows(Shape::Sparse, &mut random, 2500, 12_000);
    let disk = sim_disk();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    write(&shared, &model);
    disk.sync_dir(Path::new("/db")).unwrap();
    disk.mark(1);
    let (mut whole, mut absent) = (0, 0);
    for at in 0..=disk.events() {
        let sectors = disk.pending_sectors(at);
        let mut losses = vec![Loss::None, Loss::All];
        losses.extend((0..=disk.pending_names(at)).map(Loss::NamesAfter));
        for _ in 0..12 {
            losses.push(Loss::Seeded(random.next_u64()));
            if sectors > 0 {
                losses.push(Loss::Only(random.index(sectors)));
                losses.push(Loss::OnlyKept(random.index(sectors)));
            }
        }
        for loss in losses {
            let is_whole = is_all_or_nothing(&disk.crash_image(at, loss), &model);
            if is_whole {
                whole += 1;
            } else {
                absent += 1;
            }
            let is_promised = disk.marks_before(at) == [1];
            assert!(
                is_whole || !is_promised,
                "{loss:?} after {}",
                disk.describe(at.max(1) - 1)
            );
        }
    }
    assert!(whole > 10 && absent > 50, "{whole} whole, {absent} absent");
}

#[test]
fn a_failure_at_any_step_leaves_no_segment() {
    let mut random = Random::seeded(2);
    let model = rows(Shape::Sparse, &mut random, 2500, 12_000);
    for step in [Step::Create, Step::Append, Step::Sync, Step::Rename] {
        let mut failures = 0;
        for after in 0..100 {
            let disk = sim_disk();
            disk.inject(Fault::once(step, after, ErrorKind::Other));
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            match try_write(&shared, &path(), ID, &model) {
                Ok(_) => {
                    assert!(is_all_or_nothing(&disk, &model));
                    break;
                }
                Err(error) => {
                    assert!(matches!(error, SegmentError::Device { .. }), "{error}");
                    assert!(error.to_string().contains("/db/7.run"), "{error}");
                    assert_eq!(disk.list(Path::new("/db")).unwrap(), []);
                    failures += 1;
                }
            }
        }
        assert!((1..100).contains(&failures), "{step:?}");
    }
}

#[test]
fn a_full_disk_is_said_and_leaves_no_segment() {
    let mut random = Random::seeded(3);
    let model = rows(Shape::Sparse, &mut random, 2500, 12_000);
    let whole = {
        let disk = disk();
        write(&disk, &model).bytes
    };
    for share in [0, 1, 5, 9] {
        let disk = sim_disk();
        disk.set_capacity(Some(whole * share / 10));
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let error = try_write(&shared, &path(), ID, &model).unwrap_err();
        assert!(matches!(error, SegmentError::DiskFull { .. }), "{error}");
        assert_eq!(disk.list(Path::new("/db")).unwrap(), []);
        disk.set_capacity(None);
        write(&shared, &model);
        assert!(is_all_or_nothing(&disk, &model));
    }
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let disk = disk();
    for rows in [0_u64, 1, 50_000] {
        let mut writer = Writer::create(&disk, &path(), ID).unwrap();
        for row in 0..rows {
            writer.push(&row.to_be_bytes(), &[0; 20], Stamp(1)).unwrap();
        }
        drop(writer);
        assert_eq!(disk.list(Path::new("/db")).unwrap(), []);
    }
}

#[test]
fn a_taken_name_is_not_replaced() {
    let disk = disk();
    let model = rows(Shape::Dense, &mut Random::seeded(4), 100, 0);
    write(&disk, &model);
    let before = disk.read(&path()).unwrap();
    let again = try_write(&disk, &path(), ID, &Model::new()).unwrap_err();
    let SegmentError::Device { source, .. } = again else {
        panic!("{again}");
    };
    assert_eq!(source.kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.read(&path()).unwrap(), before);
}

#[test]
fn a_real_disk_holds_what_the_simulated_one_holds() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, _) = open_best(dir.path()).unwrap();
    let path = dir.path().join("7.run");
    let mut random = Random::seeded(5);
    let model = rows(Shape::Deep, &mut random, 2000, 9000);
    let summary = try_write(&disk, &path, ID, &model).unwrap();
    let simulated = self::disk();
    assert_eq!(write(&simulated, &model), summary);
    assert_eq!(
        disk.read(&path).unwrap(),
        simulated.read(&self::path()).unwrap()
    );
    let report = check(&disk, &path, ID).unwrap();
    assert_eq!(report.summary, summary);
    let segment = Arc::new(Segment::open(&disk, &path, ID).unwrap());
    let pages = MemoryPages::load(&segment).unwrap();
    for (key, value) in &model {
        let row = is(segment.get(&pages, key)).unwrap();
        assert_eq!(owned(&segment, &pages, &row).1, *value);
    }
}
