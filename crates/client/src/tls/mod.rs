//! Mutual TLS: each side shows a certificate, and both must be signed by the authority of the cluster.
//!
//! Names in certificates say what a side may be (`names.rs`). A node that dials another one, or a client that dials a node, checks the
//! name of the answerer in the handshake; the answerer looks at the names of the dialler once the handshake is done. All checks of
//! signatures, times and purposes are those of rustls and webpki: nothing of that kind is written here.
//!
//! | file | what it is |
//! |---|---|
//! | `names.rs` | names in certificates |
//! | `credentials.rs` | files that are read and checked |
//! | `error.rs` | what is wrong with files |
//! | `files.rs` | how files are called in a folder of them |
//! | `handshake_error.rs` | why two sides do not come together |
//! | `client_tls.rs` | a client's side |
//! | `authority.rs` | makes certificates, with the feature `certificates` |
//!
//! # Invariants
//! - S1. Only TLS 1.3, and no connection without a certificate of either side.
//! - S2. Sessions are not resumed: every connection is checked against the present certificates and the present time.

#[cfg(feature = "certificates")]
mod authority;
mod client_tls;
mod credentials;
mod error;
mod files;
mod handshake_error;
mod names;
#[cfg(test)]
#[cfg(feature = "certificates")]
mod tests;

#[cfg(feature = "certificates")]
pub use authority::{Authority, IssueError, Issued};
pub use client_tls::ClientTls;
pub use credentials::Credentials;
pub use error::TlsError;
pub use files::CertificateFiles;
pub use handshake_error::HandshakeError;
pub use names::CertificateName;
