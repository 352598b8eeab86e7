//! Copies the frames of a stream into the files of another log's directory: for backups.
//!
//! Each frame is verified as it is read, and copied with the place that its checksum knows: the
//! same log file, the same offset. The bytes behind the frames of a recycled log file are not
//! copied but replaced by zeros.
//!
//! A copy grows: frames that it has are skipped, and later ones are appended. In the last log file
//! of the copy they are written in place, behind its frames: the earlier manifest has a seal there,
//! and readers stop at a seal. Every other log file is written under a
//! name that belongs to no log, durably, and renamed. The names are durable in the order of their
//! numbers, so none is missing between others after a crash.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::WorkerId;
use namiki_platform::disk::{AlignedBuf, Appender, Disk, DiskFile};
use serde::{Deserialize, Serialize};

use crate::format::BLOCK_BYTES_MAX;
use crate::format::Found;
use crate::format::log_file::{LogFileHeader, file_name, stream_dir, unnumbered_file_name};
use crate::generation::GenerationInfo;
use crate::generation::log_start::StreamStart;
use crate::read::{ReadError, StreamReader};

/// Length of a write in place.
const PIECE_BYTES: usize = 1 << 20;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The position up to which a stream was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedThrough {
    /// The sequence number of the last frame; 0 without frames.
    pub sequence: u64,
    /// Its log file.
    pub file_number: u64,
    /// The sequence number of that log file's first frame.
    pub first_sequence: u64,
    /// The offset of the next frame of that log file.
    pub end: u64,
}

/// The reason that a stream was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// It cannot be read, or is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The copy cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Its file or directory.
        path: PathBuf,
        /// The error of the device.
        #[source]
        source: io::Error,
    },
}

/// A log on a disk. `wal` is its directory.
#[derive(Clone, Copy, Debug)]
pub struct LogPlace<'a> {
    /// The disk.
    pub disk: &'a Arc<dyn Disk>,
    /// Its directory.
    pub wal: &'a Path,
}

/// Copies the frames of a stream up to its seal, those left out that the copy has already. Returns
/// up to where. All of it is durable then. The generation lies in log files, and is sealed.
/// `on_bytes` gets the bytes of each copied frame, and its error ends the copying.
///
/// # Errors
/// [`CopyError`]; what `on_bytes` returns. The earlier part of the copy is unchanged.
pub fn copy_stream<E: From<CopyError>>(
    from: LogPlace<'_>,
    to: LogPlace<'_>,
    identity: u128,
    info: &GenerationInfo,
    worker: WorkerId,
    has: CopiedThrough,
    on_bytes: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<CopiedThrough, E> {
    let read = |error| E::from(CopyError::Read(error));
    let mut copy = StreamCopy {
        from,
        to,
        info,
        worker,
        open: None,
    };
    copy.make_dir()?;
    let seal = info.seal.as_ref();
    let last = seal.map_or(0, |seal| seal.last_sequence(usize::from(worker.0)));
    // If the copy ends in a log file that is gone, the frames that would follow are gone, too.
    let has = if has.file_number >= info.start(worker).file_number {
        has
    } else {
        CopiedThrough::default()
    };
    if has.sequence >= last {
        return Ok(has);
    }
    let mut through = has;
    let info = begun_at(info, worker, has);
    let disk = Arc::clone(from.disk);
    let mut reader = StreamReader::open(disk, from.wal, identity, &info, worker).map_err(read)?;
    while let Some(frame) = reader.next_frame().map_err(read)? {
        let sequence = frame.header.sequence;
        if sequence <= has.sequence {
            continue;
        }
        let position = frame.position;
        if position.file_number != through.file_number {
            copy.finish()?;
            (through.file_number, through.first_sequence) = (position.file_number, sequence);
            copy.open = Some(copy.begin(position.file_number)?);
        }
        let open = match &mut copy.open {
            Some(open) => open,
            None => {
                let grown = copy.grow(position.file_number, position.offset)?;
                copy.open.insert(grown)
            }
        };
        through.end = open.push(position.offset, frame.whole())?;
        through.sequence = sequence;
        on_bytes(position.length.into())?;
    }
    copy.finish()?;
    Ok(through)
}

/// The generation, read from the log file in which the copy ends.
fn begun_at(info: &GenerationInfo, worker: WorkerId, has: CopiedThrough) -> GenerationInfo {
    let mut info = info.clone();
    if has.sequence > 0 {
        let starts = (0..info.streams).map(|stream| info.start(WorkerId(stream)));
        info.starts = starts.collect();
        info.starts[usize::from(worker.0)] = StreamStart {
            file_number: has.file_number,
            sequence: has.first_sequence,
            offset: 0,
        };
    }
    info
}

struct StreamCopy<'a> {
    from: LogPlace<'a>,
    to: LogPlace<'a>,
    info: &'a GenerationInfo,
    worker: WorkerId,
    open: Option<FileCopy>,
}

/// A log file of the copy that is being written.
struct FileCopy {
    path: PathBuf,
    /// The unit of the frames.
    block_bytes: u64,
    file: CopiedFile,
}

enum CopiedFile {
    /// It is not there yet.
    New {
        appender: Box<dyn Appender>,
        /// Its name until it is whole.
        new: PathBuf,
        len_bytes: u64,
    },
    /// It was there, and grows in place.
    Grown {
        file: Arc<dyn DiskFile>,
        /// The beginning of the gathered bytes: at a block boundary.
        start: u64,
        gathered: AlignedBuf,
    },
}

impl StreamCopy<'_> {
    fn dir(&self) -> PathBuf {
        stream_dir(self.to.wal, self.worker)
    }

    fn make_dir(&self) -> Result<(), CopyError> {
        let dir = self.dir();
        let made = self.to.disk.create_dir_all(&dir);
        made.map_err(|source| CopyError::Write { path: dir, source })
    }

    /// The header of a log file, with the block that holds it.
    fn header(&self, number: u64) -> Result<(LogFileHeader, AlignedBuf), CopyError> {
        let path =
            stream_dir(self.from.wal, self.worker).join(file_name(self.info.generation, number));
        let device = |source| ReadError::device(&path, source);
        let file = self.from.disk.open(&path).map_err(device)?;
        let mut block = AlignedBuf::zeroed(BLOCK_BYTES_MAX);
        let got = file.read_at(0, &mut block).map_err(device)?;
        match LogFileHeader::read(&block[..got]) {
            Found::Header(header) => Ok((header, block)),
            // It was read a moment ago.
            Found::OtherVersion(_) | Found::Nothing => {
                Err(ReadError::damaged(&path, 0, "its header has changed meanwhile").into())
            }
        }
    }

    /// Begins a log file that the copy does not have.
    fn begin(&self, number: u64) -> Result<FileCopy, CopyError> {
        let (header, block) = self.header(number)?;
        let dir = self.dir();
        let new = dir.join(unnumbered_file_name(self.info.generation, number));
        let failed = |source| CopyError::Write {
            path: new.clone(),
            source,
        };
        // An interrupted copy may have left it.
        match self.to.disk.remove(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut appender = self.to.disk.append(&new).map_err(failed)?;
        appender
            .append(&block[..header.block_bytes as usize])
            .map_err(failed)?;
        Ok(FileCopy {
            path: dir.join(file_name(self.info.generation, number)),
            block_bytes: header.block_bytes.into(),
            file: CopiedFile::New {
                appender,
                new,
                len_bytes: header.log_file_bytes,
            },
        })
    }

    /// Opens the last log file of the copy, to continue at this offset.
    fn grow(&self, number: u64, offset: u64) -> Result<FileCopy, CopyError> {
        let (header, _) = self.header(number)?;
        let path = self.dir().join(file_name(self.info.generation, number));
        let failed = |source| CopyError::Write {
            path: path.clone(),
            source,
        };
        let file = self.to.disk.open(&path).map_err(failed)?;
        let start = offset - offset % file.block_bytes() as u64;
        // If blocks of this disk are longer, the beginning of the first is there already.
        let mut gathered = AlignedBuf::zeroed(file.block_bytes());
        let got = file.read_at(start, &mut gathered).map_err(failed)?;
        gathered.resize(((offset - start) as usize).min(got));
        Ok(FileCopy {
            block_bytes: header.block_bytes.into(),
            file: CopiedFile::Grown {
                file,
                start,
                gathered,
            },
            path,
        })
    }

    /// Makes the log file that is being written durable, and gives it its name.
    fn finish(&mut self) -> Result<(), CopyError> {
        let Some(FileCopy { path, file, .. }) = self.open.take() else {
            return Ok(());
        };
        let failed = |source| CopyError::Write {
            path: path.clone(),
            source,
        };
        match file {
            CopiedFile::Grown {
                file,
                start,
                mut gathered,
            } => write_gathered(&*file, start, &mut gathered).map_err(failed),
            CopiedFile::New {
                mut appender,
                new,
                len_bytes,
            } => {
                let mut left = len_bytes.saturating_sub(appender.len_bytes());
                while left > 0 {
                    let zeros = &ZEROS[..ZEROS.len().min(left as usize)];
                    appender.append(zeros).map_err(failed)?;
                    left -= zeros.len() as u64;
                }
                appender.finish().map_err(failed)?;
                self.to.disk.rename(&new, &path).map_err(failed)?;
                self.to.disk.sync_dir(&self.dir()).map_err(failed)
            }
        }
    }
}

impl FileCopy {
    /// Adds the frame at `offset`. Returns the offset of the next one.
    fn push(&mut self, offset: u64, frame: &[u8]) -> Result<u64, CopyError> {
        let end = (offset + frame.len() as u64).next_multiple_of(self.block_bytes);
        let padding = &ZEROS[..(end - offset) as usize - frame.len()];
        let pushed = match &mut self.file {
            CopiedFile::New { appender, .. } => appender
                .append(frame)
                .and_then(|()| appender.append(padding)),
            CopiedFile::Grown {
                file,
                start,
                gathered,
            } => {
                gathered.extend_from_slice(frame);
                gathered.extend_from_slice(padding);
                if gathered.len() >= PIECE_BYTES {
                    write_whole_blocks(&**file, start, gathered)
                } else {
                    Ok(())
                }
            }
        };
        pushed.map_err(|source| CopyError::Write {
            path: self.path.clone(),
            source,
        })?;
        Ok(end)
    }
}

/// Writes what is gathered, and keeps what is in a block that is not full.
fn write_whole_blocks(
    file: &dyn DiskFile,
    start: &mut u64,
    gathered: &mut AlignedBuf,
) -> io::Result<()> {
    let rest = gathered.len() % file.block_bytes();
    let whole = gathered.len() - rest;
    file.write_durable(*start, &gathered[..whole])?;
    let rest = gathered[whole..].to_vec();
    gathered.clear();
    gathered.extend_from_slice(&rest);
    *start += whole as u64;
    Ok(())
}

fn write_gathered(file: &dyn DiskFile, start: u64, gathered: &mut AlignedBuf) -> io::Result<()> {
    if gathered.is_empty() {
        return Ok(());
    }
    gathered.resize(gathered.len().next_multiple_of(file.block_bytes()));
    file.write_durable(start, gathered)
}
