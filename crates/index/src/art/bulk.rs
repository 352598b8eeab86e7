//! Bulk load: a whole tree built beside this one from sorted keys, and shown at one instant.
//!
//! The other tree has its leaves' numbers from the same table. When it is complete, the leaves of the
//! other answer for who relied on this tree's empty leaf, which is merged into the first of them; then
//! the top gets the other's root for its child.
#![expect(unsafe_code, reason = "retires the empty leaf")]

use std::sync::Arc;

use crossbeam_epoch as epoch;

use super::ArtTree;
use super::inner::Child;
use super::link::Link;
use super::path::{ArtKey, BEFORE};
use super::walk::Visited;
use crate::{Change, IndexError};

impl<K: ArtKey> ArtTree<K> {
    pub(super) fn load_sorted<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        if !self.is_one_empty_leaf() {
            return Err(IndexError::NotEmpty);
        }
        let Some(other) = Self::with_table(self.config, Arc::clone(&self.table)) else {
            return Err(IndexError::OutOfPages);
        };
        let mut count = 0;
        let mut last: Option<Vec<u8>> = None;
        for (key, payload) in sorted {
            let key = key.as_ref();
            let new = K::parse(key)?;
            if let Some(last) = &mut last {
                if K::cmp(K::parse(last)?, K::shorten(new)).is_ge() {
                    return Err(IndexError::NotSorted { position: count });
                }
                last.clear();
                last.extend_from_slice(key);
            } else {
                last = Some(key.to_vec());
            }
            other.change_key(key, |_| Change::Put(payload))?;
            count += 1;
        }
        if self.adopt(other) {
            Ok(count)
        } else {
            Err(IndexError::NotEmpty)
        }
    }

    fn is_one_empty_leaf(&self) -> bool {
        let guard = epoch::pin();
        let mut leaves = 0;
        let mut records = 0;
        self.walk(&guard, |visited| {
            if let Visited::Leaf(leaf, _) = visited {
                leaves += 1;
                records += leaf.count();
            }
        });
        leaves == 1 && records == 0
    }

    /// Takes over all of the other tree. False: this one is not empty any more.
    fn adopt(&self, other: Self) -> bool {
        let guard = epoch::pin();
        let (top, root) = (self.top(&guard), other.top(&guard).children()[0].link);
        loop {
            let Some(version) = top.lock().read() else {
                unreachable!("the top does not become obsolete")
            };
            let Some(mut locked) = top.lock().try_lock(version) else {
                continue;
            };
            let old = top.children()[0].link;
            if !old.is_leaf() {
                return false;
            }
            // SAFETY: read from the top, under its lock.
            let Some(empty) = (unsafe { super::LeafRef::<K>::of(old) }) else {
                unreachable!("the top has a child")
            };
            let Some(version) = empty.lock().read() else {
                unreachable!("the top is locked")
            };
            let Some(mut empty_locked) = empty.lock().try_lock(version) else {
                continue;
            };
            if empty.count() > 0 {
                return false;
            }
            let mut first = None;
            other.walk(&guard, |visited| {
                if let Visited::Leaf(leaf, _) = visited {
                    self.table.split(empty.mark(), leaf.mark());
                    first = first.or(Some(leaf));
                }
            });
            let Some(first) = first else {
                unreachable!("a tree has a leaf")
            };
            self.table.merge(empty.mark(), first.mark());
            let child = |link| Child { from: BEFORE, link };
            other.top(&guard).write(&[child(Link::NONE)]);
            top.write(&[child(root)]);
            locked.changed();
            empty_locked.obsolete();
            // SAFETY: obsolete from now on, its one link was replaced, its number is withdrawn, and it
            // has no records.
            unsafe { empty.retire(&guard) };
            return true;
        }
    }
}
