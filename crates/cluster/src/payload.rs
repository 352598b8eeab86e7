//! A payload: the outcomes of a group's commands, and the changes that they made.
//!
//! ```text
//!  version       1    (1)
//!  sections      varint
//!  section:
//!    session     varint
//!    group       varint   the client's number of the TxGrp
//!    acknowledged varint  the client has all outcomes through this group
//!    commands    varint   number of commands of the whole TxGrp
//!    count       varint   number of commands in this section
//!    indexes     varint each: the first, then the distance from the one before
//!    outcomes    1 byte each
//!  changes       the rest: after-images, in the encoding of `namiki::replica`
//! ```
//! A section's commands are in ascending order of their index, so most of them take two bytes.
//!
//! Paper: raft-pwal §2.2 (the paper logs commands; here the log has their effects)

use namiki_client::protocol::{Outcome, SessionId};
use namiki_data::varint;

const VERSION: u8 = 1;

/// The bytes are not those of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the payload is not valid at byte {at}")]
pub(crate) struct PayloadError {
    at: usize,
}

/// Builds a payload.
#[derive(Debug, Default)]
pub(crate) struct PayloadBuilder {
    sections: Vec<u8>,
    count: u64,
}

impl PayloadBuilder {
    /// Appends a section: the outcomes of some commands of one group, by ascending index.
    pub(crate) fn section(
        &mut self,
        session: SessionId,
        group: u64,
        acknowledged_through: u64,
        commands: u32,
        outcomes: &[(u32, Outcome)],
    ) {
        let into = &mut self.sections;
        varint::put(session.0, into);
        varint::put(group, into);
        varint::put(acknowledged_through, into);
        varint::put(u64::from(commands), into);
        varint::put(outcomes.len() as u64, into);
        let mut before = 0;
        for (index, _) in outcomes {
            varint::put(u64::from(index - before), into);
            before = *index;
        }
        into.extend(outcomes.iter().map(|(_, outcome)| *outcome as u8));
        self.count += 1;
    }

    /// Approximate length of the payload without changes.
    pub(crate) fn bytes(&self) -> usize {
        self.sections.len() + 16
    }

    /// The payload, to which the changes are appended.
    pub(crate) fn finish(&mut self, into: &mut Vec<u8>) {
        into.push(VERSION);
        varint::put(self.count, into);
        into.append(&mut self.sections);
        self.count = 0;
    }
}

/// The outcomes of some commands of one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section<'a> {
    /// The session.
    pub(crate) session: SessionId,
    /// The client's number of the group.
    pub(crate) group: u64,
    /// The client has all outcomes through this group.
    pub(crate) acknowledged_through: u64,
    /// Total number of commands of the group.
    pub(crate) commands: u32,
    indexes: &'a [u8],
    outcomes: &'a [u8],
}

impl<'a> Section<'a> {
    /// Index and outcome of each command. The bytes were checked.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (u32, u8)> + use<'a> {
        let mut indexes = Reader {
            bytes: self.indexes,
            at: 0,
        };
        let mut index = 0;
        self.outcomes.iter().map(move |outcome| {
            index += indexes.varint().unwrap_or_default();
            (index as u32, *outcome)
        })
    }

    /// Number of outcomes.
    #[must_use]
    pub(crate) fn count(&self) -> usize {
        self.outcomes.len()
    }
}

/// A payload that was read.
#[derive(Debug)]
pub(crate) struct Payload<'a> {
    /// Outcomes.
    pub(crate) sections: Vec<Section<'a>>,
    /// After-images.
    pub(crate) changes: &'a [u8],
}

impl<'a> Payload<'a> {
    /// Reads a payload. Everything but the changes is checked.
    ///
    /// # Errors
    /// [`PayloadError`] names the invalid byte.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader { bytes, at: 0 };
        if reader.take(1)? != [VERSION] {
            return Err(PayloadError { at: 0 });
        }
        let count = reader.varint()?;
        let mut sections = Vec::new();
        for _ in 0..count {
            sections.push(reader.section()?);
        }
        Ok(Self {
            sections,
            changes: &bytes[reader.at..],
        })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], PayloadError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest.get(..count).ok_or(PayloadError { at: self.at })?;
        self.at += count;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, PayloadError> {
        let mut rest = self.bytes.get(self.at..).unwrap_or_default();
        let value = varint::take(&mut rest).map_err(|_| PayloadError { at: self.at })?;
        self.at = self.bytes.len() - rest.len();
        Ok(value)
    }

    fn section(&mut self) -> Result<Section<'a>, PayloadError> {
        let session = SessionId(self.varint()?);
        let group = self.varint()?;
        let acknowledged_through = self.varint()?;
        let at = self.at;
        let commands = u32::try_from(self.varint()?).map_err(|_| PayloadError { at })?;
        let at = self.at;
        let count = usize::try_from(self.varint()?).map_err(|_| PayloadError { at })?;
        // Each takes two bytes at least.
        if count > self.bytes.len() - self.at || acknowledged_through >= group {
            return Err(PayloadError { at });
        }
        let start = self.at;
        let mut index = 0_u64;
        for nth in 0..count {
            let at = self.at;
            let distance = self.varint()?;
            index = index.checked_add(distance).ok_or(PayloadError { at })?;
            if index >= u64::from(commands) || nth > 0 && distance == 0 {
                return Err(PayloadError { at });
            }
        }
        let indexes = &self.bytes[start..self.at];
        let start = self.at;
        let outcomes = self.take(count)?;
        if let Some(at) = outcomes
            .iter()
            .position(|it| Outcome::from_byte(*it).is_none())
        {
            return Err(PayloadError { at: start + at });
        }
        Ok(Section {
            session,
            group,
            acknowledged_through,
            commands,
            indexes,
            outcomes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut builder = PayloadBuilder::default();
        let many: Vec<_> = (0..300).map(|it| (it * 7, Outcome::Done)).collect();
        builder.section(SessionId(1 << 40), 9, 8, 20_000, &many);
        builder.section(SessionId(3), 1, 0, 2, &[(1, Outcome::InsufficientBalance)]);
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        bytes.extend(b"changes");
        bytes
    }

    #[test]
    fn a_payload_comes_back_as_it_was() {
        let bytes = sample();
        let payload = Payload::read(&bytes).expect("it is valid");
        assert_eq!(payload.changes, b"changes");
        let [first, second] = &payload.sections[..] else {
            panic!("there are two sections");
        };
        assert_eq!((first.session, first.group), (SessionId(1 << 40), 9));
        assert_eq!((first.acknowledged_through, first.commands), (8, 20_000));
        let indexes = first.outcomes().map(|(index, _)| index);
        assert!(indexes.eq((0..300).map(|it| it * 7)));
        assert_eq!(second.outcomes().collect::<Vec<_>>(), [(1, 1)]);
    }

    #[test]
    fn damaged_payloads_are_refused_or_read_and_never_panic() {
        let whole = sample();
        for length in 0..whole.len() - b"changes".len() {
            assert!(Payload::read(&whole[..length]).is_err());
        }
        for at in 0..whole.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                if let Ok(payload) = Payload::read(&bytes) {
                    for section in payload.sections {
                        let last = section.outcomes().last();
                        assert!(last.is_none_or(|(index, _)| index < section.commands));
                    }
                }
            }
        }
    }
}
