//! The keys that a replay keeps with their records.

use std::cmp::Ordering;

use namiki_platform::hash::hash_of;

/// A key with its record. Its order is that of the key's bytes.
pub(in crate::recovery) trait Kept: Ord + Sized + Send + Sync {
    /// The hash of the key, and the key if it can be one of these.
    fn keep(hash: u64, key: &[u8]) -> Option<Self>;
    fn is(&self, hash: u64, key: &[u8]) -> bool;
    fn hash(&self, seed: u64) -> u64;
    /// Compares with a key of the same table.
    fn cmp_key(&self, key: &[u8]) -> Ordering;
}

/// A key of eight bytes, as a big-endian number.
impl Kept for u64 {
    fn keep(_hash: u64, key: &[u8]) -> Option<Self> {
        key.try_into().ok().map(Self::from_be_bytes)
    }

    fn is(&self, _hash: u64, key: &[u8]) -> bool {
        self.to_be_bytes() == *key
    }

    fn hash(&self, seed: u64) -> u64 {
        hash_of(seed, &self.to_be_bytes())
    }

    fn cmp_key(&self, key: &[u8]) -> Ordering {
        match key.try_into() {
            Ok(key) => self.cmp(&Self::from_be_bytes(key)),
            Err(_) => self.to_be_bytes()[..].cmp(key),
        }
    }
}

/// A key of any length with its hash, which usually distinguishes it from another without a
/// comparison of the keys.
pub(in crate::recovery) struct Hashed {
    hash: u64,
    pub(in crate::recovery) key: Box<[u8]>,
}

impl Kept for Hashed {
    fn keep(hash: u64, key: &[u8]) -> Option<Self> {
        let key = key.into();
        Some(Self { hash, key })
    }

    fn is(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && *self.key == *key
    }

    fn hash(&self, _seed: u64) -> u64 {
        self.hash
    }

    fn cmp_key(&self, key: &[u8]) -> Ordering {
        (*self.key).cmp(key)
    }
}

impl Ord for Hashed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for Hashed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Hashed {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Hashed {}
