//! Write and space amplification: what a store writes and keeps for each byte of user data.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::error::BenchError;
use crate::run_stages::quotient;

/// Bytes of a key.
const KEY_BYTES: u64 = 8;

/// The place of the sectors written among the counters of a device.
const SECTORS_WRITTEN_AT: usize = 6;
/// Bytes of a sector, whatever the device calls one.
const SECTOR_BYTES: u64 = 512;

/// The user data of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UserData {
    /// Keys and values that committed transactions have written, overwritten ones included.
    pub(super) written_bytes: u64,
    /// Keys and values that the table holds.
    pub(super) live_bytes: u64,
}

impl UserData {
    /// The user data of `updates` updates in a table of `records` records.
    pub(super) fn new(updates: u64, records: u64, value_bytes: u16) -> Self {
        let record_bytes = KEY_BYTES + u64::from(value_bytes);
        Self {
            written_bytes: updates * record_bytes,
            live_bytes: records * record_bytes,
        }
    }

    /// Bytes written to the device for each byte that transactions have written; `None` if they
    /// wrote none.
    pub(super) fn write_amplification(self, device_bytes: u64) -> Option<f64> {
        quotient(device_bytes as f64, self.written_bytes as f64)
    }

    /// Bytes of files for each byte that the table holds.
    pub(super) fn space_amplification(self, file_bytes: u64) -> Option<f64> {
        quotient(file_bytes as f64, self.live_bytes as f64)
    }
}

/// The device that a folder is on.
#[derive(Clone, Debug)]
pub(super) struct Device {
    /// The system's counters of it.
    counters: PathBuf,
}

impl Device {
    /// The device of a folder, or `None` if the system counts nothing for it, as in memory.
    pub(super) fn of(dir: &Path) -> Result<Option<Self>, BenchError> {
        let found = std::fs::metadata(dir).map_err(BenchError::file("ask about", dir))?;
        let (major, minor) = (major(found.dev()), minor(found.dev()));
        let counters = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        Ok(counters.exists().then_some(Self { counters }))
    }

    /// The bytes written to the device since the system has started, by all processes and by the
    /// journal of the file system.
    ///
    /// The counter of this process, `write_bytes` in `/proc/self/io`, is of no use: it counts all
    /// pages of a large folio when one byte of it is changed, hundreds of times what reaches the
    /// device where a log is appended to and synced.
    pub(super) fn written_bytes(&self) -> Result<u64, BenchError> {
        let path = &self.counters;
        let text = std::fs::read_to_string(path).map_err(BenchError::file("read", path))?;
        written(&text).ok_or_else(|| {
            BenchError::Check(format!("{} has no numbers: {text:?}", path.display()))
        })
    }
}

/// The bytes written, from the text of a device's counters.
fn written(counters: &str) -> Option<u64> {
    let sectors = counters.split_whitespace().nth(SECTORS_WRITTEN_AT)?;
    Some(sectors.parse::<u64>().ok()? * SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_wrote_its_seventh_number_of_sectors() {
        let counters = " 9 1 208 3 14 5 64 7 0 9 10 11 12 13 14 15 16\n";
        assert_eq!(written(counters), Some(32_768));
        assert_eq!(written("1 2 3 4 5 6"), None);
        assert_eq!(written("1 2 3 4 5 6 many"), None);
    }

    #[test]
    fn amplification_is_bytes_for_each_byte_of_user_data() {
        // 50 updates of 10 records of 8 + 92 bytes.
        let data = UserData::new(50, 10, 92);
        assert_eq!((data.written_bytes, data.live_bytes), (5000, 1000));
        assert_eq!(data.write_amplification(12_500), Some(2.5));
        assert_eq!(data.space_amplification(1500), Some(1.5));
        assert_eq!(UserData::new(0, 10, 92).write_amplification(7), None);
    }
}
