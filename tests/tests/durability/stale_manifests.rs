//! A manifest that is older than the log, or was changed. Opening with it would lose later
//! acknowledged commits, so it is an error that names the file, and nothing is changed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use namiki::files::FORMAT;
use namiki::{Builder, Generation, OpenError, ProtocolSpec, ReadError, WorkerId};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::small_database::{BOTH_ORDERS, builder, keys, numbers, put};

const MANIFEST: &str = "/db/MANIFEST";
const REGION_BYTES: u64 = 64 << 10;

/// Log files, or one device for all streams.
fn both_places(spec: &str, disk: &SimDisk, shared: bool) -> Builder {
    let builder = builder(spec, disk);
    if shared {
        builder.shared_device("/db/log", REGION_BYTES)
    } else {
        builder
    }
}

/// Opens a disk with the manifest that is there, and expects an error that names this file as
/// missing from it.
fn assert_not_in_manifest(builder: Builder, disk: &SimDisk, file: &Path, of: Generation) {
    let before = disk.read(Path::new(MANIFEST)).unwrap();
    match builder.open("/db") {
        Err(OpenError::Log(ReadError::NotInManifest {
            file: named,
            generation,
            ..
        })) => assert_eq!((named.as_path(), generation), (file, of)),
        other => panic!("{file:?}: {other:?}"),
    }
    assert!(disk.read(Path::new(MANIFEST)).unwrap() == before);
}

#[test]
fn a_manifest_that_is_older_than_the_log_is_refused() {
    for spec in ProtocolSpec::tested() {
        for (shared, closed, order) in [
            (false, false, BOTH_ORDERS[0]),
            (false, true, BOTH_ORDERS[1]),
            (true, true, BOTH_ORDERS[0]),
            (true, false, BOTH_ORDERS[1]),
        ] {
            let spec = spec.to_string();
            let mut disk = SimDisk::new();
            let db = both_places(&spec, &disk, shared).open("/db").unwrap();
            put(&db, 1).unwrap();
            db.close().unwrap();
            let old = disk.read(Path::new(MANIFEST)).unwrap();
            let db = both_places(&spec, &disk, shared).open("/db").unwrap();
            put(&db, 2).unwrap();
            if closed {
                db.close().unwrap();
            } else {
                disk = disk.crash_image(disk.events(), Loss::All);
            }
            let new = disk.read(Path::new(MANIFEST)).unwrap();
            disk.replace(Path::new(MANIFEST), &old).unwrap();
            let file = if shared {
                PathBuf::from("/db/log")
            } else {
                written_file(&disk, "000002-00000001.log")
            };
            let opening = both_places(&spec, &disk, shared).replay_order(order);
            assert_not_in_manifest(opening, &disk, &file, Generation(2));
            disk.replace(Path::new(MANIFEST), &new).unwrap();
            let db = both_places(&spec, &disk, shared).open("/db").unwrap();
            assert_eq!(keys(&db), [1, 2], "{spec}");
        }
    }
}

/// The log file of this name, in the stream that has it.
fn written_file(disk: &SimDisk, name: &str) -> PathBuf {
    let streams = (0..2).map(|stream| PathBuf::from(format!("/db/wal/{stream:04}")));
    let mut found = streams.map(|dir| dir.join(name));
    found.find(|path| disk.read(path).is_ok()).unwrap()
}

/// A crash after the streams of the last generation were created and before the manifest was
/// replaced.
#[test]
fn an_unannounced_generation_is_no_damage() {
    for shared in [false, true] {
        let disk = SimDisk::new();
        let db = both_places("TT(NLR)+PWAL(1)", &disk, shared)
            .open("/db")
            .unwrap();
        put(&db, 1).unwrap();
        db.close().unwrap();
        let from = disk.events();
        drop(
            both_places("TT(NLR)+PWAL(1)", &disk, shared)
                .open("/db")
                .unwrap(),
        );
        for at in from..=disk.events() {
            for loss in [Loss::None, Loss::All] {
                let image = disk.crash_image(at, loss);
                let db = both_places("TT(NLR)+PWAL(1)", &image, shared).open("/db");
                let db = db.unwrap_or_else(|error| panic!("{shared}, {at}: {error:?}"));
                assert_eq!(keys(&db), [1]);
            }
        }
    }
}

/// Replaces a text in the manifest, and updates its checksum.
fn change(disk: &SimDisk, from: &str, to: &str) {
    let text = String::from_utf8(disk.read(Path::new(MANIFEST)).unwrap()).unwrap();
    let (_, body) = text.trim_end().split_once('\n').unwrap();
    assert!(body.contains(from), "{body}");
    let body = body.replace(from, to);
    let sum = crc32c::crc32c(body.as_bytes());
    let text = format!("namiki-manifest {FORMAT} crc32c={sum:08x}\n{body}\n");
    disk.replace(Path::new(MANIFEST), text.as_bytes()).unwrap();
}

/// The beginnings of `streams` streams in the rings of a new device, as text in a manifest.
fn begins(streams: usize) -> String {
    let first = r#"{
          "file_number": 1,
          "sequence": 1,
          "offset": 1024
        }"#;
    let all = vec![first; streams].join(",\n        ");
    format!("\"starts\": [\n        {all}\n      ]")
}

#[test]
fn a_manifest_with_fewer_streams_than_hold_frames_is_refused() {
    for (shared, spec) in [
        (false, "TT(NLR)+PWAL(1)"),
        (true, "TT(NLR)+PWAL(1)"),
        (false, "TT(EPOCH)+PWAL(1)"),
        (false, "TT(ELR)+PWAL(1)"),
    ] {
        let disk = SimDisk::new();
        let db = both_places(spec, &disk, shared).open("/db").unwrap();
        let table = numbers(&db);
        for worker in 0..2 {
            let mut session = db.session_on(WorkerId(worker)).unwrap();
            let key = u64::from(worker);
            session.transact(|tx| tx.put(&table, &key, &key)).unwrap();
        }
        let disk = disk.crash_image(disk.events(), Loss::All);
        change(&disk, "\"streams\": 2", "\"streams\": 1");
        let file = if shared {
            // In the ring of a region, each stream has its own beginning.
            change(&disk, &begins(2), &begins(1));
            PathBuf::from("/db/log")
        } else {
            PathBuf::from("/db/wal/0001/000001-00000001.log")
        };
        let opening = both_places(spec, &disk, shared);
        assert_not_in_manifest(opening, &disk, &file, Generation(1));
        change(&disk, "\"streams\": 1", "\"streams\": 2");
        if shared {
            change(&disk, &begins(1), &begins(2));
        }
        let db = both_places(spec, &disk, shared).open("/db").unwrap();
        assert_eq!(keys(&db), [0, 1]);
    }
}

#[test]
fn a_table_number_beyond_all_tables_is_an_error() {
    let disk = SimDisk::new();
    put(&builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap(), 1).unwrap();
    for wrong in ["4294967295", "1"] {
        change(&disk, "\"id\": 0", &format!("\"id\": {wrong}"));
        let error = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap_err();
        assert!(
            matches!(&error, OpenError::DamagedManifest { path, .. } if path == Path::new(MANIFEST)),
            "{error:?}"
        );
        change(&disk, &format!("\"id\": {wrong}"), "\"id\": 0");
    }
    let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    assert_eq!(keys(&db), [1]);
}
