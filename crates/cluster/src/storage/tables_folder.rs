//! The folder of a node's tables. There are two: an installed image takes the place of the tables before, which are in the other.
//!
//! ```text
//!   copied into db2 ── all durable ──> NODE names db2 ──> the node starts again ──> what db has is removed
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki::replica::{ImageCopy, ImageCopyError};
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::store::NodeStore;

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

impl NodeStore {
    /// Begins to copy an image into the folder that is not used.
    ///
    /// # Errors
    /// The disk's own.
    pub(crate) fn begin_copy(&self, image: u128) -> Result<ImageCopy, ImageCopyError> {
        ImageCopy::begin(Arc::clone(&self.disk), &self.unused_folder(), image)
    }

    /// Makes the folder that is not used the one that the next opening finds: an image is there, whole and durable.
    ///
    /// # Errors
    /// [`StoreError::Closed`]; the disk's own, after which the next opening finds either.
    pub(crate) fn switch_folders(&self) -> Result<(), StoreError> {
        let mut held = self.held.lock();
        let Some((manifest, _)) = &mut *held else {
            let dir = self.dir.clone();
            return Err(StoreError::Closed { dir });
        };
        let mut next = manifest.clone();
        next.tables = manifest.tables.other();
        next.write(&*self.disk, &self.dir)?;
        *manifest = next;
        Ok(())
    }

    fn unused_folder(&self) -> PathBuf {
        self.tables.other().path(&self.dir)
    }
}
