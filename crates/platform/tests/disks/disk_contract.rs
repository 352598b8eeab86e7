//! The contract of a disk, tested on every disk.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namiki_platform::disk::{
    AlignedBuf, BUFFER_ALIGN_BYTES, DelayedDisk, DeviceProfile, DirectDisk, Disk, DiskFile,
    FileKind, MemoryDisk, NullDisk, PendingWrite, SimDisk, SyncedDisk, WriteMode, open_best,
};

/// Runs `claim` on every kind of disk in an empty directory. Direct I/O is left out where the
/// temporary directory has none.
fn on_every_disk(claim: impl Fn(&dyn Disk, &Path, &str)) {
    let delayed = DelayedDisk::new(Duration::ZERO);
    let kinds: [(&str, Arc<dyn Disk>); 8] = [
        ("direct", Arc::new(DirectDisk::new())),
        ("synced", Arc::new(SyncedDisk::new())),
        ("delayed", Arc::new(delayed)),
        ("delayed, short blocks", Arc::new(delayed.with_blocks(64))),
        ("null", Arc::new(NullDisk::new())),
        ("simulated", Arc::new(SimDisk::new())),
        (
            "simulated, short blocks",
            Arc::new(SimDisk::new().with_blocks(64)),
        ),
        ("memory", Arc::new(MemoryDisk::new())),
    ];
    for (name, disk) in kinds {
        let dir = tempfile::tempdir().unwrap();
        let has_direct = open_best(dir.path()).unwrap().1 == WriteMode::Direct;
        if name == "direct" && !has_direct {
            continue;
        }
        disk.create_dir_all(dir.path()).unwrap();
        claim(&*disk, dir.path(), name);
    }
}

fn filled(len: usize, with: u8) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(len);
    buf.fill(with);
    buf
}

#[test]
fn the_next_data_lies_behind_no_byte_that_was_written() {
    on_every_disk(|disk, dir, kind| {
        let path = dir.join("a");
        let file = disk.create(&path, 1 << 20).unwrap();
        let at = 512 << 10;
        file.write_durable(at, &filled(4096, 1)).unwrap();
        for from in [0, at, at + 512] {
            let found = file.next_data(from).unwrap().unwrap();
            assert!((from..=from.max(at)).contains(&found), "{kind}: {found}");
        }
        assert_eq!(file.next_data(1 << 20).unwrap(), None, "{kind}");
        assert_eq!(file.next_data(1 << 40).unwrap(), None, "{kind}");
    });
}

#[test]
fn a_created_file_is_zeros_and_keeps_what_is_written() {
    on_every_disk(|disk, dir, kind| {
        let path = dir.join("a");
        let len = 3 << 20;
        let file = disk.create(&path, len).unwrap();
        assert_eq!(file.len_bytes(), len, "{kind}");
        let block = file.block_bytes();
        let is_short = kind.ends_with("short blocks");
        assert!(
            block == 64 && is_short || matches!(block, 512 | 4096),
            "{kind}"
        );
        let mut back = filled(len as usize, 7);
        assert_eq!(file.read_at(0, &mut back).unwrap(), len as usize, "{kind}");
        assert!(back.iter().all(|&byte| byte == 0), "{kind}");
        if kind == "null" {
            return;
        }
        file.write_durable(block as u64, &filled(2 * block, 1))
            .unwrap();
        file.write_durable(2 * block as u64, &filled(block, 2))
            .unwrap();
        drop(file);
        let file = disk.open(&path).unwrap();
        assert_eq!(file.len_bytes(), len, "{kind}");
        assert_eq!(file.read_at(0, &mut back).unwrap(), len as usize);
        for (at, &byte) in back.iter().enumerate() {
            let expected = match at / block {
                1 => 1,
                2 => 2,
                _ => 0,
            };
            assert_eq!(byte, expected, "{kind}, byte {at}");
        }
        assert_eq!(disk.read(&path).unwrap(), &back[..], "{kind}");
    });
}

#[test]
fn a_read_ends_with_the_file() {
    on_every_disk(|disk, dir, kind| {
        let file = disk.create(&dir.join("a"), 8192).unwrap();
        let mut into = filled(8192, 1);
        assert_eq!(file.read_at(4096, &mut into).unwrap(), 4096, "{kind}");
        assert_eq!(file.read_at(8192, &mut into).unwrap(), 0, "{kind}");
    });
}

#[test]
fn a_misplaced_write_is_refused_and_changes_nothing() {
    on_every_disk(|disk, dir, kind| {
        let file = disk.create(&dir.join("a"), 8192).unwrap();
        let ones = filled(8192, 1);
        for (offset, bytes) in [
            (1, &ones[..4096]),
            (0, &ones[..100]),
            (0, &ones[512..4608]),
            (8192, &ones[..4096]),
            (4096, &ones[..]),
            (u64::MAX - 4095, &ones[..4096]),
        ] {
            let error = file.write_durable(offset, bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{kind}");
        }
        let mut back = filled(8192, 9);
        file.read_at(0, &mut back).unwrap();
        assert!(back.iter().all(|&byte| byte == 0), "{kind}");
    });
}

#[test]
fn a_taken_name_and_a_missing_one_are_errors() {
    on_every_disk(|disk, dir, kind| {
        let a = dir.join("a");
        disk.create(&a, 4096).unwrap();
        let again = disk.create(&a, 8192).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{kind}");
        assert_eq!(disk.list(dir).unwrap()[0].len_bytes, 4096, "{kind}");
        let b = dir.join("b");
        for error in [
            disk.open(&b).unwrap_err(),
            disk.read(&b).unwrap_err(),
            disk.remove(&b).unwrap_err(),
            disk.rename(&b, &a).unwrap_err(),
            disk.list(&b).unwrap_err(),
            disk.create(&b.join("c"), 4096).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{kind}");
        }
    });
}

#[test]
fn names_are_listed_in_order_renamed_and_removed() {
    on_every_disk(|disk, dir, kind| {
        let names = || -> Vec<String> {
            let list = disk.list(dir).unwrap();
            let name = |e: &namiki_platform::disk::FileEntry| {
                assert_eq!(e.path.parent(), Some(dir));
                e.path.file_name().unwrap().to_str().unwrap().to_owned()
            };
            let files = list.iter().filter(|e| e.kind == FileKind::Regular);
            files.map(name).collect()
        };
        let _lock = disk.lock_dir(dir).unwrap();
        disk.create_dir_all(&dir.join("x/y")).unwrap();
        for name in ["b", "c", "a"] {
            disk.create(&dir.join(name), 4096).unwrap();
        }
        assert_eq!(names(), ["a", "b", "c"], "{kind}");
        disk.rename(&dir.join("c"), &dir.join("a")).unwrap();
        disk.remove(&dir.join("b")).unwrap();
        disk.sync_dir(dir).unwrap();
        assert_eq!(names(), ["a"], "{kind}");
        assert!(disk.list(&dir.join("x/y")).unwrap().is_empty(), "{kind}");
    });
}

#[test]
fn replacing_leaves_the_new_contents_and_no_other_file() {
    on_every_disk(|disk, dir, kind| {
        let path = dir.join("m");
        for bytes in [&b"first"[..], b"second, longer", b"", &[7; 100_000]] {
            disk.replace(&path, bytes).unwrap();
            assert_eq!(disk.read(&path).unwrap(), bytes, "{kind}");
        }
        assert_eq!(disk.list(dir).unwrap().len(), 1, "{kind}");
    });
}

/// Both within one process, as for two handles of one database, and with directories that differ.
#[test]
fn a_directory_is_locked_once_until_the_lock_is_dropped() {
    on_every_disk(|disk, dir, kind| {
        let lock = disk.lock_dir(dir).unwrap();
        let second = disk.lock_dir(dir).unwrap_err();
        assert_eq!(second.kind(), ErrorKind::ResourceBusy, "{kind}");
        assert!(second.to_string().contains(dir.to_str().unwrap()), "{kind}");
        let other = dir.join("other");
        disk.create_dir_all(&other).unwrap();
        let _other = disk.lock_dir(&other).unwrap();
        drop(lock);
        disk.lock_dir(dir).unwrap();
    });
}

#[test]
fn creating_directories_twice_is_no_error() {
    on_every_disk(|disk, dir, _| {
        let deep = dir.join("a/b/c");
        disk.create_dir_all(&deep).unwrap();
        disk.create_dir_all(&deep).unwrap();
        disk.create(&deep.join("f"), 512).unwrap();
        // A file has the name.
        assert!(disk.create_dir_all(&deep.join("f")).is_err());
    });
}

/// Refused before anything is reserved, so that no other process meets a full disk during it.
#[test]
fn a_file_larger_than_the_disk_is_refused() {
    on_every_disk(|disk, dir, kind| {
        // None of them fills a device.
        if ["null", "memory"].contains(&kind) || kind.starts_with("simulated") {
            return;
        }
        let facts = rustix::fs::statvfs(dir).unwrap();
        let error = disk
            .create(&dir.join("a"), 2 * facts.f_bavail * facts.f_frsize)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{kind}");
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "{kind}");
    });
}

#[test]
fn a_file_of_an_odd_length_keeps_it() {
    on_every_disk(|disk, dir, kind| {
        let path = dir.join("odd");
        disk.create(&path, 5000).unwrap();
        assert_eq!(disk.open(&path).unwrap().len_bytes(), 5000, "{kind}");
        assert_eq!(disk.read(&path).unwrap(), vec![0; 5000], "{kind}");
    });
}

/// The remains of a killed creation are not listed as a file, and prevent nothing.
#[test]
fn an_unfinished_file_is_not_listed_and_is_replaced() {
    for disk in [&DirectDisk::new() as &dyn Disk, &SyncedDisk::new()] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.tmp"), b"half").unwrap();
        assert!(disk.list(dir.path()).unwrap().is_empty());
        let Ok(file) = disk.create(&dir.path().join("a"), BUFFER_ALIGN_BYTES as u64) else {
            continue; // no direct I/O here
        };
        assert_eq!(file.len_bytes(), BUFFER_ALIGN_BYTES as u64);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn writers_of_different_places_do_not_interfere() {
    on_every_disk(|disk, dir, kind| {
        if kind == "null" {
            return;
        }
        let shared = disk.create(&dir.join("shared"), 64 * 4096).unwrap();
        std::thread::scope(|scope| {
            for worker in 0..4_u8 {
                let shared = &shared;
                scope.spawn(move || {
                    let bytes = filled(4096, worker + 1);
                    for slot in 0..16 {
                        let at = (slot * 4 + u64::from(worker)) * 4096;
                        shared.write_durable(at, &bytes).unwrap();
                    }
                });
            }
        });
        let back = disk.read(&dir.join("shared")).unwrap();
        for (at, &byte) in back.iter().enumerate() {
            assert_eq!(usize::from(byte), at / 4096 % 4 + 1, "{kind}");
        }
    });
}

/// Begins a write, or writes synchronously where the disk cannot begin one. Returns whether it
/// could.
fn begin(file: &dyn DiskFile, at: u64, buf: AlignedBuf) -> Result<Box<dyn PendingWrite>, ()> {
    let len = buf.len();
    file.begin_write(at, buf, len)
        .map_err(|buf| file.write_durable(at, &buf).unwrap())
}

#[test]
fn begun_writes_are_there_when_they_end() {
    on_every_disk(|disk, dir, kind| {
        if kind == "null" {
            return;
        }
        let path = dir.join("a");
        let file = disk.create(&path, 64 * 4096).unwrap();
        for round in 0..3_u8 {
            // Many at once, from threads that end before their writes do.
            let pending: Vec<_> = std::thread::scope(|scope| {
                let begun: Vec<_> = (0..16)
                    .map(|slot| {
                        let buf = filled(4 * 4096, round * 16 + slot);
                        let file = &file;
                        scope.spawn(move || begin(&**file, u64::from(slot) * 4 * 4096, buf))
                    })
                    .collect();
                begun.into_iter().map(|one| one.join().unwrap()).collect()
            });
            // Where there is io_uring, it is used.
            if kind == "direct" && io_uring::IoUring::new(2).is_ok() {
                assert!(pending.iter().all(Result::is_ok));
            }
            for (slot, pending) in pending.into_iter().enumerate() {
                let Ok(mut pending) = pending else { continue };
                // A simulated write may never complete by itself.
                while slot % 2 == 0 && kind == "direct" && !pending.is_complete() {}
                let (buf, outcome) = pending.wait();
                outcome.unwrap();
                assert!(buf.iter().all(|byte| usize::from(*byte) % 16 == slot));
            }
            let back = disk.read(&path).unwrap();
            for (at, &byte) in back.iter().enumerate() {
                assert_eq!(
                    usize::from(byte),
                    usize::from(round) * 16 + at / 4096 / 4,
                    "{kind}"
                );
            }
        }
    });
}

#[test]
fn only_the_bytes_asked_for_are_written() {
    on_every_disk(|disk, dir, kind| {
        if kind == "null" {
            return;
        }
        let path = dir.join("a");
        let file = disk.create(&path, 4 * 4096).unwrap();
        match file.begin_write(4096, filled(2 * 4096, 5), 4096) {
            Ok(pending) => {
                let (buf, outcome) = pending.wait();
                outcome.unwrap();
                assert_eq!(buf.len(), 2 * 4096, "{kind}");
            }
            Err(buf) => file.write_durable(4096, &buf[..4096]).unwrap(),
        }
        let back = disk.read(&path).unwrap();
        for (at, &byte) in back.iter().enumerate() {
            assert_eq!(byte == 5, at / 4096 == 1, "{kind}: {at}");
        }
    });
}

#[test]
fn a_write_that_does_not_fit_is_not_begun() {
    on_every_disk(|disk, dir, kind| {
        let file = disk.create(&dir.join("a"), 2 * 4096).unwrap();
        for (at, len) in [(1, 4096), (0, 100), (4096, 2 * 4096), (u64::MAX - 511, 512)] {
            let Err(buf) = file.begin_write(at, filled(2 * 4096, 1), len) else {
                panic!("{kind}: {len} bytes at {at}");
            };
            assert_eq!(buf.len(), 2 * 4096);
        }
    });
}

/// The kernel offers direct I/O on most file systems. Where it does not, the error says so and the
/// next best disk is selected.
#[test]
fn the_best_disk_of_a_directory_works_there() {
    for base in ["/dev/shm", "."] {
        let Ok(dir) = tempfile::tempdir_in(base) else {
            continue;
        };
        let (disk, mode) = open_best(dir.path()).unwrap();
        let file = disk.create(&dir.path().join("a"), 8192).unwrap();
        file.write_durable(4096, &filled(4096, 3)).unwrap();
        assert_eq!(disk.read(&dir.path().join("a")).unwrap()[4096], 3, "{mode}");
        assert_eq!(disk.list(dir.path()).unwrap().len(), 1, "the probe is gone");
        let direct = DirectDisk::new().create(&dir.path().join("b"), 8192);
        match direct {
            Ok(_) => assert_eq!(mode, WriteMode::Direct),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert_eq!(mode, WriteMode::Synced);
            }
        }
    }
}

/// Whether the file system has unnamed files.
fn has_unnamed_files(dir: &Path) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    openat(CWD, dir, OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR).is_ok()
}

/// A process killed during it leaves nothing, and one with the same id finds nothing.
#[test]
fn trying_and_measuring_a_disk_name_no_file() {
    for base in ["/dev/shm", "."] {
        let Ok(dir) = tempfile::tempdir_in(base) else {
            continue;
        };
        if !has_unnamed_files(dir.path()) {
            continue;
        }
        let taken = |number| {
            let name = format!("direct-io-probe-{}-{number}", std::process::id());
            dir.path().join(name)
        };
        let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let itself = std::fs::File::open(dir.path()).unwrap();
        // A name that is free would be added, and one that is taken opened.
        for names in [0, 200] {
            (0..names).for_each(|number| std::fs::write(taken(number), "left").unwrap());
            itself.set_modified(long_ago).unwrap();
            let (disk, _) = open_best(dir.path()).unwrap();
            DeviceProfile::measure(&*disk, dir.path(), NonZeroU16::MIN).unwrap();
            assert_eq!(itself.metadata().unwrap().modified().unwrap(), long_ago);
            for number in 0..names {
                assert_eq!(std::fs::read(taken(number)).unwrap(), b"left");
            }
        }
    }
}
