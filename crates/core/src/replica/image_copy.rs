//! A replica's image on its way to another node: pinned at the one, copied file by file at the other.
//!
//! ```text
//!   file 0     the manifest         names the list, and the tables of the image's entry
//!   file 1     the image list       names the runs, with their lengths and identities
//!   file 2 …   the runs of rows     in the order of the list
//! ```
//! A [`PinnedImage`] has the files open, so they can be read although a newer image has taken their place in the
//! directory. An [`ImageCopy`] asks for one stretch after the other. It begins with what an earlier copy into the same
//! directory has left: a run is the one that the list names if its pages say so, because no two runs ever have the same
//! identity. The directory becomes a replica's when all files are durable: the manifest is the last one.
//!
//! Every byte is verified: the manifest and the list have checksums, and each run is read back, page by page.
//!
//! # Invariants
//! - C1. A run has its name, `.rows`, only when it was verified. Until then it has the one of a segment whose load did not end,
//!   `.new`, which every opening removes.
//! - C2. Next to an earlier image, no file that the manifest names is removed or changed before the manifest of the new one is
//!   durable. A file that has its name is replaced, by a rename, only by the file that the earlier list names, too.
//! - C3. Two images with lists that give one number to different files are of different nodes, whatever their manifests say: nodes
//!   that were installed or restored from one image have the database's identity in common. Neither takes the place of the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::disk::{Appender, DirLock, Disk, DiskFile, FileKind, read_unaligned};
use namiki_platform::hash::hash_of;
use namiki_segment::{SegmentError, SegmentId};

use super::Replica;
use crate::catalogue::image_files::{FileNumber, ImageFileName, image_dir};
use crate::catalogue::image_list::{ImageList, NamedList};
use crate::catalogue::manifest::Manifest;
use crate::catalogue::segment_file::SegmentFile;
use crate::error::OpenError;

const MANIFEST: u32 = 0;
const LIST: u32 = 1;
const FIRST_RUN: u32 = 2;
/// Longest manifest, and longest image list: a list has some 250 bytes for 32 MiB of rows.
const HEAD_BYTES_MAX: u64 = 1 << 30;

/// An image that stays readable.
pub struct PinnedImage {
    id: u128,
    stamp: Stamp,
    manifest: Vec<u8>,
    list: Vec<u8>,
    runs: Vec<PinnedRun>,
    disk: Arc<dyn Disk>,
}

/// A run of rows, open.
struct PinnedRun {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    id: SegmentId,
    number: FileNumber,
}

/// Why an image was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageCopyError {
    /// The device failed.
    #[error("cannot write {path}")]
    Device {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// What has arrived is no image.
    #[error("the files that have arrived are not those of an image: {why}")]
    NoImage {
        /// Why.
        why: String,
    },
    /// The directory has an image of another node, or of a cluster of which this one is restored, which this one would not
    /// continue.
    #[error(
        "{dir} has the tables of another node, or of another cluster: name that node, or another directory"
    )]
    OtherNode {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process uses the directory: another backup, or a program that has opened it.
    #[error("{dir} is in use by another process")]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// The image that the directory has cannot be read, so nothing can be copied next to it.
    #[error("the earlier backup in {dir} is damaged: name another directory")]
    EarlierDamaged {
        /// The directory.
        dir: PathBuf,
        /// The damage.
        #[source]
        source: Box<OpenError>,
    },
    /// A run differs from the one that the list names. It was removed.
    #[error("the copy of a run of rows is damaged")]
    Damaged(#[source] Box<SegmentError>),
}

impl Replica {
    /// Pins the image that an opening would begin with; `None` if there is none. The next image does without a file that
    /// cannot be opened.
    ///
    /// # Errors
    /// As [`PinnedImage::of_directory`].
    pub fn pin_image(&self) -> Result<Option<PinnedImage>, OpenError> {
        let shared = &self.db.shared;
        // While it is locked, no other image takes this one's place.
        let _catalogue = shared.catalogue.lock();
        let mut damaged = self.damaged_files.lock();
        PinnedImage::read_heads(&shared.disk, &shared.dir, |file| {
            damaged.insert(file);
        })
    }

    /// Has the next image write the rows of a file from memory, although nothing in it has changed: the file is damaged.
    pub fn rewrite_file(&self, image: &PinnedImage, file: u32) {
        if let Some(run) = image.run(file) {
            self.damaged_files.lock().insert(run.number);
        }
    }
}

/// No two images of all nodes have the same.
fn id_of(manifest: &Manifest, named: &NamedList) -> u128 {
    let bytes = [
        &manifest.identity().to_le_bytes(),
        named.identity.as_bytes(),
    ]
    .concat();
    let half = |seed| u128::from(hash_of(seed, &bytes));
    half(1) << 64 | half(2)
}

impl PinnedImage {
    /// Pins the image in the directory of a replica that is not open; `None` if there is none.
    ///
    /// # Errors
    /// [`OpenError`] for a damaged manifest or list, and for the disk's own.
    pub fn of_directory(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Option<Self>, OpenError> {
        Self::read_heads(disk, dir, |_| {})
    }

    /// Reads the manifest and the list, and opens the runs; calls back for one that is missing.
    fn read_heads(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        mut on_damaged: impl FnMut(FileNumber),
    ) -> Result<Option<Self>, OpenError> {
        let of_device = |path: &Path| {
            let path = path.to_owned();
            |source| OpenError::Device { path, source }
        };
        let path = Manifest::path(dir);
        let manifest_bytes = disk.read(&path).map_err(of_device(&path))?;
        let manifest = Manifest::decode(&manifest_bytes, &path)?;
        let Some(named) = &manifest.image_list else {
            return Ok(None);
        };
        let path = named.file.path_of_named_list(&**disk, dir);
        let list_bytes = disk.read(&path).map_err(of_device(&path))?;
        let list = ImageList::read(&**disk, dir, manifest.identity(), named)?;
        let mut open = |run: &SegmentFile| {
            let path = run.file.rows_path(dir);
            Ok(PinnedRun {
                file: disk.open(&path).map_err(|source| {
                    // Others pass: there may be too many open files.
                    if source.kind() == io::ErrorKind::NotFound {
                        on_damaged(run.file);
                    }
                    of_device(&path)(source)
                })?,
                id: run.id(manifest.identity()),
                number: run.file,
                path,
            })
        };
        let runs = list.runs().map(|run| open(&run.segment));
        Ok(Some(Self {
            id: id_of(&manifest, named),
            stamp: named.stamp,
            runs: runs.collect::<Result<_, OpenError>>()?,
            manifest: manifest_bytes,
            list: list_bytes,
            disk: Arc::clone(disk),
        }))
    }

    /// Its identity among the images of all nodes.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.id
    }

    /// The stamp of the last group that it has.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The bytes of all its files.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        let runs = self.runs.iter().map(|run| run.file.len_bytes());
        (self.manifest.len() + self.list.len()) as u64 + runs.sum::<u64>()
    }

    /// The length of a file; `None` if there is no such file.
    #[must_use]
    pub fn file_bytes(&self, file: u32) -> Option<u64> {
        match file {
            MANIFEST => Some(self.manifest.len() as u64),
            LIST => Some(self.list.len() as u64),
            run => self.run(run).map(|run| run.file.len_bytes()),
        }
    }

    fn run(&self, file: u32) -> Option<&PinnedRun> {
        self.runs.get(file.checked_sub(FIRST_RUN)? as usize)
    }

    /// Reads a file, and returns whether it is what was written. One that a newer image has replaced since counts as whole.
    #[must_use]
    pub fn is_whole(&self, file: u32) -> bool {
        let Some(run) = self.run(file) else {
            return true;
        };
        let is_there = || match self.disk.open(&run.path) {
            Err(error) => error.kind() != io::ErrorKind::NotFound,
            Ok(_) => true,
        };
        namiki_segment::check(&self.disk, &run.path, run.id).is_ok() || !is_there()
    }

    /// Reads a stretch of a file; fewer bytes only at its end, and none of a file that does not exist.
    ///
    /// # Errors
    /// The error of the device.
    pub fn read(&self, file: u32, offset: u64, len_bytes: usize) -> io::Result<Vec<u8>> {
        let in_memory = |bytes: &[u8]| {
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            let from = from.min(bytes.len());
            bytes[from..from.saturating_add(len_bytes).min(bytes.len())].to_vec()
        };
        match file {
            MANIFEST => Ok(in_memory(&self.manifest)),
            LIST => Ok(in_memory(&self.list)),
            run => match self.run(run) {
                Some(run) if offset < run.file.len_bytes() => {
                    let read = read_unaligned(&*run.file, offset, len_bytes)?;
                    Ok(read.bytes().to_vec())
                }
                _ => Ok(Vec::new()),
            },
        }
    }
}

impl std::fmt::Debug for PinnedImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinnedImage")
            .field("stamp", &self.stamp)
            .field("runs", &self.runs.len())
            .finish_non_exhaustive()
    }
}

/// A copy of a [`PinnedImage`] that is being made.
pub struct ImageCopy {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    id: u128,
    /// What the directory has stays until this copy is whole, and no other process writes there.
    beside_earlier: Option<DirLock>,
    manifest: Vec<u8>,
    list: Vec<u8>,
    /// From both, when they have arrived.
    head: Option<Head>,
    /// The runs that are to come, the next one first.
    missing: VecDeque<u32>,
    /// Those that an earlier copy has left. They are verified while others come.
    kept: VecDeque<u32>,
    /// The file that comes next.
    file: u32,
    offset: u64,
    appender: Option<Box<dyn Appender>>,
    /// Whether the rest need not be verified any more.
    is_stopped: Option<Box<dyn Fn() -> bool + Send>>,
}

struct Head {
    manifest: Manifest,
    named: NamedList,
    runs: Vec<SegmentFile>,
}

impl ImageCopy {
    /// Begins to copy the image of this identity into a directory that is no replica's, or is not needed any more. What it has
    /// is removed, except for runs of rows.
    ///
    /// # Errors
    /// [`ImageCopyError::Device`]
    pub fn begin(disk: Arc<dyn Disk>, dir: &Path, id: u128) -> Result<Self, ImageCopyError> {
        remove_if_there(&*disk, &Manifest::path(dir))?;
        remove_if_there(&*disk, &Manifest::table_journal_path(dir))?;
        Self::begin_in(disk, dir, id)
    }

    /// The same for a directory with an earlier image of the same node, as a backup has it: that stays whole until this one is.
    /// Runs that both have are not copied again. Locks other processes out.
    ///
    /// # Errors
    /// [`ImageCopyError::InUse`], [`ImageCopyError::Device`]
    pub fn begin_beside(disk: Arc<dyn Disk>, dir: &Path, id: u128) -> Result<Self, ImageCopyError> {
        disk.create_dir_all(dir)
            .map_err(|source| device(dir, source))?;
        let lock = disk.lock_dir(dir).map_err(|source| match source.kind() {
            io::ErrorKind::ResourceBusy => ImageCopyError::InUse {
                dir: dir.to_owned(),
            },
            _ => device(dir, source),
        })?;
        Self::begin_in(disk, dir, id).map(|copy| Self {
            beside_earlier: Some(lock),
            ..copy
        })
    }

    fn begin_in(disk: Arc<dyn Disk>, dir: &Path, id: u128) -> Result<Self, ImageCopyError> {
        let image_dir = image_dir(dir);
        disk.create_dir_all(&image_dir)
            .map_err(|source| device(&image_dir, source))?;
        disk.sync_dir(dir).map_err(|source| device(dir, source))?;
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            id,
            beside_earlier: None,
            manifest: Vec::new(),
            list: Vec::new(),
            head: None,
            missing: VecDeque::new(),
            kept: VecDeque::new(),
            file: MANIFEST,
            offset: 0,
            appender: None,
            is_stopped: None,
        })
    }

    /// Has the copy ask between two runs that an earlier copy has left whether it is to stop: to verify all of them may take
    /// minutes. It is not whole then.
    pub fn stop_when(&mut self, is_stopped: impl Fn() -> bool + Send + 'static) {
        self.is_stopped = Some(Box::new(is_stopped));
    }

    /// Removes the replica in a directory, if there is one. What an interrupted copy has left stays: the next one begins with it.
    ///
    /// # Errors
    /// [`ImageCopyError::Device`]; it may be repeated.
    pub fn remove_replica(disk: &dyn Disk, dir: &Path) -> Result<(), ImageCopyError> {
        let manifest = Manifest::path(dir);
        match disk.open(&manifest) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(device(&manifest, error)),
            Ok(_) => Self::remove_all(disk, dir),
        }
    }

    /// Whether a copy that did not come to its end has left files in a directory without a replica.
    ///
    /// # Errors
    /// [`ImageCopyError::Device`]
    pub fn is_left_in(disk: &dyn Disk, dir: &Path) -> Result<bool, ImageCopyError> {
        let image_dir = image_dir(dir);
        let files = match disk.list(&image_dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            files => files.map_err(|source| device(&image_dir, source))?,
        };
        let unfinished = disk.unfinished(&image_dir);
        let unfinished = unfinished.map_err(|source| device(&image_dir, source))?;
        Ok(!files.is_empty() || !unfinished.is_empty())
    }

    /// Removes the replica in a directory, or what an interrupted copy has left there.
    ///
    /// # Errors
    /// [`ImageCopyError::Device`]; it may be repeated.
    pub fn remove_all(disk: &dyn Disk, dir: &Path) -> Result<(), ImageCopyError> {
        let manifest = Manifest::path(dir);
        for dir in [&image_dir(dir), dir] {
            let failed = |source| device(dir, source);
            let files = match disk.list(dir) {
                Ok(files) => files,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            let unfinished = disk.unfinished(dir).map_err(failed)?.into_iter();
            let files = files.into_iter();
            let files = files.filter(|file| file.kind == FileKind::Regular);
            let paths = files.map(|file| file.path).chain(unfinished);
            // Last: as long as it is there, this is repeated.
            for path in paths.filter(|path| *path != manifest) {
                remove_if_there(disk, &path)?;
            }
            disk.sync_dir(dir).map_err(failed)?;
        }
        remove_if_there(disk, &manifest)
    }

    /// Its image's identity.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.id
    }

    /// The stretch that it needs next: the file, and the offset in it. `None` if it has everything.
    #[must_use]
    pub fn wanted(&self) -> Option<(u32, u64)> {
        let has_all = self.head.is_some() && self.missing.is_empty() && self.kept.is_empty();
        (!has_all).then_some((self.file, self.offset))
    }

    /// Takes a stretch of a file of `file_bytes`. Returns whether it was [the wanted one](Self::wanted); any other changes
    /// nothing.
    ///
    /// # Errors
    /// [`ImageCopyError`]. The copy is to be dropped then; another one begins with the runs that are whole.
    pub fn put(
        &mut self,
        (file, offset): (u32, u64),
        file_bytes: u64,
        bytes: &[u8],
    ) -> Result<bool, ImageCopyError> {
        if self.wanted() != Some((file, offset)) || bytes.is_empty() && file_bytes > 0 {
            return Ok(false);
        }
        let end = offset.saturating_add(bytes.len() as u64);
        if end > file_bytes {
            return Err(no_image(format!("file {file} is longer than it says")));
        }
        match file {
            MANIFEST | LIST => {
                if file_bytes > HEAD_BYTES_MAX {
                    return Err(no_image(format!("file {file} has {file_bytes} bytes")));
                }
                let head = if file == MANIFEST {
                    &mut self.manifest
                } else {
                    &mut self.list
                };
                head.extend_from_slice(bytes);
            }
            _ => self.append(file_bytes, bytes)?,
        }
        self.offset = end;
        if end == file_bytes {
            self.end_file()?;
        }
        Ok(true)
    }

    fn append(&mut self, file_bytes: u64, bytes: &[u8]) -> Result<(), ImageCopyError> {
        let Some(run) = self.run(self.file) else {
            return Ok(());
        };
        if run.len_bytes() != file_bytes {
            let why = format!(
                "a run of {file_bytes} bytes should have {}",
                run.len_bytes()
            );
            return Err(no_image(why));
        }
        let path = run.file.new_path(&self.dir);
        let failed = |source| device(&path, source);
        let appender = match &mut self.appender {
            Some(appender) => appender,
            none => {
                remove_if_there(&*self.disk, &path)?;
                none.insert(self.disk.append(&path).map_err(failed)?)
            }
        };
        appender.append(bytes).map_err(failed)
    }

    /// The run of this number.
    fn run(&self, file: u32) -> Option<&SegmentFile> {
        let runs = &self.head.as_ref()?.runs;
        runs.get(file.checked_sub(FIRST_RUN)? as usize)
    }

    fn end_file(&mut self) -> Result<(), ImageCopyError> {
        if let Some(appender) = self.appender.take()
            && let Some(run) = self.run(self.file)
        {
            let path = run.file.new_path(&self.dir);
            let failed = |source| device(&path, source);
            appender.finish().map_err(failed)?;
            if let Err(error) = self.verify(run, &path) {
                remove_if_there(&*self.disk, &path)?;
                return Err(ImageCopyError::Damaged(Box::new(error)));
            }
            let named = run.file.rows_path(&self.dir);
            self.disk.rename(&path, &named).map_err(failed)?;
        }
        match self.file {
            MANIFEST => self.file = LIST,
            LIST => {
                self.head = Some(self.read_head()?);
                if self.beside_earlier.is_none() {
                    self.remove_others()?;
                }
                self.look_for_runs()?;
            }
            _ => {
                self.missing.pop_front();
                self.verify_kept()?;
            }
        }
        self.offset = 0;
        if self.head.is_some() {
            while self.missing.is_empty() && !self.is_stopped() && self.verify_kept()? {}
            let next = self.missing.front().or(self.kept.front());
            self.file = next.copied().unwrap_or(self.file);
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.as_ref().is_some_and(|it| it())
    }

    /// Finds the runs that an earlier copy has left.
    fn look_for_runs(&mut self) -> Result<(), ImageCopyError> {
        let runs = self.head.as_ref().map_or(0, |head| head.runs.len());
        for file in (FIRST_RUN..).take(runs) {
            let Some(run) = self.run(file) else { continue };
            let path = run.file.rows_path(&self.dir);
            match self.disk.open(&path) {
                Ok(_) => self.kept.push_back(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.missing.push_back(file);
                }
                Err(error) => return Err(device(&path, error)),
            }
        }
        Ok(())
    }

    /// Verifies one of the runs that an earlier copy has left. A damaged one stays until it has come again. Returns whether
    /// there was one.
    fn verify_kept(&mut self) -> Result<bool, ImageCopyError> {
        let Some(file) = self.kept.pop_front() else {
            return Ok(false);
        };
        if let Some(run) = self.run(file)
            && self.verify(run, &run.file.rows_path(&self.dir)).is_err()
        {
            self.missing.push_back(file);
        }
        Ok(true)
    }

    /// Reads a run at this path, and fails if it is not the one that the list names.
    fn verify(&self, run: &SegmentFile, path: &Path) -> Result<(), SegmentError> {
        let Some(head) = &self.head else {
            return Ok(());
        };
        namiki_segment::check(&self.disk, path, run.id(head.manifest.identity())).map(drop)
    }

    fn read_head(&self) -> Result<Head, ImageCopyError> {
        let path = Manifest::path(&self.dir);
        let invalid = |error: OpenError| no_image(error.to_string());
        let manifest = Manifest::decode(&self.manifest, &path).map_err(invalid)?;
        let named = manifest.image_list.clone();
        let named = named.ok_or_else(|| no_image("the manifest names no image".to_owned()))?;
        if id_of(&manifest, &named) != self.id {
            return Err(no_image("it is another image".to_owned()));
        }
        if !manifest.generations.is_empty() || manifest.loaded_tables.segments().next().is_some() {
            return Err(no_image("it is of a database with a log".to_owned()));
        }
        let path = named.file.new_list_path(&self.dir);
        let list = ImageList::decode(&self.list, &path).map_err(invalid)?;
        if let Some(why) = list.contradicts(manifest.identity(), &named) {
            return Err(no_image(why));
        }
        if self.beside_earlier.is_some() {
            self.check_earlier(&manifest, &named, &list)?;
        }
        let runs = list.runs().map(|run| run.segment.clone()).collect();
        Ok(Head {
            manifest,
            named,
            runs,
        })
    }

    /// Checks that the image which the directory has is of the same node as this one: no file has the name of a different one.
    fn check_earlier(
        &self,
        manifest: &Manifest,
        named: &NamedList,
        list: &ImageList,
    ) -> Result<(), ImageCopyError> {
        let damaged = |error: OpenError| match error {
            OpenError::Device { path, source } => ImageCopyError::Device { path, source },
            source => ImageCopyError::EarlierDamaged {
                dir: self.dir.clone(),
                source: Box::new(source),
            },
        };
        let Some(earlier) = Manifest::read_alone(&*self.disk, &self.dir).map_err(damaged)? else {
            return Ok(());
        };
        let other = || {
            let dir = self.dir.clone();
            Err(ImageCopyError::OtherNode { dir })
        };
        let history = |of: &Manifest| (of.identity(), of.branch.clone());
        if history(&earlier) != history(manifest) {
            return other();
        }
        let Some(earlier_named) = &earlier.image_list else {
            return Ok(());
        };
        if earlier_named.file == named.file && earlier_named.identity != named.identity {
            return other();
        }
        let identity = earlier.identity();
        let earlier = ImageList::read(&*self.disk, &self.dir, identity, earlier_named);
        let earlier = earlier.map_err(damaged)?;
        let runs = earlier.runs().map(|run| (run.segment.file, &run.segment));
        let runs: BTreeMap<FileNumber, &SegmentFile> = runs.collect();
        let differs = |run: &SegmentFile| runs.get(&run.file).is_some_and(|it| **it != *run);
        if list.runs().any(|run| differs(&run.segment)) {
            return other();
        }
        Ok(())
    }

    /// Removes the files of another image than this, so that there is room.
    fn remove_others(&self) -> Result<(), ImageCopyError> {
        let Some(head) = &self.head else {
            return Ok(());
        };
        let runs = head.runs.iter().map(|run| run.file.rows_path(&self.dir));
        let mut kept: BTreeSet<PathBuf> = runs.collect();
        kept.insert(head.named.file.new_list_path(&self.dir));
        let image_dir = image_dir(&self.dir);
        let files = self.disk.list(&image_dir);
        let files = files.map_err(|source| device(&image_dir, source))?;
        for file in files {
            if ImageFileName::of(&file.path).is_some() && !kept.contains(&file.path) {
                remove_if_there(&*self.disk, &file.path)?;
            }
        }
        Ok(())
    }

    /// Makes the directory a replica's: durably, and if everything [has arrived](Self::wanted). Returns the stamp of the last
    /// group that the image has.
    ///
    /// # Errors
    /// [`ImageCopyError`]
    pub fn finish(self) -> Result<Stamp, ImageCopyError> {
        let Some(head) = self.head.as_ref().filter(|_| self.wanted().is_none()) else {
            return Err(no_image("not all of it has arrived".to_owned()));
        };
        let path = head.named.file.new_list_path(&self.dir);
        (self.disk.replace(&path, &self.list)).map_err(|source| device(&path, source))?;
        let image_dir = image_dir(&self.dir);
        (self.disk.sync_dir(&image_dir)).map_err(|source| device(&image_dir, source))?;
        let path = Manifest::path(&self.dir);
        (self.disk.replace(&path, &self.manifest)).map_err(|source| device(&path, source))?;
        let stamp = head.named.stamp;
        self.remove_others()?;
        Ok(stamp)
    }
}

impl std::fmt::Debug for ImageCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageCopy")
            .field("dir", &self.dir)
            .field("wanted", &self.wanted())
            .finish_non_exhaustive()
    }
}

fn device(path: &Path, source: io::Error) -> ImageCopyError {
    ImageCopyError::Device {
        path: path.to_owned(),
        source,
    }
}

fn no_image(why: String) -> ImageCopyError {
    ImageCopyError::NoImage { why }
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<(), ImageCopyError> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(device(path, error)),
        _ => Ok(()),
    }
}
