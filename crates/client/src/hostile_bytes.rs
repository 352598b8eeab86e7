//! For tests with hostile bytes outside of this crate: decodes bytes as if a node had sent them.

use crate::message_buffer::MessageBuffer;
use crate::protocol::Response;

/// The responses that a client decodes from bytes that arrive in pieces of at most `step` bytes,
/// and the error if it stops before their end.
///
/// # Panics
/// If `step` is 0.
#[must_use]
pub fn responses(mut arriving: &[u8], step: usize) -> (Vec<Response>, Option<String>) {
    assert!(step > 0, "nothing would arrive");
    let mut buffer = MessageBuffer::default();
    let mut responses = Vec::new();
    while !arriving.is_empty() {
        let room = buffer.room();
        let (now, later) = arriving.split_at(step.min(room.len()).min(arriving.len()));
        room[..now.len()].copy_from_slice(now);
        buffer.filled(now.len());
        arriving = later;
        loop {
            match buffer.next() {
                Ok(Some(response)) => responses.push(response),
                Ok(None) => break,
                Err(error) => return (responses, Some(error.to_string())),
            }
        }
    }
    (responses, None)
}
