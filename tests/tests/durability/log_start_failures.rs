//! A log that cannot be started, or is not at the place in the manifest: a typed error, and the
//! manifest is unchanged. The next opening with the right settings finds everything.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::ErrorKind;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use namiki::files::Manifest;
use namiki::{
    Builder, ConcurrencyControl, Database, LockRelease, LogError, Logging, OpenError, ProtocolSpec,
    ReadError, SequencerKind, WorkerId,
};
use namiki_log::Placement;
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_platform::disk::{Disk, SimDisk, SyncedDisk};
use namiki_tests::copy_dir::copy_dir;
use namiki_tests::small_database::{BOTH_ORDERS, builder, keys, numbers, put, written};

const REGION_BYTES: u64 = 64 << 10;

fn manifest_of(disk: &SimDisk) -> Vec<u8> {
    disk.read(Path::new("/db/MANIFEST")).unwrap()
}

fn shared(disk: &SimDisk, device: &str, region_bytes: u64) -> Builder {
    builder("TT(ELR)+PWAL(1)", disk).shared_device(device, region_bytes)
}

#[test]
fn senseless_settings_are_refused_before_any_write() {
    let senseless = ProtocolSpec {
        concurrency: ConcurrencyControl::TicToc,
        release: LockRelease::Early,
        logging: Logging::None,
    };
    type Wrong = fn(Builder, ProtocolSpec) -> Builder;
    let wrong: [Wrong; 2] = [
        |builder, _| builder.sequencer(SequencerKind::None),
        |builder, senseless| builder.spec(senseless),
    ];
    for wrong in wrong {
        let refused = |disk: &SimDisk| {
            let before = disk.events();
            let error = wrong(builder("TT(ELR)+PWAL(1)", disk), senseless)
                .open("/db")
                .unwrap_err();
            assert!(matches!(error, OpenError::Settings(_)), "{error:?}");
            assert_eq!(disk.events(), before, "{error} came too late");
        };
        refused(&SimDisk::new());
        let disk = written("TT(ELR)+PWAL(1)", 5, false);
        refused(&disk);
        assert_eq!(
            keys(&builder("TT(ELR)+PWAL(1)", &disk).open("/db").unwrap()),
            [0, 1, 2, 3, 4]
        );
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new");
        wrong(Database::builder(), senseless)
            .open(&dir)
            .unwrap_err();
        assert!(!dir.exists());
    }
}

#[test]
fn a_log_that_cannot_start_leaves_the_manifest() {
    for closed in [true, false] {
        let disk = written("TT(ELR)+PWAL(1)", 5, closed);
        // Another database's device, on the same disk.
        let other = shared(&disk, "/other/log", REGION_BYTES);
        put(&other.open("/other").unwrap(), 1).unwrap();
        let foreign = disk.read(Path::new("/other/log")).unwrap();
        let before = manifest_of(&disk);
        let base = || builder("TT(ELR)+PWAL(1)", &disk);
        for wrong in [
            base().log_file_bytes((16 << 10) + 1),
            base().log_file_bytes(0),
            shared(&disk, "/other/log", REGION_BYTES),
            shared(&disk, "/other/log", REGION_BYTES / 2),
            shared(&disk, "/db/log", REGION_BYTES + 1),
            shared(&disk, "/nowhere/log", REGION_BYTES),
        ] {
            let error = wrong.open("/db").unwrap_err();
            assert!(
                matches!(error, OpenError::StartLog { .. } | OpenError::Settings(_)),
                "{error:?}"
            );
            assert!(manifest_of(&disk) == before, "{error:?}");
        }
        assert!(disk.read(Path::new("/other/log")).unwrap() == foreign);
        let db = base().open("/db").unwrap();
        assert_eq!(keys(&db), [0, 1, 2, 3, 4]);
        put(&db, 5).unwrap();
    }
}

#[test]
fn a_shared_device_with_regions_of_another_length_is_refused() {
    for closed in [true, false] {
        let mut disk = SimDisk::new();
        let db = shared(&disk, "/db/log", REGION_BYTES).open("/db").unwrap();
        put(&db, 1).unwrap();
        if !closed {
            disk = disk.crash_image(disk.events(), Loss::All);
        }
        drop(db);
        let before = manifest_of(&disk);
        for wrong in [REGION_BYTES / 2, REGION_BYTES / 4] {
            let error = shared(&disk, "/db/log", wrong).open("/db").unwrap_err();
            assert!(
                matches!(
                    error,
                    OpenError::StartLog {
                        source: LogError::InvalidConfig { .. },
                        ..
                    }
                ),
                "{error:?}"
            );
            assert!(manifest_of(&disk) == before, "{error:?}");
        }
        let db = shared(&disk, "/db/log", REGION_BYTES).open("/db").unwrap();
        assert_eq!(keys(&db), [1]);
        put(&db, 2).unwrap();
    }
}

#[test]
fn a_directory_as_shared_device_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    put(&db, 1).unwrap();
    db.close().unwrap();
    drop(db);
    let manifest = Manifest::path(dir.path());
    let before = fs::read(&manifest).unwrap();
    let error = Database::builder()
        .shared_device(dir.path().join("wal"), 1 << 20)
        .open(dir.path())
        .unwrap_err();
    assert!(
        matches!(
            &error,
            OpenError::StartLog {
                source: LogError::Device { path, .. },
                ..
            } if *path == dir.path().join("wal")
        ),
        "{error:?}"
    );
    assert!(fs::read(&manifest).unwrap() == before);
    assert_eq!(keys(&Database::open(dir.path()).unwrap()), [1]);
}

#[test]
fn a_shared_device_is_found_again_from_any_working_directory() {
    let disk = SimDisk::new();
    let here = std::env::current_dir().unwrap();
    disk.create_dir_all(&here).unwrap();
    let db = shared(&disk, "some-log-device", REGION_BYTES)
        .open("/db")
        .unwrap();
    put(&db, 1).unwrap();
    drop(db);
    let manifest = Manifest::read(&disk, Path::new("/db")).unwrap().unwrap();
    match &manifest.generations.last().unwrap().placement {
        Placement::Shared { path, .. } => assert_eq!(*path, here.join("some-log-device")),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        keys(&builder("TT(ELR)+PWAL(1)", &disk).open("/db").unwrap()),
        [1]
    );
}

#[test]
fn a_missing_shared_device_is_not_an_empty_database() {
    for closed in [true, false] {
        for order in BOTH_ORDERS {
            let mut disk = SimDisk::new();
            let db = shared(&disk, "/db/log", REGION_BYTES).open("/db").unwrap();
            put(&db, 1).unwrap();
            if !closed {
                disk = disk.crash_image(disk.events(), Loss::All);
            }
            drop(db);
            let device = Path::new("/db/log");
            let bytes = disk.read(device).unwrap();
            let before = manifest_of(&disk);
            disk.remove(device).unwrap();
            for next in [
                shared(&disk, "/db/log", REGION_BYTES),
                builder("TT(NLR)+PWAL(1)", &disk),
            ] {
                let error = next.replay_order(order).open("/db").unwrap_err();
                assert!(
                    matches!(
                        &error,
                        OpenError::Log(ReadError::Damaged { file, .. }) if file == device
                    ),
                    "closed {closed}: {error:?}"
                );
                assert!(manifest_of(&disk) == before);
                assert!(disk.read(device).is_err(), "made anew");
            }
            disk.replace(device, &bytes).unwrap();
            let db = shared(&disk, "/db/log", REGION_BYTES).open("/db").unwrap();
            assert_eq!(keys(&db), [1], "closed {closed}");
        }
    }
}

/// The rename of a manifest is visible, and its directory was not synced. The next opening begins a
/// generation on a device in another directory, and is killed by a power cut that reverts the
/// manifest.
#[test]
fn an_unsynced_manifest_announces_no_generation() {
    let open = |disk: &SimDisk| shared(disk, "/device/log", REGION_BYTES).open("/db");
    let mut failed = 0;
    for exists in [true, false] {
        for after in 0..6 {
            let disk = SimDisk::new();
            disk.create_dir_all(Path::new("/device")).unwrap();
            if exists {
                put(&open(&disk).unwrap(), 1).unwrap();
                disk.mark(1);
            }
            disk.inject(Fault::once(Step::SyncDir, after, ErrorKind::Other));
            failed += u32::from(open(&disk).is_err());
            disk.heal();
            let from = disk.events();
            let db = open(&disk).unwrap();
            put(&db, 2).unwrap();
            disk.mark(2);
            drop(db);
            for at in from..=disk.events() {
                for loss in [Loss::None, Loss::All, Loss::Seeded(at as u64)] {
                    let mut image = disk.crash_image(at, loss);
                    for round in 0..3 {
                        let told = format!("{exists}, {after}, event {at}, {loss:?}, {round}");
                        let db = open(&image).unwrap_or_else(|error| panic!("{told}: {error:?}"));
                        let found = keys(&db);
                        let acknowledged = disk.marks_before(at);
                        assert!(acknowledged.iter().all(|key| found.contains(key)), "{told}");
                        put(&db, 3 + round).unwrap();
                        image = image.crash_image(image.events(), Loss::All);
                    }
                }
            }
        }
    }
    assert!(failed >= 6, "{failed}");
}

#[test]
fn a_missing_stream_directory_is_not_an_empty_stream() {
    let place = tempfile::tempdir().unwrap();
    let open = |dir: &Path| {
        let disk: Arc<dyn Disk> = Arc::new(SyncedDisk::new());
        builder("TT(NLR)+PWAL(1)", &SimDisk::new())
            .streams(NonZeroU16::new(3).unwrap())
            .disk(disk)
            .open(dir)
    };
    for (closed, used) in [(false, true), (false, false), (true, true), (true, false)] {
        let running = place.path().join(format!("running-{closed}-{used}"));
        let found = place.path().join(format!("found-{closed}-{used}"));
        let db = open(&running).unwrap();
        let table = numbers(&db);
        let last = if used { 2 } else { 1 };
        let mut expected = Vec::new();
        for worker in 0..=last {
            let key = u64::from(worker);
            let mut session = db.session_on(WorkerId(worker)).unwrap();
            session.transact(|tx| tx.put(&table, &key, &key)).unwrap();
            expected.push(key);
        }
        if closed {
            db.close().unwrap();
        }
        // The state of a process that is killed now.
        copy_dir(&running, &found);
        let before = fs::read(Manifest::path(&found)).unwrap();
        let stream = found.join("wal").join("0002");
        assert!(stream.is_dir());
        let kept = place.path().join("kept");
        fs::rename(&stream, &kept).unwrap();
        match open(&found) {
            // According to the seal, the stream has no frame: a copying tool omitted its empty
            // directory.
            Ok(db) if closed && !used => {
                assert_eq!(keys(&db), expected);
                continue;
            }
            Err(OpenError::Log(ReadError::Damaged { file, .. })) => {
                assert!(file.starts_with(&stream), "{file:?}");
                assert!(fs::read(Manifest::path(&found)).unwrap() == before);
                let manifest = Manifest::read(&SyncedDisk::new(), &found).unwrap();
                let manifest = manifest.unwrap();
                assert_eq!(manifest.generations[0].seal.is_some(), closed);
                assert!(!stream.exists(), "made anew");
                fs::rename(&kept, &stream).unwrap();
            }
            other => panic!("closed {closed}, used {used}: {other:?}"),
        }
        assert_eq!(keys(&open(&found).unwrap()), expected);
    }
}
