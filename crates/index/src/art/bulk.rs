//! Bulk load: a subtree built from sorted keys, bottom-up, and linked to at one instant.
//!
//! ```text
//!  keys  aab aac | ab | ba ..          open nodes, the deepest last: path "", path "a", path "aa"
//!          2    1    0   bytes shared      the key ba shares nothing with ab: "aa" and "a" are closed
//! ```
//! Two neighbouring keys part at a node that has their common prefix as its path. So the nodes that may
//! still get children are those on the path of the newest key, each with the children left of it.
//! When a key comes that shares less, the nodes with longer paths are closed. A node with few keys
//! below it is not made; its keys become part of a leaf. Else its neighbouring parts become leaves,
//! about as full as they may be, and it becomes a node. Each leaf and each node is made once, when
//! everything below it is known.
//!
//! The subtree cannot be found before the end, not even by leaf numbers; so it is simply freed if
//! the load fails. Then, under the locks of the top and of the empty leaf, its leaves take over the
//! stamps of readers that relied on that leaf, which is merged into the first of them, and the top
//! links to it.

use crossbeam_epoch::{self as epoch, Guard};

use super::ArtTree;
use super::inner::{self, Child};
use super::kind::Kind;
use super::multi_record_leaf::Item;
use super::node::{Below, LeafRef, Link};
use super::out_of_line_keys::Record;
use super::prefix_compare::{ArtKey, BEFORE};
use super::retire::Subtree;
use super::split::BLOCK_BYTES;
use crate::IndexError;
use crate::shared::leaf_table::LeafTable;

/// A subtree that releases the numbers of its leaves when it is dropped.
struct Built<'t, K: ArtKey> {
    subtree: Option<Subtree<K>>,
    table: &'t LeafTable,
}

impl<K: ArtKey> Built<'_, K> {
    fn give<'g>(mut self, guard: &'g Guard) -> Option<Link<'g, K>> {
        Some(self.subtree.take()?.give(guard))
    }
}

impl<K: ArtKey> Drop for Built<'_, K> {
    fn drop(&mut self) {
        if let Some(subtree) = &self.subtree {
            subtree.for_each(|visited| {
                if let Below::Leaf(leaf) = visited {
                    self.table.discard(leaf.mark());
                }
            });
        }
    }
}

/// Neighbouring keys.
enum Part<'t, K: ArtKey> {
    /// A number of pending keys, few enough for a leaf.
    Loose(usize),
    Built(Built<'t, K>),
}

/// A node that may still get children.
struct Open<'t, K: ArtKey> {
    path_len: usize,
    /// Pending keys left of it.
    pending_before: usize,
    /// The complete parts, each with its byte behind the path. Only the first may have none.
    parts: Vec<(i32, Part<'t, K>)>,
    /// The byte of the part that is not complete: the newest key's.
    newest: i32,
}

/// A load under way.
struct Load<'t, K: ArtKey> {
    tree: &'t ArtTree<K>,
    /// Keys that are in no leaf yet: the start of each in `bytes`, and its payload.
    pending: Vec<(usize, u64)>,
    bytes: Vec<u8>,
    open: Vec<Open<'t, K>>,
    /// The part that the newest key belongs to.
    newest: Part<'t, K>,
}

/// The byte of a key at position `at`; `BEFORE` if the key ends there.
fn byte_at(key: &[u8], at: usize) -> i32 {
    key.get(at).map_or(BEFORE, |byte| i32::from(*byte))
}

impl<'t, K: ArtKey> Load<'t, K> {
    /// Most records of a leaf: some room is left for later ones.
    fn fill(&self) -> usize {
        self.tree.config.leaf_max - self.tree.config.leaf_max / 8
    }

    fn key(&self, i: usize) -> &[u8] {
        let end = self
            .pending
            .get(i + 1)
            .map_or(self.bytes.len(), |next| next.0);
        &self.bytes[self.pending[i].0..end]
    }

    /// Takes the next key, of which `shared` bytes are those of the `last` one.
    fn push(
        &mut self,
        last: &[u8],
        shared: usize,
        key: &[u8],
        payload: u64,
    ) -> Result<(), IndexError> {
        self.close(last, shared)?;
        let part = std::mem::replace(&mut self.newest, Part::Loose(1));
        let newest = byte_at(key, shared);
        match self.open.last_mut() {
            Some(open) if open.path_len == shared => {
                open.parts.push((open.newest, part));
                open.newest = newest;
            }
            _ => {
                let loose = match part {
                    Part::Loose(keys) => keys,
                    Part::Built(_) => 0,
                };
                self.open.push(Open {
                    path_len: shared,
                    pending_before: self.pending.len() - loose,
                    parts: vec![(byte_at(last, shared), part)],
                    newest,
                });
            }
        }
        self.keep(key, payload);
        Ok(())
    }

    fn keep(&mut self, key: &[u8], payload: u64) {
        self.pending.push((self.bytes.len(), payload));
        self.bytes.extend_from_slice(key);
    }

    /// Closes all nodes with longer paths.
    fn close(&mut self, last: &[u8], shared: usize) -> Result<(), IndexError> {
        while let Some(open) = self.open.pop_if(|open| open.path_len > shared) {
            self.complete(open, last)?;
        }
        Ok(())
    }

    /// A node has everything that will be below it, up to the `last` key.
    fn complete(&mut self, mut open: Open<'t, K>, last: &[u8]) -> Result<(), IndexError> {
        let newest = std::mem::replace(&mut self.newest, Part::Loose(0));
        open.parts.push((open.newest, newest));
        let (before, end) = (open.pending_before, self.pending.len());
        let is_loose = |part: &(i32, Part<'t, K>)| matches!(part.1, Part::Loose(_));
        if open.parts.iter().all(is_loose) && end - before <= self.fill() {
            self.newest = Part::Loose(end - before);
            return Ok(());
        }
        let built = if K::BLOCKS && open.path_len == BLOCK_BYTES {
            self.leaf(Kind::Block, before, end)?
        } else {
            self.node(&last[..open.path_len], before, open.parts)?
        };
        if let Some(first) = self.pending.get(before) {
            self.bytes.truncate(first.0);
            self.pending.truncate(before);
        }
        self.newest = Part::Built(built);
        Ok(())
    }

    /// An inner node over parts, of which the loose ones become leaves.
    fn node(
        &self,
        path: &[u8],
        mut place: usize,
        parts: Vec<(i32, Part<'t, K>)>,
    ) -> Result<Built<'t, K>, IndexError> {
        let mut children: Vec<(i32, Built<'t, K>)> = Vec::new();
        let mut parts = parts.into_iter().peekable();
        while let Some((from, part)) = parts.next() {
            let child = match part {
                Part::Built(built) => built,
                Part::Loose(mut keys) => {
                    while let Some((_, Part::Loose(more))) = parts.next_if(
                        |(_, next)| matches!(next, Part::Loose(more) if keys + more <= self.fill()),
                    ) {
                        keys += more;
                    }
                    place += keys;
                    self.leaf(Kind::Bucket, place - keys, place)?
                }
            };
            children.push((if children.is_empty() { BEFORE } else { from }, child));
        }
        let guard = &epoch::pin();
        let children: Vec<_> = children
            .into_iter()
            .filter_map(|(from, child)| {
                let link = child.give(guard)?;
                Some(Child { from, link })
            })
            .collect();
        let node = inner::build(path, &children, guard);
        Ok(self.built(node.link()))
    }

    /// A leaf of pending keys.
    fn leaf(&self, kind: Kind, from: usize, to: usize) -> Result<Built<'t, K>, IndexError> {
        let guard = &epoch::pin();
        let mut items = Vec::with_capacity(to - from);
        for i in from..to {
            items.push(Item {
                key: K::parse(self.key(i))?,
                payload: self.pending[i].1,
                record: Record::NONE,
            });
        }
        let mark = self.tree.table.mark().ok_or(IndexError::OutOfPages)?;
        let leaf = match (kind, items.first()) {
            (Kind::Block, Some(first)) => {
                LeafRef::new_block(K::head(K::shorten(first.key), 0) >> 8, mark, guard)
            }
            _ => LeafRef::new_leaf(Kind::Bucket, self.tree.config.room(), mark, guard),
        };
        leaf.write(&items, guard);
        Ok(self.built(leaf.link()))
    }

    fn built(&self, link: Link<'_, K>) -> Built<'t, K> {
        Built {
            subtree: Some(Subtree::of(link)),
            table: &self.tree.table,
        }
    }

    /// All of it, of which `last` is the last key.
    fn finish(mut self, last: &[u8]) -> Result<Built<'t, K>, IndexError> {
        self.close(last, 0)?;
        // At most the node without a path is left.
        if let Some(open) = self.open.pop() {
            self.complete(open, last)?;
        }
        match std::mem::replace(&mut self.newest, Part::Loose(0)) {
            Part::Built(built) => Ok(built),
            Part::Loose(_) => self.leaf(Kind::Bucket, 0, self.pending.len()),
        }
    }
}

impl<K: ArtKey> ArtTree<K> {
    pub(super) fn load_sorted<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        if !self.is_one_empty_leaf() {
            return Err(IndexError::NotEmpty);
        }
        let mut load = Load {
            tree: self,
            pending: Vec::new(),
            bytes: Vec::new(),
            open: Vec::new(),
            newest: Part::Loose(1),
        };
        let mut last: Vec<u8> = Vec::new();
        let mut count = 0;
        for (key, payload) in sorted {
            let key = key.as_ref();
            let new = K::parse(key)?;
            if count == 0 {
                load.keep(key, payload);
            } else {
                let old = K::parse(&last)?;
                if K::cmp(K::shorten(old), K::shorten(new)).is_ge() {
                    return Err(IndexError::NotSorted { position: count });
                }
                let shared = K::shared(K::shorten(old), K::shorten(new));
                load.push(&last, shared, key, payload)?;
            }
            last.clear();
            last.extend_from_slice(key);
            count += 1;
        }
        if count == 0 || self.adopt(load.finish(&last)?) {
            Ok(count)
        } else {
            Err(IndexError::NotEmpty)
        }
    }

    fn is_one_empty_leaf(&self) -> bool {
        let guard = &epoch::pin();
        match self.top(guard).find(BEFORE).follow() {
            Some(Below::Leaf(leaf)) => leaf.count() == 0,
            _ => false,
        }
    }

    /// Replaces the empty leaf by the subtree that was built. False: the empty leaf is gone.
    fn adopt(&self, built: Built<'_, K>) -> bool {
        let guard = &epoch::pin();
        let top = self.top(guard);
        loop {
            let Some(version) = top.lock().read() else {
                unreachable!("the top does not become obsolete")
            };
            let Some(mut locked) = top.lock().try_lock(version) else {
                continue;
            };
            let Some(Below::Leaf(empty)) = top.find(BEFORE).follow() else {
                return false;
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
            if let Some(subtree) = &built.subtree {
                subtree.for_each(|visited| {
                    if let Below::Leaf(leaf) = visited {
                        self.table.split(empty.mark(), leaf.mark());
                        leaf.publish(&self.table);
                        first = first.or(Some(leaf.mark()));
                    }
                });
            }
            let Some(first) = first else {
                unreachable!("what was built has a leaf")
            };
            self.table.merge(empty.mark(), first);
            let Some(root) = built.give(guard) else {
                unreachable!("what was built has a leaf")
            };
            top.swap(empty.link(), root, guard);
            locked.changed();
            empty_locked.obsolete();
            return true;
        }
    }
}
