//! Files of a load or of an image that no manifest names yet: they are removed if none ever does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::ProcessToken;
use namiki_platform::disk::Disk;

use crate::catalogue::image_files::{ImageFileName, image_dir};

/// Files that are removed unless they are kept: by the process that made them, and not by a forked child.
pub(crate) struct NewFiles {
    disk: Arc<dyn Disk>,
    paths: Vec<PathBuf>,
    process: ProcessToken,
}

impl NewFiles {
    pub(crate) fn on(disk: &Arc<dyn Disk>) -> Self {
        Self {
            disk: Arc::clone(disk),
            paths: Vec::new(),
            process: ProcessToken::current(),
        }
    }

    /// Adds the file that is about to be written at this path.
    pub(crate) fn add(&mut self, path: PathBuf) {
        self.paths.push(path);
    }

    /// They are the database's now, or may be.
    pub(crate) fn keep(mut self) {
        self.paths.clear();
    }

    /// Gives those that have one their lasting names, once the manifest that names them is durable
    /// (`catalogue/image_files.rs`, I2). One that keeps its first name because the device failed is
    /// found under that, and renamed by the next opening.
    ///
    /// # Errors
    /// The path of a missing file: another program has removed it. All files have their first names
    /// again then.
    pub(crate) fn rename(&self, dir: &Path) -> Result<(), PathBuf> {
        let lasting = |new: &PathBuf| {
            let name = ImageFileName::of(new).and_then(ImageFileName::lasting);
            name.map(|name| name.path(dir))
        };
        for (at, new) in self.paths.iter().enumerate() {
            let Some(to) = lasting(new) else { continue };
            match self.disk.rename(new, &to) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    for new in &self.paths[..at] {
                        let _ = lasting(new).map(|from| self.disk.rename(&from, new));
                    }
                    return Err(new.clone());
                }
                _ => {}
            }
        }
        // Either name is fine after a crash, too.
        let _ = self.disk.sync_dir(&image_dir(dir));
        Ok(())
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        for path in &self.paths {
            // One that was not finished has no name. One that stays is removed at the next opening.
            let _ = self.disk.remove(path);
        }
    }
}
