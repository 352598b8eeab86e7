//! The operations that change a leaf.
//!
//! A writer looks its key up as a reader does, decides, and takes the leaf's latch only if the leaf
//! is unchanged since. So look-up and change are one atomic step, and a writer that changes nothing
//! takes no latch. A payload is replaced in place and leaves the leaf's version alone; an insert or
//! a delete changes it before the latch is released.
//!
//! Paper: bwtree §2.2 (a writer has one node to itself)

use std::sync::atomic::Ordering;

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;
use namiki_index::{Change, Changed, Expected, IndexError, Inserted};

use super::BlinkTree;
use super::descend::Found;
use super::node::{Entry, NodeRef, retire_key};
use super::out_of_line_keys;

impl<K: Key> BlinkTree<K> {
    /// Read-modify-write of one key in one atomic step. `decide` is called again if another thread
    /// changed the leaf in between.
    #[inline]
    pub(super) fn change_key(
        &self,
        key: &[u8],
        expected: Expected,
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Changed, IndexError> {
        let key = K::parse(key)?;
        let guard = &epoch::pin();
        let mut path = self.descend::<false>(0, key, guard);
        if expected == Expected::Absent {
            path.prefetch_tail(self.nodes.room(0));
        }
        loop {
            let found = self.find(&mut path, key);
            let old = found.payload.ok();
            let changed = match (decide(old), found.payload) {
                (Change::Put(payload), Ok(_)) => self.replace(&found, payload),
                (Change::Put(payload), Err(_)) => {
                    if found.leaf.latch().change_if(found.seen) {
                        let inserted = self.add(&found, key, payload, guard)?;
                        return Ok(Changed::added(inserted));
                    }
                    false
                }
                (Change::Delete, Ok(_)) => self.remove(&found, key, guard),
                (Change::Keep, _) | (Change::Delete, Err(_)) => true,
            };
            if changed {
                return Ok(Changed::from(old));
            }
            self.counters.add(Event::CasMiss);
            found.leaf.latch().wait_for_writers();
        }
    }

    /// Replaces the payload of a key that is present. False if the leaf has changed.
    #[inline]
    fn replace(&self, found: &Found<'_, K>, payload: u64) -> bool {
        let latch = found.leaf.latch();
        if !latch.change_if(found.seen) {
            return false;
        }
        found.leaf.values()[found.at].store(payload, Ordering::Relaxed);
        latch.unlatch();
        true
    }

    /// Adds a key to the leaf it belongs to, which the caller has latched and is changing.
    #[inline]
    fn add(
        &self,
        found: &Found<'_, K>,
        key: K::Ref<'_>,
        payload: u64,
        guard: &Guard,
    ) -> Result<Inserted, IndexError> {
        let leaf = found.leaf;
        let before = leaf.mark().version();
        if leaf.len() == self.config.leaf_max {
            return self.add_and_split(found, key, payload, guard);
        }
        let entry = Entry {
            key: out_of_line_keys::keep::<K>(key),
            value: payload,
        };
        leaf.insert(found.at, entry);
        leaf.mark().bump();
        let after = leaf.mark().version();
        leaf.latch().unlatch();
        Ok(Inserted {
            before,
            after,
            split: None,
        })
    }

    /// The same for a full leaf. Other threads see the insert first and then the split.
    fn add_and_split(
        &self,
        found: &Found<'_, K>,
        key: K::Ref<'_>,
        payload: u64,
        guard: &Guard,
    ) -> Result<Inserted, IndexError> {
        let leaf = found.leaf;
        let Some(mark) = self.table.mark() else {
            leaf.latch().unlatch();
            return Err(IndexError::OutOfPages);
        };
        let before = leaf.mark().version();
        leaf.mark().bump();
        let after = leaf.mark().version();
        let entry = Entry {
            key: out_of_line_keys::keep::<K>(key),
            value: payload,
        };
        let right = self.split(leaf, found.at, entry, |low| self.nodes.leaf(low, mark));
        self.table.split(leaf.mark(), right.mark());
        self.nodes.publish(right, &self.table);
        let halves = (leaf.mark().version(), right.mark().version());
        leaf.latch().end_change();
        self.tell_parent(leaf, right, guard);
        Ok(Inserted {
            before,
            after,
            split: Some(halves),
        })
    }

    /// Removes a key that is present. False if the leaf has changed.
    fn remove(&self, found: &Found<'_, K>, key: K::Ref<'_>, guard: &Guard) -> bool {
        let leaf = found.leaf;
        if !leaf.latch().change_if(found.seen) {
            return false;
        }
        let word = leaf.remove(found.at).key;
        leaf.mark().bump();
        let len = leaf.len();
        leaf.latch().unlatch();
        retire_key::<K>(word, guard);
        if len < self.config.leaf_min() {
            self.shrink(0, key, guard);
        }
        true
    }
}

impl<K: Key> NodeRef<'_, K> {
    /// Adds an entry at its place; the node is being changed and has room.
    #[inline]
    pub(super) fn insert(self, at: usize, entry: Entry) {
        let mut shape = self.shape();
        self.open_gap(at, shape.len);
        self.set_entry(at, entry, shape.prefix);
        shape.run = if at == shape.last + 1 {
            shape.run + 1
        } else {
            0
        };
        shape.last = at;
        shape.len += 1;
        self.set_shape(shape);
    }

    /// Takes an entry out of a node that is being changed.
    pub(super) fn remove(self, at: usize) -> Entry {
        let (mut shape, entry) = (self.shape(), self.entry(at));
        self.close_gap(at, shape.len);
        shape.len -= 1;
        self.set_shape(shape);
        entry
    }
}
