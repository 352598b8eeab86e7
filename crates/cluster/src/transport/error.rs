//! Why a transport does not start, or has ended.

use std::io;

/// Why there is no transport.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// An address cannot be listened at.
    #[error(
        "cannot listen for {from} at {address}; change `{key}` in the configuration, or stop what uses the address"
    )]
    Listen {
        /// "nodes" or "clients".
        from: &'static str,
        /// The address.
        address: String,
        /// The key that names it.
        key: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no thread, or no descriptors.
    #[error("cannot start the network thread; raise the limits of processes and of open files")]
    Start(#[source] io::Error),
    /// A thread has panicked.
    #[error(
        "the network thread has panicked; the node must be restarted, please report this as a bug"
    )]
    Panicked,
}
