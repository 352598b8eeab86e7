//! The kinds of files behind a name in a directory, and the refusal of those that hold no data.
//!
//! Links are followed, so data may lie elsewhere. A FIFO, a socket or a directory in the place of a
//! file is an error and never opened: opening a FIFO could wait for ever.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The kind of the entry under a name, links followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A file.
    #[default]
    Regular,
    /// A disk or partition. Legal as a shared device.
    BlockDevice,
    /// A directory.
    Directory,
    /// A link to nothing, or in a circle.
    DanglingLink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A terminal or the like.
    CharacterDevice,
}

impl FileKind {
    fn of(found: FileType) -> Self {
        if found.is_dir() {
            Self::Directory
        } else if found.is_block_device() {
            Self::BlockDevice
        } else if found.is_fifo() {
            Self::Fifo
        } else if found.is_socket() {
            Self::Socket
        } else if found.is_char_device() {
            Self::CharacterDevice
        } else {
            Self::Regular
        }
    }

    /// Whether data can be read from it at offsets.
    fn holds_data(self) -> bool {
        matches!(self, Self::Regular | Self::BlockDevice)
    }
}

impl std::fmt::Display for FileKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Regular => "a file",
            Self::BlockDevice => "a block device",
            Self::Directory => "a directory",
            Self::DanglingLink => "a link that leads to no file",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::CharacterDevice => "a character device",
        })
    }
}

/// An entry of another kind is in the place of a file. The source of an [`io::Error`]: see
/// [`NotAFile::in_error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is {kind}, and has to be a file or a link to one: put the file back, or mend the link",
    path.display()
)]
pub struct NotAFile {
    /// The name.
    pub path: PathBuf,
    /// The kind of the entry.
    pub kind: FileKind,
}

impl NotAFile {
    /// The reason of an error, if it is this one.
    #[must_use]
    pub fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    fn error(path: &Path, kind: FileKind) -> io::Error {
        let path = path.to_owned();
        io::Error::new(ErrorKind::InvalidInput, Self { path, kind })
    }
}

/// An entry of another kind is in the place of a directory. The source of an [`io::Error`]: see
/// [`NotADirectory::in_error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is {kind}, and has to be a directory or a link to one: put the directory back, or mend the link",
    path.display()
)]
pub struct NotADirectory {
    /// The name.
    pub path: PathBuf,
    /// The kind of the entry.
    pub kind: FileKind,
}

impl NotADirectory {
    /// The reason of an error, if it is this one.
    #[must_use]
    pub fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// The error for an entry of another kind in the place of a directory.
pub(super) fn name_what_is_no_directory(dir: &Path, error: io::Error) -> io::Error {
    match look(dir) {
        Ok((kind, _)) if kind != FileKind::Directory => {
            let path = dir.to_owned();
            io::Error::new(ErrorKind::NotADirectory, NotADirectory { path, kind })
        }
        _ => error,
    }
}

/// The kind and the length of the entry under a name, links followed. `NotFound` if there is no
/// such name.
pub(super) fn look(path: &Path) -> io::Result<(FileKind, u64)> {
    match fs::metadata(path) {
        Ok(found) => Ok((FileKind::of(found.file_type()), found.len())),
        Err(error) => {
            let leads_nowhere = matches!(
                error.raw_os_error(),
                Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)
            );
            match fs::symlink_metadata(path) {
                Ok(found) if leads_nowhere && found.is_symlink() => Ok((FileKind::DanglingLink, 0)),
                _ => Err(error),
            }
        }
    }
}

/// Fails with [`NotAFile`] if there is something at `path` that holds no data. For opening to read
/// and write, which waits for nothing on any kind of file.
pub(super) fn expect_data(path: &Path) -> io::Result<()> {
    match look(path)?.0 {
        kind if kind.holds_data() => Ok(()),
        kind => Err(NotAFile::error(path, kind)),
    }
}

/// As [`expect_data`], where a missing file may be created.
pub(super) fn expect_data_or_nothing(path: &Path) -> io::Result<()> {
    match expect_data(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Opens what is at `path` for reading only, if that is a file or a block device.
///
/// # Errors
/// `NotFound`; `InvalidInput` with a [`NotAFile`] for anything else that is there, also for a link
/// that leads to no file; otherwise the error of the device.
pub fn open_for_reading(path: &Path) -> io::Result<File> {
    expect_data(path)?;
    // It may have been replaced since: opening a FIFO must not wait for a writer.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    match FileKind::of(file.metadata()?.file_type()) {
        kind if kind.holds_data() => Ok(file),
        kind => Err(NotAFile::error(path, kind)),
    }
}

/// The whole of a small file.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_for_reading(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}
