//! A separate disk for one node, in a file: an ext4 file system that can be filled. Mounting it
//! needs root.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::system_program::run_program;
use crate::error::BenchError;

/// Space for a node's initial files, with some reserve.
const BYTES: u64 = 2 << 30;
/// The free space that remains when it is filled.
const LEFT_BYTES: u64 = 1 << 20;
/// The name of the file that fills it.
pub(super) const FILLER: &str = "filler";

/// A mounted file system. It is unmounted on drop.
#[derive(Debug)]
pub(super) struct SmallDisk {
    image: PathBuf,
    mounted: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system at a folder, which is created.
    pub(super) fn mount(at: &Path) -> Result<Self, BenchError> {
        let image = at.with_extension("img");
        fs::create_dir_all(at).map_err(BenchError::file("create", at))?;
        let made = File::create(&image).and_then(|file| file.set_len(BYTES));
        made.map_err(BenchError::file("create", &image))?;
        run(
            "mkfs.ext4",
            &["-q".as_ref(), "-m0".as_ref(), image.as_ref()],
        )?;
        let arguments = [
            "-o".as_ref(),
            "loop".as_ref(),
            image.as_os_str(),
            at.as_os_str(),
        ];
        run("mount", &arguments).inspect_err(|_| drop(fs::remove_file(&image)))?;
        Ok(Self {
            image,
            mounted: at.to_owned(),
        })
    }

    fn filler(&self) -> PathBuf {
        self.mounted.join(FILLER)
    }

    /// Fills the free space.
    pub(super) fn fill(&self) -> Result<(), BenchError> {
        let path = self.filler();
        let filled = || -> io::Result<()> {
            let file = File::options().create(true).append(true).open(&path)?;
            let found = statvfs(&self.mounted)?;
            let free = (found.f_bavail * found.f_frsize).saturating_sub(LEFT_BYTES);
            if free > 0 {
                fallocate(&file, FallocateFlags::empty(), 0, free)?;
            }
            Ok(())
        };
        filled().map_err(BenchError::file("fill", &path))
    }

    /// Frees the space again.
    pub(super) fn make_room(&self) -> Result<(), BenchError> {
        let path = self.filler();
        fs::remove_file(&path).map_err(BenchError::file("remove", &path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        match run("umount", &[self.mounted.as_os_str()]) {
            Ok(()) => drop(fs::remove_file(&self.image)),
            Err(error) => eprintln!("{}", error.with_causes()),
        }
    }
}

fn run(program: &str, arguments: &[&OsStr]) -> Result<(), BenchError> {
    run_program("a small disk", program, arguments)
}
