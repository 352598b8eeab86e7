//! Bulk load: a whole tree built from sorted keys and published at one instant.
//!
//! Leaves and inner nodes are built privately. Then the empty root leaf is frozen and exchanged for
//! the new root, together with its word in the table of leaves. The new leaves take over its rts.
//!
//! Paper: bwtree §2.3 (the replacement of a node that this is)

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::IndexError;
use namiki_index::key::Key;

use super::node::{NodeRef, OwnedNode, Shape};
use super::replace::inner;
use super::{BzTree, Variant};
use crate::mwcas::{Change, swap};

/// Keys gathered for one leaf, each in its own bytes.
type Batch = Vec<(Vec<u8>, u64)>;

/// The nodes built so far, freed if the load fails.
struct Built<'t, K: Key, V: Variant> {
    tree: &'t BzTree<K, V>,
    leaves: Vec<OwnedNode<K>>,
    inner: Vec<OwnedNode<K>>,
}

impl<K: Key, V: Variant> Drop for Built<'_, K, V> {
    fn drop(&mut self) {
        let guard = epoch::pin();
        for leaf in self.leaves.drain(..) {
            // A thread with an old version of that number may be reading it.
            let (node, table) = (leaf.as_ref(), &self.tree.leaves);
            let _ = swap(table.word(node.number()), node.address(), 0, &guard);
            table.give_back(node.number(), node.counter() + 1);
            node.retire(&guard);
            leaf.published();
        }
    }
}

impl<K: Key, V: Variant> BzTree<K, V> {
    fn empty_root<'g>(&self, guard: &'g Guard) -> Option<NodeRef<'g, K>> {
        let root = self.root.load(guard);
        (root.level() == 0 && self.alive(root, guard) == 0).then_some(root)
    }

    pub(super) fn load_sorted<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        let guard = &epoch::pin();
        if self.empty_root(guard).is_none() {
            return Err(IndexError::NotEmpty);
        }
        let fill = (self.config.leaf_max * self.config.load_percent / 100).max(1);
        let mut sorted = sorted.into_iter();
        let mut position = 0;
        let mut last: Option<Vec<u8>> = None;
        let mut next_batch = || -> Result<Batch, IndexError> {
            let mut batch = Batch::with_capacity(fill);
            for (key, payload) in sorted.by_ref().take(fill) {
                let key = key.as_ref();
                K::parse(key)?;
                super::leaf_word_changes::check(payload)?;
                if last.as_deref().is_some_and(|last| last >= key) {
                    return Err(IndexError::NotSorted { position });
                }
                last = Some(key.to_vec());
                position += 1;
                batch.push((key.to_vec(), payload));
            }
            Ok(batch)
        };
        let mut built = Built {
            tree: self,
            leaves: Vec::new(),
            inner: Vec::new(),
        };
        let mut low: Option<Vec<u8>> = None;
        let mut batch = next_batch()?;
        while !batch.is_empty() {
            let next = next_batch()?;
            let high = match (batch.last(), next.first()) {
                (Some(below), Some(at)) => {
                    let separator = K::separator(K::parse(&below.0)?, K::parse(&at.0)?);
                    Some(K::encode(separator, &mut [0; 8]).to_vec())
                }
                _ => None,
            };
            let parsed = batch
                .iter()
                .map(|(key, payload)| Ok((K::parse(key)?, *payload)));
            let entries = parsed.collect::<Result<Vec<_>, IndexError>>()?;
            let low_key = low.as_deref().map(K::parse).transpose()?;
            let (number, counter) = self.leaves.take().ok_or(IndexError::OutOfPages)?;
            let leaf = OwnedNode::build(
                &Shape {
                    level: 0,
                    number,
                    counter,
                    slots: self.config.slots,
                    low: low_key.unwrap_or(K::min()),
                    high: high.as_deref().map(K::parse).transpose()?,
                },
                &entries,
            );
            let address = leaf.as_ref().address();
            // The word of a free number is 0, and no other thread changes it.
            let named = swap(self.leaves.word(number), 0, address, guard);
            assert!(named.is_ok(), "the word of a free number is 0");
            built.leaves.push(leaf);
            drop(entries);
            (low, batch) = (high, next);
        }
        if built.leaves.is_empty() {
            return Ok(0);
        }
        built.build_inner();
        self.publish(built, guard)?;
        Ok(position)
    }

    /// Exchanges the empty root leaf for the new tree.
    fn publish(&self, mut built: Built<'_, K, V>, guard: &Guard) -> Result<(), IndexError> {
        while let Some(old) = self.empty_root(guard) {
            let status = old.freeze_leaf::<V>(guard);
            let mut entries = Vec::new();
            old.collect(status, &mut entries, guard);
            if entries.is_empty() {
                for leaf in &built.leaves {
                    self.leaves.inherit(old.number(), leaf.as_ref().number());
                }
                let Some(top) = built.inner.last().or(built.leaves.last()) else {
                    unreachable!("there are leaves")
                };
                let change = Change::new(self.root.word(), old.word(), top.as_ref().word());
                let change = change.and(self.leaves.word(old.number()), old.address(), 0);
                if change.commit(guard) {
                    let nodes = built.leaves.drain(..);
                    nodes.for_each(OwnedNode::published);
                    let nodes = built.inner.drain(..);
                    nodes.for_each(OwnedNode::published);
                    let last = old.counter() + status.changes();
                    self.leaves.give_back(old.number(), last + 1);
                    old.retire(guard);
                    return Ok(());
                }
            }
            self.replace(old.low(), old, guard);
        }
        Err(IndexError::NotEmpty)
    }
}

impl<K: Key, V: Variant> Built<'_, K, V> {
    /// Builds the levels above the leaves. The topmost node is the last.
    fn build_inner(&mut self) {
        let config = &self.tree.config;
        let fill = (config.inner_max * config.load_percent / 100).max(2);
        let mut from = 0;
        for level in 1.. {
            let below = if level == 1 {
                &self.leaves[..]
            } else {
                &self.inner[from..]
            };
            if below.len() <= 1 {
                return;
            }
            // Equal shares, so that no node is left with one child.
            let count = below.len().div_ceil(fill);
            let share = below.len().div_ceil(count);
            let nodes: Vec<_> = below
                .chunks(share)
                .map(|group| {
                    let group = || group.iter().map(OwnedNode::as_ref);
                    let entries: Vec<_> = group().map(|node| (node.low(), node.word())).collect();
                    let high = group().next_back().and_then(NodeRef::high);
                    OwnedNode::build(&inner(level, entries[0].0, high), &entries)
                })
                .collect();
            from = self.inner.len();
            self.inner.extend(nodes);
        }
    }
}
