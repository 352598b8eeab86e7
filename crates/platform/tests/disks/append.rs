//! The contract of every appender, tested on every disk, and the state of an append after a crash.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_platform::disk::{
    DelayedDisk, DirectDisk, Disk, NullDisk, SimDisk, SlowDisk, SyncedDisk, WriteMode, open_best,
};
use namiki_platform::seeded_random::Random;

fn on_every_disk(claim: impl Fn(&dyn Disk, &Path, &str)) {
    let slow = SlowDisk::new(Arc::new(SyncedDisk::new()), "2x1ms".parse().unwrap());
    let kinds: [(&str, Arc<dyn Disk>); 6] = [
        ("direct", Arc::new(DirectDisk::new())),
        ("synced", Arc::new(SyncedDisk::new())),
        ("delayed", Arc::new(DelayedDisk::new(Duration::ZERO))),
        ("null", Arc::new(NullDisk::new())),
        ("simulated", Arc::new(SimDisk::new())),
        ("slow", Arc::new(slow)),
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

/// The state after a kill, on file systems without unnamed files.
#[test]
fn unfinished_files_are_told_apart_from_all_others() {
    on_every_disk(|disk, dir, name| {
        let path = dir.join("1.run");
        disk.create(&dir.join("2.run"), 512).unwrap();
        if name == "simulated" {
            std::mem::forget(disk.append(&path).unwrap());
        } else {
            std::fs::write(dir.join("1.run.tmp"), "half").unwrap();
            std::fs::create_dir(dir.join("3.tmp")).unwrap();
        }
        assert_eq!(
            disk.unfinished(dir).unwrap(),
            [dir.join("1.run.tmp")],
            "{name}"
        );
        let listed = disk.list(dir).unwrap();
        assert!(
            listed.iter().all(|file| file.path == dir.join("2.run")),
            "{name}"
        );
        disk.remove(&dir.join("1.run.tmp")).unwrap();
        assert!(disk.unfinished(dir).unwrap().is_empty(), "{name}");
    });
}

/// Files of the operating system in the directory, whatever their names.
fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn what_is_appended_in_any_pieces_is_in_the_file() {
    on_every_disk(|disk, dir, kind| {
        for (number, len) in [
            0,
            1,
            511,
            512,
            4096,
            5000,
            (1 << 20) - 1,
            1 << 20,
            3_333_333,
        ]
        .into_iter()
        .enumerate()
        {
            let path = dir.join(format!("{number}"));
            let mut random = Random::seeded(len as u64);
            let mut bytes = vec![0; len];
            random.fill(&mut bytes);
            let mut appender = disk.append(&path).unwrap();
            let mut done = 0;
            while done < len {
                let now = (1 + random.index(700_000)).min(len - done);
                appender.append(&bytes[done..done + now]).unwrap();
                done += now;
                assert_eq!(appender.len_bytes(), done as u64);
            }
            assert_eq!(appender.finish().unwrap(), len as u64, "{kind}");
            disk.sync_dir(dir).unwrap();
            assert_eq!(disk.open(&path).unwrap().len_bytes(), len as u64, "{kind}");
            if kind != "null" {
                assert!(disk.read(&path).unwrap() == bytes, "{kind}, {len} bytes");
            }
        }
    });
}

#[test]
fn an_unfinished_file_is_never_seen_and_leaves_nothing() {
    on_every_disk(|disk, dir, kind| {
        let before = entries(dir);
        let path = dir.join("a");
        let mut appender = disk.append(&path).unwrap();
        appender.append(&vec![1; 3 << 20]).unwrap();
        assert!(disk.list(dir).unwrap().is_empty(), "{kind}");
        assert!(disk.open(&path).is_err(), "{kind}");
        drop(appender);
        assert_eq!(entries(dir), before, "{kind}");
        assert!(disk.list(dir).unwrap().is_empty(), "{kind}");
        let mut again = disk.append(&path).unwrap();
        again.append(b"x").unwrap();
        again.finish().unwrap();
        assert_eq!(disk.list(dir).unwrap()[0].len_bytes, 1, "{kind}");
    });
}

#[test]
fn a_name_that_is_taken_is_not_replaced() {
    on_every_disk(|disk, dir, kind| {
        let path = dir.join("a");
        disk.create(&path, 4096).unwrap();
        let error = disk.append(&path).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{kind}");
        let other = dir.join("b");
        let mut appender = disk.append(&other).unwrap();
        appender.append(b"late").unwrap();
        disk.create(&other, 512).unwrap();
        let error = appender.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{kind}");
        assert_eq!(disk.open(&other).unwrap().len_bytes(), 512, "{kind}");
        assert_eq!(disk.list(dir).unwrap().len(), 2, "{kind}");
        assert!(disk.append(&dir.join("missing").join("c")).is_err());
    });
}

#[test]
fn a_full_disk_is_named_and_keeps_nothing() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(10_000));
    let path = Path::new("/a");
    let mut appender = disk.append(path).unwrap();
    appender.append(&[1; 9000]).unwrap();
    let error = appender.append(&[1; 1001]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(appender.append(&[1]).is_err());
    assert!(appender.finish().is_err());
    assert!(disk.list(Path::new("/")).unwrap().is_empty());
    disk.create(path, 10_000).unwrap();
}

#[test]
fn after_a_failure_nothing_more_is_written() {
    for step in [Step::Append, Step::Sync, Step::Rename] {
        let disk = SimDisk::new();
        let path = Path::new("/a");
        let mut appender = disk.append(path).unwrap();
        appender.append(&[1; 5000]).unwrap();
        disk.inject(Fault::once(step, 0, ErrorKind::Other));
        let second = appender.append(&[2; 5000]);
        assert_eq!(second.is_err(), step == Step::Append);
        let finished = appender.finish();
        assert!(finished.is_err(), "{step:?}");
        assert!(disk.read(path).is_err(), "{step:?}");
        // A new attempt is a new file.
        let mut again = disk.append(path).unwrap();
        again.append(&[3; 700]).unwrap();
        assert_eq!(again.finish().unwrap(), 700);
        assert_eq!(disk.read(path).unwrap(), [3; 700]);
    }
}

/// Whatever a crash loses, the name refers to the whole file or does not exist.
#[test]
fn a_crash_leaves_the_whole_file_or_nothing() {
    let seed = 11;
    let mut random = Random::seeded(seed);
    let disk = SimDisk::new();
    let (root, path) = (Path::new("/"), Path::new("/a"));
    let mut appender = disk.append(path).unwrap();
    let mut bytes = Vec::new();
    for _ in 0..12 {
        let mut piece = vec![0; 1 + random.index(3000)];
        random.fill(&mut piece);
        appender.append(&piece).unwrap();
        bytes.extend(piece);
    }
    let before_sync = disk.events();
    appender.finish().unwrap();
    disk.sync_dir(root).unwrap();
    disk.mark(1);
    let (mut torn, mut named) = (0, 0);
    for at in 0..=disk.events() {
        let mut losses = vec![Loss::None, Loss::All];
        losses.extend((0..20).map(Loss::Seeded));
        for loss in losses {
            let image = disk.crash_image(at, loss);
            let found = image.list(root).unwrap();
            if !disk.marks_before(at).is_empty() {
                assert_eq!(found.len(), 1);
            }
            if !found.is_empty() {
                assert_eq!(image.read(path).unwrap(), bytes, "event {at}, {loss:?}");
                named += 1;
            } else if at == before_sync
                && let Ok(left) = image.read(Path::new("/a.tmp"))
            {
                torn += u64::from(left != bytes);
            }
            // The interrupted one is no obstacle.
            if found.is_empty() {
                image.append(path).unwrap().finish().unwrap();
            }
        }
    }
    assert!(torn > 0 && named > 0);
    assert_eq!(disk.pending_sectors(disk.events()), 0);
    assert!(disk.pending_sectors(before_sync) >= bytes.len() / 512);
}
