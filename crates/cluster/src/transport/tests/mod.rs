//! Transports on loopback, with each other and with raw connections.

mod clients;
mod hostile;
mod peers;
mod rig;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_rig;
