//! A disk in memory: files as long as the process lives, for tests of programs, and for databases
//! that need none.
//!
//! Writes are "durable" at once, for nothing outlives the process. To see what a crash would leave,
//! use the simulated disk, which remembers every step.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::async_read::ImmediateReads;
use super::directory::directory_lock;
use super::file_system::file_backed;
use super::{
    Appender, DirLock, Disk, DiskFile, FileEntry, FileKind, FramePool, ReadQueue, SECTOR_BYTES,
};
use crate::fork_check::ProcessToken;

/// A disk in memory. A handle: all clones are the same disk, so a database that was closed can be
/// opened again on another.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<Names>>);

#[derive(Debug, Default)]
struct Names {
    files: BTreeMap<PathBuf, Arc<MemoryFile>>,
    dirs: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct MemoryFile {
    len_bytes: u64,
    bytes: RwLock<Box<[u8]>>,
}

impl MemoryDisk {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

fn zeros(len_bytes: u64) -> io::Result<Vec<u8>> {
    let full = || {
        io::Error::new(
            io::ErrorKind::StorageFull,
            "memory has no room for the file",
        )
    };
    let len = usize::try_from(len_bytes).map_err(|_| full())?;
    // Whether there is room, without an abort if it finds no room; then again from the system,
    // which has zeros that take no memory until they are written.
    Vec::<u8>::new()
        .try_reserve_exact(len)
        .map_err(|_| full())?;
    Ok(vec![0; len])
}

fn not_found(path: &Path) -> io::Error {
    let why = format!("{}: no such file in memory", path.display());
    io::Error::new(io::ErrorKind::NotFound, why)
}

fn exists(path: &Path) -> io::Error {
    let why = format!("{}: the file exists", path.display());
    io::Error::new(io::ErrorKind::AlreadyExists, why)
}

impl Names {
    fn file(&self, path: &Path) -> io::Result<&Arc<MemoryFile>> {
        self.files.get(path).ok_or_else(|| not_found(path))
    }

    fn require_dir(&self, dir: &Path) -> io::Result<()> {
        if self.dirs.contains(dir) {
            Ok(())
        } else {
            Err(not_found(dir))
        }
    }

    fn add(&mut self, path: &Path, bytes: Vec<u8>) -> io::Result<Arc<MemoryFile>> {
        self.require_dir(path.parent().unwrap_or(Path::new("")))?;
        let file = Arc::new(MemoryFile {
            len_bytes: bytes.len() as u64,
            bytes: RwLock::new(bytes.into_boxed_slice()),
        });
        self.files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = Arc::clone(self.0.lock().file(path)?);
        Ok(file)
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        let bytes = zeros(len_bytes)?;
        let mut names = self.0.lock();
        if names.files.contains_key(path) {
            return Err(exists(path));
        }
        Ok(names.add(path, bytes)?)
    }

    fn create_unnamed(&self, _: &Path, len_bytes: u64) -> io::Result<Option<Arc<dyn DiskFile>>> {
        Ok(Some(Arc::new(MemoryFile {
            len_bytes,
            bytes: RwLock::new(zeros(len_bytes)?.into_boxed_slice()),
        })))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = Arc::clone(self.0.lock().file(path)?);
        Ok(file.bytes.read().to_vec())
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().add(path, bytes.to_vec()).map(|_| ())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<FileEntry>> {
        let names = self.0.lock();
        names.require_dir(dir)?;
        let here = names.files.iter();
        let here = here.filter(|(path, _)| path.parent() == Some(dir));
        Ok(here
            .map(|(path, file)| FileEntry {
                path: path.clone(),
                kind: FileKind::Regular,
                len_bytes: file.len_bytes,
            })
            .collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut names = self.0.lock();
        if let Some(file) = dir
            .ancestors()
            .find(|level| names.files.contains_key(*level))
        {
            let why = format!("{} is a file", file.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
        }
        names.dirs.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.0.lock();
        names.require_dir(to.parent().unwrap_or(Path::new("")))?;
        let file = names.files.remove(from).ok_or_else(|| not_found(from))?;
        names.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.0.lock().files.remove(path);
        removed.map(|_| ()).ok_or_else(|| not_found(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.lock().require_dir(dir)
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        let mut names = self.0.lock();
        names.require_dir(dir)?;
        if !names.locked.insert(dir.to_owned()) {
            return Err(directory_lock::busy(dir));
        }
        Ok(DirLock::new(HeldDirLock {
            disk: self.clone(),
            dir: dir.to_owned(),
            process: ProcessToken::current(),
        }))
    }

    fn reads(&self, depth: usize, _: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        Ok(Box::new(ImmediateReads::new(depth, "copies of memory")))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Appender>> {
        if self.0.lock().files.contains_key(path) {
            Err(exists(path))
        } else {
            Ok(Box::new(MemoryAppender {
                disk: self.clone(),
                path: path.to_owned(),
                bytes: Vec::new(),
            }))
        }
    }
}

struct HeldDirLock {
    disk: MemoryDisk,
    dir: PathBuf,
    process: ProcessToken,
}

impl Drop for HeldDirLock {
    fn drop(&mut self) {
        // A forked child has a copy of the disk, which a thread of the parent may have had locked.
        if self.process.is_current() {
            self.disk.0.lock().locked.remove(&self.dir);
        }
    }
}

impl DiskFile for MemoryFile {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file_backed::check_write(self, offset, bytes)?;
        let from = offset as usize;
        self.bytes.write()[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        file_backed::check_alignment(self, offset, into.len(), into.as_ptr())?;
        let bytes = self.bytes.read();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let there = bytes.get(from..).unwrap_or_default();
        let read = into.len().min(there.len());
        into[..read].copy_from_slice(&there[..read]);
        Ok(read)
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn block_bytes(&self) -> usize {
        SECTOR_BYTES
    }
}

struct MemoryAppender {
    disk: MemoryDisk,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Appender for MemoryAppender {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn finish(self: Box<Self>) -> io::Result<u64> {
        let len_bytes = self.len_bytes();
        let mut names = self.disk.0.lock();
        if names.files.contains_key(&self.path) {
            return Err(exists(&self.path));
        }
        names.add(&self.path, self.bytes)?;
        Ok(len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::AlignedBuf;

    #[test]
    fn files_have_what_was_written_under_their_present_names() {
        let disk = MemoryDisk::new();
        let (dir, a, b) = (Path::new("/d"), Path::new("/d/a"), Path::new("/d/b"));
        let missing = disk.create(a, 512).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        disk.create_dir_all(dir).unwrap();
        let file = disk.create(a, 1024).unwrap();
        assert_eq!(
            disk.create(a, 512).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        let mut block = AlignedBuf::zeroed(512);
        block.fill(7);
        file.write_durable(512, &block).unwrap();
        assert_eq!(
            file.write_durable(1024, &block).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        disk.rename(a, b).unwrap();
        assert_eq!(disk.read(b).unwrap(), [[0; 512], [7; 512]].concat());
        assert_eq!(disk.clone().list(dir).unwrap().len(), 1);
        disk.remove(b).unwrap();
        assert_eq!(disk.open(b).unwrap_err().kind(), io::ErrorKind::NotFound);
        // An open file stays, as those of an operating system do.
        assert_eq!(file.read_at(512, &mut block).unwrap(), 512);
    }

    #[test]
    fn a_directory_is_locked_once() {
        let disk = MemoryDisk::new();
        let dir = Path::new("/d");
        disk.create_dir_all(dir).unwrap();
        let lock = disk.lock_dir(dir).unwrap();
        assert_eq!(
            disk.lock_dir(dir).unwrap_err().kind(),
            io::ErrorKind::ResourceBusy
        );
        drop(lock);
        disk.lock_dir(dir).unwrap();
    }

    #[test]
    fn an_appended_file_is_there_when_it_is_finished() {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new("/d")).unwrap();
        let path = Path::new("/d/a");
        let mut appender = disk.append(path).unwrap();
        appender.append(b"one").unwrap();
        assert!(disk.open(path).is_err());
        appender.append(b"two").unwrap();
        assert_eq!(appender.finish().unwrap(), 6);
        assert_eq!(disk.read(path).unwrap(), b"onetwo");
        assert!(disk.append(path).is_err());
    }
}
