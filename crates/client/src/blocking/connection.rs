//! One TCP connection to one node.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::resolve::{first_reached, resolve};
use super::stream::Stream;
use crate::error::ConnectionError;
use crate::message_buffer::MessageBuffer;
use crate::options::later;
use crate::protocol::Response;
use crate::security::Security;

/// Timeout of a write to a node that takes no bytes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    buffer: MessageBuffer,
}

impl Connection {
    /// Connects to the first address of a name that accepts. `timeout` covers the name, all its
    /// addresses, and the handshake.
    pub(super) fn open(
        address: &str,
        security: &Security,
        timeout: Duration,
    ) -> Result<Self, ConnectionError> {
        let deadline = later(Instant::now(), timeout);
        let addresses = resolve(address, deadline)?;
        let stream = first_reached(addresses, deadline, TcpStream::connect_timeout)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self {
            stream: Stream::secure(stream, security, deadline)?,
            buffer: MessageBuffer::default(),
        })
    }

    pub(super) fn send(&mut self, frame: &[u8]) -> Result<(), ConnectionError> {
        self.stream.write_all(frame)
    }

    /// The next message, if it arrives before the deadline. After the deadline, only a message that
    /// has arrived already.
    pub(super) fn receive(&mut self, until: Instant) -> Result<Option<Response>, ConnectionError> {
        loop {
            if let Some(response) = self.buffer.next()? {
                return Ok(Some(response));
            }
            let wait = until.saturating_duration_since(Instant::now());
            // The system does not accept a timeout of zero, and counts in microseconds.
            let wait = wait.max(Duration::from_micros(1));
            self.stream.socket().set_read_timeout(Some(wait))?;
            match self.stream.read(self.buffer.room()) {
                Ok(0) => return Err(ConnectionError::Closed),
                Ok(bytes) => self.buffer.filled(bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(self.stream.explain(error)),
            }
        }
    }
}
