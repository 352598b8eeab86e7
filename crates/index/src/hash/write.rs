//! The operation that changes a key: one bucket, under its lock.

use super::HashIndex;
use super::keys::{HashKey, Made};
use crate::{Change, Changed, Inserted, LeafVersion};

impl<K: HashKey> HashIndex<K> {
    /// Read-modify-write of one key under the lock of its bucket.
    #[inline]
    pub(super) fn change_key(
        &self,
        key: K::Ref<'_>,
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Changed {
        let hash = self.hash(key);
        // A word is made before the lock is taken, and only if it is needed.
        let mut made = K::INLINE.then(|| Made::<K>::new(key, hash));
        loop {
            let mut bucket = self.table.lock(hash);
            let at = bucket.find(|word| self.is(word, key, hash));
            let old = at.map(|at| at.payload());
            match (decide(old), at) {
                (Change::Keep, _) | (Change::Delete, None) => bucket.keep(),
                (Change::Put(payload), Some(at)) => {
                    at.set_payload(payload);
                    bucket.change();
                }
                (Change::Put(payload), None) => {
                    let Some(made) = made.take() else {
                        bucket.keep();
                        made = Some(Made::new(key, hash));
                        continue;
                    };
                    bucket.add(made.into_word(), payload);
                    let before = self.table.stripes.bump(hash);
                    bucket.change();
                    self.count(1);
                    return Changed::added(Inserted {
                        before,
                        after: LeafVersion {
                            counter: before.counter + 1,
                            ..before
                        },
                        split: None,
                    });
                }
                (Change::Delete, Some(at)) => {
                    let pin = K::pin();
                    let word = at.word();
                    bucket.remove(at);
                    self.table.stripes.bump(hash);
                    bucket.change();
                    self.retire(word, &pin);
                    self.count(-1);
                }
            }
            return Changed::from(old);
        }
    }
}
