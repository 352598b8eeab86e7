//! Paths of directories and devices are made absolute before they are used: a process may change
//! its working directory while a database is open, as daemons do.

use std::path::{Path, PathBuf};

use crate::error::OpenError;

/// Resolves the path against the present working directory.
///
/// # Errors
/// [`OpenError::Device`] if it is empty, or there is no working directory.
pub(crate) fn absolute_path(path: &Path) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).map_err(|source| OpenError::Device {
        path: path.to_owned(),
        source,
    })
}
