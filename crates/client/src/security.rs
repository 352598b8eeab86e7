//! How a client's connections are protected.

#[cfg(feature = "tls")]
use crate::tls::{ClientTls, TlsError};
#[cfg(feature = "tls")]
use crate::tls_options::TlsOptions;

/// How connections are protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Security {
    /// Not at all: for a machine or a network of its own.
    #[default]
    Plain,
    /// By TLS 1.3, with certificates on both sides.
    #[cfg(feature = "tls")]
    Tls(ClientTls),
}

impl Security {
    /// Reads the files of a client's certificate, once: a program that is to use others reads them again.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what to do.
    #[cfg(feature = "tls")]
    pub fn tls(options: &TlsOptions) -> Result<Self, TlsError> {
        Ok(Self::Tls(ClientTls::read(options)?))
    }
}
