//! Openings of databases with loaded tables: with a manifest older than the tables, concurrent with
//! another program, and after an unfinished load. None of them loses an acknowledged table.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use namiki::files::{Manifest, image_dir};
use namiki::{Builder, Database, Isolation, LoadError, NewTable, OpenError, ProtocolChoice};
use namiki_platform::disk::sim::SimDisk;
use namiki_platform::disk::{Disk, DiskCall, FileEntry, HookedDisk};
use namiki_tests::loaded_table::{DIR, image_files, load, parts, rows, sound, wrong_loaded_table};
use namiki_tests::small_database::{builder, keys, put};

const SPEC: &str = "TT(EPOCH)+PWAL(1)";
const ROWS: u64 = 300;

fn open(disk: &SimDisk) -> Database {
    builder(SPEC, disk).open(DIR).unwrap()
}

fn manifest_path() -> PathBuf {
    Manifest::path(Path::new(DIR))
}

/// The entries of the database's directory and of its image directory.
fn listed(disk: &SimDisk) -> Vec<FileEntry> {
    let mut files = disk.list(Path::new(DIR)).unwrap();
    files.extend(disk.list(&image_dir(Path::new(DIR))).unwrap());
    files
}

/// No commit was logged since the load, so the log does not mention it.
#[test]
fn a_manifest_older_than_a_load_is_refused() {
    for spec in [SPEC, "TT(NLR)+NOLOG"] {
        for was_open in [false, true] {
            let disk = SimDisk::new();
            let open = || builder(spec, &disk).open(DIR).unwrap();
            let db = open();
            let (db, old) = if was_open {
                let old = disk.read(&manifest_path()).unwrap();
                (db, old)
            } else {
                db.close().unwrap();
                let old = disk.read(&manifest_path()).unwrap();
                (open(), old)
            };
            load(&db, ROWS).unwrap();
            db.close().unwrap();
            let new = disk.read(&manifest_path()).unwrap();
            disk.replace(&manifest_path(), &old).unwrap();
            let before = listed(&disk);
            let error = builder(spec, &disk).open(DIR).unwrap_err();
            assert!(
                matches!(&error, OpenError::SegmentNotInManifest { file }
                    if image_files(&disk).contains(file)),
                "{error:?}"
            );
            assert_eq!(listed(&disk), before);
            disk.replace(&manifest_path(), &new).unwrap();
            drop(open());
            assert_eq!(wrong_loaded_table(&disk, Some(ROWS)), None);
        }
    }
}

/// One opening loaded both tables.
#[test]
fn a_manifest_between_two_loads_is_refused() {
    let disk = SimDisk::new();
    let db = open(&disk);
    load(&db, ROWS).unwrap();
    let between = disk.read(&manifest_path()).unwrap();
    let second = NewTable::new("second", parts().schema().clone());
    db.load_sorted(&second, sound(rows(ROWS))).unwrap();
    db.close().unwrap();
    let new = disk.read(&manifest_path()).unwrap();
    disk.replace(&manifest_path(), &between).unwrap();
    let refused = builder(SPEC, &disk).open(DIR);
    assert!(
        matches!(refused, Err(OpenError::SegmentNotInManifest { .. })),
        "{refused:?}"
    );
    disk.replace(&manifest_path(), &new).unwrap();
    assert_eq!(open(&disk).loaded_tables().len(), 2);
    assert_eq!(image_files(&disk).len(), 4);
}

/// Opens a disk that does not lock.
fn lockless(disk: &SimDisk, before: impl Fn(DiskCall, &Path) + Send + Sync + 'static) -> Builder {
    let hook = move |call: DiskCall, path: &Path| {
        before(call, path);
        Ok(())
    };
    let hooked = HookedDisk::new(Arc::new(disk.clone()), hook).without_locks();
    builder(SPEC, disk).disk(Arc::new(hooked))
}

/// One program has read the manifest and recovers while another one, which has the database open,
/// loads a table.
#[test]
fn an_opening_beside_a_load_takes_nothing_away() {
    type When = fn(DiskCall, &Path) -> bool;
    let in_recovery: When =
        |call, path| call == DiskCall::List && path == Path::new("/db/wal/0000");
    let in_the_new_log: When =
        |call, path| call == DiskCall::CreateDir && path == Path::new("/db/wal/0002");
    for when in [in_recovery, in_the_new_log] {
        let disk = SimDisk::new();
        let first = lockless(&disk, |_, _| ()).open(DIR).unwrap();
        put(&first, 1).unwrap();
        let waiting = Mutex::new(Some(first.clone()));
        let second = lockless(&disk, move |call, path| {
            if when(call, path)
                && let Some(first) = waiting.lock().unwrap().take()
            {
                load(&first, ROWS).unwrap();
            }
        });
        let refused = second.streams(3.try_into().unwrap()).open(DIR);
        assert!(
            matches!(refused, Err(OpenError::AnotherWriter { .. })),
            "{refused:?}"
        );
        assert_eq!(wrong_loaded_table(&disk, Some(ROWS)), None);
        put(&first, 2).unwrap();
        first.close().unwrap();
        drop(first);
        assert_eq!(keys(&open(&disk)), [1, 2]);
        assert_eq!(wrong_loaded_table(&disk, Some(ROWS)), None);
    }
}

/// Another program has opened the database and removed the files of a load that it considers
/// interrupted.
#[test]
fn a_load_without_its_files_is_not_acknowledged() {
    for file in 0..3 {
        let disk = SimDisk::new();
        let under = disk.clone();
        let db = lockless(&disk, move |call, path| {
            let files = image_files(&under);
            if matches!(call, DiskCall::Replace(_)) && path == manifest_path() && files.len() == 3 {
                let _ = under.remove(&files[file]);
            }
        });
        let db = db.open(DIR).unwrap();
        let error = load(&db, ROWS).unwrap_err();
        assert!(
            matches!(&error, LoadError::Device { source, .. }
                if source.kind() == ErrorKind::NotFound),
            "{error:?}"
        );
        assert_eq!(wrong_loaded_table(&disk, None), None);
        drop(db);
        drop(open(&disk));
        assert_eq!(wrong_loaded_table(&disk, None), None);
    }
}

/// An automatic choice of protocol measures the device first, and the leftover leaves no room for
/// that.
#[test]
fn what_a_load_has_left_fills_no_disk_for_ever() {
    for isolation in [None, Some(Isolation::Serializable)] {
        let disk = SimDisk::new();
        put(&open(&disk), 1).unwrap();
        let image = image_dir(Path::new(DIR));
        disk.create_dir_all(&image).unwrap();
        disk.set_capacity(Some(4 << 20));
        let left = image.join("00000001.new");
        let (mut bytes, step) = (0, 1 << 12);
        while disk.create(&left, bytes + step).is_ok() {
            disk.remove(&left).unwrap();
            bytes += step;
        }
        disk.create(&left, bytes).unwrap();
        let builder = builder(SPEC, &disk);
        let builder = match isolation {
            Some(isolation) => builder.protocol(ProtocolChoice::Auto(isolation)),
            None => builder,
        };
        let db = builder.open(DIR).unwrap();
        assert!(bytes > 1 << 20 && image_files(&disk).is_empty());
        put(&db, 2).unwrap();
    }
}
