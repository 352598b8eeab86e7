//! Writes that the real disks report as durable, and commits that a database acknowledges, survive
//! a power cut.
//!
//! The power of a file system in a file is cut: an ext4 mounted from a loop device is shut down
//! without a flush, unmounted, and mounted again. A killed process cannot detect a missing sync;
//! this test does. Each guarantee of the disks is tested with the last operation before the cut,
//! because a later sync would hide a missing one.
//! sync would cover for a missing one.
//!
//! The tests need root and a loop device. Where that is impossible they say so and pass, unless
//! `NAMIKI_REQUIRE_POWERCUT` is set, as `cargo xtask power-cut` does. The long form is `cargo xtask
//! kill --power`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namiki_platform::disk::{AlignedBuf, DelayedDisk, DirectDisk, Disk, SyncedDisk};
use namiki_tests::kill::{Cut, PowerCut, Witness};

const PROGRAM: &str = env!("CARGO_BIN_EXE_namiki-harness");

/// Serializes the tests. A program that is being started briefly inherits all open files of this
/// process, so another test would find its file system busy. In addition, some children are killed
/// after a number of payments, and must be fast enough to reach it.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file system with a power cut; `None`, with the reason printed, if this machine does not allow
/// it.
fn power_cut() -> Option<PowerCut> {
    let why = match PowerCut::new() {
        Ok(disk) => return Some(disk),
        Err(why) => why,
    };
    println!("skipped: the power cannot be cut here ({why})");
    let required = std::env::var_os("NAMIKI_REQUIRE_POWERCUT").is_some();
    assert!(!required, "the power has to be cut, but: {why}");
    None
}

/// Loses everything not yet on the device, and restarts.
fn cut(power: &PowerCut) {
    power.cut().unwrap();
    power.restore().unwrap();
}

fn ones() -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(8192);
    buf.fill(1);
    buf
}

fn real_disks() -> [(&'static str, Box<dyn Disk>); 2] {
    [
        ("direct", Box::new(DirectDisk::new())),
        ("synced", Box::new(SyncedDisk::new())),
    ]
}

#[test]
fn what_is_durable_survives_a_power_cut() {
    let _alone = one_at_a_time();
    for (kind, disk) in real_disks() {
        let Some(power) = power_cut() else { return };
        let deep = power.path().join("a/b");
        disk.create_dir_all(&deep).unwrap();
        cut(&power);
        assert!(disk.list(&deep).unwrap().is_empty(), "{kind}");

        let path = deep.join("log");
        drop(disk.create(&path, 1 << 20).unwrap());
        disk.sync_dir(&deep).unwrap();
        cut(&power);
        assert_eq!(disk.read(&path).unwrap(), vec![0; 1 << 20], "{kind}");

        let file = disk.open(&path).unwrap();
        file.write_durable(4096, &ones()).unwrap();
        drop(file);
        cut(&power);
        assert_eq!(
            disk.read(&path).unwrap()[4096..12_288],
            ones()[..],
            "{kind}"
        );

        let manifest = deep.join("manifest");
        for bytes in [[1_u8; 5000], [2; 5000]] {
            disk.replace(&manifest, &bytes).unwrap();
            cut(&power);
            assert_eq!(disk.read(&manifest).unwrap(), bytes, "{kind}");
        }

        let other = deep.join("recycled");
        disk.rename(&path, &other).unwrap();
        disk.remove(&manifest).unwrap();
        disk.sync_dir(&deep).unwrap();
        cut(&power);
        let names: Vec<PathBuf> = disk
            .list(&deep)
            .unwrap()
            .into_iter()
            .map(|e| e.path)
            .collect();
        assert_eq!(names, [other], "{kind}");
    }
}

/// The control: a disk that does not sync loses its bytes, so the cut is a real one.
#[test]
fn what_is_not_synced_is_lost() {
    let _alone = one_at_a_time();
    let Some(power) = power_cut() else { return };
    let path = power.path().join("log");
    let disk = DelayedDisk::new(Duration::ZERO);
    drop(SyncedDisk::new().create(&path, 1 << 20).unwrap());
    disk.sync_dir(power.path()).unwrap();
    let file = disk.open(&path).unwrap();
    file.write_durable(4096, &ones()).unwrap();
    drop(file);
    assert_eq!(disk.read(&path).unwrap()[4096], 1);
    cut(&power);
    assert_eq!(disk.read(&path).unwrap()[4096], 0);

    disk.replace(&path, b"kept").unwrap();
    disk.rename(&path, &power.path().join("renamed")).unwrap();
    cut(&power);
    assert_eq!(disk.read(&path).unwrap(), b"kept");
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let _alone = one_at_a_time();
    let Some(disk) = power_cut() else { return };
    let dir = disk.path().join("data");
    let mut witness = Witness::new(Path::new(PROGRAM), &dir, 77);
    for round in 0..12 {
        let told = |why: String| -> String { format!("round {round}: {why}") };
        // The writes that a kill left, and a recovery has read, must survive the cut after it.
        witness.round(Cut::Kill).map_err(told).unwrap();
        if round % 2 == 0 {
            witness.check().map_err(told).unwrap();
        }
        witness.round(Cut::Power(&disk)).map_err(told).unwrap();
        disk.restore().map_err(told).unwrap();
        if round % 3 != 0 {
            witness.check().map_err(told).unwrap();
        }
    }
    let seen = witness.witnessed();
    println!("{seen:?}");
    assert!(seen.acknowledged > 50, "{seen:?}");
    assert!(seen.in_checkpoint > 0, "{seen:?}");
    assert!(seen.copied > 0, "{seen:?}");
}

/// The control: without the sync, a power cut loses commits that survive a kill.
#[test]
fn a_missing_sync_is_found_by_a_power_cut() {
    let _alone = one_at_a_time();
    let Some(disk) = power_cut() else { return };
    let dir = disk.path().join("data");
    let mut witness = Witness::new(Path::new(PROGRAM), &dir, 78).of_forgetful_children();
    for _ in 0..4 {
        witness.round(Cut::Kill).unwrap();
        witness.check().unwrap();
    }
    for _ in 0..20 {
        if witness.round(Cut::Power(&disk)).is_err() {
            // The child could not open the database after the previous power cut.
            return;
        }
        disk.restore().unwrap();
        if let Err(why) = witness.check() {
            println!("found: {why}");
            return;
        }
    }
    panic!("a missing sync was not found");
}
