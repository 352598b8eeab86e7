//! The bytes of a connection, plain or by TLS, in two halves.
//!
//! The halves of a plain connection share nothing. Those of a TLS connection share its state behind
//! a lock, which is held while bytes are encrypted or decrypted and never while a half waits.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
#[cfg(feature = "tls")]
use tokio_rustls::TlsStream;

/// The receiving half.
pub(super) enum Incoming {
    Plain(OwnedReadHalf),
    #[cfg(feature = "tls")]
    Tls(tokio::io::ReadHalf<TlsStream<TcpStream>>),
}

/// The sending half. It has to be flushed: TLS may keep bytes that the system does not take at
/// once.
pub(super) enum Outgoing {
    Plain(OwnedWriteHalf),
    #[cfg(feature = "tls")]
    Tls(tokio::io::WriteHalf<TlsStream<TcpStream>>),
}

/// Both halves of a plain connection.
pub(super) fn plain(stream: TcpStream) -> (Incoming, Outgoing) {
    let (from, to) = stream.into_split();
    (Incoming::Plain(from), Outgoing::Plain(to))
}

/// Both halves of a connection by TLS.
#[cfg(feature = "tls")]
pub(super) fn secured(stream: TlsStream<TcpStream>) -> (Incoming, Outgoing) {
    let (from, to) = tokio::io::split(stream);
    (Incoming::Tls(from), Outgoing::Tls(to))
}

impl AsyncRead for Incoming {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(half) => Pin::new(half).poll_read(context, into),
            #[cfg(feature = "tls")]
            Self::Tls(half) => Pin::new(half).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Outgoing {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(half) => Pin::new(half).poll_write(context, bytes),
            #[cfg(feature = "tls")]
            Self::Tls(half) => Pin::new(half).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(half) => Pin::new(half).poll_write_vectored(context, slices),
            #[cfg(feature = "tls")]
            Self::Tls(half) => Pin::new(half).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(half) => half.is_write_vectored(),
            #[cfg(feature = "tls")]
            Self::Tls(half) => half.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(half) => Pin::new(half).poll_flush(context),
            #[cfg(feature = "tls")]
            Self::Tls(half) => Pin::new(half).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(half) => Pin::new(half).poll_shutdown(context),
            #[cfg(feature = "tls")]
            Self::Tls(half) => Pin::new(half).poll_shutdown(context),
        }
    }
}
