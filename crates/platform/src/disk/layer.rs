//! Disks and files over others: a layer says what it does differently, and everything else is the
//! disk's below.
//!
//! A wrapper that forwards by hand forgets the methods that have a default: it then measures,
//! limits or tests another disk than the one it wraps, without preallocation or without its reads.
//! Here nothing can be forgotten: the two implementations below name every method, which clippy
//! enforces, and each layer gets them.
//!
//! # Rules
//! - L1. A layer forwards what it does not mention to the disk below, methods that are added later
//!   included.
//! - L2. Bytes have two ways in and two ways out. A file's layer that does something about writes
//!   says so for [`DiskFile::write_durable`] and [`DiskFile::begin_write`]; one that does something
//!   about reads for [`DiskFile::read_at`] and [`DiskFile::os_file`], through which the kernel
//!   reads.
//! - L3. A disk that must refuse what it does not know is no layer: see
//!   [`ReadOnlyDisk`](super::ReadOnlyDisk).

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{
    AlignedBuf, Appender, DirLock, Disk, DiskFile, FileEntry, FramePool, PendingWrite,
    Preallocation, ReadQueue,
};

/// A [`Disk`] over another one. Each method is the one of [`Disk`], and by default that of
/// [`DiskLayer::inner`].
pub trait DiskLayer: Send + Sync + Debug {
    /// The disk below.
    fn inner(&self) -> &dyn Disk;

    /// The layer's version of a file of the disk below, however that was opened or made: the file
    /// itself, or a [`FileLayer`] over it. For one without a name `path` is its directory.
    fn layer_file(&self, file: Arc<dyn DiskFile>, path: &Path) -> Arc<dyn DiskFile> {
        let _ = path;
        file
    }

    /// [`Disk::open`].
    ///
    /// # Errors
    /// Those.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.layer_file(self.inner().open(path)?, path))
    }

    /// [`Disk::create`].
    ///
    /// # Errors
    /// Those.
    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.layer_file(self.inner().create(path, len_bytes)?, path))
    }

    /// [`Disk::create_unnamed`].
    ///
    /// # Errors
    /// Those.
    fn create_unnamed(&self, dir: &Path, len_bytes: u64) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let made = self.inner().create_unnamed(dir, len_bytes)?;
        Ok(made.map(|file| self.layer_file(file, dir)))
    }

    /// [`Disk::preallocation`].
    ///
    /// # Errors
    /// Those.
    fn preallocation(&self, dir: &Path) -> io::Result<Option<Box<dyn Preallocation>>> {
        self.inner().preallocation(dir)
    }

    /// [`Disk::read`].
    ///
    /// # Errors
    /// Those.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.inner().read(path)
    }

    /// [`Disk::replace`].
    ///
    /// # Errors
    /// Those.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.inner().replace(path, bytes)
    }

    /// [`Disk::list`].
    ///
    /// # Errors
    /// Those.
    fn list(&self, dir: &Path) -> io::Result<Vec<FileEntry>> {
        self.inner().list(dir)
    }

    /// [`Disk::unfinished`].
    ///
    /// # Errors
    /// Those.
    fn unfinished(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner().unfinished(dir)
    }

    /// [`Disk::create_dir_all`].
    ///
    /// # Errors
    /// Those.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner().create_dir_all(dir)
    }

    /// [`Disk::rename`].
    ///
    /// # Errors
    /// Those.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner().rename(from, to)
    }

    /// [`Disk::remove`].
    ///
    /// # Errors
    /// Those.
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner().remove(path)
    }

    /// [`Disk::sync_dir`].
    ///
    /// # Errors
    /// Those.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner().sync_dir(dir)
    }

    /// [`Disk::lock_dir`].
    ///
    /// # Errors
    /// Those.
    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        self.inner().lock_dir(dir)
    }

    /// [`Disk::reads`].
    ///
    /// # Errors
    /// Those.
    fn reads(&self, depth: usize, pool: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        self.inner().reads(depth, pool)
    }

    /// [`Disk::append`].
    ///
    /// # Errors
    /// Those.
    fn append(&self, path: &Path) -> io::Result<Box<dyn Appender>> {
        self.inner().append(path)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<L: DiskLayer> Disk for L {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        DiskLayer::open(self, path)
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        DiskLayer::create(self, path, len_bytes)
    }

    fn create_unnamed(&self, dir: &Path, len_bytes: u64) -> io::Result<Option<Arc<dyn DiskFile>>> {
        DiskLayer::create_unnamed(self, dir, len_bytes)
    }

    fn preallocation(&self, dir: &Path) -> io::Result<Option<Box<dyn Preallocation>>> {
        DiskLayer::preallocation(self, dir)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        DiskLayer::read(self, path)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        DiskLayer::replace(self, path, bytes)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<FileEntry>> {
        DiskLayer::list(self, dir)
    }

    fn unfinished(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        DiskLayer::unfinished(self, dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        DiskLayer::create_dir_all(self, dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        DiskLayer::rename(self, from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        DiskLayer::remove(self, path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        DiskLayer::sync_dir(self, dir)
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        DiskLayer::lock_dir(self, dir)
    }

    fn reads(&self, depth: usize, pool: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        DiskLayer::reads(self, depth, pool)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Appender>> {
        DiskLayer::append(self, path)
    }
}

/// A [`DiskFile`] over another one. Each method is the one of [`DiskFile`], and by default that of
/// [`FileLayer::inner`].
pub trait FileLayer: Send + Sync + Debug {
    /// The file below.
    fn inner(&self) -> &Arc<dyn DiskFile>;

    /// [`DiskFile::write_durable`].
    ///
    /// # Errors
    /// Those.
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner().write_durable(offset, bytes)
    }

    /// [`DiskFile::begin_write`].
    ///
    /// # Errors
    /// Those.
    fn begin_write(
        &self,
        offset: u64,
        buf: AlignedBuf,
        len: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        self.inner().begin_write(offset, buf, len)
    }

    /// [`DiskFile::read_at`].
    ///
    /// # Errors
    /// Those.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.inner().read_at(offset, into)
    }

    /// [`DiskFile::next_data`].
    ///
    /// # Errors
    /// Those.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.inner().next_data(offset)
    }

    /// [`DiskFile::len_bytes`].
    fn len_bytes(&self) -> u64 {
        self.inner().len_bytes()
    }

    /// [`DiskFile::block_bytes`].
    fn block_bytes(&self) -> usize {
        self.inner().block_bytes()
    }

    /// [`DiskFile::os_file`].
    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        self.inner().os_file()
    }

    /// [`DiskFile::below`].
    fn below(&self) -> Option<&Arc<dyn DiskFile>> {
        self.inner().below()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<L: FileLayer> DiskFile for L {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        FileLayer::write_durable(self, offset, bytes)
    }

    fn begin_write(
        &self,
        offset: u64,
        buf: AlignedBuf,
        len: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        FileLayer::begin_write(self, offset, buf, len)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        FileLayer::read_at(self, offset, into)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        FileLayer::next_data(self, offset)
    }

    fn len_bytes(&self) -> u64 {
        FileLayer::len_bytes(self)
    }

    fn block_bytes(&self) -> usize {
        FileLayer::block_bytes(self)
    }

    fn os_file(&self) -> Option<BorrowedFd<'_>> {
        FileLayer::os_file(self)
    }

    fn below(&self) -> Option<&Arc<dyn DiskFile>> {
        FileLayer::below(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::file_names::temporary_path;
    use crate::disk::{SlowDisk, SlowDrives, SyncedDisk};

    #[derive(Debug)]
    struct Nothing(Arc<dyn Disk>);

    impl DiskLayer for Nothing {
        fn inner(&self) -> &dyn Disk {
            &*self.0
        }

        fn layer_file(&self, file: Arc<dyn DiskFile>, _: &Path) -> Arc<dyn DiskFile> {
            Arc::new(NothingOfAFile(file))
        }
    }

    #[derive(Debug)]
    struct NothingOfAFile(Arc<dyn DiskFile>);

    impl FileLayer for NothingOfAFile {
        fn inner(&self) -> &Arc<dyn DiskFile> {
            &self.0
        }
    }

    /// What a wrapper by hand had lost: everything that has a default.
    #[test]
    fn a_layer_that_says_nothing_is_the_disk_below() {
        let dir = tempfile::tempdir().unwrap();
        let drives = SlowDrives {
            units: std::num::NonZeroU32::MIN,
            latency: std::time::Duration::from_micros(1),
        };
        let below: Arc<dyn Disk> = Arc::new(SyncedDisk::new());
        let slow: Arc<dyn Disk> = Arc::new(SlowDisk::new(Arc::clone(&below), drives));
        for disk in [below, slow] {
            let layer: Arc<dyn Disk> = Arc::new(Nothing(Arc::clone(&disk)));
            let room = layer.preallocation(dir.path()).unwrap().unwrap();
            room.resize(4096).unwrap();
            let unfinished = temporary_path(&dir.path().join("a"));
            std::fs::write(&unfinished, "").unwrap();
            assert_eq!(layer.unfinished(dir.path()).unwrap(), [unfinished]);
            let pool = FramePool::new(1).unwrap();
            let describe = |disk: &dyn Disk| disk.reads(4, &pool).unwrap().describe().to_owned();
            assert_eq!(describe(&*layer), describe(&*disk));
            let layered = layer.create_unnamed(dir.path(), 8192).unwrap().unwrap();
            let file = disk.create_unnamed(dir.path(), 8192).unwrap().unwrap();
            assert_eq!(layered.os_file().is_some(), file.os_file().is_some());
            assert_eq!(layered.below().is_some(), file.below().is_some());
            assert_eq!(layered.next_data(8192).unwrap(), None);
        }
    }
}
