//! What a backup's manifest says beside what any manifest does: how far the backup goes, and where the next one into the
//! same directory goes on.

use namiki_log::CopiedThrough;
use namiki_platform::{Generation, Stamp};
use serde::{Deserialize, Serialize};

/// What a manifest says of the backup that it is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupMark {
    /// The backup has what commits with this stamp or a lower one have left, and nothing else.
    pub stamp: Stamp,
    /// When it was taken: milliseconds since 1970 began, in UTC.
    pub taken_at_ms: u64,
    /// The last generation of the log that it has, up to where. None if it has no log.
    pub log: Option<CopiedLog>,
}

/// Up to where a backup has a generation of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedLog {
    /// The generation.
    pub generation: Generation,
    /// Each of its streams.
    pub streams: Vec<CopiedThrough>,
}
