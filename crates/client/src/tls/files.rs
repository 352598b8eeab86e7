//! Paths of the files of a cluster's certificates, as `namiki cluster certificates` names them.

use std::path::{Path, PathBuf};

use crate::tls_options::TlsOptions;

/// The files of an authority in a folder.
///
/// ```text
/// ca.pem, ca.key              the authority
/// node-N.pem, node-N.key      node N
/// client.pem, client.key      clients
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    folder: PathBuf,
}

impl CertificateFiles {
    /// The files in this folder, whether they exist or not.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The files that a node's configuration names.
    #[must_use]
    pub fn node(&self, number: u64) -> TlsOptions {
        self.options(&format!("node-{number}"))
    }

    /// The files that a client's configuration names.
    #[must_use]
    pub fn client(&self) -> TlsOptions {
        self.options("client")
    }

    fn options(&self, name: &str) -> TlsOptions {
        TlsOptions {
            authority: self.folder.join("ca.pem"),
            certificate: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        }
    }
}
