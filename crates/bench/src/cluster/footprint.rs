//! What nodes keep on the disk and in memory while a run lasts: a cluster that runs for years has to stay as large as its rows.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::Serialize;

use super::local_cluster::LocalCluster;

/// Bytes in a mebibyte.
const MIB: f64 = (1 << 20) as f64;
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Samples of the largest node.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    disk_bytes: u64,
    memory_bytes: u64,
}

/// The largest node in each third of a run, in MiB: growth shows between the second and the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct FootprintMib {
    pub(super) disk: [f64; 3],
    pub(super) memory: [f64; 3],
}

impl Footprint {
    pub(super) fn look(&mut self, cluster: &LocalCluster) {
        let disk = cluster.directories().map(|dir| disk_bytes(&dir)).max();
        let memory = cluster.processes().filter_map(memory_bytes).max();
        self.samples.push(Sample {
            disk_bytes: disk.unwrap_or(0),
            memory_bytes: memory.unwrap_or(0),
        });
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

/// What the files below a directory take on the disk; files that go meanwhile do not count.
fn disk_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
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
            });
        }
        let found = footprint.mib().unwrap();
        assert_eq!(found.disk, [5.0, 7.0, 4.0]);
        assert_eq!(found.memory, [10.0, 14.0, 8.0]);
    }

    #[test]
    fn files_and_folders_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        for name in ["b", "a/c"] {
            fs::write(dir.path().join(name), [1; 10_000]).unwrap();
        }
        let found = disk_bytes(dir.path());
        assert!((20_000..100_000).contains(&found), "{found}");
        assert!(memory_bytes(std::process::id()).unwrap() > 0);
    }
}
