//! Problems of a certificate's files: the file, the key of the configuration that names it, and the
//! remedy.

use std::io;
use std::path::PathBuf;

use namiki_data::debug_as_sentence;

debug_as_sentence!(TlsError);

/// The reason for which TLS cannot be used.
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
        /// The system's error.
        source: io::Error,
    },
    /// A file has other contents.
    #[error(
        "{} (`{key}`) holds no {expected} in PEM: {why}; a file in PEM begins with -----BEGIN", path.display()
    )]
    NotPem {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The expected contents.
        expected: &'static str,
        /// The problem.
        why: String,
    },
    /// The key belongs to another certificate.
    #[error(
        "{} (`key`) is not the key of {} (`certificate`); name two files that belong together",
        key.display(), certificate.display()
    )]
    KeyMismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// The certificate has expired.
    #[error(
        "{} (`certificate`) has expired, {} ago; issue a new one, or set this machine's clock", path.display(), days(*ago_s)
    )]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// Seconds since then.
        ago_s: u64,
    },
    /// The certificate is not valid yet.
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
    /// It is for another node, or not for a node.
    #[error(
        "{} (`certificate`) is for {found}, not for {expected}; name the certificate that was issued for it", path.display()
    )]
    OtherName {
        /// The certificate's file.
        path: PathBuf,
        /// The names in it.
        found: String,
        /// The required name.
        expected: String,
    },
    /// It is unusable for another reason.
    #[error("{} (`{key}`) cannot be used: {why}; issue another one", path.display())]
    Unusable {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// A length of time in days; a short one in hours or minutes.
pub(super) fn days(seconds: u64) -> String {
    match seconds {
        0..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
