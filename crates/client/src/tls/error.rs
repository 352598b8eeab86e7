//! What is wrong with the files of a certificate: which file, which key of the configuration names it, and what to do.

use std::io;
use std::path::PathBuf;

use crate::error_sentence::debug_as_sentence;

debug_as_sentence!(TlsError);

/// Why there is no TLS.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error(
        "cannot read {} (`{key}`); put the file there, or write its path to `{key}`", path.display()
    )]
    Read {
        /// The key that names it: authority, certificate or key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file has something else in it.
    #[error(
        "{} (`{key}`) holds no {expected} in PEM: {why}; a file in PEM begins with -----BEGIN", path.display()
    )]
    NotPem {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The key is another certificate's.
    #[error(
        "{} (`key`) is not the key of {} (`certificate`); name the two files that were made together",
        key.display(), certificate.display()
    )]
    KeyMismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// The certificate is too old.
    #[error(
        "{} (`certificate`) has expired, {} ago; issue a new one, or set this machine's clock", path.display(), days(*ago_s)
    )]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// Seconds since then.
        ago_s: u64,
    },
    /// The certificate is for later.
    #[error(
        "{} (`certificate`) is valid only in {}; set this machine's clock, or wait", path.display(), days(*in_s)
    )]
    NotYetValid {
        /// The certificate's file.
        path: PathBuf,
        /// Seconds until then.
        in_s: u64,
    },
    /// Another authority has signed it.
    #[error(
        "{} (`certificate`) is not signed by {} (`authority`); name the authority that has signed the certificates of all nodes and clients",
        certificate.display(), authority.display()
    )]
    OtherAuthority {
        /// The certificate's file.
        certificate: PathBuf,
        /// The authority's file.
        authority: PathBuf,
    },
    /// It is for another node, or for none.
    #[error(
        "{} (`certificate`) is for {found}, not for {expected}; name the certificate that was issued for it", path.display()
    )]
    OtherName {
        /// The certificate's file.
        path: PathBuf,
        /// What it is for.
        found: String,
        /// What it must be for.
        expected: String,
    },
    /// It is of no use for another reason.
    #[error("{} (`{key}`) cannot be used: {why}; issue another one", path.display())]
    Unusable {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// A time in days, as far as it is days.
pub(super) fn days(seconds: u64) -> String {
    match seconds {
        0..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
