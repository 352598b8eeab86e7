//! The memory that a request takes when it is decoded, before it is decoded.
//!
//! A row takes as little as three bytes on the wire, and two hundred in memory. This reads the
//! lengths and numbers of an encoded request and allocates nothing.

use super::frame::{SUBMIT, number};
use super::{Command, Condition, FrameError, Write};

/// The place of [`Request::Read`](super::Request::Read) among the requests.
const READ: u64 = 4;
/// The places of the commands.
const TRANSFER: u64 = 0;
const WRITE: u64 = 1;
/// The place of [`Freshness::AtLeast`](super::Freshness::AtLeast), which has a number, and is the last.
const AT_LEAST: u64 = 2;
/// Overhead of an allocation.
const ALLOCATION_BYTES: usize = 16;

/// The size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedSize {
    /// Number of the request: the group of a submitted group, the number of a read.
    pub request: u64,
    /// Number of its commands or keys.
    pub items: u64,
    /// Approximate size in memory. A vector may be twice as long as its elements while it grows.
    pub bytes: usize,
}

/// The size of an encoded group or read; `None` for other requests.
///
/// # Errors
/// [`FrameError::Nonsense`] if it begins as a group or a read, and is neither.
pub fn decoded_size(bytes: &[u8]) -> Result<Option<DecodedSize>, FrameError> {
    let mut reader = Reader { rest: bytes };
    let size = match reader.number() {
        Some(SUBMIT) => reader.group(),
        Some(READ) => reader.read(),
        _ => return Ok(None),
    };
    let incomplete = FrameError::Nonsense(postcard::Error::DeserializeUnexpectedEnd);
    size.map(Some).ok_or(incomplete)
}

fn vector<T>(items: u64) -> usize {
    let items = usize::try_from(items).unwrap_or(usize::MAX);
    items.saturating_mul(2 * size_of::<T>())
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn group(&mut self) -> Option<DecodedSize> {
        self.number()?; // The session.
        self.number()?; // Its fence.
        let request = self.number()?;
        self.number()?; // Acknowledged through.
        let items = self.number()?;
        let mut bytes = vector::<Command>(items);
        for _ in 0..items {
            bytes = bytes.saturating_add(self.command()?);
        }
        Some(DecodedSize {
            request,
            items,
            bytes,
        })
    }

    fn read(&mut self) -> Option<DecodedSize> {
        let request = self.number()?;
        match self.number()? {
            ..AT_LEAST => {}
            AT_LEAST => drop(self.number()?),
            _ => return None,
        }
        let items = self.number()?;
        let mut bytes = vector::<(u32, Vec<u8>)>(items);
        for _ in 0..items {
            self.number()?; // The table.
            bytes = bytes.saturating_add(self.bytes()?);
        }
        Some(DecodedSize {
            request,
            items,
            bytes,
        })
    }

    fn number(&mut self) -> Option<u64> {
        // Most numbers are short.
        if let [byte @ 0..=0x7f, rest @ ..] = self.rest {
            self.rest = rest;
            return Some(u64::from(*byte));
        }
        let (number, rest) = number(self.rest)?;
        self.rest = rest;
        Some(number)
    }

    /// Skips bytes with their length. Returns their size in memory.
    fn bytes(&mut self) -> Option<usize> {
        let length = usize::try_from(self.number()?).ok()?;
        self.rest = self.rest.get(length..)?;
        Some(if length == 0 {
            0
        } else {
            length + ALLOCATION_BYTES
        })
    }

    fn value(&mut self) -> Option<usize> {
        match self.number()? {
            0 => Some(0),
            1 => self.bytes(),
            _ => None,
        }
    }

    fn rows<T>(&mut self) -> Option<usize> {
        let rows = self.number()?;
        let mut bytes = vector::<T>(rows);
        for _ in 0..rows {
            self.number()?; // The table.
            bytes = bytes.saturating_add(self.bytes()?);
            bytes = bytes.saturating_add(self.value()?);
        }
        Some(bytes)
    }

    fn command(&mut self) -> Option<usize> {
        match self.number()? {
            TRANSFER => {
                for _ in 0..4 {
                    self.number()?;
                }
                Some(0)
            }
            WRITE => {
                let conditions = self.rows::<Condition>()?;
                let rows = self.rows::<(u32, Vec<u8>, Option<Vec<u8>>)>()?;
                let own = size_of::<Write>() + ALLOCATION_BYTES;
                Some(own.saturating_add(conditions).saturating_add(rows))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Freshness, LENGTH_BYTES, Request, SessionId, encoded};
    use super::*;

    fn size_of_request(request: &Request) -> Option<DecodedSize> {
        let bytes = encoded(request).expect("it is short");
        for cut in LENGTH_BYTES..bytes.len() {
            assert!(!matches!(
                decoded_size(&bytes[LENGTH_BYTES..cut]),
                Ok(Some(_))
            ));
        }
        decoded_size(&bytes[LENGTH_BYTES..]).expect("it is a request")
    }

    #[test]
    fn a_group_of_short_rows_is_longer_in_memory() {
        let write = Write {
            conditions: vec![Condition {
                table: 1,
                key: vec![1; 8],
                value: None,
            }],
            rows: vec![(1, Vec::new(), None); 100],
        };
        let transfer = Command::Transfer {
            table: 1,
            from: 300,
            to: u64::MAX,
            amount: 1,
        };
        let request = Request::Submit {
            session: SessionId(u64::MAX),
            fence: 300,
            group: 300,
            acknowledged_through: 1,
            commands: vec![Command::Write(Box::new(write)), transfer],
        };
        let size = size_of_request(&request).expect("it is a group");
        assert_eq!((size.request, size.items), (300, 2));
        assert!(size.bytes > 100 * 2 * 56, "{size:?}");
    }

    #[test]
    fn a_read_has_the_size_of_its_keys() {
        for freshness in [
            Freshness::Leader,
            Freshness::Strong,
            Freshness::AtLeast(u64::MAX),
        ] {
            let request = Request::Read {
                request: 7,
                freshness,
                keys: vec![(1, vec![5; 100]); 10],
            };
            let size = size_of_request(&request).expect("it is a read");
            assert_eq!((size.request, size.items), (7, 10));
            assert!(size.bytes >= 10 * (32 + 100) && size.bytes < 10 * 200);
        }
        assert_eq!(size_of_request(&Request::Status), None);
    }
}
