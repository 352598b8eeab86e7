//! Directories without a database, and settings that do not match: the opening is refused, and
//! nothing is changed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier};
use std::thread;

use namiki::files::Manifest;
use namiki::{Database, LogError, OpenError, ProtocolSpec, RecordFormat, Stamp, WorkerId};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::small_database::{BOTH_ORDERS, builder, keys, numbers, put, written};

#[test]
fn a_directory_in_use_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("data");
    let db = Database::open(&dir).unwrap();
    put(&db, 1).unwrap();
    let error = Database::open(&dir).unwrap_err();
    assert!(
        matches!(&error, OpenError::InUse { dir: named } if *named == dir),
        "{error:?}"
    );
    put(&db, 2).unwrap();
    // A clone holds the directory, too.
    let clone = db.clone();
    drop(db);
    Database::open(&dir).unwrap_err();
    clone.close().unwrap();
    let db = Database::open(&dir).unwrap();
    assert_eq!(keys(&db), [1, 2]);
}

#[test]
fn a_directory_with_other_files_is_not_made_a_database() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let error = Database::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
    assert_eq!(
        std::fs::read(dir.path().join("letter.txt")).unwrap(),
        b"dear"
    );
    assert!(!dir.path().join("MANIFEST").exists());
}

#[test]
fn a_missing_database_is_not_created_unasked() {
    let dir = tempfile::tempdir().unwrap();
    for missing in [dir.path().join("nowhere"), dir.path().to_owned()] {
        let error = Database::builder()
            .create(false)
            .open(&missing)
            .unwrap_err();
        assert!(
            matches!(&error, OpenError::Missing { dir } if *dir == missing),
            "{error:?}"
        );
    }
    assert!(!dir.path().join("nowhere").exists());
    assert!(!dir.path().join("MANIFEST").exists());
}

#[test]
fn a_file_as_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "not a directory").unwrap();
    let error = Database::open(&file).unwrap_err();
    assert!(matches!(error, OpenError::Device { .. }), "{error:?}");
    let error = Database::open(file.join("below")).unwrap_err();
    assert!(matches!(error, OpenError::Device { .. }), "{error:?}");
}

#[test]
fn an_interrupted_creation_is_taken_up() {
    let disk = SimDisk::new();
    drop(builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap());
    for at in 0..=disk.events() {
        for loss in [Loss::None, Loss::All, Loss::Seeded(at as u64)] {
            let image = disk.crash_image(at, loss);
            let db = builder("TT(ELR)+PWAL(16)", &image).open("/db");
            let db = db.unwrap_or_else(|error| panic!("event {at}, {loss:?}: {error:?}"));
            put(&db, 1).unwrap();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("LOCK"), "").unwrap();
    std::fs::write(dir.path().join("MANIFEST.tmp"), "half").unwrap();
    put(&Database::open(dir.path()).unwrap(), 1).unwrap();
}

#[test]
fn settings_that_do_not_fit_are_refused_and_change_nothing() {
    let disk = written("TT(NLR)+PWAL(1)", 5, true);
    let before = disk.read(Path::new("/db/MANIFEST")).unwrap();
    let base = || builder("TT(NLR)+PWAL(1)", &disk);
    let sixteen = NonZeroU16::new(16).unwrap();
    for wrong in [
        base().record_format(RecordFormat::Fixed(sixteen)),
        base().log_file_bytes(16 << 10).buffer_bytes(64 << 10),
        base().log_file_bytes((16 << 10) + 1),
        base().shared_device("/db/log", 4096),
    ] {
        let error = wrong.open("/db").unwrap_err();
        assert!(
            matches!(error, OpenError::Settings(_) | OpenError::StartLog { .. }),
            "{error:?}"
        );
        let now = disk.read(Path::new("/db/MANIFEST")).unwrap();
        assert!(now == before, "{error} changed the manifest");
    }
    assert_eq!(keys(&base().open("/db").unwrap()), [0, 1, 2, 3, 4]);
}

#[test]
fn a_small_shared_device_is_refused_harmlessly() {
    let disk = SimDisk::new();
    let shared = |streams: u16| {
        builder("TT(ELR)+PWAL(1)", &disk)
            .streams(NonZeroU16::new(streams).unwrap())
            .shared_device("/db/log", 64 << 10)
    };
    put(&shared(2).open("/db").unwrap(), 1).unwrap();
    for _ in 0..3 {
        let error = shared(5).open("/db").unwrap_err();
        assert!(
            matches!(
                &error,
                OpenError::StartLog {
                    source: LogError::DeviceTooSmall { .. },
                    ..
                }
            ),
            "{error:?}"
        );
    }
    let db = shared(2).open("/db").unwrap();
    assert_eq!(keys(&db), [1]);
    put(&db, 2).unwrap();
    drop(db);
    assert_eq!(keys(&shared(1).open("/db").unwrap()), [1, 2]);
}

#[test]
fn recovery_can_be_interrupted_and_taken_up_again() {
    let disk = written("TT(NLR)+PWAL(1)", 20, true);
    let before = disk.read(Path::new("/db/MANIFEST")).unwrap();
    for order in BOTH_ORDERS {
        let error = builder("TT(NLR)+PWAL(1)", &disk)
            .replay_order(order)
            .interrupt(Arc::new(AtomicBool::new(true)))
            .open("/db")
            .unwrap_err();
        assert!(matches!(error, OpenError::Interrupted), "{error:?}");
        assert_eq!(disk.read(Path::new("/db/MANIFEST")).unwrap(), before);
    }
    let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    assert_eq!(keys(&db).len(), 20);
    assert_eq!(db.recovery().replayed, 20);
}

#[test]
fn another_protocol_and_another_number_of_streams_keep_the_contents() {
    let disk = SimDisk::new();
    let mut expected = Vec::new();
    let specs = ProtocolSpec::tested();
    for round in 0..3 * specs.len() as u64 {
        let spec = specs[(round * 5 % specs.len() as u64) as usize].to_string();
        let mut builder = builder(&spec, &disk)
            .checkpoint_log_bytes(u64::MAX)
            .checkpoint_at_close(None)
            .streams(NonZeroU16::new(1 + (round * 3 % 5) as u16).unwrap())
            .replay_order(BOTH_ORDERS[round as usize % 2])
            .recovery_threads(NonZeroU16::new(1 + round as u16 % 3).unwrap());
        if round % 4 == 1 {
            builder = builder.shared_device("/db/log", 64 << 10);
            builder = builder.streams(NonZeroU16::MIN);
        }
        let db = builder.open("/db").unwrap();
        assert_eq!(keys(&db), expected, "round {round}, {spec}");
        assert_eq!(db.recovery().generations as u64, round);
        put(&db, round).unwrap();
        expected.push(round);
        let manifest = Manifest::read(&disk, Path::new("/db")).unwrap().unwrap();
        assert_eq!(manifest.spec.to_string(), spec);
    }
}

#[test]
fn a_database_being_created_is_in_use() {
    for round in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let begin = Barrier::new(4);
        let open = || {
            begin.wait();
            // One of the database's own files, in its directory.
            let device = dir.path().join("device");
            let opened = Database::builder()
                .shared_device(device, 1 << 20)
                .open(dir.path());
            match opened {
                Ok(db) => put(&db, 1).unwrap(),
                Err(error) => assert!(
                    matches!(error, OpenError::InUse { .. }),
                    "{round}: {error:?}"
                ),
            }
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(open);
            }
        });
    }
}

/// No caller saw the commits that a crash cuts off, but their stamps are on the disk.
#[test]
fn new_stamps_lie_above_cut_off_commits() {
    for order in BOTH_ORDERS {
        let disk = SimDisk::new();
        let db = builder("TT(ELR)+PWAL(16)", &disk).open("/db").unwrap();
        let table = numbers(&db);
        let [mut first, mut second] = [0, 1].map(|worker| db.session_on(WorkerId(worker)).unwrap());
        // The first commit is not flushed. The commits that read from it, or came after it, are
        // lost with it.
        first.transact_async(|tx| tx.put(&table, &1, &1)).unwrap();
        let mut last = Stamp(0);
        for value in 0..5 {
            let ended = second.transact_async(|tx| {
                tx.get(&table, &1)?;
                tx.put(&table, &2, &value)
            });
            last = ended.unwrap().1.stamp();
        }
        second.flush().unwrap();
        let image = disk.crash_image(disk.events(), Loss::All);
        let db = builder("TT(ELR)+PWAL(16)", &image)
            .replay_order(order)
            .open("/db")
            .unwrap();
        assert!(keys(&db).is_empty());
        assert_eq!(db.recovery().dropped, 5);
        let table = numbers(&db);
        let mut tx = db.begin().unwrap();
        tx.put(&table, &3, &3).unwrap();
        let stamp = tx.commit_async().unwrap().stamp();
        assert!(stamp > last, "{stamp} is not above {last}");
    }
}
