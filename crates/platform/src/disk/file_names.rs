//! Names of files: the temporary ones of files that are not finished, and names that are taken.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::directory::directory_lock;

/// Ends the name of a file that is not finished. Such a file is never listed, and overwritten
/// when its name is needed again.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// The temporary path of a file until it is complete.
pub(super) fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY_SUFFIX);
    name.into()
}

/// Whether a file belongs to the disk itself and is not returned by [`Disk::list`].
pub(super) fn is_own(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name == directory_lock::FILE_NAME)
        || is_unfinished(path)
}

/// Whether a file is not whole yet.
pub(super) fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        name.as_encoded_bytes()
            .ends_with(TEMPORARY_SUFFIX.as_bytes())
    })
}

/// The directory that holds `path`'s name.
pub(super) fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// The error of a name that is taken.
pub(super) fn already_exists(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("the file {} exists", path.display()),
    )
}

/// Renames without ever replacing.
pub(super) fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(already_exists(to)),
        // The file system cannot; a hard link refuses a taken name as well.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        Err(error) => Err(error.into()),
    }
}
