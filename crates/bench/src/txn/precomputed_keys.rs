//! The keys of a thread's transactions, encoded for the table.
//!
//! A ring holds numbers of records, which the workloads and the checks use. The table's keys are
//! created from them before the clock starts, and read in the order of the ring. Dense keys of
//! eight bytes are computed from the numbers, and nothing is stored.

use namiki::{AsKey, Key};

use super::workload::{Ring, record_of};
use crate::key_encoding::Keys;

/// One implementation for each shape of keys, so that the surrounding loop is specialised for it.
pub(crate) trait Drawn: Send + Sync + Sized {
    /// The type of the table's keys.
    type Key: Key + ?Sized;
    /// The type of a borrowed key.
    type One<'a>: AsKey<Self::Key>
    where
        Self: 'a;

    /// Creates the keys of a ring.
    fn new(ring: &Ring, keys: &Keys) -> Self;

    /// The key of record `number`, which is at position `place` in the ring.
    fn key(&self, number: u32, place: usize) -> Self::One<'_>;
}

/// Dense keys of eight bytes.
#[derive(Debug)]
pub(crate) struct Numbers;

impl Drawn for Numbers {
    type Key = u64;
    type One<'a> = u64;

    fn new(_ring: &Ring, _keys: &Keys) -> Self {
        Self
    }

    #[inline]
    fn key(&self, number: u32, _place: usize) -> u64 {
        u64::from(number)
    }
}

/// Other keys of eight bytes.
#[derive(Debug)]
pub(crate) struct Cores(Vec<u64>);

impl Drawn for Cores {
    type Key = u64;
    type One<'a> = u64;

    fn new(ring: &Ring, keys: &Keys) -> Self {
        Self(ring.records().map(|number| keys.core(number)).collect())
    }

    #[inline]
    fn key(&self, _number: u32, place: usize) -> u64 {
        self.0[place]
    }
}

/// Longer keys.
#[derive(Debug)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    key_bytes: usize,
}

impl Drawn for Strings {
    type Key = [u8];
    type One<'a> = &'a [u8];

    fn new(ring: &Ring, keys: &Keys) -> Self {
        let mut bytes = Vec::with_capacity(ring.records().count() * keys.bytes);
        for number in ring.records() {
            keys.append(number, &mut bytes);
        }
        Self {
            bytes,
            key_bytes: keys.bytes,
        }
    }

    #[inline]
    fn key(&self, _number: u32, place: usize) -> &[u8] {
        &self.bytes[place * self.key_bytes..][..self.key_bytes]
    }
}

/// The key of a record, for the load and the checks.
pub(crate) fn key_of<K: Key + ?Sized>(keys: &Keys, number: u64) -> K::Owned {
    let mut bytes = Vec::with_capacity(keys.bytes);
    keys.append(number, &mut bytes);
    let Some(key) = K::decode(&bytes) else {
        unreachable!("keys of {} bytes have another type", keys.bytes)
    };
    key
}

/// The record of a key; `None` if no record has this key.
pub(crate) fn number_of<K: Key + ?Sized>(keys: &Keys, key: &impl AsKey<K>) -> Option<u64> {
    key.with_bytes(|bytes| keys.number(bytes))
}

impl Ring {
    /// The records of the ring's keys, in order of position.
    fn records(&self) -> impl Iterator<Item = u64> {
        self.all().iter().map(|key| u64::from(record_of(*key)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::{Choice, HotKeys, Workload, Ycsb};
    use super::*;
    use crate::key_encoding::{CORE_BYTES, KeyLayout, KeySpace};

    fn are_of_their_records<D: Drawn>(bytes: usize, space: KeySpace) {
        let keys = Keys {
            count: 100,
            bytes,
            space,
            layout: KeyLayout::SharedPrefix,
        };
        let choice = Choice {
            records: 100,
            skew: 0.5,
            hot_keys: HotKeys::Scattered,
            seed: 1,
        };
        for workload in [
            Workload::Update(10),
            Workload::ReadsThenUpdates(5),
            Workload::Ycsb(Ycsb::A),
        ] {
            let ring = Ring::new(workload, choice, 0, 50);
            let drawn = D::new(&ring, &keys);
            for number in 0..70 {
                let (records, first) = ring.at(number);
                for (place, record) in (first..).zip(records) {
                    let record = record_of(*record);
                    let key = drawn.key(record, place);
                    let found = number_of::<D::Key>(&keys, &key);
                    assert_eq!(found, Some(u64::from(record)));
                    let owned = key_of::<D::Key>(&keys, u64::from(record));
                    let same = key.with_bytes(<[u8]>::to_vec);
                    assert_eq!(owned.with_bytes(<[u8]>::to_vec), same);
                }
            }
        }
    }

    #[test]
    fn drawn_keys_are_those_of_their_records() {
        are_of_their_records::<Numbers>(CORE_BYTES, KeySpace::Dense);
        are_of_their_records::<Cores>(CORE_BYTES, KeySpace::Sparse);
        are_of_their_records::<Strings>(16, KeySpace::Dense);
        are_of_their_records::<Strings>(33, KeySpace::Sparse);
    }
}
