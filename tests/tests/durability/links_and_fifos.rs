//! Replaced files of a database: a link is followed, and the error names an entry that is no file.
//! Nothing hangs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use namiki::{Builder, Database, OpenError, Prepare, ReadError};
use namiki_platform::disk::{Disk, FileKind, NotAFile, SyncedDisk, open_best};
use namiki_tests::copy_dir::copy_dir;
use namiki_tests::small_database::{keys, put};
use tempfile::TempDir;

const COMMITS: u64 = 90;

fn builder(disk: Arc<dyn Disk>) -> Builder {
    Database::builder()
        .spec("TT(EPOCH)+PWAL(1)".parse().unwrap())
        .streams(1.try_into().unwrap())
        .prepare(Prepare::Inline)
        .buffer_bytes(8 << 10)
        .log_file_bytes(16 << 10)
        .disk(disk)
}

fn disks(dir: &Path) -> [Arc<dyn Disk>; 2] {
    [open_best(dir).unwrap().0, Arc::new(SyncedDisk::new())]
}

/// A database with several log files, not closed cleanly.
fn killed() -> (TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let db = builder(Arc::new(SyncedDisk::new()))
        .open(dir.path().join("db"))
        .unwrap();
    (0..COMMITS).for_each(|key| put(&db, key).unwrap());
    // The state after a kill: closing would change it.
    let copy = dir.path().join("killed");
    copy_dir(&dir.path().join("db"), &copy);
    drop(db);
    let wal = copy.join("wal/0000");
    let entries = fs::read_dir(wal).unwrap();
    let mut log_files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    log_files.sort();
    assert!(log_files.len() > 2);
    (dir, log_files)
}

/// Opens in another thread, so that an opening that hangs fails the test.
fn open(builder: Builder, dir: PathBuf) -> Result<Database, OpenError> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || drop(sender.send(builder.open(dir))));
    let opened = receiver.recv_timeout(Duration::from_secs(60));
    opened.expect("opening does not come to an end")
}

/// Replaces a file by an entry of another kind.
fn replace(path: &Path, kind: FileKind) {
    fs::remove_file(path).unwrap();
    match kind {
        FileKind::Directory => fs::create_dir(path).unwrap(),
        FileKind::Fifo => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        FileKind::Socket => drop(UnixListener::bind(path).unwrap()),
        FileKind::CharacterDevice => symlink("/dev/null", path).unwrap(),
        FileKind::DanglingLink => symlink("nothing-is-here", path).unwrap(),
        other => panic!("{other}"),
    }
}

const NO_FILES: [FileKind; 5] = [
    FileKind::Directory,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::CharacterDevice,
    FileKind::DanglingLink,
];

#[test]
fn files_that_were_moved_and_linked_are_read() {
    let (dir, log_files) = killed();
    for disk in disks(dir.path()) {
        let copy = dir.path().join("linked");
        copy_dir(&dir.path().join("killed"), &copy);
        for log_file in &log_files[1..] {
            let name = log_file.file_name().unwrap();
            let (here, there) = (copy.join("wal/0000").join(name), dir.path().join(name));
            fs::rename(&here, &there).unwrap();
            symlink(&there, &here).unwrap();
        }
        let db = open(builder(disk), copy.clone()).unwrap();
        assert_eq!(keys(&db), (0..COMMITS).collect::<Vec<_>>());
        // The next generation is written into the same directories.
        put(&db, COMMITS).unwrap();
        db.close().unwrap();
        fs::remove_dir_all(copy).unwrap();
    }
}

#[test]
fn what_is_no_file_in_a_files_place_is_named() {
    let (dir, log_files) = killed();
    for kind in NO_FILES {
        for place in [0, log_files.len() - 1] {
            let copy = dir.path().join(format!("{kind} {place}"));
            copy_dir(&dir.path().join("killed"), &copy);
            let name = log_files[place].file_name().unwrap();
            let path = copy.join("wal/0000").join(name);
            replace(&path, kind);
            for disk in disks(dir.path()) {
                let error = open(builder(disk), copy.clone()).unwrap_err();
                let OpenError::Log(error @ ReadError::NotAFile { .. }) = &error else {
                    panic!("{kind}: {error:?}");
                };
                let said = error.to_string();
                assert!(said.contains(path.to_str().unwrap()), "{said}");
                assert!(said.contains(&kind.to_string()), "{said}");
                assert!(said.contains("put the file back"), "{said}");
            }
        }
    }
}

#[test]
fn a_non_file_as_manifest_or_lock_is_named() {
    let (dir, _) = killed();
    for name in ["MANIFEST", "LOCK"] {
        for kind in NO_FILES {
            let copy = dir.path().join(format!("{name} {kind}"));
            copy_dir(&dir.path().join("killed"), &copy);
            let path = copy.join(name);
            replace(&path, kind);
            for disk in disks(dir.path()) {
                let error = open(builder(disk), copy.clone()).unwrap_err();
                let OpenError::Device { source, .. } = &error else {
                    panic!("{name}, {kind}: {error:?}");
                };
                let found = NotAFile::in_error(source).unwrap();
                assert_eq!((&found.path, found.kind), (&path, kind));
            }
        }
    }
}

/// A manifest is replaced through a temporary name, under which an entry may exist.
#[test]
fn a_fifo_under_the_manifests_temporary_name_hangs_nothing() {
    let (dir, _) = killed();
    let copy = dir.path().join("killed");
    fs::write(copy.join("MANIFEST.tmp"), []).unwrap();
    replace(&copy.join("MANIFEST.tmp"), FileKind::Fifo);
    let db = open(builder(Arc::new(SyncedDisk::new())), copy).unwrap();
    assert_eq!(keys(&db).len() as u64, COMMITS);
}

#[test]
fn a_non_file_as_shared_device_is_named() {
    for kind in NO_FILES {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("device");
        let shared = |disk| builder(disk).shared_device(&device, 64 << 10);
        let db = shared(Arc::new(SyncedDisk::new()) as Arc<dyn Disk>)
            .open(dir.path().join("db"))
            .unwrap();
        put(&db, 1).unwrap();
        db.close().unwrap();
        replace(&device, kind);
        for disk in disks(dir.path()) {
            let error = open(shared(disk), dir.path().join("db")).unwrap_err();
            let OpenError::Log(ReadError::NotAFile { file, kind: found }) = &error else {
                panic!("{kind}: {error:?}");
            };
            assert_eq!((file, *found), (&device, kind));
        }
    }
}
