//! Which files a certificate is in.

use std::path::PathBuf;

/// Where a certificate and what belongs to it are: files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate of the authority that has signed all others of the cluster. Several in one file are each trusted.
    pub authority: PathBuf,
    /// The own certificate, followed by those between it and the authority, if there are any.
    pub certificate: PathBuf,
    /// The key of the own certificate, not encrypted.
    pub key: PathBuf,
}

impl TlsOptions {
    /// The same files as they are from the working directory of now: they are read again when they have changed, and a
    /// process may change it. Without one, a relative path leads nowhere, and stays as it is.
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
