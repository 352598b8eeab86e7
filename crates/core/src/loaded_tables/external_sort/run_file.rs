//! A sorted run: keys in ascending order in a file, in blocks with checksums.
//!
//! ```text
//!   block:  length (4) | CRC-32C (4) | keys, each: length (4), bytes
//! ```

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use namiki_platform::ProcessToken;
use namiki_platform::disk::{AlignedBuf, Appender, Disk, DiskFile};

use crate::loaded_tables::load_error::LoadError;

/// The least part of a run that is read, checked and written at once.
pub(super) const BLOCK_BYTES: usize = 64 << 10;
/// Before each block: its length and the checksum of its bytes, four bytes each.
const BLOCK_HEADER_BYTES: usize = 8;
/// Before each key: its length.
const KEY_HEADER_BYTES: usize = 4;
/// Unit of reads that suits every device.
const READ_UNIT_BYTES: u64 = 4096;

/// A run's file, removed when it is no longer needed: by the process that made it, and not by a forked child.
pub(super) struct RunFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    process: ProcessToken,
}

impl RunFile {
    /// The path of the file.
    #[cfg(test)]
    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        if self.process.is_current() {
            // One that stays is removed at the next opening.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Writes a run.
pub(super) struct RunWriter {
    file: Box<dyn Appender>,
    block: Vec<u8>,
    run: RunFile,
}

impl RunWriter {
    /// Begins the run that will be at `path`.
    pub(super) fn create(disk: &Arc<dyn Disk>, path: PathBuf) -> Result<Self, LoadError> {
        let file = disk.append(&path);
        Ok(Self {
            file: file.map_err(|source| LoadError::device(&path, source))?,
            block: vec![0; BLOCK_HEADER_BYTES],
            // From here on, its end removes it.
            run: RunFile {
                disk: Arc::clone(disk),
                path,
                process: ProcessToken::current(),
            },
        })
    }

    /// Adds a key, which is not below the previous one.
    pub(super) fn push(&mut self, key: &[u8]) -> Result<(), LoadError> {
        self.block
            .extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.block.extend_from_slice(key);
        if self.block.len() >= BLOCK_BYTES {
            self.write_block()?;
        }
        Ok(())
    }

    fn write_block(&mut self) -> Result<(), LoadError> {
        let written = self.file.append(sealed(&mut self.block));
        written.map_err(|source| LoadError::device(&self.run.path, source))?;
        self.block.truncate(BLOCK_HEADER_BYTES);
        Ok(())
    }

    /// Writes the rest.
    pub(super) fn finish(mut self) -> Result<RunFile, LoadError> {
        if self.block.len() > BLOCK_HEADER_BYTES {
            self.write_block()?;
        }
        let Self { file, run, .. } = self;
        match file.finish() {
            Ok(_) => Ok(run),
            Err(source) => Err(LoadError::device(&run.path, source)),
        }
    }
}

/// Fills in the header of a block.
fn sealed(block: &mut [u8]) -> &[u8] {
    let (header, payload) = block.split_at_mut(BLOCK_HEADER_BYTES);
    header[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    block
}

/// Reads a run from its beginning.
pub(super) struct RunReader {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// Where the next block begins in the file.
    offset: u64,
    /// The keys of the block that is being read.
    block: Vec<u8>,
    at: usize,
}

impl RunReader {
    pub(super) fn open(run: &RunFile) -> Result<Self, LoadError> {
        let opened = run.disk.open(&run.path);
        Ok(Self {
            path: run.path.clone(),
            file: opened.map_err(|source| LoadError::device(&run.path, source))?,
            offset: 0,
            block: Vec::new(),
            at: 0,
        })
    }

    /// Adds the next key to `key`; returns false at the end.
    pub(super) fn next_into(&mut self, key: &mut Vec<u8>) -> Result<bool, LoadError> {
        let read = self.try_next_into(key);
        read.map_err(|source| LoadError::device(&self.path, source))
    }

    fn try_next_into(&mut self, key: &mut Vec<u8>) -> io::Result<bool> {
        if self.at == self.block.len() && !self.next_block()? {
            return Ok(false);
        }
        let rest = &self.block[self.at..];
        let found = rest
            .split_at_checked(KEY_HEADER_BYTES)
            .and_then(|(len, rest)| {
                let len = u32::from_le_bytes(len.try_into().ok()?);
                rest.get(..len as usize)
            });
        let found = found.ok_or_else(|| damaged("a key leaves its block"))?;
        key.extend_from_slice(found);
        self.at += KEY_HEADER_BYTES + found.len();
        Ok(true)
    }

    fn next_block(&mut self) -> io::Result<bool> {
        let left = self.file.len_bytes() - self.offset;
        if left == 0 {
            return Ok(false);
        }
        let header = self.read(self.offset, (BLOCK_HEADER_BYTES as u64).min(left))?;
        let (Some(len), Some(checksum)) = (number_at(&header, 0), number_at(&header, 4)) else {
            return Err(damaged("it ends in the header of a block"));
        };
        let len = u64::from(len);
        let begin = self.offset + BLOCK_HEADER_BYTES as u64;
        if len == 0 || begin + len > self.file.len_bytes() {
            return Err(damaged("a block leaves it"));
        }
        self.block = self.read(begin, len)?;
        self.at = 0;
        if crc32c::crc32c(&self.block) != checksum {
            return Err(damaged("the checksum of a block is wrong"));
        }
        self.offset = begin + len;
        Ok(true)
    }

    /// Bytes from anywhere in the file, by reads of whole units.
    fn read(&self, begin: u64, len: u64) -> io::Result<Vec<u8>> {
        let first = begin / READ_UNIT_BYTES * READ_UNIT_BYTES;
        let end = (begin + len).next_multiple_of(READ_UNIT_BYTES);
        let mut units = AlignedBuf::zeroed((end - first) as usize);
        let read = self.file.read_at(first, &mut units)?;
        let skip = (begin - first) as usize;
        units[..read]
            .get(skip..skip + len as usize)
            .map(<[u8]>::to_vec)
            .ok_or_else(|| damaged("it ends before its length"))
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a sorted run is damaged: {why}"),
    )
}
