//! The flag `--device`: the disk to which a run writes.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use namiki::Builder;
use namiki_platform::disk::{
    AlignedBuf, DelayedDisk, DirectDisk, Disk, NullDisk, SECTOR_BYTES, SlowDisk, SlowDrives,
    SyncedDisk, open_best,
};

use crate::error::BenchError;
use crate::interrupt::{self, ScratchMark};
use crate::interruptible_disk::OpeningDisk;

/// The remedy for a shared device on which a log has too little space.
pub(crate) const MORE_ROOM: &str =
    "give the streams more room: raise --raw-mb, name a larger --device, or lower";
/// Size of the heads of a region, which a new log must not find.
const REGION_HEAD_BYTES: usize = 8192;
/// Alignment of regions.
const REGION_ALIGN_BYTES: u64 = 4096;

/// The disk, and the size of a shared one.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeviceChoice {
    /// file, fdatasync, raw:PATH (all streams on one device or new file), nvm:50ns (memory that
    /// pauses; nvm:50ns:64 in blocks of 64 bytes), null (discards writes), slow:192x5ms (192 emulated
    /// drives with 5 ms for each read)
    #[arg(long, value_name = "DEVICE", default_value = "file")]
    pub(crate) device: Device,
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
}

/// Options of `raw:PATH`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SharedArgs {
    /// Length of a file that raw:PATH creates
    #[arg(long, value_name = "MB", default_value = "1024", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 24))]
    pub(crate) raw_mb: u64,
    /// Allow raw:PATH to overwrite the block device PATH
    #[arg(long)]
    pub(crate) overwrite_device: bool,
}

/// A kind of disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// Files, written in the fastest durable way that the folder's file system offers.
    File,
    /// Files through the page cache, each write followed by `fdatasync`.
    Fdatasync,
    /// One device or file for all streams.
    Raw(PathBuf),
    /// Memory with a pause after each write.
    Nvm(Nvm),
    /// Discards every write.
    Null,
    /// Files with reads that wait for emulated drives.
    Slow(SlowDrives),
}

/// Emulated non-volatile memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nvm {
    pause: Duration,
    block_bytes: usize,
}

impl Default for Nvm {
    fn default() -> Self {
        Self {
            pause: DelayedDisk::PAUSE_DEFAULT,
            block_bytes: DelayedDisk::BLOCK_BYTES_DEFAULT,
        }
    }
}

impl FromStr for Nvm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (pause, block) = match text.split_once(':') {
            Some((pause, block)) => (pause, Some(block)),
            None => (text, None),
        };
        let ns = pause.strip_suffix("ns").and_then(|ns| ns.parse().ok());
        let ns = ns.ok_or_else(|| {
            format!("{pause:?} is not a pause in nanoseconds (an example: \"nvm:50ns\")")
        })?;
        let lengths = DelayedDisk::BLOCK_BYTES;
        let is_length = |bytes: &usize| lengths.contains(bytes) && bytes.is_power_of_two();
        let block_bytes = match block {
            Some(block) => block.parse().ok().filter(is_length).ok_or_else(|| {
                let (least, most) = (lengths.start(), lengths.end());
                format!("{block:?} is no length of blocks: a power of two from {least} to {most}")
            })?,
            None => DelayedDisk::BLOCK_BYTES_DEFAULT,
        };
        Ok(Self {
            pause: Duration::from_nanos(ns),
            block_bytes,
        })
    }
}

impl fmt::Display for Nvm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nvm:{}ns", self.pause.as_nanos())?;
        if self.block_bytes == DelayedDisk::BLOCK_BYTES_DEFAULT {
            return Ok(());
        }
        write!(f, ":{}", self.block_bytes)
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("raw:").filter(|path| !path.is_empty()) {
            return Ok(Self::Raw(path.into()));
        }
        if let Some(nvm) = text.strip_prefix("nvm:") {
            return nvm.parse().map(Self::Nvm);
        }
        if let Some(drives) = text.strip_prefix("slow:") {
            return drives.parse().map(Self::Slow);
        }
        match text {
            "file" => Ok(Self::File),
            "fdatasync" => Ok(Self::Fdatasync),
            "nvm" => Ok(Self::Nvm(Nvm::default())),
            "null" => Ok(Self::Null),
            _ => Err(
                "devices are file, fdatasync, raw:PATH, nvm:50ns, nvm:50ns:64, null and \
                 slow:192x5ms"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("file"),
            Self::Fdatasync => f.write_str("fdatasync"),
            Self::Raw(path) => write!(f, "raw:{}", path.display()),
            Self::Nvm(nvm) => nvm.fmt(f),
            Self::Null => f.write_str("null"),
            Self::Slow(drives) => write!(f, "slow:{drives}"),
        }
    }
}

impl Device {
    /// Whether a write waits for a real device, so that reading the clock costs little in
    /// comparison.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(
            self,
            Self::File | Self::Fdatasync | Self::Raw(_) | Self::Slow(_)
        )
    }

    /// The unit of the lengths of writes: a sector, or a shorter block.
    pub(crate) fn write_unit_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Nvm(nvm) => nvm.block_bytes,
            _ => SECTOR_BYTES,
        };
        bytes as u64
    }

    /// Whether its files belong on a file system in memory. One on a disk writes changed pages back
    /// now and then, which delays the next write to them.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Self::Nvm(_))
    }

    /// Whether the data written can be read again.
    pub(crate) fn keeps(&self) -> bool {
        *self != Self::Null
    }
}

/// A disk that is ready for a run.
pub(crate) struct ReadyDisk {
    /// The disk. Before the clock starts, it creates no files after Ctrl-C.
    pub(crate) disk: Arc<OpeningDisk>,
    /// The device that all streams share, and how much of it belongs to each.
    pub(crate) shared: Option<(PathBuf, u64)>,
    /// The measured pause of emulated memory.
    pub(crate) pause_ns: Option<f64>,
    /// A file to remove at the end, with its mark.
    created: Option<(PathBuf, ScratchMark)>,
}

impl DeviceChoice {
    /// Opens the disk for files in `dir`. With `fresh`, overwrites the heads of old logs on a
    /// shared device.
    pub(crate) fn open(
        &self,
        dir: &Path,
        streams: u16,
        fresh: bool,
    ) -> Result<ReadyDisk, BenchError> {
        let (mut shared, mut pause_ns, mut created) = (None, None, None);
        let disk: Arc<dyn Disk> = match &self.device {
            Device::Null => Arc::new(NullDisk::new()),
            Device::File => open_best(dir).map_err(BenchError::file("write to", dir))?.0,
            Device::Fdatasync => Arc::new(SyncedDisk::new()),
            Device::Nvm(Nvm { pause, block_bytes }) => {
                let disk = DelayedDisk::new(*pause).with_blocks(*block_bytes);
                let really = disk.measure_pause();
                eprintln!(
                    "emulated memory: a pause of {really:.1} ns where {} were asked for",
                    pause.as_nanos()
                );
                pause_ns = Some(really);
                Arc::new(disk)
            }
            Device::Slow(drives) => {
                let best = open_best(dir).map_err(BenchError::file("write to", dir))?.0;
                eprintln!(
                    "emulated: {} slow drives, {:?} a read; writes are not slowed down",
                    drives.units, drives.latency
                );
                Arc::new(SlowDisk::new(best, *drives))
            }
            Device::Raw(path) => {
                let disk = DirectDisk::new();
                if fresh && !path.exists() {
                    created = Some((path.clone(), interrupt::remove_at_exit(path)));
                }
                let region_bytes = self.ready_shared(&disk, path, streams, fresh)?;
                shared = Some((path.clone(), region_bytes));
                Arc::new(disk)
            }
        };
        Ok(ReadyDisk {
            disk: Arc::new(OpeningDisk::new(disk)),
            shared,
            pause_ns,
            created,
        })
    }

    fn ready_shared(
        &self,
        disk: &DirectDisk,
        path: &Path,
        streams: u16,
        fresh: bool,
    ) -> Result<u64, BenchError> {
        let region =
            |bytes: u64| bytes / u64::from(streams) / REGION_ALIGN_BYTES * REGION_ALIGN_BYTES;
        let kind = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(region(self.shared.raw_mb << 20));
            }
            other => other
                .map_err(BenchError::file("look at", path))?
                .file_type(),
        };
        let bytes = std::fs::File::open(path)
            .and_then(|mut file| file.seek(SeekFrom::End(0)))
            .map_err(BenchError::file("measure", path))?;
        if !fresh {
            // The engine itself refuses the device of another database.
            return Ok(region(bytes));
        }
        let usage = |why: &str| Err(BenchError::Usage(format!("{} {why}", path.display())));
        if !kind.is_block_device() {
            return usage("exists and is no block device; name a new file, or give --dir to go on");
        }
        if !self.shared.overwrite_device {
            return usage("is a block device; --overwrite-device lets the log write over it");
        }
        if is_mounted(path) {
            return usage("is mounted; unmount it first");
        }
        let file = disk.open(path).map_err(BenchError::file("open", path))?;
        for stream in 0..u64::from(streams) {
            file.write_durable(
                stream * region(bytes),
                &AlignedBuf::zeroed(REGION_HEAD_BYTES),
            )
            .map_err(BenchError::file("write to", path))?;
        }
        Ok(region(bytes))
    }
}

/// Whether the block device is mounted as a file system.
fn is_mounted(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else {
        return false;
    };
    let mut mounts = String::new();
    let read = std::fs::File::open("/proc/self/mounts")
        .and_then(|mut file| file.read_to_string(&mut mounts));
    read.is_ok()
        && mounts
            .lines()
            .any(|line| line.split(' ').next().map(Path::new) == Some(&*path))
}

impl ReadyDisk {
    /// Tells a database to use this disk.
    pub(crate) fn apply(&self, builder: Builder) -> Builder {
        let builder = builder.disk(self.disk.clone());
        match &self.shared {
            Some((path, region_bytes)) => builder.shared_device(path, *region_bytes),
            None => builder,
        }
    }
}

impl Drop for ReadyDisk {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.created {
            // The file may never have been created.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use namiki::Database;

    use super::*;

    /// The benchmark measures a database with the user's settings. Space ahead is a file without a
    /// name.
    #[test]
    fn a_database_that_is_measured_takes_room_ahead() {
        let dir = tempfile::tempdir().unwrap();
        let choice = DeviceChoice {
            device: Device::File,
            shared: SharedArgs {
                raw_mb: 1,
                overwrite_device: false,
            },
        };
        let ready = choice.open(dir.path(), 1, true).unwrap();
        let db = ready.apply(Database::builder()).open(dir.path()).unwrap();
        let inside = |link: &Path| {
            let name = link.to_string_lossy().into_owned();
            link.starts_with(dir.path()) && name.ends_with(" (deleted)")
        };
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        assert_eq!(links.filter(|link| inside(link)).count(), 1);
        db.close().unwrap();
    }

    #[test]
    fn devices_are_printed_as_they_are_parsed() {
        for text in [
            "file",
            "fdatasync",
            "raw:/dev/disk",
            "nvm:50ns",
            "nvm:50ns:64",
            "nvm:0ns:256",
            "null",
            "slow:192x5ms",
        ] {
            assert_eq!(text.parse::<Device>().unwrap().to_string(), text);
        }
        assert_eq!("nvm:50ns:512".parse(), "nvm".parse::<Device>());
        for bad in [
            "",
            "raw:",
            "nvm:50",
            "nvm:xns",
            "nvm:50ns:",
            "nvm:50ns:32",
            "nvm:50ns:96",
            "nvm:50ns:1024",
            "disk",
            "slow:",
            "slow:8",
        ] {
            assert!(bad.parse::<Device>().is_err(), "{bad}");
        }
    }
}
