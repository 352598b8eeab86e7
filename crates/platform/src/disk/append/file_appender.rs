//! Appending to files of the operating system.
//!
//! Bytes gather in a buffer of 1 MiB and are written when it is full. A file has no name until it
//! is finished (`O_TMPFILE`), so that a process that is killed leaves nothing; where the file
//! system has no such files it has a temporary name, which the next attempt overwrites.
//!
//! A direct write ends at a block's end, so the last one is padded and the file then cut to its
//! length.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::Appender;
use crate::ProcessToken;
use crate::disk::directory::moved_dir::or_here;
use crate::disk::file_names::{already_exists, parent_of, rename_to_new, temporary_path};
use crate::disk::{AlignedBuf, BUFFER_ALIGN_BYTES};

/// Bytes that are written at a time: enough for a device's full speed.
const BUFFER_BYTES: usize = 1 << 20;

/// The method by which bytes reach a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disk) enum AppendMode {
    /// Past the page cache.
    Direct,
    /// Through the page cache.
    Cached,
    /// Not at all; the file has only a length.
    Forgotten,
}

/// A file of the operating system that is being written.
pub(in crate::disk) struct FileAppender {
    file: File,
    path: PathBuf,
    /// Its temporary name, if it has one.
    temporary: Option<PathBuf>,
    mode: AppendMode,
    buffer: AlignedBuf,
    /// Bytes before those in the buffer.
    written_bytes: u64,
    /// A write has failed.
    failed: bool,
    /// The process that writes it. A forked child has the file open, too, and leaves it alone.
    process: ProcessToken,
}

impl FileAppender {
    /// Begins the file that will be at `path`.
    pub(in crate::disk) fn new(path: &Path, mode: AppendMode) -> io::Result<Self> {
        if path.try_exists()? {
            return Err(already_exists(path));
        }
        let flags = match mode {
            AppendMode::Direct => OFlags::DIRECT,
            AppendMode::Cached | AppendMode::Forgotten => OFlags::empty(),
        };
        let (file, temporary) = open(path, flags)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            temporary,
            mode,
            buffer: AlignedBuf::with_capacity(BUFFER_BYTES),
            written_bytes: 0,
            failed: false,
            process: ProcessToken::current(),
        })
    }

    /// Writes the buffer, padded to whole blocks, and empties it.
    fn write_out(&mut self) -> io::Result<()> {
        let bytes = self.buffer.len();
        if self.mode != AppendMode::Forgotten {
            self.buffer
                .resize(bytes.next_multiple_of(BUFFER_ALIGN_BYTES));
            let written = self.file.write_all_at(&self.buffer, self.written_bytes);
            self.checked(written)?;
        }
        self.buffer.clear();
        self.written_bytes += bytes as u64;
        Ok(())
    }

    fn checked<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            self.failed = true;
            let (written, path) = (self.written_bytes, self.path.display());
            io::Error::new(
                error.kind(),
                format!("cannot append to {path} behind {written} bytes: {error}"),
            )
        })
    }

    fn require_sound(&self) -> io::Result<()> {
        if !self.process.is_current() {
            let path = self.path.display();
            return Err(io::Error::other(format!(
                "{path} is written by the parent of this process"
            )));
        }
        if self.failed {
            let path = self.path.display();
            return Err(io::Error::other(format!(
                "an earlier write of {path} has failed: begin the file again"
            )));
        }
        Ok(())
    }

    /// Gives the file its own name.
    fn give_name(&mut self) -> io::Result<()> {
        let Some(temporary) = &self.temporary else {
            let itself = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let linked = rustix::fs::linkat(CWD, itself, CWD, &self.path, AtFlags::SYMLINK_FOLLOW);
            return match linked {
                Ok(()) => Ok(()),
                Err(Errno::EXIST) => Err(already_exists(&self.path)),
                Err(error) => Err(error.into()),
            };
        };
        rename_to_new(temporary, &self.path)?;
        self.temporary = None;
        Ok(())
    }
}

impl Appender for FileAppender {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.require_sound()?;
        let mut left = bytes;
        while !left.is_empty() {
            let (now, later) = left.split_at(left.len().min(BUFFER_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            left = later;
            if self.buffer.len() == BUFFER_BYTES {
                self.write_out()?;
            }
        }
        Ok(())
    }

    fn len_bytes(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    fn finish(mut self: Box<Self>) -> io::Result<u64> {
        self.require_sound()?;
        if !self.buffer.is_empty() {
            self.write_out()?;
        }
        let cut = self.file.set_len(self.written_bytes);
        self.checked(cut)?;
        let synced = self.file.sync_all();
        self.checked(synced)?;
        let named = self.give_name();
        self.checked(named)?;
        Ok(self.written_bytes)
    }
}

impl Drop for FileAppender {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary
            && self.process.is_current()
        {
            // A leftover is never listed, and overwritten next time.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Opens an empty file for what is to be at `path`, and says which name it has.
fn open(path: &Path, flags: OFlags) -> io::Result<(File, Option<PathBuf>)> {
    let own = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    let dir = or_here(parent_of(path));
    // Without /proc such a file could not be given a name.
    if Path::new("/proc/self/fd").exists()
        && let Ok(file) = rustix::fs::openat(CWD, dir, own | flags, mode)
    {
        return Ok((file.into(), None));
    }
    open_named(path, flags)
}

/// The same under a temporary name.
fn open_named(path: &Path, flags: OFlags) -> io::Result<(File, Option<PathBuf>)> {
    let temporary = temporary_path(path);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(flags.bits() as i32)
        .open(&temporary);
    if opened.is_err() {
        // A file system without direct I/O returns the error after it has created the file.
        let _ = fs::remove_file(&temporary);
    }
    Ok((opened?, Some(temporary)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that has a name while it is written, as where the file system has none without.
    fn named(path: &Path, process: ProcessToken) -> Box<FileAppender> {
        let (file, temporary) = open_named(path, OFlags::empty()).unwrap();
        Box::new(FileAppender {
            file,
            path: path.to_owned(),
            temporary,
            mode: AppendMode::Cached,
            buffer: AlignedBuf::with_capacity(BUFFER_BYTES),
            written_bytes: 0,
            failed: false,
            process,
        })
    }

    #[test]
    fn a_forked_child_neither_writes_nor_removes_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.run");
        let mut inherited = named(&path, ProcessToken::of_another());
        assert!(inherited.append(b"x").is_err());
        drop(inherited);
        let temporary = temporary_path(&path);
        assert!(temporary.exists());
        assert!(named(&path, ProcessToken::of_another()).finish().is_err());
        assert!(temporary.exists() && !path.exists());
        drop(named(&path, ProcessToken::current()));
        assert!(!temporary.exists());
    }
}
