//! Installation of a written image that no manifest names yet, in place of the previous one.
//!
//! ```text
//!   1. the list before gets its first name back, durably       a crash: the image before, and its list is renamed
//!   2. the manifest is replaced by one that names the list     a crash: either image
//!   3. the list gets its lasting name, durably                 from here on, an older manifest is told by it
//!   4. what only the image before had is removed               a crash: the next opening removes it
//! ```
//! (See image_files.rs, I11 and I12.) Dropped before the last step, it is undone: its files go, and the list before has its
//! lasting name again.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::ProcessToken;
use namiki_platform::disk::Disk;

use crate::catalogue::image_files::{FileNumber, ImageFileName, image_dir};
use crate::catalogue::image_list::{ImageList, NamedList};
use crate::image::image_error::ImageError;
use crate::image::new_files::NewFiles;

/// An image that was written: all its files are durable, and it counts once a manifest names its list.
///
/// Steps of its installation, in order: [`NewImage::step_back`], the replacement of the manifest by
/// one with [`NewImage::named`], [`NewImage::give_lasting_name`], [`NewImage::remove_superseded`].
/// If the replacement fails but may have happened, call [`NewImage::keep`]; the next opening finds
/// the files that it needs, and removes the others.
pub(crate) struct NewImage {
    list: ImageList,
    named: NamedList,
    files: NewFiles,
    /// Files that only the previous image has, except its list.
    superseded: Vec<ImageFileName>,
    before: Option<ListBefore>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

/// The list that the manifest names now. It has its lasting name again unless the new one takes its place.
struct ListBefore {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    file: FileNumber,
    has_first_name: bool,
    process: ProcessToken,
}

impl NewImage {
    /// Of files that are durable under their first names.
    pub(crate) fn new(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        list: ImageList,
        named: NamedList,
        files: NewFiles,
        before: Option<(&NamedList, &ImageList)>,
    ) -> Self {
        let kept: BTreeSet<FileNumber> = list.runs().map(|run| run.segment.file).collect();
        let runs_before = before.into_iter().flat_map(|(_, list)| list.runs());
        let files_before = runs_before.map(|run| run.segment.file);
        let superseded = files_before.filter(|file| !kept.contains(file));
        Self {
            superseded: superseded.map(ImageFileName::Rows).collect(),
            before: before.map(|(named, _)| ListBefore {
                disk: Arc::clone(disk),
                dir: dir.to_owned(),
                file: named.file,
                has_first_name: false,
                process: ProcessToken::current(),
            }),
            list,
            named,
            files,
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
        }
    }

    /// Its list.
    #[cfg(test)]
    pub(crate) fn list(&self) -> &ImageList {
        &self.list
    }

    /// The manifest's entry for it.
    pub(crate) fn named(&self) -> &NamedList {
        &self.named
    }

    /// Gives the list before its first name back, so that the new manifest names every list that
    /// has its lasting name (I11). Called before the manifest is replaced.
    ///
    /// # Errors
    /// [`ImageError::Device`]. The manifest is not to be replaced then.
    pub(crate) fn step_back(&mut self) -> Result<(), ImageError> {
        self.before.as_mut().map_or(Ok(()), ListBefore::step_back)
    }

    /// Gives the list its lasting name, once the manifest that names it is durable and before anything that the image
    /// makes superfluous is given up. If the device fails, the list is found under its first name, and the next opening
    /// renames it.
    ///
    /// # Errors
    /// [`ImageError::Device`] if the list is missing: another program has removed it. Then the
    /// manifest is to be put back that names the previous image, and this dropped.
    pub(crate) fn give_lasting_name(&self) -> Result<(), ImageError> {
        self.files.rename(&self.dir).map_err(|path| {
            let gone = io::Error::new(
                io::ErrorKind::NotFound,
                "another program has removed it meanwhile; let one program have the database open",
            );
            ImageError::device(&path, gone)
        })
    }

    /// Removes the files that only the previous image has. The next opening removes those that
    /// could not be removed. Returns the list.
    pub(crate) fn remove_superseded(self) -> ImageList {
        self.files.keep();
        let mut superseded = self.superseded;
        if let Some(mut before) = self.before {
            // It stays as it is, whatever its name.
            before.has_first_name = false;
            superseded.push(ImageFileName::NewList(before.file));
        }
        for name in superseded {
            let _ = self.disk.remove(&name.path(&self.dir));
        }
        let _ = self.disk.sync_dir(&image_dir(&self.dir));
        self.list
    }

    /// Leaves all files of both images where they are: it is not known which of them the manifest on the disk names.
    pub(crate) fn keep(mut self) {
        if let Some(before) = &mut self.before {
            before.has_first_name = false;
        }
        self.files.keep();
    }
}

impl ListBefore {
    fn step_back(&mut self) -> Result<(), ImageError> {
        let (lasting, first) = self.paths();
        match self.disk.rename(&lasting, &first) {
            // It may have its first name since the checkpoint or the opening that wrote it.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ImageError::device(&lasting, error));
            }
            _ => self.has_first_name = true,
        }
        let image_dir = image_dir(&self.dir);
        let synced = self.disk.sync_dir(&image_dir);
        synced.map_err(|error| ImageError::device(&image_dir, error))
    }

    fn paths(&self) -> (PathBuf, PathBuf) {
        (
            self.file.list_path(&self.dir),
            self.file.new_list_path(&self.dir),
        )
    }
}

impl Drop for ListBefore {
    fn drop(&mut self) {
        if self.has_first_name && self.process.is_current() {
            let (lasting, first) = self.paths();
            // Either name is fine: the manifest names it.
            let _ = self.disk.rename(&first, &lasting);
            let _ = self.disk.sync_dir(&image_dir(&self.dir));
        }
    }
}
