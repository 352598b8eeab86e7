//! The bytes of a connection, plain or by TLS.
//!
//! One thread reads and writes, so TLS needs no lock: a record that a read has received only in
//! part stays in the TLS state, and the next read continues with it.

#[cfg(feature = "tls")]
use std::io::ErrorKind;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

#[cfg(feature = "tls")]
use rustls::{ClientConnection, StreamOwned};

use crate::error::ConnectionError;
use crate::security::Security;
#[cfg(feature = "tls")]
use crate::tls::{ClientTls, HandshakeError};

#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Secures a new connection.
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, reason = "plain connections are ready at once")
    )]
    pub(super) fn secure(
        socket: TcpStream,
        security: &Security,
        deadline: Instant,
    ) -> Result<Self, ConnectionError> {
        match security {
            Security::Plain => Ok(Self::Plain(socket)),
            #[cfg(feature = "tls")]
            Security::Tls(tls) => shake_hands(socket, tls, deadline),
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => &stream.sock,
        }
    }

    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => match stream.read(into) {
                // A node that is killed sends no close_notify. A truncated message is detected by
                // its length.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        let written = match self {
            Self::Plain(socket) => socket.write_all(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        written.map_err(|error| self.explain(error))
    }

    /// The cause of a failed operation.
    pub(super) fn explain(&self, error: io::Error) -> ConnectionError {
        match self {
            Self::Plain(_) => error.into(),
            #[cfg(feature = "tls")]
            Self::Tls(_) => HandshakeError::of(error, None).into(),
        }
    }
}

/// Performs the handshake. A node refuses a certificate only afterwards: the first operation then
/// fails.
#[cfg(feature = "tls")]
fn shake_hands(
    mut socket: TcpStream,
    tls: &ClientTls,
    deadline: Instant,
) -> Result<Stream, ConnectionError> {
    let failed = |error| HandshakeError::of_tls(error, Some(&tls.expected()));
    let mut connection = ClientConnection::new(tls.config(), tls.server_name()).map_err(failed)?;
    loop {
        while connection.wants_write() {
            connection.write_tls(&mut socket)?;
        }
        if !connection.is_handshaking() {
            let stream = StreamOwned::new(connection, socket);
            return Ok(Stream::Tls(Box::new(stream)));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ConnectionError::Late);
        }
        socket.set_read_timeout(Some(left))?;
        match connection.read_tls(&mut socket) {
            Ok(0) => return Err(ConnectionError::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(ConnectionError::Late);
            }
            Err(error) => return Err(error.into()),
        }
        if let Err(error) = connection.process_new_packets() {
            // Sends the alert with the reason to the node, if it still reads.
            let _ = connection.write_tls(&mut socket);
            return Err(failed(error).into());
        }
    }
}
