//! The versions that commits have overwritten while a view was the newest one: at most one of each record.
//!
//! They are in shards by the records' addresses, so that commits rarely wait for each other. A shard that is closed takes
//! no further version: what it has was handed on to the next older view, and what comes goes there, too.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::mem::{size_of, take};

use crossbeam_utils::CachePadded;
use namiki_platform::Stamp;
use smallvec::SmallVec;

use crate::storage::record::{AddressHasher, RecordRef};
use crate::sync::Mutex;

/// A power of two.
const SHARDS: usize = if cfg!(loom) { 1 } else { 64 };
/// Values up to this length lie beside their record's address, in bytes.
const INLINE_BYTES: usize = 16;

/// A value that was overwritten; nothing: the key was not there.
pub(super) type KeptValue = Option<SmallVec<[u8; INLINE_BYTES]>>;

/// A version that was overwritten.
#[derive(Clone, Debug)]
pub(super) struct KeptVersion {
    pub(super) creation: Stamp,
    pub(super) value: KeptValue,
}

impl KeptVersion {
    pub(super) fn new(creation: Stamp, value: Option<&[u8]>) -> Self {
        Self {
            creation,
            value: value.map(SmallVec::from_slice),
        }
    }

    /// What it takes in memory, in bytes: with its part of a map that is three quarters full.
    pub(super) fn bytes(&self) -> u64 {
        let entry = size_of::<(RecordRef, Self)>() + size_of::<(RecordRef, Self)>() / 3;
        let spilled = self.value.as_ref().filter(|value| value.spilled());
        (entry + spilled.map_or(0, SmallVec::capacity)) as u64
    }

    /// Copies the value into `out`; returns the version's stamp, if there is one.
    pub(super) fn copy_to(&self, out: &mut Vec<u8>) -> Option<Stamp> {
        out.clear();
        out.extend_from_slice(self.value.as_ref()?);
        Some(self.creation)
    }
}

type Versions = HashMap<RecordRef, KeptVersion, BuildHasherDefault<AddressHasher>>;

#[derive(Default)]
struct Shard {
    is_closed: bool,
    versions: Versions,
}

/// The shard is closed: the version belongs to an older view.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// The versions that were kept for a view and the older ones.
pub(super) struct KeptVersions {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
}

impl KeptVersions {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| CachePadded::new(Mutex::new(Shard::default())));
        Self {
            shards: shards.collect(),
        }
    }

    fn shard(&self, record: RecordRef) -> &Mutex<Shard> {
        let hash = BuildHasherDefault::<AddressHasher>::default().hash_one(record);
        // A map uses the lowest bits, and the highest ones.
        &self.shards[(hash >> 40) as usize & (SHARDS - 1)]
    }

    /// Keeps a version, unless a newer one is there: of the versions of a record that a view may see, the newest is the
    /// one. Returns by how many bytes there is more now.
    pub(super) fn keep(&self, record: RecordRef, version: KeptVersion) -> Result<i64, Closed> {
        let mut shard = self.shard(record).lock();
        if shard.is_closed {
            return Err(Closed);
        }
        Ok(put(&mut shard.versions, record, version))
    }

    /// Copies the version that is kept of a record into `out`, if there is one at or below `stamp`; returns its own stamp if
    /// it has a value.
    pub(super) fn copy(
        &self,
        record: RecordRef,
        stamp: Stamp,
        out: &mut Vec<u8>,
    ) -> Option<Option<Stamp>> {
        let shard = self.shard(record).lock();
        let version = shard.versions.get(&record)?;
        (version.creation <= stamp).then(|| version.copy_to(out))
    }

    /// The version that is kept of a record.
    pub(super) fn get(&self, record: RecordRef) -> Option<KeptVersion> {
        self.shard(record).lock().versions.get(&record).cloned()
    }

    /// Forgets that of one record. Returns how many bytes less there are.
    pub(super) fn remove(&self, record: RecordRef) -> u64 {
        let removed = self.shard(record).lock().versions.remove(&record);
        removed.map_or(0, |version| version.bytes())
    }

    /// Hands what a view at `stamp`, the next older one, may see on to `older`, and closes this. What is here stays, for
    /// readers that have looked there before. Returns by how many bytes there is more now.
    pub(super) fn hand_on(&self, older: &Self, stamp: Stamp) -> i64 {
        let mut more = 0;
        for (from, to) in self.shards.iter().zip(&older.shards) {
            // Always from the newer one to the older one: no circle.
            let mut from = from.lock();
            from.is_closed = true;
            let mut to = to.lock();
            for (record, version) in &from.versions {
                if version.creation <= stamp {
                    more += put(&mut to.versions, *record, version.clone());
                }
            }
        }
        more
    }

    /// Forgets everything, and takes no more. Returns how many bytes less there are.
    pub(super) fn clear(&self) -> u64 {
        let mut bytes = 0;
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.is_closed = true;
            let versions = take(&mut shard.versions);
            drop(shard);
            bytes += versions.values().map(KeptVersion::bytes).sum::<u64>();
        }
        bytes
    }
}

fn put(versions: &mut Versions, record: RecordRef, version: KeptVersion) -> i64 {
    let bytes = version.bytes() as i64;
    match versions.entry(record) {
        Entry::Vacant(entry) => {
            entry.insert(version);
            bytes
        }
        Entry::Occupied(entry) if entry.get().creation >= version.creation => 0,
        Entry::Occupied(mut entry) => bytes - entry.insert(version).bytes() as i64,
    }
}
