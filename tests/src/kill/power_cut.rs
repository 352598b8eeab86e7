//! A file system with a power cut on demand: an ext4 in a file, mounted from a loop device, and
//! shut down without a flush.
#![expect(unsafe_code, reason = "the request that shuts a file system down")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Maximum of unmount attempts, with pauses of 20 ms.
const UNMOUNT_ATTEMPTS_MAX: u32 = 500;

/// A small ext4 in a file, mounted during the lifetime of the value.
#[derive(Debug)]
pub struct PowerCut {
    image: PathBuf,
    mounted: PathBuf,
    _dir: tempfile::TempDir,
}

impl PowerCut {
    /// Makes the file system and mounts it.
    ///
    /// # Errors
    /// If this machine does not allow it: it needs root, `mkfs.ext4` and a loop device.
    pub fn new() -> Result<Self, String> {
        Self::of_bytes(128 << 20)
    }

    /// The same with another size.
    ///
    /// # Errors
    /// As [`PowerCut::new`].
    pub fn of_bytes(bytes: u64) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let disk = Self {
            image: dir.path().join("image"),
            mounted: dir.path().join("mounted"),
            _dir: dir,
        };
        File::create(&disk.image)
            .and_then(|image| image.set_len(bytes))
            .and_then(|()| std::fs::create_dir(&disk.mounted))
            .map_err(|error| error.to_string())?;
        run("mkfs.ext4", &["-q", "-F"], &[&disk.image])?;
        disk.mount()?;
        Ok(disk)
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.mounted
    }

    fn mount(&self) -> Result<(), String> {
        run("mount", &["-o", "loop"], &[&self.image, &self.mounted])
    }

    /// Cuts the power: no further write reaches the device, and everything in the page cache and in
    /// the journal's memory is lost. Every access fails from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn cut(&self) -> io::Result<()> {
        // _IOR('X', 125, __u32) and EXT4_GOING_FLAGS_NOLOGFLUSH, from the kernel's fs/ext4/ext4.h.
        const EXT4_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
        let without_flush: u32 = 2;
        let root = File::open(&self.mounted)?;
        // SAFETY: the request reads one u32 through the pointer, which lives during the call; the
        // file descriptor is open as long as `root` lives.
        let result = unsafe {
            libc::ioctl(
                root.as_raw_fd(),
                EXT4_IOC_SHUTDOWN,
                &raw const without_flush,
            )
        };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Restarts after a cut. No file may be open there.
    ///
    /// # Errors
    /// The output of the tools.
    pub fn restore(&self) -> Result<(), String> {
        // A pending write of a killed process keeps its file open until the write has failed.
        let mut attempts = 0;
        while let Err(why) = run("umount", &[], &[&self.mounted]) {
            attempts += 1;
            if attempts == UNMOUNT_ATTEMPTS_MAX {
                return Err(why);
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.mount()
    }
}

impl Drop for PowerCut {
    fn drop(&mut self) {
        // It may be unmounted already.
        let _ = run("umount", &[], &[&self.mounted]);
    }
}

pub(crate) fn run(program: &str, flags: &[&str], paths: &[&Path]) -> Result<(), String> {
    let output = Command::new(program)
        .args(flags)
        .args(paths)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}
