//! Inserting, replacing, deleting: one bucket, under its lock.

use super::HashIndex;
use super::bucket::Bucket;
use super::keys::{HashKey, Made};
use crate::{InsertOutcome, Inserted, LeafVersion};

/// What a write finds, and what it does then.
pub(super) enum Wrote {
    /// The key was there with this payload, and the payload was replaced if that was asked for.
    Found(u64),
    /// It was not and is now.
    Inserted(Inserted),
}

impl<K: HashKey> HashIndex<K> {
    /// Adds a key, or replaces its payload if `replace`.
    pub(super) fn put_key(&self, key: K::Ref<'_>, payload: u64, replace: bool) -> Wrote {
        let hash = self.hash(key);
        // A word that has to be made is not made under the lock, and only if it is wanted.
        let mut made = K::INLINE.then(|| Made::<K>::new(key, hash));
        loop {
            let mut bucket = self.table.lock(hash);
            if let Some(at) = self.find_locked(&bucket, key, hash) {
                let old = at.payload();
                if replace {
                    at.set_payload(payload);
                    bucket.change();
                } else {
                    bucket.keep();
                }
                return Wrote::Found(old);
            }
            let Some(made) = made.take() else {
                bucket.keep();
                made = Some(Made::new(key, hash));
                continue;
            };
            bucket.add(made.into_word(), payload);
            let before = self.table.stripes.bump(hash);
            bucket.change();
            self.count(1);
            let after = LeafVersion {
                counter: before.counter + 1,
                ..before
            };
            return Wrote::Inserted(Inserted {
                before,
                after,
                split: None,
            });
        }
    }

    /// Adds a key that is absent.
    pub(super) fn insert_key(&self, key: K::Ref<'_>, payload: u64) -> InsertOutcome {
        match self.put_key(key, payload, false) {
            Wrote::Found(old) => InsertOutcome::Exists(old),
            Wrote::Inserted(inserted) => InsertOutcome::Inserted(inserted),
        }
    }

    /// Replaces the payload of a key that is present.
    pub(super) fn update_key(&self, key: K::Ref<'_>, payload: u64) -> Option<u64> {
        let hash = self.hash(key);
        let bucket = self.table.lock(hash);
        let Some(at) = self.find_locked(&bucket, key, hash) else {
            bucket.keep();
            return None;
        };
        let old = at.payload();
        at.set_payload(payload);
        bucket.change();
        Some(old)
    }

    /// Removes a key, if its payload is the one that is expected, and returns its payload.
    pub(super) fn remove_key(&self, key: K::Ref<'_>, expected: Option<u64>) -> Option<u64> {
        let hash = self.hash(key);
        let pin = K::pin();
        let mut bucket = self.table.lock(hash);
        let found = self.find_locked(&bucket, key, hash);
        let right = found.filter(|at| expected.is_none_or(|expected| at.payload() == expected));
        let Some(at) = right else {
            bucket.keep();
            return None;
        };
        let (word, old) = (at.word(), at.payload());
        bucket.remove(at);
        self.table.stripes.bump(hash);
        bucket.change();
        self.retire(word, &pin);
        self.count(-1);
        Some(old)
    }

    #[inline]
    fn find_locked<'a>(
        &self,
        bucket: &Bucket<'a>,
        key: K::Ref<'_>,
        hash: u64,
    ) -> Option<super::bucket::At<'a>> {
        bucket.find(|word| self.is(word, key, hash))
    }
}
