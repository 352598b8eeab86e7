//! The bytes of a connection, plain or by TLS.

#[cfg(feature = "tls")]
use std::io::{self, ErrorKind};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::error::ConnectionError;
use crate::security::Security;
#[cfg(feature = "tls")]
use crate::tls::HandshakeError;

#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Secures a new connection. A node refuses a certificate only after the handshake: the first
    /// operation then fails.
    pub(super) async fn secure(
        socket: TcpStream,
        security: &Security,
    ) -> Result<Self, ConnectionError> {
        match security {
            Security::Plain => Ok(Self::Plain(socket)),
            #[cfg(feature = "tls")]
            Security::Tls(tls) => {
                let connector = TlsConnector::from(tls.config());
                let stream = connector.connect(tls.server_name(), socket).await;
                let stream =
                    stream.map_err(|error| HandshakeError::of(error, Some(&tls.expected())))?;
                Ok(Self::Tls(Box::new(stream)))
            }
        }
    }

    /// Cancellation-safe: dropping it loses no data.
    pub(super) async fn read(&mut self, into: &mut [u8]) -> Result<usize, ConnectionError> {
        match self {
            Self::Plain(socket) => Ok(socket.read(into).await?),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => match stream.read(into).await {
                // A node that is killed sends no close_notify. A truncated message is detected by
                // its length.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                read => read.map_err(explain),
            },
        }
    }

    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        match self {
            Self::Plain(socket) => Ok(socket.write_all(bytes).await?),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => {
                stream.write_all(bytes).await.map_err(explain)?;
                stream.flush().await.map_err(explain)
            }
        }
    }
}

#[cfg(feature = "tls")]
fn explain(error: io::Error) -> ConnectionError {
    HandshakeError::of(error, None).into()
}
