//! The contents of a simulated disk at one moment: names, directories, and the bytes of files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::cow_pages::Pages;
use crate::disk::{SECTOR_BYTES, file_names};

/// A file, whatever its name is at the moment.
pub(super) type FileId = u64;

/// One change of names. A journaling file system keeps them in order.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    CreateDir(Arc<Path>),
    Create(Arc<Path>, FileId),
    Rename(Arc<Path>, Arc<Path>),
    Remove(Arc<Path>),
}

impl NameChange {
    /// The directory to sync to make this change durable.
    pub(super) fn home(&self) -> &Path {
        let (Self::CreateDir(path)
        | Self::Create(path, _)
        | Self::Rename(_, path)
        | Self::Remove(path)) = self;
        file_names::parent_of(path)
    }
}

/// Names and bytes; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    pub(super) dirs: BTreeSet<Arc<Path>>,
    pub(super) names: BTreeMap<Arc<Path>, FileId>,
    pub(super) bodies: BTreeMap<FileId, Pages>,
    /// Whether a sync of a directory makes no names durable but its own.
    pub(super) has_separate_dirs: bool,
    /// The length of a block, which is also the unit that a crash keeps or loses.
    pub(super) sector_bytes: usize,
}

impl Default for Contents {
    fn default() -> Self {
        Self {
            dirs: BTreeSet::new(),
            names: BTreeMap::new(),
            bodies: BTreeMap::new(),
            has_separate_dirs: false,
            sector_bytes: SECTOR_BYTES,
        }
    }
}

impl Contents {
    /// Changes names. A change of a file that is not there (its creation was lost) does nothing.
    pub(super) fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::CreateDir(path) => {
                self.dirs.insert(Arc::clone(path));
            }
            NameChange::Create(path, file) => {
                self.names.insert(Arc::clone(path), *file);
            }
            NameChange::Rename(from, to) => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(Arc::clone(to), file);
                }
            }
            NameChange::Remove(path) => {
                self.names.remove(path);
            }
        }
    }

    /// Makes a file longer, with zeros.
    pub(super) fn grow(&mut self, file: FileId, len_bytes: u64) {
        if let Some(body) = self.bodies.get_mut(&file) {
            body.grow(len_bytes);
        }
    }

    pub(super) fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) {
        if let Some(body) = self.bodies.get_mut(&file) {
            body.write(offset, bytes);
        }
    }

    /// The root and the current directory need no creation.
    pub(super) fn has_dir(&self, dir: &Path) -> bool {
        dir.as_os_str().is_empty() || dir.parent().is_none() || self.dirs.contains(dir)
    }

    pub(super) fn body_at(&self, path: &Path) -> Option<(FileId, &Pages)> {
        let file = self.names.get(path)?;
        Some((*file, self.bodies.get(file)?))
    }

    /// Bytes of all files that have a name.
    pub(super) fn used_bytes(&self) -> u64 {
        self.names
            .values()
            .filter_map(|file| self.bodies.get(file))
            .map(Pages::len_bytes)
            .sum()
    }

    /// Forgets files that no name leads to: after a crash none is open.
    pub(super) fn drop_nameless(&mut self) {
        // A directory comes before what is in it.
        for dir in std::mem::take(&mut self.dirs) {
            if self.has_dir(file_names::parent_of(&dir)) {
                self.dirs.insert(dir);
            }
        }
        let mut names = std::mem::take(&mut self.names);
        names.retain(|path, _| self.has_dir(file_names::parent_of(path)));
        self.names = names;
        let named: BTreeSet<FileId> = self.names.values().copied().collect();
        self.bodies.retain(|file, _| named.contains(file));
    }
}
