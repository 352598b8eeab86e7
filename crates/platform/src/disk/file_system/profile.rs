//! The performance of a device: the time of a durable write, and the gain of concurrent ones.

use std::io;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::disk::{AlignedBuf, Disk, DiskFile};
use crate::threads;

/// Length of one write: a frame of a few commits.
const WRITE_BYTES: usize = 4096;
const WRITES_MAX: u32 = 64;
/// A slow device is not asked for longer than this.
const BUDGET: Duration = Duration::from_millis(40);
/// The least number of writes: the first one may be an exception.
const WRITES_MIN: u32 = 4;

/// How the names of the files begin that are written during it, where the disk has none without a
/// name. They are removed again; a crash may leave some.
pub const PROFILE_FILES: &str = "device-profile-";

/// The measured properties of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceProfile {
    /// The median time that one writer waits for a small write to be durable.
    pub flush: Duration,
    /// The speed-up of durable writes when several writers each have one under way.
    pub parallelism: f64,
    /// Number of writers: fewer than requested where the system allows no more threads.
    pub writers: NonZeroU16,
}

impl DeviceProfile {
    /// Measures the device that `dir` is on, for some tens of milliseconds: one writer, then
    /// `writers` of them, each with a file of its own.
    ///
    /// # Errors
    /// The error of the device.
    pub fn measure(disk: &dyn Disk, dir: &Path, writers: NonZeroU16) -> io::Result<Self> {
        let files = Files::create(disk, dir, writers)?;
        let (mut alone, took) = write(&*files.open[0])?;
        alone.sort_unstable();
        let flush = alone[alone.len() / 2];
        let rate_alone = alone.len() as f64 / took.as_secs_f64();
        let began = Instant::now();
        let (written, writers) = write_together(&files.open)?;
        let rate = written as f64 / began.elapsed().as_secs_f64();
        Ok(Self {
            flush,
            parallelism: rate / rate_alone,
            writers,
        })
    }
}

/// Writes all files at a time, one of them by this thread, or as many as the system allows threads
/// for. Returns how many writes there were, and how many writers.
fn write_together(files: &[Arc<dyn DiskFile>]) -> io::Result<(usize, NonZeroU16)> {
    std::thread::scope(|scope| {
        let (mine, others) = files.split_last().expect("there is a file for each writer");
        let started = others.iter().map_while(|file| {
            threads::start_scoped(scope, "namiki-profile", move || write(&**file)).ok()
        });
        let started: Vec<_> = started.collect();
        let mut written = write(&**mine)?.0.len();
        let mut writers = NonZeroU16::MIN;
        for thread in started {
            let of_this = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            written += of_this?.0.len();
            writers = writers.saturating_add(1);
        }
        Ok((written, writers))
    })
}

/// Files that are there while a device is measured.
struct Files<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    open: Vec<Arc<dyn DiskFile>>,
    /// Those that could not do without a name.
    named: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    fn create(disk: &'a dyn Disk, dir: &'a Path, count: NonZeroU16) -> io::Result<Self> {
        let mut files = Self {
            disk,
            dir,
            open: Vec::new(),
            named: Vec::new(),
        };
        let len_bytes = u64::from(WRITES_MAX) * WRITE_BYTES as u64;
        for number in 0..count.get() {
            let file = match disk.create_unnamed(dir, len_bytes)? {
                Some(file) => file,
                None => files.create_named(number, len_bytes)?,
            };
            files.open.push(file);
        }
        Ok(files)
    }

    fn create_named(&mut self, number: u16, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.dir.join(format!("{PROFILE_FILES}{number}"));
        // A crash may have left it.
        match self.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.disk.create(&path, len_bytes)?;
        self.named.push(path);
        Ok(file)
    }
}

impl Drop for Files<'_> {
    fn drop(&mut self) {
        for path in &self.named {
            // A remaining file is removed the next time.
            let _ = self.disk.remove(path);
        }
    }
}

/// Writes a file from front to back. Returns how long each write took, and all of them.
fn write(file: &dyn DiskFile) -> io::Result<(Vec<Duration>, Duration)> {
    let buf = AlignedBuf::zeroed(WRITE_BYTES);
    let mut took = Vec::with_capacity(WRITES_MAX as usize);
    let began = Instant::now();
    for number in 0..WRITES_MAX {
        if number >= WRITES_MIN && began.elapsed() > BUDGET {
            break;
        }
        let begins = Instant::now();
        file.write_durable(u64::from(number) * WRITE_BYTES as u64, &buf)?;
        took.push(begins.elapsed());
    }
    Ok((took, began.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;
    use std::io::ErrorKind;

    #[test]
    fn a_device_is_measured_and_left_as_it_was() {
        let disk = SimDisk::new();
        let dir = Path::new("/db");
        disk.create_dir_all(dir).unwrap();
        let writers = NonZeroU16::new(3).unwrap();
        for _ in 0..2 {
            let profile = DeviceProfile::measure(&disk, dir, writers).unwrap();
            assert!(profile.parallelism > 0.0, "{profile:?}");
            assert_eq!(disk.list(dir).unwrap(), []);
        }
        disk.fail_after(5, ErrorKind::Other);
        DeviceProfile::measure(&disk, dir, writers).unwrap_err();
        disk.heal();
        assert_eq!(disk.list(dir).unwrap(), []);
    }

    #[test]
    fn what_a_crash_has_left_is_no_obstacle() {
        let disk = SimDisk::new();
        let dir = Path::new("/db");
        disk.create_dir_all(dir).unwrap();
        disk.create(&dir.join("device-profile-0"), 512).unwrap();
        DeviceProfile::measure(&disk, dir, NonZeroU16::MIN).unwrap();
        assert_eq!(disk.list(dir).unwrap(), []);
    }
}
