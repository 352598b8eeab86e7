//! Paths of directories and devices are made absolute before anything is done with them: a process may change its working
//! directory while a database is open, as daemons do.

use std::path::{Path, PathBuf};

use crate::error::OpenError;

/// The path as it is from the working directory of now.
///
/// # Errors
/// [`OpenError::Device`] if it is empty, or there is no working directory.
pub(crate) fn absolute_path(path: &Path) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).map_err(|source| OpenError::Device {
        path: path.to_owned(),
        source,
    })
}
