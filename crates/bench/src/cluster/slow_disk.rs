//! A disk that limits one process to a few writes per second, by the system's control groups; it
//! needs root.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::BenchError;

/// Writes per second. A flush is one or two writes.
const WRITES_PER_S: u32 = 20;
/// The mount points of the first and the second version of control groups.
const BLKIO: &str = "/sys/fs/cgroup/blkio";
const UNIFIED: &str = "/sys/fs/cgroup";

/// A control group in which processes have a slow disk.
#[derive(Debug)]
pub(super) struct SlowDisk {
    group: PathBuf,
    /// The group to which processes return.
    parent: PathBuf,
}

impl SlowDisk {
    /// Creates the group for the device that contains a folder.
    pub(super) fn prepare(dir: &Path) -> Result<Self, BenchError> {
        let found = fs::metadata(dir).map_err(BenchError::file("look at", dir))?;
        let (major, minor) = (libc::major(found.dev()), libc::minor(found.dev()));
        let (parent, file, limit) = if Path::new(BLKIO).is_dir() {
            let limit = format!("{major}:{minor} {WRITES_PER_S}");
            (BLKIO, "blkio.throttle.write_iops_device", limit)
        } else {
            let limit = format!("{major}:{minor} wiops={WRITES_PER_S}");
            (UNIFIED, "io.max", limit)
        };
        let parent = PathBuf::from(parent);
        let group = parent.join(format!("namiki-bench-{}", std::process::id()));
        let made = Self { group, parent };
        let path = made.group.join(file);
        let limited = fs::create_dir_all(&made.group).and_then(|()| fs::write(&path, limit));
        limited.map_err(|error| {
            BenchError::Cluster(format!(
                "a slow disk needs root, and control groups that limit a device: {}: {error}; is {} on a device of its own?",
                path.display(),
                dir.display()
            ))
        })?;
        Ok(made)
    }

    /// Slows down the disk of this process from now on.
    pub(super) fn slow_down(&self, process: u32) -> Result<(), BenchError> {
        let path = self.group.join("cgroup.procs");
        fs::write(&path, process.to_string()).map_err(BenchError::file("write to", &path))
    }

    /// Restores the disk speed of all processes.
    pub(super) fn restore(&self) -> Result<(), BenchError> {
        let path = self.group.join("cgroup.procs");
        let processes = fs::read_to_string(&path).map_err(BenchError::file("read", &path))?;
        for process in processes.lines() {
            // A process that has exited cannot be moved.
            let _ = fs::write(self.parent.join("cgroup.procs"), process);
        }
        Ok(())
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            eprintln!("{}: {}", self.group.display(), error.with_causes());
        }
        // An exiting process keeps the group alive for a moment; an empty group is harmless.
        let _ = fs::remove_dir(&self.group);
    }
}
