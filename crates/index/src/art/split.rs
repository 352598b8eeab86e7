//! Splits of full leaves, and conversion to blocks.
//!
//! A split puts a bound between two keys of the leaf: the shortest byte string that separates them.
//! Among the positions near enough to the middle it takes the one with the shortest bound: short
//! bounds make a shallow tree.
//!
//! # Where a bound goes
//!
//! Into the node that has the bound without its last byte as its path. If there is no such node on the way
//! to the leaf, one is made, a Node4 with two children: *above* the first node on the way with a path that
//! is not a proper prefix of the bound. (In the paper: the prefix split, and lazy expansion when that is
//! the leaf.) That node must keep a path that begins with the new node's, so the new path is cut where the
//! two part; the bound is then the shortest one there that leaves all of the old node's bounds on one side.
//! It may have all records on one side: the split leaves an empty leaf behind, and one with a record too
//! many, for which there is spare room. That one lies directly below the node of the bound and has a key on
//! that node's path, so that its next split leaves records on both sides.
//!
//! The leaf that is split is the first or the last one of such an old node. That node's range becomes
//! smaller without a write to its words: which is why all nodes between are locked and change their
//! versions (`art/mod.rs`, A1). The old leaf stays where it is and keeps its number, be it the left
//! or the right one.
//!
//! Paper: bwtree §2 (its reference 3 is ART: Insert, lazy expansion, path compression)

use crossbeam_epoch::Guard;

use super::ArtTree;
use super::descend::{Reached, Step};
use super::inner::{self, Child};
use super::kind::Kind;
use super::lock::Locked;
use super::multi_record_leaf::Item;
use super::node::{LeafRef, NodeRef};
use super::out_of_line_keys::Record;
use super::prefix_compare::{ArtKey, BEFORE, shared_bytes};
use crate::shared::counters::Event;
use crate::shared::scan::Target;
use crate::{IndexError, Inserted};

/// Bytes of an eight-byte key that all keys of a block share.
pub(super) const BLOCK_BYTES: usize = 7;

/// A new bound, and the position it goes to.
struct Bound {
    bytes: Vec<u8>,
    /// The step of the path at the child of which the bound goes in, or below the node of which the new one
    /// comes.
    step: usize,
}

/// Where a new bound goes and what it parts: the old child keeps one side, the new leaf gets the other.
struct Place {
    bound: Bound,
    /// The new leaf is left of the bound.
    new_is_left: bool,
}

impl<K: ArtKey> ArtTree<K> {
    /// Inserts a key, absent before, into a leaf that does not take it as it is. `None`: something has
    /// changed, or the leaf does take it now; nothing was done.
    #[cold]
    pub(super) fn insert_into_full_leaf(
        &self,
        key: K::Ref<'_>,
        payload: u64,
        guard: &Guard,
    ) -> Result<Option<Inserted>, IndexError> {
        let mut way = Vec::new();
        let reached = self.leaf(Target::At(key), &mut way, guard);
        let leaf = reached.leaf;
        let Some(locked) = leaf.lock().try_lock(reached.version) else {
            return Ok(None);
        };
        if leaf.takes(key, self.config.leaf_max) || leaf.find(key).is_some() {
            return Ok(None);
        }
        let mut items = Vec::with_capacity(leaf.count() + 1);
        leaf.items(leaf.all(), &mut items);
        let place = items.partition_point(|item| K::cmp(item.key, K::shorten(key)).is_lt());
        let new = Item {
            key: K::shorten(key),
            payload,
            record: Record::NONE,
        };
        let appended = place == items.len();
        items.insert(place, new);
        let bound = match self.separator(&items, appended) {
            Some(separator) => {
                // A block keeps its keys, wherever the new one lies.
                let keeps_right = leaf.is_block() && place == 0;
                place_of(separator, &way, keeps_right)
            }
            // All in one block: that is above the leaf's keys only if the path above is (A3).
            None => match isolate(&head_bytes::<K>(&items), &way) {
                Some(bound) => bound,
                None => return Ok(self.make_block(&way, &reached, locked, &items, guard)),
            },
        };
        self.split(&way, &reached, locked, &items, bound, guard)
    }

    /// The shortest bound that leaves enough records on both sides. `None`: all keys belong into one
    /// block.
    fn separator(&self, items: &[Item<'_, K>], appended: bool) -> Option<Vec<u8>> {
        let len = items.len();
        let shared = |i: usize| K::shared(items[i - 1].key, items[i].key);
        let allowed = |i: &usize| !K::BLOCKS || shared(*i) < BLOCK_BYTES;
        let least = (len / 8).max(1);
        let short = |i: &usize| (shared(*i), i.abs_diff(len / 2));
        let middle = (least..=len - least).filter(allowed).min_by_key(short);
        // Ascending keys fill their leaves, if that makes the bound no longer.
        let end = len - 1;
        let at = match middle {
            Some(middle) if appended && allowed(&end) && shared(end) <= shared(middle) => end,
            Some(middle) => middle,
            None => (1..len)
                .filter(allowed)
                .min_by_key(|i| i.abs_diff(len / 2))?,
        };
        let mut buffer = [0; 8];
        let bytes = K::encode(K::shorten(items[at].key), &mut buffer);
        Some(bytes[..=shared(at)].to_vec())
    }

    /// Splits the leaf at the bound.
    fn split(
        &self,
        way: &[Step<'_, K>],
        reached: &Reached<'_, K>,
        mut locked: Locked<'_>,
        items: &[Item<'_, K>],
        place: Place,
        guard: &Guard,
    ) -> Result<Option<Inserted>, IndexError> {
        let Place { bound, new_is_left } = place;
        let old = reached.leaf;
        let Some((byte, path)) = bound.bytes.split_last() else {
            unreachable!("a bound parts two keys, so it is not empty")
        };
        let step = &way[bound.step];
        // The node to put the bound into, if it exists; else a new one replaces the child.
        let into = (bound.step > 0 && step.node.path_len() == path.len()).then_some(step.node);
        let Some(mark) = self.table.mark() else {
            return Err(IndexError::OutOfPages);
        };
        // A full node is replaced by a bigger one, which is the node above's affair.
        let grows = into.is_some_and(NodeRef::is_full);
        let Some(mut nodes) = lock_all(&way[bound.step - usize::from(grows)..]) else {
            self.table.discard(&mark);
            return Ok(None);
        };
        // Nothing fails from here on.
        let is_left = |item: &Item<'_, K>| {
            let mut buffer = [0; 8];
            K::encode(K::shorten(item.key), &mut buffer) < &bound.bytes[..]
        };
        let (left, right) = items.split_at(items.partition_point(is_left));
        let new = LeafRef::new_leaf(Kind::Bucket, self.config.room(), mark, guard);
        new.write(if new_is_left { left } else { right }, guard);
        let before = old.mark().version();
        old.write(if new_is_left { right } else { left }, guard);
        old.mark().bump();
        let after = old.mark().version();
        self.table.split(old.mark(), new.mark());
        new.publish(&self.table);
        let versions = (old.mark().version(), new.mark().version());

        let (first, second) = if new_is_left {
            (new.link(), step.link)
        } else {
            (step.link, new.link())
        };
        match into {
            Some(node) if grows => {
                let children = inner::parted(node.children(), step.link, first, *byte, second);
                let bigger = inner::build(&node.path_bytes(), &children, guard);
                nodes[1].obsolete();
                let above = way[bound.step - 1].node;
                above.swap(node.link(), bigger.link(), guard);
            }
            Some(node) => node.part(step.link, first, *byte, second),
            None => {
                let from = i32::from(*byte);
                let children = [(BEFORE, first), (from, second)];
                let children = children.map(|(from, link)| Child { from, link });
                let node = inner::build(path, &children, guard);
                let found = step.node.replace(step.link, node.link());
                assert!(found, "the way went through this child");
            }
        }
        nodes.iter_mut().for_each(Locked::changed);
        locked.changed();
        self.counters.add(Event::Split);
        Ok(Some(Inserted {
            before,
            after,
            split: Some(versions),
        }))
    }

    /// The leaf becomes a block with one more record.
    fn make_block(
        &self,
        way: &[Step<'_, K>],
        reached: &Reached<'_, K>,
        mut locked: Locked<'_>,
        items: &[Item<'_, K>],
        guard: &Guard,
    ) -> Option<Inserted> {
        let step = way.last()?;
        let mut above = step.node.lock().try_lock(step.version)?;
        let old = reached.leaf;
        let before = old.mark().version();
        let block = K::head(K::shorten(items.first()?.key), 0) >> 8;
        let new = LeafRef::new_block(block, old.mark().copy(), guard);
        new.write(items, guard);
        new.mark().bump();
        let after = new.mark().version();
        self.replace_leaf(step, old, new, guard);
        locked.obsolete();
        above.changed();
        self.counters.add(Event::Consolidation);
        Some(Inserted {
            before,
            after,
            split: None,
        })
    }

    /// Puts a copy of a leaf, with the same mark, into its place.
    pub(super) fn replace_leaf(
        &self,
        step: &Step<'_, K>,
        old: LeafRef<'_, K>,
        new: LeafRef<'_, K>,
        guard: &Guard,
    ) {
        new.publish(&self.table);
        step.node.swap(old.link(), new.link(), guard);
    }
}

/// Locks all nodes of a part of a way, as they were when it was gone.
pub(super) fn lock_all<'g, K: ArtKey>(steps: &[Step<'g, K>]) -> Option<Vec<Locked<'g>>> {
    let lock = |step: &Step<'g, K>| step.node.lock().try_lock(step.version);
    steps.iter().map(lock).collect()
}

/// The bytes that all keys of a block share.
fn head_bytes<K: ArtKey>(items: &[Item<'_, K>]) -> Vec<u8> {
    let mut buffer = [0; 8];
    let first = items.first().map(|item| item.key);
    first.map_or(Vec::new(), |key| {
        K::encode(K::shorten(key), &mut buffer)[..BLOCK_BYTES].to_vec()
    })
}

/// The last step with a path that is a proper prefix of `bytes`, or the top, and the path of the next one.
fn deepest<K: ArtKey>(bytes: &[u8], way: &[Step<'_, K>]) -> (usize, Option<Vec<u8>>) {
    for (i, step) in way.iter().enumerate().skip(1) {
        let path = step.node.path_bytes();
        if path.len() >= bytes.len() || !bytes.starts_with(&path) {
            return (i - 1, Some(path));
        }
    }
    (way.len() - 1, None)
}

/// Where a bound goes that parts the keys of the leaf at the end of a way. Directly below the node of the
/// bound, the leaf may keep either side.
fn place_of<K: ArtKey>(separator: Vec<u8>, way: &[Step<'_, K>], keeps_right: bool) -> Place {
    let (step, below) = deepest(&separator, way);
    let Some(path) = below else {
        let bytes = separator;
        return Place {
            bound: Bound { bytes, step },
            new_is_left: keeps_right,
        };
    };
    let new_is_left = path >= separator;
    let fork = shared_bytes(&path, &separator);
    let bytes = if fork + 1 >= separator.len() {
        separator
    } else if new_is_left {
        path[..=fork].to_vec()
    } else {
        separator[..=fork].to_vec()
    };
    Place {
        bound: Bound { bytes, step },
        new_is_left,
    }
}

/// Where the bound goes that lifts keys with these first bytes out of a leaf below a path that they do
/// not begin with. `None`: they do.
fn isolate<K: ArtKey>(first: &[u8], way: &[Step<'_, K>]) -> Option<Place> {
    let (step, below) = deepest(first, way);
    let path = below?;
    let fork = shared_bytes(&path, first);
    let new_is_left = *path >= *first;
    let bytes = if new_is_left { &path } else { first };
    Some(Place {
        bound: Bound {
            bytes: bytes[..=fork].to_vec(),
            step,
        },
        new_is_left,
    })
}
