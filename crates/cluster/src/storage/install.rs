//! Installation of an image of another node, in the folder that is not used (`tables_folder.rs`).

use std::path::PathBuf;
use std::sync::Arc;

use namiki::replica::{ImageCopy, ImageCopyError};

use super::error::StoreError;
use super::store::NodeStore;

impl NodeStore {
    /// Begins to copy an image into the folder that is not used.
    ///
    /// # Errors
    /// The disk's own.
    pub(crate) fn begin_copy(&self, image: u128) -> Result<ImageCopy, ImageCopyError> {
        ImageCopy::begin(Arc::clone(&self.disk), &self.unused_folder(), image)
    }

    /// Whether a copy has left files in the folder that is not used.
    ///
    /// # Errors
    /// The disk's own.
    pub(crate) fn has_unfinished_copy(&self) -> Result<bool, ImageCopyError> {
        ImageCopy::is_left_in(&*self.disk, &self.unused_folder())
    }

    /// Removes what a copy has left.
    ///
    /// # Errors
    /// The disk's own; it may be repeated.
    pub(crate) fn remove_unfinished_copy(&self) -> Result<(), ImageCopyError> {
        ImageCopy::remove_all(&*self.disk, &self.unused_folder())
    }

    /// Makes the folder that is not used the one that the next opening finds: an image of the entries through this one is there,
    /// whole and durable. Returns whether it did; not if the log was truncated beyond it. The log is not truncated any more.
    ///
    /// # Errors
    /// [`StoreError::Closed`]; the disk's own, after which the next opening finds either.
    pub(crate) fn switch_folders(&self, through: u64) -> Result<bool, StoreError> {
        let mut held = self.held.lock();
        let Some((manifest, _)) = &mut *held else {
            let dir = self.dir.clone();
            return Err(StoreError::Closed { dir });
        };
        if self.head.lock().base.snapshot.position.index > through {
            return Ok(false);
        }
        let mut next = manifest.clone();
        next.tables = manifest.tables.other();
        next.write(&*self.disk, &self.dir)?;
        *manifest = next;
        Ok(true)
    }

    fn unused_folder(&self) -> PathBuf {
        self.tables.other().path(&self.dir)
    }
}
