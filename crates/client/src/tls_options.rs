//! Paths of a certificate's files.

use std::path::PathBuf;

/// Paths of a certificate, its key and its authority: files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate of the authority that has signed all others of the cluster. Several in one file are each trusted.
    pub authority: PathBuf,
    /// The own certificate, followed by the intermediate certificates between it and the authority,
    /// if any.
    pub certificate: PathBuf,
    /// The key of the own certificate, not encrypted.
    pub key: PathBuf,
}

impl TlsOptions {
    /// The same files with absolute paths, by the current working directory: the files are read
    /// again when they have changed, and a process may change its working directory. If it has
    /// none, relative paths stay as they are.
    #[must_use]
    pub fn absolute(&self) -> Self {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Self {
            authority: absolute(&self.authority),
            certificate: absolute(&self.certificate),
            key: absolute(&self.key),
        }
    }
}
