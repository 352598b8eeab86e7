//! Records of stream 0: Raft's persistent state on a node.
//!
//! ```text
//!  1 vote       | term 8 | vote 8
//!  2 commit     | index 8
//!  3 persisted  | index 8
//!  4 truncate   | from 8
//!  5 entry      | index 8 | term 8 | version 1                         nothing
//!  6 entry      | index 8 | term 8 | version 1 | payload's term 8 | worker 2 | number 8 | length 4 | digest 4
//!  7 entry      | index 8 | term 8 | version 1 | length 4 | change of membership
//!  8 entry      | index 8 | term 8 | version 1 | length 4 | control change for all workers
//!  9 base       | snapshot: index 8 | term 8 | term 8 | vote 8 | commit 8 | persisted 8 | last: index 8 | term 8
//!               | workers 2 | last payload of the snapshot's term 8, for each | length 4 | members
//! ```
//! The first byte is the kind. The version of an entry is [`ENTRY_VERSION`]. What follows it may be another thing in a later version, so
//! nothing is read behind an entry of one. Several of them, back to back, form one record of the log: a call's
//! records are on disk together or not at all.

use bytes::Bytes;
use namiki_platform::bytes::{u16_at, u32_at, u64_at};

use super::log_suffix::LogPosition;
use crate::entry::{ENTRY_VERSION, EntryBody, LogEntry, PayloadName, PayloadRef};

const VOTE: u8 = 1;
const COMMIT: u8 = 2;
const PERSISTED: u8 = 3;
const TRUNCATE: u8 = 4;
const ENTRY_EMPTY: u8 = 5;
const ENTRY_GROUP: u8 = 6;
const ENTRY_MEMBERSHIP: u8 = 7;
const ENTRY_CONTROL: u8 = 8;
const BASE: u8 = 9;

/// Kind, index, term and version of an entry.
const ENTRY_BYTES: usize = 18;
const REF_BYTES: usize = 26;
/// Kind and eight numbers of a base record.
const BASE_BYTES: usize = 65;

/// What a durable image contains: the entries through a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The last entry, with its term.
    pub position: LogPosition,
    /// The members after that entry, in the caller's encoding. Empty: those that the cluster began
    /// with.
    pub members: Bytes,
}

/// The contents of a base record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// What is truncated, or may be.
    pub snapshot: Snapshot,
    /// Of each worker, the last payload of the snapshot's term that is in the snapshot; none after
    /// an installed snapshot.
    pub payloads_through: Vec<u64>,
    /// The current term.
    pub term: u64,
    /// The vote in it, or 0.
    pub vote: u64,
    /// The last entry known to be committed; in the snapshot or above. It may be ahead of the
    /// entries.
    pub commit: u64,
    /// The persisted index; in the snapshot or above.
    pub persisted: u64,
    /// The last entry: what earlier segments have above it is void. Its term is 0 if it is not
    /// known.
    pub last: LogPosition,
}

/// A record of Raft's persistent state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaftRecord {
    /// The current term, and the node that has this one's vote in it, or 0.
    Vote {
        /// The term.
        term: u64,
        /// The node.
        vote: u64,
    },
    /// All entries through this index are committed. It may be ahead of the local entries.
    Commit {
        /// The index.
        index: u64,
    },
    /// An entry. It voids every entry at and above its index.
    Entry(LogEntry),
    /// All entries through this index and their payloads are durable here: if any of them is
    /// missing later, that is damage. An entry or a truncation at or below the index lowers it.
    Persisted {
        /// The index.
        index: u64,
    },
    /// Voids every entry at and above an index.
    Truncate {
        /// The index, from 1.
        from: u64,
    },
    /// The beginning of a segment of stream 0. Only the storage writes it.
    Base(Box<Base>),
}

impl RaftRecord {
    /// Its encoded length.
    pub(super) fn encoded_bytes(&self) -> usize {
        match self {
            Self::Vote { .. } => 17,
            Self::Commit { .. } | Self::Persisted { .. } | Self::Truncate { .. } => 9,
            Self::Entry(entry) => {
                ENTRY_BYTES
                    + match &entry.body {
                        EntryBody::Empty => 0,
                        EntryBody::Group(_) => REF_BYTES,
                        EntryBody::Membership(bytes) | EntryBody::Control(bytes) => 4 + bytes.len(),
                    }
            }
            Self::Base(base) => {
                let payloads = 2 + 8 * base.payloads_through.len();
                BASE_BYTES + payloads + 4 + base.snapshot.members.len()
            }
        }
    }

    /// Its term, if it has one.
    pub(super) fn term(&self) -> u64 {
        match self {
            Self::Vote { term, .. } => *term,
            Self::Entry(entry) => entry.term,
            Self::Base(base) => base.term,
            Self::Commit { .. } | Self::Persisted { .. } | Self::Truncate { .. } => 0,
        }
    }

    /// Writes it into the first bytes of `out`, and returns the rest.
    pub(super) fn encode<'a>(&self, out: &'a mut [u8]) -> &'a mut [u8] {
        let (own, rest) = out.split_at_mut(self.encoded_bytes());
        match self {
            Self::Vote { term, vote } => put_two(own, VOTE, *term, *vote),
            Self::Commit { index } => put_one(own, COMMIT, *index),
            Self::Persisted { index } => put_one(own, PERSISTED, *index),
            Self::Truncate { from } => put_one(own, TRUNCATE, *from),
            Self::Entry(entry) => {
                let (head, body) = own.split_at_mut(ENTRY_BYTES);
                let kind = match &entry.body {
                    EntryBody::Empty => ENTRY_EMPTY,
                    EntryBody::Group(payload) => {
                        put_ref(body, payload);
                        ENTRY_GROUP
                    }
                    EntryBody::Membership(bytes) => {
                        put_bytes(body, bytes);
                        ENTRY_MEMBERSHIP
                    }
                    EntryBody::Control(bytes) => {
                        put_bytes(body, bytes);
                        ENTRY_CONTROL
                    }
                };
                put_two(head, kind, entry.index, entry.term);
                head[ENTRY_BYTES - 1] = ENTRY_VERSION;
            }
            Self::Base(base) => put_base(own, base),
        }
        rest
    }

    /// The record at the start of `bytes`, which are not empty, and the rest.
    ///
    /// # Errors
    /// [`RecordError`]: the log was written by another program, as its checksums are good.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), RecordError> {
        let kind = bytes.first().copied().unwrap_or_default();
        if (ENTRY_EMPTY..=ENTRY_CONTROL).contains(&kind) {
            check_version(bytes)?;
        }
        let (own, rest) = match kind {
            VOTE => take(bytes, 17)?,
            COMMIT | PERSISTED | TRUNCATE => take(bytes, 9)?,
            ENTRY_EMPTY | ENTRY_MEMBERSHIP | ENTRY_CONTROL => take(bytes, ENTRY_BYTES)?,
            ENTRY_GROUP => take(bytes, ENTRY_BYTES + REF_BYTES)?,
            BASE => {
                let (base, rest) = take_base(bytes)?;
                return Ok((Self::Base(Box::new(base)), rest));
            }
            _ => return Err(RecordError::Invalid("it is of an unknown kind")),
        };
        let first = u64_at(own, 1);
        let (body, rest) = match kind {
            VOTE => {
                let vote = u64_at(own, 9);
                return Ok((Self::Vote { term: first, vote }, rest));
            }
            COMMIT => return Ok((Self::Commit { index: first }, rest)),
            PERSISTED => return Ok((Self::Persisted { index: first }, rest)),
            TRUNCATE => return Ok((Self::Truncate { from: first }, rest)),
            ENTRY_GROUP => (EntryBody::Group(ref_at(&own[ENTRY_BYTES..])), rest),
            ENTRY_EMPTY => (EntryBody::Empty, rest),
            _ => {
                let (length, rest) = take(rest, 4)?;
                let (bytes, rest) = take(rest, u32_at(length, 0) as usize)?;
                let bytes = Bytes::copy_from_slice(bytes);
                let body = if kind == ENTRY_MEMBERSHIP {
                    EntryBody::Membership(bytes)
                } else {
                    EntryBody::Control(bytes)
                };
                (body, rest)
            }
        };
        let entry = LogEntry {
            index: first,
            term: u64_at(own, 9),
            body,
        };
        Ok((Self::Entry(entry), rest))
    }
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordError {
    /// An entry is of a later version of the program.
    LaterEntry { index: u64, version: u8 },
    /// The problem.
    Invalid(&'static str),
}

/// Checks the version of an entry.
fn check_version(bytes: &[u8]) -> Result<(), RecordError> {
    let (head, _) = take(bytes, ENTRY_BYTES)?;
    match head[ENTRY_BYTES - 1] {
        ENTRY_VERSION => Ok(()),
        0 => Err(RecordError::Invalid("an entry has no version")),
        version => Err(RecordError::LaterEntry {
            index: u64_at(head, 1),
            version,
        }),
    }
}

fn take(bytes: &[u8], count: usize) -> Result<(&[u8], &[u8]), RecordError> {
    let parts = bytes.split_at_checked(count);
    parts.ok_or(RecordError::Invalid("its end is missing"))
}

fn put_one(out: &mut [u8], kind: u8, number: u64) {
    out[0] = kind;
    out[1..9].copy_from_slice(&number.to_le_bytes());
}

fn put_two(out: &mut [u8], kind: u8, first: u64, second: u64) {
    put_one(out, kind, first);
    out[9..17].copy_from_slice(&second.to_le_bytes());
}

fn put_base(out: &mut [u8], base: &Base) {
    let (numbers, rest) = out.split_at_mut(BASE_BYTES);
    numbers[0] = BASE;
    let position = base.snapshot.position;
    let values = [
        position.index,
        position.term,
        base.term,
        base.vote,
        base.commit,
        base.persisted,
        base.last.index,
        base.last.term,
    ];
    for (at, value) in numbers[1..].chunks_exact_mut(8).zip(values) {
        at.copy_from_slice(&value.to_le_bytes());
    }
    let workers = base.payloads_through.len();
    let (count, rest) = rest.split_at_mut(2);
    // A node has fewer workers than that.
    count.copy_from_slice(&(workers as u16).to_le_bytes());
    let (through, rest) = rest.split_at_mut(8 * workers);
    for (at, value) in through.chunks_exact_mut(8).zip(&base.payloads_through) {
        at.copy_from_slice(&value.to_le_bytes());
    }
    put_bytes(rest, &base.snapshot.members);
}

fn take_base(bytes: &[u8]) -> Result<(Base, &[u8]), RecordError> {
    let (numbers, rest) = take(bytes, BASE_BYTES)?;
    let number = |at: usize| u64_at(numbers, 1 + 8 * at);
    let position = |at: usize| LogPosition {
        index: number(at),
        term: number(at + 1),
    };
    let (count, rest) = take(rest, 2)?;
    let (through, rest) = take(rest, 8 * usize::from(u16_at(count, 0)))?;
    let (length, rest) = take(rest, 4)?;
    let (members, rest) = take(rest, u32_at(length, 0) as usize)?;
    let base = Base {
        snapshot: Snapshot {
            position: position(0),
            members: Bytes::copy_from_slice(members),
        },
        payloads_through: through.chunks_exact(8).map(|it| u64_at(it, 0)).collect(),
        term: number(2),
        vote: number(3),
        commit: number(4),
        persisted: number(5),
        last: position(6),
    };
    if base.snapshot.position.index > base.last.index {
        let why = "the log of a base record ends in its snapshot";
        return Err(RecordError::Invalid(why));
    }
    Ok((base, rest))
}

fn put_ref(out: &mut [u8], payload: &PayloadRef) {
    let PayloadRef {
        name,
        length,
        digest,
    } = payload;
    out[0..8].copy_from_slice(&name.term.to_le_bytes());
    out[8..10].copy_from_slice(&name.worker.to_le_bytes());
    out[10..18].copy_from_slice(&name.number.to_le_bytes());
    out[18..22].copy_from_slice(&length.to_le_bytes());
    out[22..26].copy_from_slice(&digest.to_le_bytes());
}

fn ref_at(bytes: &[u8]) -> PayloadRef {
    PayloadRef {
        name: PayloadName {
            term: u64_at(bytes, 0),
            worker: u16_at(bytes, 8),
            number: u64_at(bytes, 10),
        },
        length: u32_at(bytes, 18),
        digest: u32_at(bytes, 22),
    }
}

fn put_bytes(out: &mut [u8], bytes: &[u8]) {
    // It fits into a log buffer, which is at most 1 GiB.
    out[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    out[4..].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<RaftRecord> {
        let name = PayloadName {
            term: 7,
            worker: 300,
            number: 1 << 40,
        };
        let bodies = [
            EntryBody::Empty,
            EntryBody::Group(PayloadRef::of(name, b"payload")),
            EntryBody::Membership(Bytes::from_static(b"two of three")),
            EntryBody::Control(Bytes::new()),
        ];
        let entries = (1..).zip(bodies).map(|(index, body)| {
            RaftRecord::Entry(LogEntry {
                index,
                term: 9,
                body,
            })
        });
        let others = [
            RaftRecord::Vote { term: 9, vote: 3 },
            RaftRecord::Commit { index: 2 },
            RaftRecord::Persisted { index: u64::MAX },
            RaftRecord::Truncate { from: 1 },
            RaftRecord::Base(Box::default()),
            RaftRecord::Base(Box::new(Base {
                snapshot: Snapshot {
                    position: LogPosition { index: 7, term: 5 },
                    members: Bytes::from_static(b"one and two"),
                },
                payloads_through: vec![0, u64::MAX, 7],
                term: 9,
                vote: 2,
                commit: 8,
                persisted: 9,
                last: LogPosition { index: 9, term: 6 },
            })),
        ];
        others.into_iter().chain(entries).collect()
    }

    #[test]
    fn records_come_back_and_their_beginnings_do_not() {
        let records = records();
        let total = records.iter().map(RaftRecord::encoded_bytes).sum();
        let mut bytes = vec![0; total];
        let left = records
            .iter()
            .fold(&mut bytes[..], |out, record| record.encode(out));
        assert!(left.is_empty());
        let mut rest = &bytes[..];
        for expected in &records {
            let own = expected.encoded_bytes();
            for end in 0..own {
                assert!(
                    RaftRecord::decode(&rest[..end]).is_err(),
                    "{expected:?} {end}"
                );
            }
            let (found, behind) = RaftRecord::decode(rest).unwrap();
            assert_eq!((&found, rest.len() - behind.len()), (expected, own));
            rest = behind;
        }
        assert!(RaftRecord::decode(&[10; 64]).is_err());
    }
    /// What nodes of this version leave on their disks for ever.
    #[test]
    fn an_entry_has_these_bytes() {
        let record = RaftRecord::Entry(LogEntry {
            index: 2,
            term: 9,
            body: EntryBody::Control(Bytes::from_static(b"abc")),
        });
        let mut bytes = vec![0; record.encoded_bytes()];
        record.encode(&mut bytes);
        let mut expected = vec![8, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1];
        expected.extend([3, 0, 0, 0, b'a', b'b', b'c']);
        assert_eq!(bytes, expected);
        let version = 2;
        bytes[17] = version;
        let later = RecordError::LaterEntry { index: 2, version };
        assert_eq!(RaftRecord::decode(&bytes), Err(later));
        // Whatever follows.
        assert_eq!(RaftRecord::decode(&bytes[..18]), Err(later));
        bytes[17] = 0;
        let found = RaftRecord::decode(&bytes);
        assert!(matches!(found, Err(RecordError::Invalid(_))));
    }
}
