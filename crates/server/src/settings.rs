//! Settings of a server. All may change at every start.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// Addresses and threads of a server, and its limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses for clients. Port 0 takes any that is free.
    pub listen: Vec<SocketAddr>,
    /// The folder of the Unix socket. It is created if its parent exists.
    pub socket_dir: Option<PathBuf>,
    /// The address of `/metrics` and `/healthz`.
    pub http: Option<SocketAddr>,
    /// Threads that serve clients. Default: one for each processor.
    pub threads: NonZeroUsize,
    /// Limits on clients.
    pub limits: Limits,
}

/// Limits on what clients can take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions at a time. Default: 1,000.
    pub sessions_max: usize,
    /// Connections without a login at a time, over TCP and over the socket. A new one evicts the
    /// oldest. Default: 256.
    pub without_login_max: usize,
    /// Refusals that are being delayed at a time. Default: 1,024.
    pub delayed_max: usize,
    /// Longest time for a login. Default: 30 s.
    pub login_timeout: Duration,
    /// Longest message with a statement, parameters or rows. Default: 64 MiB.
    pub message_bytes_max: usize,
    /// Bytes of unfinished requests of all sessions together. Default: 512 MiB.
    pub input_bytes_max: usize,
    /// Longest time without progress in sending to a client. Default: 60 s.
    pub send_timeout: Duration,
    /// Prepared statements of a session. Default: 10,000.
    pub statements_max: usize,
    /// Portals of a session. Default: 1,000.
    pub portals_max: usize,
    /// Longest time for statements to finish when the server stops. Then they are cancelled.
    /// Default: 30 s.
    pub stop_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: 1_000,
            without_login_max: 256,
            delayed_max: 1_024,
            login_timeout: Duration::from_secs(30),
            message_bytes_max: 64 << 20,
            input_bytes_max: 512 << 20,
            send_timeout: Duration::from_secs(60),
            statements_max: 10_000,
            portals_max: 1_000,
            stop_timeout: Duration::from_secs(30),
        }
    }
}
