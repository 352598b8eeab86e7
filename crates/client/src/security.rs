//! Security of a client's connections.

#[cfg(feature = "tls")]
use crate::tls::{ClientTls, TlsError};
#[cfg(feature = "tls")]
use crate::tls_options::TlsOptions;

/// Security of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Security {
    /// None: for a dedicated machine or network.
    #[default]
    Plain,
    /// By TLS 1.3, with certificates on both sides.
    #[cfg(feature = "tls")]
    Tls(ClientTls),
}

impl Security {
    /// Reads the files of a client's certificate once: to use other files, a program calls this
    /// again.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what to do.
    #[cfg(feature = "tls")]
    pub fn tls(options: &TlsOptions) -> Result<Self, TlsError> {
        Ok(Self::Tls(ClientTls::read(options)?))
    }
}
