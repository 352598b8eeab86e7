//! Keys that are not unique: a set of payloads for each key, in any ordered index.
//!
//! A pair is one key of the index below: the key's bytes, encoded so that none is a prefix of
//! another, and then the payload. So pairs are sorted by key and then by payload; all pairs of one
//! key are adjacent. Everything that holds for keys of the index holds for pairs: insertions and
//! removals are atomic, leaves have versions.
//!
//! ```text
//!  key        61 00 62            the byte 00 is written 00 ff, and 00 00 ends the key
//!  payload    7
//!  stored     61 00 ff 62 00 00   00 00 00 00 00 00 00 07
//! ```
//!
//! The OpenBw-Tree instead keeps the payloads of a key together in its nodes, and searches them
//! linearly. Here the descent of the tree finds one pair among thousands.
//!
//! Paper: bwtree §2.4 (non-unique keys)

use std::ops::{Bound, ControlFlow};

use crate::{IndexError, InsertOutcome, Inserted, LeafVersion, OrderedIndex, ScanItem, ScanRange};

const ESCAPED: u8 = 0;
const NOT_THE_END: u8 = 0xff;
const END: [u8; 2] = [0, 0];
const PAYLOAD_BYTES: usize = size_of::<u64>();

/// What [`Pairs::insert_pair`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairOutcome {
    /// The pair was absent and is now present.
    Inserted(Inserted),
    /// The pair was there; nothing was done.
    Exists,
}

/// One thing that [`Pairs::scan_key`] reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairItem {
    /// The state of the leaf that the payloads up to the next `Leaf` come from.
    Leaf(LeafVersion),
    /// A payload of the key.
    Payload(u64),
}

/// A map from keys to sets of payloads, over an empty index of byte strings.
#[derive(Debug)]
pub struct Pairs<T> {
    index: T,
}

/// The key as the first part of pairs.
fn encode(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + END.len() + PAYLOAD_BYTES);
    for byte in key {
        bytes.push(*byte);
        if *byte == ESCAPED {
            bytes.push(NOT_THE_END);
        }
    }
    bytes.extend(END);
    bytes
}

fn encode_pair(key: &[u8], payload: u64) -> Vec<u8> {
    let mut bytes = encode(key);
    bytes.extend(payload.to_be_bytes());
    bytes
}

/// The payload at the end of a pair.
fn payload_of(pair: &[u8]) -> u64 {
    match pair.last_chunk() {
        Some(payload) => u64::from_be_bytes(*payload),
        None => unreachable!("a pair ends in a payload"),
    }
}

impl<T: OrderedIndex> Pairs<T> {
    /// Takes an index of byte strings, which is to hold nothing but these pairs.
    ///
    /// # Errors
    /// [`IndexError::NotEmpty`] if it holds something already; [`IndexError::KeyLength`] if its keys
    /// are not byte strings.
    pub fn over(index: T) -> Result<Self, IndexError> {
        index.get(&encode_pair(&[], 0))?;
        if index.is_empty() {
            Ok(Self { index })
        } else {
            Err(IndexError::NotEmpty)
        }
    }

    /// Adds a pair that is absent.
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`], with the length of the pair as it is stored: ten bytes more than
    /// the key, and one for each zero byte in it. So for all operations here.
    pub fn insert_pair(&self, key: &[u8], payload: u64) -> Result<PairOutcome, IndexError> {
        // The payload below says nothing; zero has no reserved bits.
        match self.index.insert(&encode_pair(key, payload), 0)? {
            InsertOutcome::Inserted(inserted) => Ok(PairOutcome::Inserted(inserted)),
            InsertOutcome::Exists(_) => Ok(PairOutcome::Exists),
        }
    }

    /// Removes a pair and says whether it was there.
    ///
    /// # Errors
    /// As [`insert_pair`](Self::insert_pair).
    pub fn delete_pair(&self, key: &[u8], payload: u64) -> Result<bool, IndexError> {
        let removed = self.index.delete(&encode_pair(key, payload))?;
        Ok(removed.is_some())
    }

    /// All payloads of a key, ascending, into `out`, which is cleared. Each leaf of the index is seen at
    /// one instant; a key with payloads in several leaves is not.
    ///
    /// # Errors
    /// As [`insert_pair`](Self::insert_pair); `out` is then empty.
    pub fn get_all(&self, key: &[u8], out: &mut Vec<u64>) -> Result<(), IndexError> {
        out.clear();
        self.scan_key(key, |item| {
            if let PairItem::Payload(payload) = item {
                out.push(payload);
            }
            ControlFlow::Continue(())
        })
    }

    /// Visits the payloads of a key, ascending, and the leaves that say that there are no others, until
    /// `visit` breaks.
    ///
    /// # Errors
    /// As [`insert_pair`](Self::insert_pair).
    pub fn scan_key(
        &self,
        key: &[u8],
        mut visit: impl FnMut(PairItem) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let (first, last) = (encode_pair(key, 0), encode_pair(key, u64::MAX));
        let range = ScanRange::forward(Bound::Included(&first), Bound::Included(&last));
        self.index.scan(range, |item| {
            visit(match item {
                ScanItem::Leaf(version) => PairItem::Leaf(version),
                ScanItem::Ahead(_) => return ControlFlow::Continue(()),
                ScanItem::Entry(pair, _) => PairItem::Payload(payload_of(pair)),
            })
        })
    }

    /// The index below: its versions and stamps, its statistics and its memory are those of the pairs.
    pub fn index(&self) -> &T {
        &self.index
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_ordered_by_key_and_then_payload() {
        let keys: [&[u8]; 9] = [
            b"", b"\0", b"\0\0", b"\0\x01", b"\0\xff", b"a", b"a\0", b"a\0b", b"ab",
        ];
        let mut pairs = Vec::new();
        for key in keys {
            for payload in [0, 1, 255, 256, u64::MAX] {
                pairs.push(encode_pair(key, payload));
            }
        }
        assert!(pairs.is_sorted());
        pairs.dedup();
        assert_eq!(pairs.len(), keys.len() * 5);
    }
}
