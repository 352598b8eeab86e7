//! Versions of records by the records' addresses: at most one of each.
//!
//! The map is in shards, so that threads rarely wait for each other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::mem::{size_of, take};

use crossbeam_utils::CachePadded;
use namiki_platform::Stamp;
use namiki_platform::sync::Mutex;
use smallvec::SmallVec;

use crate::storage::record::{AddressHasher, RecordRef};

/// A power of two.
const SHARDS: usize = if cfg!(loom) { 1 } else { 64 };
/// Values up to this length, in bytes, are stored inline, next to their record's address.
const INLINE_BYTES: usize = 16;

/// A version of a record.
#[derive(Clone, Debug)]
pub(super) struct KeptVersion {
    pub(super) creation: Stamp,
    /// `None`: the key was absent.
    value: Option<SmallVec<[u8; INLINE_BYTES]>>,
}

impl KeptVersion {
    pub(super) fn new(creation: Stamp, value: Option<&[u8]>) -> Self {
        Self {
            creation,
            value: value.map(SmallVec::from_slice),
        }
    }

    fn bytes(&self) -> u64 {
        version_bytes(self.value.as_deref())
    }

    /// Copies the value into `out`; returns the version's stamp if it has a value.
    pub(super) fn copy_to(&self, out: &mut Vec<u8>) -> Option<Stamp> {
        out.clear();
        out.extend_from_slice(self.value.as_ref()?);
        Some(self.creation)
    }
}

/// The memory of a version with this value, in bytes, including its share of a map that is three
/// quarters full.
pub(super) fn version_bytes(value: Option<&[u8]>) -> u64 {
    let entry = size_of::<(RecordRef, KeptVersion)>();
    let beside = value.map_or(0, <[u8]>::len);
    let beside = if beside > INLINE_BYTES { beside } else { 0 };
    (entry + entry / 3 + beside) as u64
}

type Versions = HashMap<RecordRef, KeptVersion, BuildHasherDefault<AddressHasher>>;

/// Versions by their records.
pub(super) struct VersionMap {
    shards: Box<[CachePadded<Mutex<Versions>>]>,
}

impl VersionMap {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| CachePadded::new(Mutex::new(Versions::default())));
        Self {
            shards: shards.collect(),
        }
    }

    fn shard(&self, record: RecordRef) -> &Mutex<Versions> {
        let hash = BuildHasherDefault::<AddressHasher>::default().hash_one(record);
        // A map uses the lowest bits, and the highest ones.
        &self.shards[(hash >> 40) as usize & (SHARDS - 1)]
    }

    /// Inserts a version, unless a newer one is present: a view sees the newest of the versions
    /// that it may see.
    pub(super) fn put(&self, record: RecordRef, version: KeptVersion) {
        put(&mut self.shard(record).lock(), record, version);
    }

    /// Copies the version of a record into `out`, if there is one at or below `stamp`; returns its own stamp if it has a
    /// value.
    pub(super) fn copy(
        &self,
        record: RecordRef,
        stamp: Stamp,
        out: &mut Vec<u8>,
    ) -> Option<Option<Stamp>> {
        let shard = self.shard(record).lock();
        let version = shard.get(&record)?;
        (version.creation <= stamp).then(|| version.copy_to(out))
    }

    /// The version of a record.
    pub(super) fn get(&self, record: RecordRef) -> Option<KeptVersion> {
        self.shard(record).lock().get(&record).cloned()
    }

    /// The creation stamp of a record's version.
    pub(super) fn creation_of(&self, record: RecordRef) -> Option<Stamp> {
        Some(self.shard(record).lock().get(&record)?.creation)
    }

    /// Drops the version of one record. Returns how many bytes were freed.
    pub(super) fn remove(&self, record: RecordRef) -> u64 {
        let removed = self.shard(record).lock().remove(&record);
        removed.map_or(0, |version| version.bytes())
    }

    /// Copies all versions at or below `stamp` into `other`. Returns by how many bytes that has
    /// grown.
    pub(super) fn copy_all(&self, stamp: Stamp, other: &Self) -> i64 {
        let mut more = 0;
        for (from, to) in self.shards.iter().zip(&other.shards) {
            // Lock order: always the newer view's before the older one's.
            let (from, mut to) = (from.lock(), to.lock());
            for (record, version) in &*from {
                if version.creation <= stamp {
                    more += put(&mut to, *record, version.clone());
                }
            }
        }
        more
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let forgotten = take(&mut *shard.lock());
            // Without the lock: it may take long.
            drop(forgotten);
        }
    }
}

/// See [`VersionMap::put`]. Returns by how many bytes there is more now.
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
