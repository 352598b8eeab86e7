//! One TCP connection to one node.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::time::{timeout, timeout_at};

use super::stream::Stream;
use crate::error::ConnectionError;
use crate::message_buffer::MessageBuffer;
use crate::protocol::Response;
use crate::security::Security;

/// Timeout of sending one message to a node.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    buffer: MessageBuffer,
}

impl Connection {
    pub(super) async fn open(
        address: &str,
        security: &Security,
        within: Duration,
    ) -> Result<Self, ConnectionError> {
        let connected = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Stream::secure(stream, security).await
        };
        let stream = timeout(within, connected).await;
        let stream = stream.map_err(|_| ConnectionError::Late)??;
        Ok(Self {
            stream,
            buffer: MessageBuffer::default(),
        })
    }

    pub(super) async fn send(&mut self, frame: &[u8]) -> Result<(), ConnectionError> {
        let written = timeout(WRITE_TIMEOUT, self.stream.write_all(frame)).await;
        written.map_err(|_| ConnectionError::Late)?
    }

    /// The next message, if it has been read already.
    pub(super) fn arrived(&mut self) -> Result<Option<Response>, ConnectionError> {
        self.buffer.next()
    }

    /// The next message, if it arrives before the deadline. After the deadline, only a message that
    /// has arrived already.
    pub(super) async fn receive(
        &mut self,
        until: Instant,
    ) -> Result<Option<Response>, ConnectionError> {
        loop {
            if let Some(response) = self.arrived()? {
                return Ok(Some(response));
            }
            // Data that has arrived is read even after the deadline.
            let room = self.buffer.room();
            let Ok(read) = timeout_at(until.into(), self.stream.read(room)).await else {
                return Ok(None);
            };
            match read? {
                0 => return Err(ConnectionError::Closed),
                bytes => self.buffer.filled(bytes),
            }
        }
    }
}
