//! Errors of the transport.

use std::io;

/// The reason for which a transport has not started, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The node cannot listen at an address.
    #[error(
        "cannot listen for {from} at {address}; change `{key}` in the configuration, or stop the program that uses the address"
    )]
    Listen {
        /// "nodes", "clients" or "scrapers".
        from: &'static str,
        /// The address.
        address: String,
        /// The key that names it.
        key: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The system refuses a thread or descriptors.
    #[error("cannot start the network thread; raise the limits of processes and of open files")]
    Start(#[source] io::Error),
    /// A thread has panicked.
    #[error(
        "the network thread has panicked; the node must be restarted, please report this as a bug"
    )]
    Panicked,
}
