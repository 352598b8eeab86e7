//! Mutual TLS: each side shows a certificate, and both must be signed by the authority of the cluster.
//!
//! Names in certificates define the roles of a side (`names.rs`). A node that dials another one, or
//! a client that dials a node, checks the name of the answerer in the handshake; the answerer
//! checks the names of the dialler once the handshake is done. All checks of signatures, times and
//! purposes are those of rustls and webpki: this crate implements none of them.
//!
//! | file | contents |
//! |---|---|
//! | `names.rs` | names in certificates |
//! | `credentials.rs` | reading and checking of files |
//! | `error.rs` | problems of files |
//! | `files.rs` | names of the files in a folder |
//! | `handshake_error.rs` | failures of handshakes |
//! | `client_tls.rs` | a client's side |
//! | `authority.rs` | makes certificates, with the feature `certificates` |
//!
//! # Invariants
//! - S1. Only TLS 1.3, and no connection without a certificate of either side.
//! - S2. Sessions are not resumed: every connection is checked against the current certificates and
//!   the current time.

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
pub use names::{CertificateName, public_key};
