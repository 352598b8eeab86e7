//! What nodes keep on the disk and in memory while a run lasts: a cluster that runs for years has to stay as large as its rows.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::Serialize;

use super::local_cluster::LocalCluster;
use super::small_disk::FILLER;

/// Bytes in a mebibyte.
const MIB: f64 = (1 << 20) as f64;
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// The folders of a node's tables. While an image of another node is copied, both have files.
const TABLES: [&str; 2] = ["db", "db2"];

/// Samples of the largest node.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    disk_bytes: u64,
    memory_bytes: u64,
    /// Bytes of keys and values that the tables have to hold.
    row_bytes: u64,
    /// A node copies an image of another one.
    in_transfer: bool,
}

/// The largest node's directory without the limit of its log, over the bytes of the rows: the largest value of the timed part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct DirectoryRatio {
    /// While no node copied an image of another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outside_transfers: Option<f64>,
    /// While one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_transfers: Option<f64>,
}

impl DirectoryRatio {
    /// Whether there is no value: nothing was measured, or the workload has few rows.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The largest node in each third of a run, in MiB: growth shows between the second and the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct FootprintMib {
    pub(super) disk: [f64; 3],
    pub(super) memory: [f64; 3],
}

impl Footprint {
    /// Takes a sample. `row_bytes`: those of the keys and values that are to be there.
    pub(super) fn look(&mut self, cluster: &LocalCluster, row_bytes: u64) {
        let mut nodes = cluster.nodes.iter();
        let in_transfer = nodes.any(|node| is_copying(&node.directory));
        let disk = cluster.directories().map(|dir| disk_bytes(&dir)).max();
        let memory = cluster.processes().filter_map(memory_bytes).max();
        self.samples.push(Sample {
            disk_bytes: disk.unwrap_or(0),
            memory_bytes: memory.unwrap_or(0),
            row_bytes,
            in_transfer,
        });
    }

    /// The size of the directories against that of the rows, for logs with this limit. 0: within the limit alone.
    pub(super) fn directory_ratio(&self, log_bytes_max: u64) -> DirectoryRatio {
        let largest = |in_transfer: bool| {
            let samples = self.samples.iter();
            let samples = samples.filter(|it| it.in_transfer == in_transfer && it.row_bytes > 0);
            let ratio = |sample: &Sample| {
                let beyond_log = sample.disk_bytes.saturating_sub(log_bytes_max);
                beyond_log as f64 / sample.row_bytes as f64
            };
            samples.map(ratio).max_by(f64::total_cmp)
        };
        DirectoryRatio {
            outside_transfers: largest(false),
            in_transfers: largest(true),
        }
    }

    /// `None` with fewer samples than thirds.
    pub(super) fn mib(&self) -> Option<FootprintMib> {
        let count = self.samples.len();
        let of = |bytes: fn(&Sample) -> u64| {
            let third = |third: usize| {
                let part = &self.samples[third * count / 3..(third + 1) * count / 3];
                part.iter().map(bytes).max()
            };
            let [first, second, last] = [0, 1, 2].map(third);
            Some([first?, second?, last?].map(|bytes| bytes as f64 / MIB))
        };
        Some(FootprintMib {
            disk: of(|sample| sample.disk_bytes)?,
            memory: of(|sample| sample.memory_bytes)?,
        })
    }
}

/// Whether a node copies an image of another one, by its directory.
fn is_copying(directory: &Path) -> bool {
    TABLES.iter().all(|folder| {
        let entries = fs::read_dir(directory.join(folder));
        entries.is_ok_and(|mut entries| entries.next().is_some())
    })
}

/// What the files below a directory take on the disk; files that go meanwhile do not count, nor one that fills a disk.
fn disk_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_name() != FILLER);
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => disk_bytes(&entry.path()),
            Ok(found) => found.blocks() * BLOCK_BYTES,
            Err(_) => 0,
        })
        .sum()
}

/// The resident memory of a process.
fn memory_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_third_has_its_largest_sample() {
        let mut footprint = Footprint::default();
        assert_eq!(footprint.mib(), None);
        for mib in [1, 5, 2, 7, 3, 3, 4] {
            footprint.samples.push(Sample {
                disk_bytes: mib << 20,
                memory_bytes: mib << 21,
                ..Sample::default()
            });
        }
        let found = footprint.mib().unwrap();
        assert_eq!(found.disk, [5.0, 7.0, 4.0]);
        assert_eq!(found.memory, [10.0, 14.0, 8.0]);
    }

    #[test]
    fn directories_are_compared_with_rows_and_the_log_limit() {
        let mut footprint = Footprint::default();
        for (disk_bytes, row_bytes, in_transfer) in [
            // No rows yet.
            (500, 0, false),
            (350, 100, false),
            (300, 100, false),
            (450, 100, true),
        ] {
            footprint.samples.push(Sample {
                disk_bytes,
                memory_bytes: 0,
                row_bytes,
                in_transfer,
            });
        }
        let found = footprint.directory_ratio(100);
        assert_eq!(found.outside_transfers, Some(2.5));
        assert_eq!(found.in_transfers, Some(3.5));
        let within = footprint.directory_ratio(1000);
        assert_eq!(within.outside_transfers, Some(0.0));
        let none = Footprint::default().directory_ratio(0);
        assert_eq!(none, DirectoryRatio::default());
    }

    #[test]
    fn a_copy_of_an_image_is_in_the_other_folder() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_copying(dir.path()));
        for (folder, copies) in [("db", false), ("db2", true)] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            assert!(!is_copying(dir.path()));
            fs::write(dir.path().join(folder).join("file"), [1]).unwrap();
            assert_eq!(is_copying(dir.path()), copies);
        }
    }

    #[test]
    fn files_and_folders_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        for name in ["b", "a/c", "filler"] {
            fs::write(dir.path().join(name), [1; 10_000]).unwrap();
        }
        let found = disk_bytes(dir.path());
        assert!((20_000..30_000).contains(&found), "{found}");
        assert!(memory_bytes(std::process::id()).unwrap() > 0);
    }
}
