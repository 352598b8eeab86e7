//! Framing: a length of four bytes (little-endian, of what follows), then a message in postcard's encoding.
//!
//! A decoder trusts nothing: a limit on the length is checked before bytes are buffered, and the number of commands of a group before
//! memory is allocated for them ([`claimed_group`]): a command takes as little as three bytes on the wire and a hundred in memory.

use namiki_data::debug_as_sentence;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{MAGIC, REQUEST_BYTES_MAX, Request};

/// The bytes of a length.
pub const LENGTH_BYTES: usize = 4;
/// The place of [`Request::Hello`] among the requests, as postcard encodes it.
const HELLO: u64 = 0;
/// That of [`Request::Submit`].
pub(super) const SUBMIT: u64 = 3;

debug_as_sentence!(FrameError);

/// The reason for which bytes are not a message.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// They are not the encoding of a message.
    #[error(
        "the bytes are not a message of this protocol; does the other side speak another version?"
    )]
    Nonsense(#[source] postcard::Error),
    /// Bytes are left over behind the message.
    #[error("a message is followed by {0} bytes that are not part of it")]
    Trailing(usize),
    /// The message is too long.
    #[error("a message of {0} bytes is too long; send fewer commands or keys at once")]
    TooLong(usize),
}

/// Appends a message, with its length in front.
///
/// # Errors
/// [`FrameError::TooLong`], and nothing was appended.
pub fn encode<T: Serialize>(message: &T, into: &mut Vec<u8>) -> Result<(), FrameError> {
    let begin = into.len();
    into.extend_from_slice(&[0; LENGTH_BYTES]);
    let encoded = postcard::to_extend(message, std::mem::take(into));
    *into = encoded.map_err(FrameError::Nonsense)?;
    let length = into.len() - begin - LENGTH_BYTES;
    let Some(prefix) = u32::try_from(length).ok().map(u32::to_le_bytes) else {
        into.truncate(begin);
        return Err(FrameError::TooLong(length));
    };
    into[begin..begin + LENGTH_BYTES].copy_from_slice(&prefix);
    Ok(())
}

/// Whether a connection that begins with these bytes, where the length of a short message is expected, speaks TLS: its first record is a
/// handshake or an alert. As a length they are 64 KiB and more.
#[must_use]
pub fn is_tls(prefix: [u8; LENGTH_BYTES]) -> bool {
    matches!(prefix, [0x15 | 0x16, 3, 1..=3, _])
}

/// A message with its length in front.
///
/// # Errors
/// As [`encode`].
pub fn encoded<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes = Vec::with_capacity(64);
    encode(message, &mut bytes)?;
    Ok(bytes)
}

/// A request with its length in front.
///
/// # Errors
/// [`FrameError::TooLong`] beyond [`REQUEST_BYTES_MAX`].
pub fn encoded_request(request: &Request) -> Result<Vec<u8>, FrameError> {
    let bytes = encoded(request)?;
    let length = bytes.len() - LENGTH_BYTES;
    if length > REQUEST_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    Ok(bytes)
}

/// Decodes a message from its bytes, without the length in front of them.
///
/// # Errors
/// [`FrameError::Nonsense`] or [`FrameError::Trailing`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FrameError> {
    let (message, rest) = postcard::take_from_bytes(bytes).map_err(FrameError::Nonsense)?;
    match rest.len() {
        0 => Ok(message),
        trailing => Err(FrameError::Trailing(trailing)),
    }
}

/// The protocol version of these bytes, if they begin as a [`Request::Hello`] of any version.
#[must_use]
pub fn claimed_version(bytes: &[u8]) -> Option<u64> {
    let (kind, rest) = number(bytes)?;
    let (magic, rest) = number(rest)?;
    let (version, _) = number(rest)?;
    (kind == HELLO && magic == u64::from(MAGIC)).then_some(version)
}

/// The header of an encoded group of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedGroup {
    /// Its number.
    pub group: u64,
    /// Number of commands that follow.
    pub commands: u64,
}

/// The header of a group, if these bytes are a [`Request::Submit`]; the commands are not decoded.
#[must_use]
pub fn claimed_group(bytes: &[u8]) -> Option<ClaimedGroup> {
    let (kind, mut rest) = number(bytes)?;
    if kind != SUBMIT {
        return None;
    }
    (_, rest) = number(rest)?; // The session.
    (_, rest) = number(rest)?; // Its fence.
    let (group, rest) = number(rest)?;
    let (_acknowledged, rest) = number(rest)?;
    let (commands, _) = number(rest)?;
    Some(ClaimedGroup { group, commands })
}

/// The number at the front of `bytes`, in postcard's encoding of any width, and the bytes after it.
pub(super) fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    postcard::take_from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Freshness, Outcome, Request, Response, SessionId};
    use super::*;

    fn submit(commands: usize) -> Request {
        let command = Command::Transfer {
            table: 1,
            from: 300,
            to: 70_000,
            amount: 5,
        };
        Request::Submit {
            session: SessionId(u64::MAX),
            fence: u64::MAX,
            group: 1 << 40,
            acknowledged_through: 127,
            commands: vec![command; commands],
        }
    }

    #[test]
    fn a_request_longer_than_nodes_take_is_refused() {
        let read = |bytes| Request::Read {
            request: 1,
            freshness: Freshness::Leader,
            keys: vec![(1, vec![0; bytes])],
        };
        assert!(encoded_request(&read(REQUEST_BYTES_MAX - 100)).is_ok());
        let refused = encoded_request(&read(REQUEST_BYTES_MAX));
        assert!(matches!(refused, Err(FrameError::TooLong(length)) if length > REQUEST_BYTES_MAX));
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let request = submit(3);
        let bytes = encoded(&request).unwrap();
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(length as usize, bytes.len() - LENGTH_BYTES);
        assert_eq!(decode::<Request>(&bytes[4..]).unwrap(), request);
    }

    #[test]
    fn messages_are_appended_one_behind_the_other() {
        let response = Response::Results {
            session: SessionId(1),
            group: 2,
            outcomes: vec![Outcome::Done, Outcome::Invalid],
            lsn: 3,
        };
        let mut bytes = Vec::new();
        encode(&response, &mut bytes).unwrap();
        let first = bytes.len();
        encode(&Response::Busy { request: 1 }, &mut bytes).unwrap();
        assert_eq!(decode::<Response>(&bytes[4..first]).unwrap(), response);
        assert!(decode::<Response>(&bytes[first + 4..]).is_ok());
    }

    #[test]
    fn commands_are_counted_without_being_decoded() {
        for commands in [0, 1, 127, 128, 20_000] {
            let bytes = encoded(&submit(commands)).unwrap();
            let claimed = ClaimedGroup {
                group: 1 << 40,
                commands: commands as u64,
            };
            assert_eq!(claimed_group(&bytes[4..]), Some(claimed));
        }
        let status = encoded(&Request::Status).unwrap();
        assert_eq!(claimed_group(&status[4..]), None);
    }

    #[test]
    fn a_hello_of_any_version_says_which() {
        let hello = Request::Hello {
            magic: MAGIC,
            version: 300,
            cluster: u128::MAX,
        };
        let bytes = encoded(&hello).unwrap();
        assert_eq!(claimed_version(&bytes[4..]), Some(300));
        // An earlier one was shorter.
        assert_eq!(claimed_version(&bytes[4..12]), Some(300));
        let other = encoded(&submit(1)).unwrap();
        assert_eq!(claimed_version(&other[4..]), None);
    }

    #[test]
    fn no_bytes_make_a_decoder_panic() {
        let seed: u64 = std::env::var("SEED").map_or(7, |it| it.parse().unwrap());
        eprintln!("SEED={seed}");
        let mut state = seed | 1;
        let whole = encoded(&submit(4)).unwrap();
        for round in 0..20_000 {
            let mut bytes = whole[4..].to_vec();
            for _ in 0..=round % 4 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let at = usize::try_from(state >> 8).unwrap_or(0) % bytes.len();
                bytes[at] = state.to_le_bytes()[0];
            }
            bytes.truncate(bytes.len() - round % bytes.len());
            let _ = claimed_version(&bytes);
            let _ = claimed_group(&bytes);
            let _ = decode::<Request>(&bytes);
            let _ = decode::<Response>(&bytes);
        }
    }

    #[test]
    fn bytes_behind_a_message_are_refused() {
        let mut bytes = encoded(&Request::Status).unwrap();
        bytes.push(0);
        assert!(matches!(
            decode::<Request>(&bytes[4..]),
            Err(FrameError::Trailing(1))
        ));
    }
}
