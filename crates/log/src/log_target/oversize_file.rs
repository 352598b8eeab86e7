//! A log file that is made for one frame that is longer than a log file.
//!
//! ```text
//!   unnumbered      all of the frame but its head, written and durable; no other thread knows of it
//!   numbered        renamed to the next log file, in the place of a spare one if there is one, with its header
//!   written         with the frame's head, which is what makes the frame be there
//! ```
//! So the commit of a gigabyte is a write of a block or two: what is before it holds nothing up but the
//! commit itself. Its body is never torn, for it is durable before the name is; where a
//! block of its head is missing, the log file reads as one with a torn frame.
//!
//! # Invariants
//! - O1. The log file's length is its header's block, the frame, and the room for an epoch marker.
//! - O2. It gets its number when everything appended before is hardened, and nothing is appended
//!   before its frame is: no frame counts on the spare that it replaces. A rename that reports a
//!   failure is a refusal only if the file is still there without a number. Otherwise the number
//!   may be taken: frames written to that spare would be in a file without a name, so the log
//!   accepts nothing more.
//! - O3. A file without a number is removed by its owner, or by the next opening.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namiki_platform::ProcessToken;
use namiki_platform::disk::{AlignedBuf, Disk, DiskFile};

use super::log_files::{LogFile, LogFileMaker, Numbering};
use crate::error::LogError;
use crate::format::BLOCK_BYTES_MAX;
use crate::format::frame::head_bytes;
use crate::format::log_file::{LogFileHeader, file_name, is_unnumbered, unnumbered_file_name};
use crate::log_target::log_room::{Grant, GrantedFile, ImageEffect, LogRoom, WantedFile};
use crate::stream_dirs::stream_dirs;

/// Number of a frame's bytes that are written at a time.
const PIECE_BYTES: usize = 4 << 20;

/// A log file that has no number yet, with all of a frame but its head: the first block, or those in
/// which the headers of the frame and of its first record lie.
pub(crate) struct UnnumberedFile {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    bytes: u64,
    frame_bytes: u64,
    has_number: bool,
    process: ProcessToken,
    /// The permission, until it is a log file.
    granted: Option<GrantedFile>,
}

impl LogFileMaker {
    /// Whether a frame has room in a log file of the usual length, with `marker_room` behind it.
    pub(crate) fn takes(&self, frame_bytes: usize, marker_room: usize) -> bool {
        let padded = frame_bytes.next_multiple_of(BLOCK_BYTES_MAX);
        (BLOCK_BYTES_MAX + padded + marker_room) as u64 <= self.log_file_bytes
    }

    /// Makes a log file for this frame and writes it, durably, but for its head.
    /// Blocks are `block` bytes long, as in the stream's other log files.
    ///
    /// `room` is asked before, for a frame with this `effect`.
    pub(crate) fn write_body(
        &self,
        frame: &[u8],
        effect: ImageEffect,
        block: usize,
        marker_room: usize,
        room: Option<&Arc<dyn LogRoom>>,
    ) -> Result<UnnumberedFile, LogError> {
        let count = self.oversize.fetch_add(1, Ordering::Relaxed) + 1;
        let path = self.dir.join(unnumbered_file_name(self.generation, count));
        let failed = |source| LogError::preparing(&path, source);
        let padded = frame.len().next_multiple_of(BLOCK_BYTES_MAX);
        let bytes = (BLOCK_BYTES_MAX + padded + marker_room) as u64;
        let wanted = WantedFile {
            bytes,
            takes_room: true,
            is_kept_for: false,
            frees_bytes: effect.frees_bytes(),
        };
        let granted = GrantedFile::ask(room, wanted).map_err(failed)?;
        let written = self
            .write_file(&path, frame, block, bytes)
            .and_then(|file| {
                if file.block_bytes() == block {
                    Ok(file)
                } else {
                    Err(io::Error::other(
                        "its blocks are not those of the other log files",
                    ))
                }
            });
        let file = written.map_err(|source| {
            // As it was not acknowledged, it does no harm where it cannot be removed.
            let _ = self.disk.remove(&path);
            failed(source)
        })?;
        Ok(UnnumberedFile {
            disk: Arc::clone(&self.disk),
            file,
            path,
            bytes,
            frame_bytes: frame.len().next_multiple_of(block) as u64,
            has_number: false,
            process: ProcessToken::current(),
            granted: Some(granted),
        })
    }

    fn write_file(
        &self,
        path: &Path,
        frame: &[u8],
        block: usize,
        bytes: u64,
    ) -> io::Result<Arc<dyn DiskFile>> {
        let mut appender = match self.disk.append(path) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                return self.write_into_zeros(path, frame, block, bytes);
            }
            appender => appender?,
        };
        // The header, and the frame's head, which are written later.
        let zeros = [0; 2 * BLOCK_BYTES_MAX];
        let head = head_bytes(block);
        appender.append(&zeros[..block + head])?;
        appender.append(&frame[head..])?;
        while appender.len_bytes() < bytes {
            let missing = bytes - appender.len_bytes();
            appender.append(&zeros[..missing.min(zeros.len() as u64) as usize])?;
        }
        appender.finish()?;
        self.disk.open(path)
    }

    /// The same where a disk cannot append.
    fn write_into_zeros(
        &self,
        path: &Path,
        frame: &[u8],
        block: usize,
        bytes: u64,
    ) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.create(path, bytes)?;
        let mut piece = AlignedBuf::zeroed(PIECE_BYTES);
        let head = head_bytes(block);
        let mut at = (block + head) as u64;
        for part in frame[head..].chunks(PIECE_BYTES) {
            let padded = part.len().next_multiple_of(block);
            piece[..part.len()].copy_from_slice(part);
            piece[part.len()..padded].fill(0);
            file.write_durable(at, &piece[..padded])?;
            at += padded as u64;
        }
        Ok(file)
    }

    /// Gives the log file its number: on return its header and its name are durable.
    ///
    /// # Errors
    /// Poison unless it is known that the number was not given away (O2).
    pub(crate) fn number(
        &self,
        log_file: &mut UnnumberedFile,
        numbering: &Numbering,
    ) -> Result<LogFile, LogError> {
        let path = self.dir.join(file_name(self.generation, numbering.number));
        let file = &log_file.file;
        let mut block = AlignedBuf::zeroed(file.block_bytes());
        LogFileHeader {
            identity: self.identity,
            number: numbering.number,
            log_file_bytes: log_file.bytes,
            generation: self.generation,
            block_bytes: file.block_bytes() as u32,
            worker: self.worker,
            is_zeroed: true,
            // A frame is at most 1 GiB.
            frame_bytes_max: log_file.frame_bytes as u32,
            is_oversize: true,
        }
        .write(&mut block);
        let refused = |source| LogError::preparing(&path, source);
        file.write_durable(0, &block).map_err(refused)?;
        let renamed = self.disk.rename(&log_file.path, &path);
        let renamed = match renamed {
            Err(source) if self.is_listed(&log_file.path) => return Err(refused(source)),
            renamed => renamed,
        };
        // The point of no return: the spare that had the number is gone, or may be.
        log_file.has_number = true;
        let named = renamed.and_then(|()| self.disk.sync_dir(&self.dir));
        named.map_err(|source| LogError::device("naming", &path, source))?;
        Ok(LogFile {
            number: numbering.number,
            file: Arc::clone(file),
            path: path.into(),
            bytes: log_file.bytes,
            is_oversize: true,
            grant: log_file
                .granted
                .as_ref()
                .map_or(Grant::All, GrantedFile::grant),
            granted_bytes: log_file.granted.take().map_or(0, GrantedFile::used),
        })
    }

    /// Whether it is known that a file of the stream's directory has this name.
    fn is_listed(&self, path: &Path) -> bool {
        let listed = self.disk.list(&self.dir);
        listed.is_ok_and(|files| files.iter().any(|file| file.path == path))
    }
}

impl UnnumberedFile {
    /// Whether it has its number by now, or may have it.
    pub(crate) fn has_number(&self) -> bool {
        self.has_number
    }
}

impl Drop for UnnumberedFile {
    fn drop(&mut self) {
        if !self.has_number && self.process.is_current() {
            // The commit has failed. The next opening removes the remaining file.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Removes the log files that never got a number (O3), of these streams and of all others that
/// there are. One that cannot be removed does no harm.
pub fn remove_unnumbered(disk: &dyn Disk, wal: &Path, streams: u16) {
    for (_, dir) in stream_dirs(disk, wal, streams).unwrap_or_default() {
        let listed = disk.list(&dir).unwrap_or_default();
        let listed = listed.into_iter().map(|entry| entry.path);
        let unfinished = disk.unfinished(&dir).unwrap_or_default();
        for path in listed.chain(unfinished).filter(|path| is_unnumbered(path)) {
            let _ = disk.remove(&path);
        }
    }
}
