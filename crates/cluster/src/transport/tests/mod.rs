//! Transports on loopback, connected to each other and to raw connections.

mod clients;
mod hostile;
mod peers;
mod rig;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_rig;
