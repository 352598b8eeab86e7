//! The entries that only a backup's manifest has: the end of the backup, and the position from
//! which the next one into the same directory continues.

use namiki_log::CopiedThrough;
use namiki_platform::{Generation, Stamp};
use serde::{Deserialize, Serialize};

/// A manifest's entries about its backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupMark {
    /// The backup has exactly the commits with this stamp or a lower one.
    pub stamp: Stamp,
    /// When it was taken: milliseconds since 1970 began, in UTC.
    pub taken_at_ms: u64,
    /// The end of the last generation of the log that it has. `None` if it has no log.
    pub log: Option<CopiedLog>,
    /// The generations before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedLog>,
}

/// The log files that a backup has of an ended generation of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedLog {
    /// The generation.
    pub generation: Generation,
    /// The last log file of each of its streams with a frame that counts; 0 for a stream without
    /// one.
    pub last_files: Vec<u64>,
}

impl BackupMark {
    /// The last log file of each stream of a generation that the backup has, if it is recorded.
    pub(crate) fn last_files(&self, generation: Generation) -> Option<Vec<u64>> {
        if let Some(log) = self.log.as_ref().filter(|log| log.generation == generation) {
            return Some(log.last_files());
        }
        let ended = self.ended.iter().find(|log| log.generation == generation);
        ended.map(|log| log.last_files.clone())
    }
}

impl CopiedLog {
    /// The last log file of each stream; 0 for a stream without one.
    pub(crate) fn last_files(&self) -> Vec<u64> {
        self.streams
            .iter()
            .map(|stream| stream.file_number)
            .collect()
    }
}

/// The end of a generation of the log in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedLog {
    /// The generation.
    pub generation: Generation,
    /// Each of its streams.
    pub streams: Vec<CopiedThrough>,
}
