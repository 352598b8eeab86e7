//! The folder of a node's tables. There are two: an installed image takes the place of the tables before, which are in the other.
//!
//! ```text
//!   copied into db2 ── all durable ──> NODE names db2 ──> the node starts again ──> what db has is removed
//! ```

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum TablesFolder {
    /// That of a new node.
    #[default]
    #[serde(rename = "db")]
    First,
    #[serde(rename = "db2")]
    Second,
}

impl TablesFolder {
    pub(super) fn path(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Self::First => "db",
            Self::Second => "db2",
        })
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}
