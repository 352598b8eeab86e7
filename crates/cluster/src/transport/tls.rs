//! A node's side of TLS, and its certificate, which can be replaced while the node runs.
//!
//! A new certificate applies to connections that are made from then on; existing ones continue.
//!
//! # Invariants
//! - TC1. A peer that dials without a certificate of the authority costs the buffers of one
//!   handshake, for no longer than the timeout of a hello.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_client::TlsOptions;
use namiki_client::tls::{CertificateName, Credentials, HandshakeError, TlsError, public_key};
use namiki_platform::ErrorSentence;
use parking_lot::{Mutex, RwLock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::transport::stream::{Incoming, Outgoing, secured};

/// Limits in time and bytes for reading on a refused connection, so that its end does not overtake
/// the reason.
const LINGER: Duration = Duration::from_millis(200);
const LINGER_BYTES: u64 = 64 << 10;
/// Interval of checks of an unchanged certificate: it may be about to expire.
const LOOK_INTERVAL: Duration = Duration::from_secs(86_400);

/// A node's certificate.
pub struct NodeTls {
    options: TlsOptions,
    cluster: u128,
    number: u64,
    logger: slog::Logger,
    ready: RwLock<Ready>,
    seen: Mutex<Seen>,
}

/// The contents of a peer's certificate.
pub(super) struct Certified {
    /// The names of this cluster that the peer may have.
    pub(super) names: Vec<CertificateName>,
    /// Its public key.
    pub(super) key: Vec<u8>,
}

/// The TLS configurations of a certificate.
#[derive(Clone)]
struct Ready {
    expires_s: Option<u64>,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

/// The files as they were read last.
struct Seen {
    at: Instant,
    stamps: [Option<FileStamp>; 3],
}

/// The attributes that change when a file is written or replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    modified: (i64, i64),
    bytes: u64,
    inode: u64,
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
            inode: metadata.ino(),
        })
    }
}

impl Seen {
    fn now(options: &TlsOptions) -> Self {
        let files = [&options.authority, &options.certificate, &options.key];
        Self {
            at: Instant::now(),
            stamps: files.map(|path| FileStamp::of(path)),
        }
    }
}

impl NodeTls {
    /// Reads and checks the certificate of a node of a cluster.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what to do.
    pub fn read(
        options: &TlsOptions,
        cluster: u128,
        number: u64,
        logger: slog::Logger,
    ) -> Result<Self, TlsError> {
        let options = options.absolute();
        let seen = Seen::now(&options);
        let ready = Ready::read(&options, cluster, number, &logger)?;
        Ok(Self {
            options,
            cluster,
            number,
            logger,
            ready: RwLock::new(ready),
            seen: Mutex::new(seen),
        })
    }

    /// Checks whether the files have changed. If so, they apply to connections from now on; if they
    /// are invalid, the old ones remain, and the reason is logged.
    pub fn refresh(&self) {
        let logger = &self.logger;
        let now = Seen::now(&self.options);
        {
            let mut seen = self.seen.lock();
            let is_old = now.at.saturating_duration_since(seen.at) >= LOOK_INTERVAL;
            if now.stamps == seen.stamps && !is_old {
                return;
            }
            *seen = now;
        }
        match Ready::read(&self.options, self.cluster, self.number, logger) {
            Ok(ready) => {
                *self.ready.write() = ready;
                slog::info!(logger, "the certificate was read again");
            }
            Err(error) => {
                slog::warn!(logger, "the certificate cannot be read again, the old one remains"; "reason" => %ErrorSentence(&error));
            }
        }
    }

    /// When the certificate expires, in seconds of the Unix time, if it does.
    pub(super) fn expires_s(&self) -> Option<u64> {
        self.ready.read().expires_s
    }

    fn ready(&self) -> Ready {
        self.ready.read().clone()
    }

    /// The answerer's side of a handshake.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(Incoming, Outgoing, Certified), HandshakeError> {
        let accepted = self.ready().acceptor.accept(stream).into_fallible().await;
        let stream = match accepted {
            Ok(stream) => stream,
            Err((error, stream)) => {
                linger(stream).await;
                return Err(HandshakeError::of(error, None));
            }
        };
        let (_, connection) = stream.get_ref();
        let certificates = connection.peer_certificates().unwrap_or_default();
        let certificate = certificates.first();
        let mut names = certificate.map(CertificateName::all_of).unwrap_or_default();
        names.retain(|name| name.cluster() == self.cluster);
        let key = certificate.and_then(public_key).unwrap_or_default();
        let (from, to) = secured(stream.into());
        Ok((from, to, Certified { names, key }))
    }

    /// The dialler's side of a handshake with the node of this number.
    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        number: u64,
    ) -> Result<(Incoming, Outgoing), HandshakeError> {
        let cluster = self.cluster;
        let name = CertificateName::Node { number, cluster };
        let connector = self.ready().connector;
        let connected = connector.connect(name.server_name(), stream).await;
        let stream =
            connected.map_err(|error| HandshakeError::of(error, Some(&name.to_string())))?;
        Ok(secured(stream.into()))
    }
}

impl Ready {
    fn read(
        options: &TlsOptions,
        cluster: u128,
        number: u64,
        logger: &slog::Logger,
    ) -> Result<Self, TlsError> {
        let credentials = Credentials::read(options)?;
        credentials.check_node(cluster, number)?;
        for warning in credentials.warnings() {
            slog::warn!(logger, "{}", warning);
        }
        Ok(Self {
            expires_s: credentials.expires_s(),
            acceptor: TlsAcceptor::from(Arc::new(credentials.server_config()?)),
            connector: TlsConnector::from(Arc::new(credentials.client_config()?)),
        })
    }
}

impl std::fmt::Debug for NodeTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeTls")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Lingering close: closing a connection with unread bytes resets it, and a reset discards sent
/// data, here the reason for the close.
async fn linger(mut stream: TcpStream) {
    let read_on = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await?;
        io::Result::Ok(())
    };
    // It is closed in any case.
    let _ = timeout(LINGER, read_on).await;
}
