//! What the real disks call durable survives a power cut.
//!
//! The power of a file system in a file is cut: an ext4 mounted from a loop device is shut down
//! without a flush, unmounted, and mounted again. A killed process cannot find a missing sync;
//! this does. Each promise is tested as the last thing done before the cut, because a later sync
//! would cover for a missing one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "the request that shuts a file system down")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namiki_platform::disk::{AlignedBuf, DelayedDisk, DirectDisk, Disk, SyncedDisk};

/// A small ext4 in a file, mounted while this lives.
struct PowerCut {
    image: PathBuf,
    mounted: PathBuf,
    _dir: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// A program that is being started has, for a moment, all files open that we have: if another test did
/// that beside us, our file system would be busy.
static ALONE: Mutex<()> = Mutex::new(());

impl PowerCut {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let (image, mounted) = (dir.path().join("image"), dir.path().join("mounted"));
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        std::fs::create_dir(&mounted).unwrap();
        run("mkfs.ext4", &["-q", "-F"], &[&image]);
        let disk = Self {
            image,
            mounted,
            _dir: dir,
            _alone: alone,
        };
        disk.mount();
        disk
    }

    fn mount(&self) {
        run("mount", &["-o", "loop"], &[&self.image, &self.mounted]);
    }

    /// Loses everything not yet on the device, and comes back.
    fn cut(&self) {
        const EXT4_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
        let without_flush: u32 = 2;
        let root = File::open(&self.mounted).unwrap();
        // SAFETY: the request reads one u32 through the pointer, which lives during the call.
        let result = unsafe {
            libc::ioctl(
                root.as_raw_fd(),
                EXT4_IOC_SHUTDOWN,
                &raw const without_flush,
            )
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        drop(root);
        run("umount", &[], &[&self.mounted]);
        self.mount();
    }
}

impl Drop for PowerCut {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mounted).status();
    }
}

fn run(program: &str, flags: &[&str], paths: &[&Path]) {
    let status = Command::new(program).args(flags).args(paths).status();
    assert!(status.unwrap().success(), "{program}");
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
#[ignore = "needs root and a loop device"]
fn what_is_durable_survives_a_power_cut() {
    for (kind, disk) in real_disks() {
        let power = PowerCut::new();
        let deep = power.mounted.join("a/b");
        disk.create_dir_all(&deep).unwrap();
        power.cut();
        assert!(disk.list(&deep).unwrap().is_empty(), "{kind}");

        let path = deep.join("log");
        drop(disk.create(&path, 1 << 20).unwrap());
        disk.sync_dir(&deep).unwrap();
        power.cut();
        assert_eq!(disk.read(&path).unwrap(), vec![0; 1 << 20], "{kind}");

        let file = disk.open(&path).unwrap();
        file.write_durable(4096, &ones()).unwrap();
        drop(file);
        power.cut();
        assert_eq!(
            disk.read(&path).unwrap()[4096..12_288],
            ones()[..],
            "{kind}"
        );

        let manifest = deep.join("manifest");
        for bytes in [[1_u8; 5000], [2; 5000]] {
            disk.replace(&manifest, &bytes).unwrap();
            power.cut();
            assert_eq!(disk.read(&manifest).unwrap(), bytes, "{kind}");
        }

        let other = deep.join("recycled");
        disk.rename(&path, &other).unwrap();
        disk.remove(&manifest).unwrap();
        disk.sync_dir(&deep).unwrap();
        power.cut();
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
#[ignore = "needs root and a loop device"]
fn what_is_not_synced_is_lost() {
    let power = PowerCut::new();
    let path = power.mounted.join("log");
    let disk = DelayedDisk::new(Duration::ZERO);
    drop(SyncedDisk::new().create(&path, 1 << 20).unwrap());
    disk.sync_dir(&power.mounted).unwrap();
    let file = disk.open(&path).unwrap();
    file.write_durable(4096, &ones()).unwrap();
    drop(file);
    assert_eq!(disk.read(&path).unwrap()[4096], 1);
    power.cut();
    assert_eq!(disk.read(&path).unwrap()[4096], 0);

    disk.replace(&path, b"kept").unwrap();
    disk.rename(&path, &power.mounted.join("renamed")).unwrap();
    power.cut();
    assert_eq!(disk.read(&path).unwrap(), b"kept");
}
