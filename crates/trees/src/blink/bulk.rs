//! Bulk load: a whole tree built from sorted keys and published at one instant.
//!
//! The load first builds all leaves privately, linked from left to right, and then the levels above
//! them. The empty root leaf becomes the leftmost leaf: under its latch, while readers wait for it,
//! it takes the records of the first of the new leaves, and the new root replaces the old.
//!
//! Paper: bwtree §2.2 (a level is a list of nodes)

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::IndexError;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;

use super::BlinkTree;
use super::count_and_prefix_word::Shape;
use super::node::{Entry, NodeRef};
use super::out_of_line_keys;
use super::split::{entry_for, fill};

/// Nodes built so far, freed if the load fails.
struct Built<'a, 'g, K: Key> {
    tree: &'a BlinkTree<K>,
    leaves: Vec<NodeRef<'g, K>>,
    inner: Vec<NodeRef<'g, K>>,
    /// The last key, in its own bytes, and the number of keys so far.
    last: Option<Vec<u8>>,
    count: usize,
}

impl<K: Key> Drop for Built<'_, '_, K> {
    fn drop(&mut self) {
        for (i, leaf) in self.leaves.drain(..).enumerate() {
            // The first only collects what the root leaf will take, so its number is never published.
            if i == 0 {
                self.tree.table.discard(leaf.mark());
            } else {
                self.tree.table.withdraw(leaf.mark());
            }
            self.tree.nodes.discard(leaf);
        }
        for node in self.inner.drain(..) {
            self.tree.nodes.discard(node);
        }
    }
}

impl<K: Key> BlinkTree<K> {
    pub(super) fn load_sorted<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        let guard = &epoch::pin();
        if !is_empty(self.root.load(guard)) {
            return Err(IndexError::NotEmpty);
        }
        let mut built = Built {
            tree: self,
            leaves: Vec::new(),
            inner: Vec::new(),
            last: None,
            count: 0,
        };
        for (key, payload) in sorted {
            built.push(key.as_ref(), payload)?;
        }
        if built.count == 0 {
            return Ok(0);
        }
        built.finish(guard)
    }
}

fn is_empty<K: Key>(root: NodeRef<'_, K>) -> bool {
    root.level() == 0 && root.len() == 0 && root.right().is_none()
}

impl<'g, K: Key> Built<'_, 'g, K> {
    /// Appends a key behind all others.
    fn push(&mut self, bytes: &[u8], payload: u64) -> Result<(), IndexError> {
        let key = K::parse(bytes)?;
        let before = self.last.take();
        let last = before.as_deref().map(K::parse).transpose()?;
        if last.is_some_and(|last| K::cmp(last, key).is_ge()) {
            return Err(IndexError::NotSorted {
                position: self.count,
            });
        }
        let config = &self.tree.config;
        let full = (config.leaf_max * config.load_percent / 100).max(1);
        let leaf = match self.leaves.last() {
            Some(leaf) if leaf.len() < full => *leaf,
            _ => self.open_leaf(last, key)?,
        };
        let entry = Entry {
            key: out_of_line_keys::keep::<K>(key),
            value: payload,
        };
        leaf.insert(leaf.len(), entry);
        self.last = Some(bytes.to_vec());
        self.count += 1;
        Ok(())
    }

    /// A new leaf for keys from `key` on, behind the last one, which ends with `last`.
    fn open_leaf(
        &mut self,
        last: Option<K::Ref<'_>>,
        key: K::Ref<'_>,
    ) -> Result<NodeRef<'g, K>, IndexError> {
        let tree = self.tree;
        let mark = tree.table.mark().ok_or(IndexError::OutOfPages)?;
        let low = last.map_or(K::min(), |last| K::separator(last, key));
        let leaf = tree.nodes.leaf::<K>(out_of_line_keys::keep::<K>(low), mark);
        if let Some(left) = self.leaves.last() {
            tree.nodes.publish(leaf, &tree.table);
            left.set_high_word(out_of_line_keys::keep::<K>(low));
            left.set_right(Some(leaf));
            left.use_fences();
        }
        self.leaves.push(leaf);
        Ok(leaf)
    }

    /// Builds the levels above `nodes` and returns the topmost node.
    fn cover(&mut self, mut nodes: Vec<NodeRef<'g, K>>) -> NodeRef<'g, K> {
        let tree = self.tree;
        let full = (tree.config.inner_max * tree.config.load_percent / 100).max(2);
        for level in 1.. {
            if let [top] = nodes[..] {
                return top;
            }
            // Equal shares, so that no node is left with one child.
            let count = nodes.len().div_ceil(full);
            let share = nodes.len().div_ceil(count);
            let mut above: Vec<NodeRef<'g, K>> = Vec::with_capacity(count);
            let mut rest = nodes.as_slice();
            while !rest.is_empty() {
                // Never one alone at the end.
                let take = if rest.len() == share + 1 {
                    share - 1
                } else {
                    share
                };
                let (children, others) = rest.split_at(take.max(2).min(rest.len()));
                let low = out_of_line_keys::keep::<K>(children[0].low());
                let node = tree.nodes.inner(level, low);
                if let Some(left) = above.last() {
                    left.set_high_word(out_of_line_keys::keep::<K>(node.low()));
                    left.set_right(Some(node));
                }
                let entries: Vec<Entry> = children.iter().map(|child| entry_for(*child)).collect();
                fill(node, &entries);
                above.push(node);
                self.inner.push(node);
                rest = others;
            }
            for node in &above {
                node.use_fences();
            }
            nodes = above;
        }
        unreachable!("each level has fewer nodes than the one below")
    }

    /// Publishes the new tree.
    fn finish(mut self, guard: &'g Guard) -> Result<usize, IndexError> {
        let tree = self.tree;
        let old = tree.root.load(guard);
        let first = self.leaves[0];
        let mut nodes = self.leaves.clone();
        nodes[0] = old;
        // The count in the root's first entry is that of the old leaf: advice, and soon corrected.
        let top = self.cover(nodes);
        old.latch().latch();
        if tree.root.load(guard) != old || !is_empty(old) {
            old.latch().unlatch();
            return Err(IndexError::NotEmpty);
        }
        old.latch().set_changing();
        old.mark().bump();
        for leaf in &self.leaves[1..] {
            // Each accounts for readers that relied on the old leaf.
            tree.table.split(old.mark(), leaf.mark());
        }
        if let Some(right) = first.right() {
            old.set_high_word(first.high_word());
            old.set_right(Some(right));
        }
        let entries: Vec<Entry> = (0..first.len()).map(|i| first.entry(i)).collect();
        fill(old, &entries);
        // The old leaf owns the kept keys of `first` now, except the lower fence.
        first.clear(0..first.len());
        first.set_shape(Shape::default());
        first.set_right(None);
        if top != old {
            tree.root.store(top);
            tree.counters.add(Event::RootSplit);
        }
        old.latch().unlatch();
        self.leaves.truncate(1);
        self.inner.clear();
        Ok(self.count)
    }
}
