//! Bad input, bad disks, bad directories: a typed error that names the thing, and nothing lost.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use std::io::ErrorKind;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use namiki::{
    Builder, Database, Error, LogError, Manifest, OpenError, Prepare, ReadError, RecordFormat,
    ReplayOrder, Spec, Table, Value, ValueBytes,
};
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_platform::disk::{Disk, SimDisk};

type Numbers = Table<u64, u64>;

const BOTH_ORDERS: [ReplayOrder; 2] = [ReplayOrder::HighestStamp, ReplayOrder::Merge];

fn builder(spec: &str, disk: &SimDisk) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Database::builder()
        .spec(spec.parse().unwrap())
        .streams(NonZeroU16::new(2).unwrap())
        .prepare(Prepare::Inline)
        .group_wait_max(Duration::MAX)
        .buffer_bytes(8 << 10)
        .segment_bytes(16 << 10)
        .disk(disk)
}

fn numbers(db: &Database) -> Numbers {
    db.table("numbers").unwrap()
}

fn put(db: &Database, key: u64) -> Result<(), Error> {
    let table = numbers(db);
    db.transact(|tx| tx.put(&table, &key, &key))
}

fn keys(db: &Database) -> Vec<u64> {
    let table = numbers(db);
    let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
    rows.into_iter().map(|(key, _)| key).collect()
}

/// The segments of a stream.
fn segments(disk: &SimDisk, stream: u16) -> Vec<PathBuf> {
    let dir = PathBuf::from(format!("/db/wal/{stream:04}"));
    let files = disk.list(&dir).unwrap();
    files.into_iter().map(|file| file.path).collect()
}

/// A database with `count` commits in one stream, of one frame each; crashed, or closed.
fn written(spec: &str, count: u64, closed: bool) -> SimDisk {
    let disk = SimDisk::new();
    let db = builder(spec, &disk)
        .streams(NonZeroU16::MIN)
        .open("/db")
        .unwrap();
    (0..count).for_each(|key| put(&db, key).unwrap());
    if closed {
        db.close().unwrap();
        return disk;
    }
    disk.crash_image(disk.events(), Loss::All)
}

// Damage.

#[test]
fn damage_in_the_middle_of_a_log_is_named_by_file_and_byte() {
    for spec in ["TT(NLR)+PWAL(1)", "TT(ELR)+PWAL(1)", "TT(ELR)+SWAL(1)"] {
        for closed in [true, false] {
            for order in BOTH_ORDERS {
                let disk = written(spec, 10, closed);
                let file = segments(&disk, 0).remove(0);
                // The file's header takes the first block, each commit one of the next.
                disk.damage(&file, 3 * 512 + 100, &[0xAA; 3]).unwrap();
                let error = builder(spec, &disk)
                    .replay_order(order)
                    .open("/db")
                    .unwrap_err();
                match &error {
                    OpenError::Log(ReadError::Damaged {
                        file: named,
                        offset_bytes: 1536,
                        ..
                    }) if *named == file => {}
                    other => panic!("{spec}, closed {closed}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_damaged_log_can_be_healed_because_opening_it_changed_nothing() {
    let disk = written("TT(NLR)+PWAL(1)", 10, true);
    let file = segments(&disk, 0).remove(0);
    let before = disk.read(&file).unwrap()[1600..1604].to_vec();
    let manifest = disk.read(Path::new("/db/MANIFEST")).unwrap();
    disk.damage(&file, 1600, &[!before[0]; 4]).unwrap();
    for _ in 0..3 {
        builder("TT(ELR)+PWAL(16)", &disk).open("/db").unwrap_err();
    }
    assert_eq!(disk.read(Path::new("/db/MANIFEST")).unwrap(), manifest);
    disk.damage(&file, 1600, &before).unwrap();
    let db = builder("TT(ELR)+PWAL(16)", &disk).open("/db").unwrap();
    assert_eq!(keys(&db), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_damaged_file_header_is_named() {
    let disk = written("TT(NLR)+PWAL(1)", 10, false);
    let file = segments(&disk, 0).remove(0);
    disk.damage(&file, 0, &[0xAA; 64]).unwrap();
    match builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap_err() {
        OpenError::Log(ReadError::Damaged { file: named, .. }) => assert_eq!(named, file),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_deleted_log_file_is_missed() {
    for spec in ["TT(NLR)+PWAL(1)", "TT(ELR)+PWAL(1)"] {
        for order in BOTH_ORDERS {
            // Three segments; the last commits are in the third.
            for deleted in 0..3 {
                let disk = written(spec, 90, true);
                let files = segments(&disk, 0);
                assert_eq!(files.len(), 3);
                disk.remove(&files[deleted]).unwrap();
                let error = builder(spec, &disk)
                    .replay_order(order)
                    .open("/db")
                    .unwrap_err();
                assert!(
                    matches!(
                        error,
                        OpenError::Log(ReadError::Damaged { .. })
                            | OpenError::Log(ReadError::HardenedMissing { .. })
                            | OpenError::MissingCommits { .. }
                    ),
                    "{spec}, file {deleted}: {error:?}"
                );
            }
        }
    }
}

#[test]
fn a_log_file_of_another_database_is_foreign() {
    let disk = written("TT(NLR)+PWAL(1)", 3, true);
    let other = written("TT(NLR)+PWAL(1)", 3, true);
    let file = segments(&disk, 0).remove(0);
    disk.replace(&file, &other.read(&file).unwrap()).unwrap();
    let error = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap_err();
    assert!(
        matches!(&error, OpenError::Log(ReadError::Foreign { file: named }) if *named == file),
        "{error:?}"
    );
}

#[test]
fn a_manifest_from_the_future_or_damaged_is_told_apart() {
    let path = Path::new("/db/MANIFEST");
    let disk = written("TT(NLR)+PWAL(1)", 3, true);
    let bytes = disk.read(path).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let open = || builder("TT(NLR)+PWAL(1)", &disk).open("/db");

    disk.replace(path, text.replacen(" 1 ", " 9 ", 1).as_bytes())
        .unwrap();
    match open().unwrap_err() {
        OpenError::FromTheFuture {
            path: named,
            found: 9,
            known,
        } => {
            assert_eq!((&*named, known), (path, namiki::FORMAT));
        }
        other => panic!("{other:?}"),
    }
    for damaged in [
        &bytes[..bytes.len() / 2],
        b"",
        b"nonsense",
        &text.replace("numbers", "Numbers").into_bytes(),
    ] {
        disk.replace(path, damaged).unwrap();
        let error = open().unwrap_err();
        assert!(
            matches!(&error, OpenError::DamagedManifest { path: named, .. } if named == path),
            "{error:?}"
        );
    }
    disk.replace(path, &bytes).unwrap();
    assert_eq!(keys(&open().unwrap()), [0, 1, 2]);
}

// Directories.

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
fn a_file_in_the_place_of_the_directory_is_an_error() {
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

// Disks.

#[test]
fn a_full_disk_refuses_commits_until_there_is_room_and_loses_nothing() {
    for spec in Spec::all_durable() {
        let disk = SimDisk::new();
        let spec = spec.to_string();
        let db = builder(&spec, &disk).open("/db").unwrap();
        put(&db, 0).unwrap();
        disk.set_capacity(Some(100 << 10));
        let mut acknowledged = vec![0];
        let error = loop {
            let key = acknowledged.len() as u64;
            match put(&db, key) {
                Ok(()) => acknowledged.push(key),
                Err(error) => break error,
            }
        };
        match &error {
            Error::DiskFull(LogError::DiskFull { path, .. }) => {
                assert!(path.starts_with("/db/wal"), "{path:?}");
            }
            other => panic!("{spec}: {other:?}"),
        }
        assert!(!error.is_retryable());
        assert!(acknowledged.len() > 20, "{spec}: {}", acknowledged.len());
        // Reading goes on.
        assert_eq!(keys(&db), acknowledged, "{spec}");
        let name = db.table::<u64, u64>(&"long name ".repeat(20));
        if let Err(error) = name {
            assert!(matches!(error, Error::Manifest { .. }), "{error:?}");
        }
        // A crash in this state.
        let image = disk.crash_image(disk.events(), Loss::All);
        assert_eq!(
            keys(&builder(&spec, &image).open("/db").unwrap()),
            acknowledged
        );
        disk.set_capacity(None);
        for _ in 0..50 {
            let key = acknowledged.len() as u64;
            put(&db, key).unwrap();
            acknowledged.push(key);
        }
        drop(db);
        assert_eq!(
            keys(&builder(&spec, &disk).open("/db").unwrap()),
            acknowledged
        );
    }
}

#[test]
fn a_full_region_of_a_shared_device_refuses_commits_and_the_log_can_move_on() {
    let disk = SimDisk::new();
    let shared = |builder: Builder| builder.shared_device("/db/log", 16 << 10);
    let db = shared(builder("TT(ELR)+PWAL(1)", &disk))
        .open("/db")
        .unwrap();
    let mut acknowledged = Vec::new();
    let error = loop {
        let key = acknowledged.len() as u64;
        match put(&db, key) {
            Ok(()) => acknowledged.push(key),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&error, Error::DiskFull(LogError::RegionFull { .. })),
        "{error:?}"
    );
    assert_eq!(keys(&db), acknowledged);
    drop(db);
    let db = builder("TT(ELR)+PWAL(1)", &disk).open("/db").unwrap();
    assert_eq!(keys(&db), acknowledged);
    put(&db, acknowledged.len() as u64).unwrap();
}

#[test]
fn a_database_that_cannot_be_opened_on_a_full_disk_is_unharmed() {
    let disk = written("TT(NLR)+PWAL(1)", 5, true);
    disk.set_capacity(Some(0));
    let error = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap_err();
    assert!(
        matches!(&error, OpenError::Device { source, .. } if source.kind() == ErrorKind::StorageFull),
        "{error:?}"
    );
    disk.set_capacity(None);
    let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    assert_eq!(keys(&db), [0, 1, 2, 3, 4]);
}

#[test]
fn after_a_failed_write_the_outcome_is_unknown_and_nothing_more_is_acknowledged() {
    for spec in Spec::all_durable() {
        let text = spec.to_string();
        let disk = SimDisk::new();
        let db = builder(&text, &disk).open("/db").unwrap();
        let table = numbers(&db);
        for key in 0..5 {
            put(&db, key).unwrap();
        }
        let mut session = db.session().unwrap();
        // Its stream has its file by now.
        session.transact(|tx| tx.put(&table, &4, &4)).unwrap();
        let mut open = db.begin().unwrap();
        assert_eq!(open.get(&table, &1).unwrap(), Some(1));
        disk.fail_after(0, ErrorKind::Other);
        let error = session.transact(|tx| tx.put(&table, &5, &5)).unwrap_err();
        assert!(
            matches!(error, Error::OutcomeUnknown(_)),
            "{spec}: {error:?}"
        );
        assert!(!error.is_retryable());
        // The disk works again, but nobody knows what it kept.
        disk.heal();
        let error = put(&db, 6).unwrap_err();
        assert!(matches!(error, Error::LogFailed(_)), "{spec}: {error:?}");
        // What a reader would see may be lost.
        let error = db.transact(|tx| tx.get(&table, &5)).unwrap_err();
        assert!(matches!(error, Error::LogFailed(_)), "{spec}: {error:?}");
        open.put(&table, &7, &7).unwrap();
        let error = open.commit().unwrap_err();
        assert!(matches!(error, Error::LogFailed(_)), "{spec}: {error:?}");
        assert!(matches!(db.begin(), Err(Error::LogFailed(_))));
        let error = db.close().unwrap_err();
        assert!(
            matches!(error, Error::OutcomeUnknown(_)),
            "{spec}: {error:?}"
        );
        drop((session, db));

        let db = builder(&text, &disk).open("/db").unwrap();
        let found = keys(&db);
        assert!(
            found == [0, 1, 2, 3, 4] || found == [0, 1, 2, 3, 4, 5],
            "{spec}: {found:?}"
        );
        put(&db, 8).unwrap();
    }
}

#[test]
fn a_ticket_of_a_failed_group_says_that_its_outcome_is_unknown() {
    for spec in ["TT(NLR)+PWAL(16)", "TT(ELR)+PWAL(16)"] {
        let disk = SimDisk::new();
        let db = builder(spec, &disk).open("/db").unwrap();
        let table = numbers(&db);
        let mut session = db.session().unwrap();
        put(&db, 0).unwrap();
        let commit = |session: &mut namiki::Session, key: u64| {
            let ((), ticket) = session
                .transact_async(|tx| tx.put(&table, &key, &key))
                .unwrap();
            ticket
        };
        let durable = commit(&mut session, 1);
        session.wait(&durable).unwrap();
        let pending = [commit(&mut session, 2), commit(&mut session, 3)];
        disk.inject(Fault::once(Step::Write, 0, ErrorKind::Other).torn(3));
        assert!(matches!(session.flush(), Err(Error::OutcomeUnknown(_))));
        for ticket in &pending {
            assert!(!db.is_acknowledged(ticket));
            assert!(matches!(db.wait(ticket), Err(Error::OutcomeUnknown(_))));
        }
        assert!(db.is_acknowledged(&durable));
        db.wait(&durable).unwrap();
    }
}

#[test]
fn every_failing_step_of_an_opening_is_a_typed_error_and_the_next_opening_works() {
    let steps = [
        Step::Write,
        Step::Create,
        Step::SyncDir,
        Step::Rename,
        Step::Read,
    ];
    let mut failures = 0;
    for step in steps {
        for after in 0..6 {
            let disk = written("TT(ELR)+PWAL(1)", 5, false);
            disk.inject(Fault::once(step, after, ErrorKind::Other));
            match builder("TT(NLR)+PWAL(1)", &disk).open("/db") {
                Err(OpenError::Device { .. } | OpenError::Log(_) | OpenError::StartLog { .. }) => {
                    failures += 1;
                }
                Err(other) => panic!("{step:?} after {after}: {other:?}"),
                Ok(db) => drop(db),
            }
            disk.heal();
            let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db");
            let db = db.unwrap_or_else(|error| panic!("{step:?} after {after}: {error:?}"));
            assert_eq!(keys(&db), [0, 1, 2, 3, 4], "{step:?} after {after}");
            put(&db, 5).unwrap();
        }
    }
    assert!(failures > 5, "{failures}");
}

// Settings.

#[test]
fn settings_that_do_not_fit_are_refused_and_change_nothing() {
    let disk = written("TT(NLR)+PWAL(1)", 5, true);
    let before = disk.read(Path::new("/db/MANIFEST")).unwrap();
    let base = || builder("TT(NLR)+PWAL(1)", &disk);
    let sixteen = NonZeroU16::new(16).unwrap();
    for wrong in [
        base().record_format(RecordFormat::Fixed(sixteen)),
        base().segment_bytes(16 << 10).buffer_bytes(64 << 10),
        base().segment_bytes((16 << 10) + 1),
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
fn a_shared_device_that_is_too_small_is_refused_and_the_database_still_opens() {
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
    let specs = Spec::all_durable();
    for round in 0..3 * specs.len() as u64 {
        let spec = specs[(round * 5 % specs.len() as u64) as usize].to_string();
        let mut builder = builder(&spec, &disk)
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

// Keys, values, tables, transactions.

#[test]
fn a_key_that_is_too_long_is_refused_and_the_transaction_goes_on() {
    let disk = SimDisk::new();
    let db = builder("TT(NLR)+PWAL(1)", &disk)
        .buffer_bytes(256 << 10)
        .segment_bytes(1 << 20)
        .open("/db")
        .unwrap();
    let table = db.table::<[u8], u64>("words").unwrap();
    let long = vec![b'x'; 100_000];
    db.transact(|tx| {
        for result in [
            tx.put(&table, &long[..], &1),
            tx.insert(&table, &long[..], &1),
            tx.get(&table, &long[..]).map(drop),
            tx.delete(&table, &long[..]).map(drop),
        ] {
            match result.unwrap_err() {
                Error::KeyTooLong {
                    table,
                    len_bytes: 100_000,
                    max_bytes,
                } => {
                    assert_eq!(table, "words");
                    assert!(max_bytes < 100_000);
                }
                other => panic!("{other:?}"),
            }
        }
        tx.put(&table, &b"short"[..], &2)
    })
    .unwrap();
    // The longest that fits.
    db.transact(|tx| tx.put(&table, &long[..65_536], &3))
        .unwrap();
    drop(db);
    let db = builder("TT(NLR)+PWAL(1)", &disk)
        .buffer_bytes(256 << 10)
        .segment_bytes(1 << 20)
        .open("/db")
        .unwrap();
    let table = db.table::<[u8], u64>("words").unwrap();
    let read = db.transact(|tx| tx.get(&table, &long[..65_536])).unwrap();
    assert_eq!(read, Some(3));
    assert_eq!(
        db.transact(|tx| tx.scan::<[u8], u64>(&table, ..))
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_transaction_too_large_for_the_buffer_is_refused_and_changes_nothing() {
    for spec in Spec::all_durable() {
        let disk = SimDisk::new();
        let db = builder(&spec.to_string(), &disk).open("/db").unwrap();
        let blobs = db.table::<u64, [u8]>("blobs").unwrap();
        put(&db, 1).unwrap();
        let table = numbers(&db);
        let error = db
            .transact(|tx| {
                tx.put(&table, &1, &9)?;
                tx.put(&blobs, &1, &[7; 9000][..])
            })
            .unwrap_err();
        match error {
            Error::TransactionTooLarge {
                len_bytes,
                max_bytes,
            } => {
                assert!(len_bytes > 9000 && max_bytes < 8192);
            }
            other => panic!("{spec}: {other:?}"),
        }
        // No lock is left behind.
        let read = db.transact(|tx| {
            tx.update(&table, &1, |old| old + 1)?;
            Ok((tx.get(&table, &1)?, tx.get(&blobs, &1)?))
        });
        assert_eq!(read.unwrap(), (Some(2), None), "{spec}");
        db.transact(|tx| tx.put(&blobs, &1, &[7; 7000][..]))
            .unwrap();
    }
}

/// A program's own type, whose later release writes other bytes under the same name.
struct Earlier;
struct Later;

macro_rules! own_value {
    ($type:ident, $bytes:literal) => {
        impl Value for $type {
            type Owned = Self;
            const NAME: &'static str = "own";
            fn encode(&self, into: &mut ValueBytes) {
                into.extend_from_slice(&[1; $bytes]);
            }
            fn decode(bytes: &[u8]) -> Option<Self> {
                (bytes.len() == $bytes).then_some(Self)
            }
        }
    };
}
own_value!(Earlier, 4);
own_value!(Later, 8);

#[test]
fn a_value_that_is_not_of_the_tables_type_is_told() {
    let db = builder("TT(NLR)+PWAL(1)", &SimDisk::new())
        .open("/db")
        .unwrap();
    let earlier = db.table::<u64, Earlier>("own").unwrap();
    db.transact(|tx| tx.put(&earlier, &1, &Earlier)).unwrap();
    let later = db.table::<u64, Later>("own").unwrap();
    let told = |error: Option<Error>| match error {
        Some(Error::Undecodable {
            table,
            len_bytes: 4,
            ..
        }) => assert_eq!(table, "own"),
        other => panic!("{other:?}"),
    };
    told(db.transact(|tx| tx.get(&later, &1)).err());
    told(db.transact(|tx| tx.scan(&later, ..)).err());
    told(db.transact(|tx| tx.update(&later, &1, |old| old)).err());
}

#[test]
fn a_table_keeps_its_types_and_its_name_has_rules() {
    let disk = SimDisk::new();
    for _ in 0..2 {
        let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
        numbers(&db);
        let error = db.table::<u64, i64>("numbers").unwrap_err();
        match &error {
            Error::TableType {
                table,
                found,
                expected,
            } => {
                assert_eq!(
                    (table.as_str(), found.as_str(), expected.as_str()),
                    ("numbers", "u64 to u64", "u64 to i64")
                );
            }
            other => panic!("{other:?}"),
        }
        let error = db.table::<str, u64>("numbers").unwrap_err();
        assert!(matches!(error, Error::TableType { .. }), "{error:?}");
        for name in ["", &"n".repeat(256)] {
            let error = db.table::<u64, u64>(name).unwrap_err();
            assert!(matches!(error, Error::TableName { .. }), "{error:?}");
        }
        db.table::<u64, u64>(&"n".repeat(255)).unwrap();
        assert_eq!(db.tables().len(), 2);
    }
}

#[test]
fn a_closed_database_says_so() {
    let disk = SimDisk::new();
    let db = builder("TT(ELR)+PWAL(16)", &disk).open("/db").unwrap();
    let table = numbers(&db);
    let mut session = db.session().unwrap();
    session.transact_async(|tx| tx.put(&table, &1, &1)).unwrap();
    let mut open = db.begin().unwrap();
    open.put(&table, &2, &2).unwrap();
    db.close().unwrap();
    db.close().unwrap();
    let closed = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::Closed)), "{result:?}");
    };
    closed(open.commit().map(drop));
    closed(session.transact(|tx| tx.get(&table, &1)).map(drop));
    closed(db.transact(|tx| tx.put(&table, &3, &3)));
    closed(db.begin().map(drop));
    closed(db.session().map(drop));
    closed(db.table::<u64, u64>("more").map(drop));
    // What was committed before is durable, and the directory is free although the handle lives.
    let again = builder("TT(ELR)+PWAL(16)", &disk).open("/db").unwrap();
    assert_eq!(keys(&again), [1]);
}

#[test]
fn too_many_conflicts_are_reported_and_not_retried_for_ever() {
    let db = builder("TT(NLR)+NOLOG", &SimDisk::new())
        .attempts_max(NonZeroU32::new(3).unwrap())
        .open("/db")
        .unwrap();
    let table = numbers(&db);
    put(&db, 1).unwrap();
    let mut attempts = 0;
    let error = db
        .transact(|tx| {
            attempts += 1;
            tx.get(&table, &1)?;
            // Somebody is always faster.
            let mut other = db.begin()?;
            other.update(&table, &1, |old| old + 1)?;
            other.commit()?;
            tx.put(&table, &1, &0)
        })
        .unwrap_err();
    assert!(
        matches!(error, Error::TooManyConflicts { attempts: 3, .. }),
        "{error:?}"
    );
    assert_eq!(attempts, 3);
}

/// The records of a table live as long as its database. A transaction of another one would not keep
/// them alive, and once it did not.
#[test]
fn a_table_of_another_database_or_opening_is_foreign() {
    let disk = SimDisk::new();
    let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    let of_another = numbers(
        &builder("TT(NLR)+PWAL(1)", &SimDisk::new())
            .open("/db")
            .unwrap(),
    );
    put(&db, 1).unwrap();
    let of_before = numbers(&db);
    db.close().unwrap();
    drop(db);
    let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    for foreign in [of_another, of_before] {
        db.transact(|tx| {
            for result in [
                tx.get(&foreign, &1).map(drop),
                tx.put(&foreign, &1, &1),
                tx.insert(&foreign, &1, &1),
                tx.update(&foreign, &1, |old| old).map(drop),
                tx.delete(&foreign, &1).map(drop),
                tx.scan(&foreign, ..).map(drop),
                tx.version(&foreign, &1).map(drop),
                tx.versions(&foreign, ..).map(drop),
            ] {
                match result.unwrap_err() {
                    Error::ForeignTable { table } => assert_eq!(table, "numbers"),
                    other => panic!("{other:?}"),
                }
            }
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(keys(&db), [1]);
}

/// Closing while others commit: each commit either returns and is there, or says that the database
/// is closed.
#[test]
fn a_database_closed_under_running_transactions_keeps_what_it_acknowledged() {
    for spec in Spec::all_durable() {
        let spec = spec.to_string();
        for grace in [0, 1, 30] {
            let disk = SimDisk::new();
            let db = builder(&spec, &disk)
                .group_wait_max(Duration::from_millis(1))
                .open("/db")
                .unwrap();
            let table = numbers(&db);
            let acknowledged: Vec<u64> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3_u64)
                    .map(|thread| {
                        let (db, table) = (&db, &table);
                        scope.spawn(move || {
                            let mut acknowledged = Vec::new();
                            for number in 0.. {
                                let key = thread << 32 | number;
                                match db.transact(|tx| tx.put(table, &key, &key)) {
                                    Ok(()) => acknowledged.push(key),
                                    Err(Error::Closed) => break,
                                    Err(error) => panic!("{error:?}"),
                                }
                            }
                            acknowledged
                        })
                    })
                    .collect();
                while db.counters().committed < grace {
                    std::thread::yield_now();
                }
                db.close().unwrap();
                threads
                    .into_iter()
                    .flat_map(|thread| thread.join().unwrap())
                    .collect()
            });
            drop((table, db));
            let db = builder(&spec, &disk).open("/db").unwrap();
            assert!(db.recovery().closed);
            let found = keys(&db);
            let lost = acknowledged.iter().find(|key| !found.contains(key));
            assert_eq!(lost, None, "{spec}");
        }
    }
}
