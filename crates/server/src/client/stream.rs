//! A client's connection: TCP, or a Unix socket.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, recv, sockopt};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::wire::FrameBuffer;

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// Silence after which the system probes the other machine.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// Time between probes, and their number: a machine that has gone is noticed after two minutes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// Longest time for the last message to a client.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection that was accepted, before its thread has it.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Accepted {
    /// Takes the connection into the runtime of the calling thread.
    pub(crate) fn into_stream(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(stream) => {
                // Without these options, answers are slower, and a dead machine is noticed later.
                let _ = stream.set_nodelay(true);
                let _ = sockopt::set_socket_keepalive(&stream, true);
                let _ = sockopt::set_tcp_keepidle(&stream, KEEPALIVE);
                let _ = sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL);
                let _ = sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES);
                TcpStream::from_std(stream).map(Stream::Tcp)
            }
            Self::Unix(stream) => UnixStream::from_std(stream).map(Stream::Unix),
        }
    }
}

impl Stream {
    /// The user at the other end of a Unix socket.
    pub(crate) fn peer_uid(&self) -> Option<u32> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(stream) => stream.peer_cred().ok().map(|it| it.uid()),
        }
    }

    /// The other end, for the log.
    pub(crate) fn peer(&self) -> String {
        match self {
            Self::Tcp(stream) => (stream.peer_addr())
                .map_or_else(|_| "TCP".to_owned(), |address| address.to_string()),
            Self::Unix(_) => "socket".to_owned(),
        }
    }

    /// Reads bytes that have arrived. An idle session has no buffer: the bytes are read onto the
    /// stack and appended.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        input: &mut FrameBuffer,
    ) -> Poll<io::Result<usize>> {
        let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut bytes = ReadBuf::uninit(&mut bytes);
        ready!(match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, &mut bytes),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, &mut bytes),
        })?;
        input.push(bytes.filled());
        Poll::Ready(Ok(bytes.filled().len()))
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if the client takes none of them for this long. That of the
    /// system.
    pub(crate) async fn write_all(
        &mut self,
        mut bytes: &[u8],
        stall_max: Duration,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = std::future::poll_fn(|context| self.poll_write(context, bytes));
            let written = timeout(stall_max, written).await;
            let written = written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Writes the last message of a connection, if the client still reads.
    pub(crate) async fn write_last(&mut self, bytes: &[u8]) {
        let written = self.write_all(bytes, FAREWELL_TIMEOUT);
        let _ = timeout(FAREWELL_TIMEOUT, written).await;
    }

    /// Whether the client has closed its side, and all that it had sent was read.
    pub(crate) fn is_closed(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = match self {
            Self::Tcp(stream) => recv(stream, &mut byte, flags),
            Self::Unix(stream) => recv(stream, &mut byte, flags),
        };
        match peeked {
            Ok((_, bytes)) => bytes == 0,
            Err(error) => !matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
        }
    }
}
