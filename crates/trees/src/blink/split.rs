//! Splits: a full node hands its right part to a new right sibling.
//!
//! ```text
//!   1. build Q        2. link it          3. tell the parent
//!      P                 P                   P (L, Q)
//!      |                 |                   |   \
//!      L ---> R          L -> Q -> R         L -> Q -> R
//! ```
//! The latch of L is held until the parent knows Q, but readers pass as soon as the link is set: a
//! search for a key of Q reaches L, finds the key beyond L's upper fence, and moves right. If the
//! parent is full, it is split in turn before L's latch is released. So a writer holds at most two
//! latches here, that of a child and then that of its parent.
//!
//! As L's latch is held, no thread merges Q away before the parent knows it: that takes both latches.
//!
//! # Invariants
//! - B1. Latches are taken upwards, and on one level from left to right. So waits form no cycle.
//! - B2. While L is not latched, the parent knows L's right sibling.
//!
//! Paper: bwtree §2.1, figure 1, and §2.2

use crossbeam_epoch::Guard;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;
use namiki_platform::sync::wait;

use super::BlinkTree;
use super::count_and_prefix_word::Shape;
use super::node::{Entry, NodeRef};
use super::out_of_line_keys;

/// This number of inserts in a row, each right behind the one before, counts as an ascent.
const ASCENT_MIN: usize = 8;

impl<K: Key> BlinkTree<K> {
    /// Splits a full node, which the caller has latched and is changing, and adds an entry: moves a
    /// part of the node to a new one, which `make` makes with its lower fence, and links that.
    pub(super) fn split<'g>(
        &self,
        left: NodeRef<'g, K>,
        at: usize,
        entry: Entry,
        make: impl FnOnce(u64) -> NodeRef<'g, K>,
    ) -> NodeRef<'g, K> {
        self.counters.add(Event::Split);
        let shape = left.shape();
        let len = shape.len;
        let mut entries: Vec<Entry> = (0..len).map(|i| left.entry(i)).collect();
        entries.insert(at, entry);
        // Keys that ascend leave full nodes behind: cut behind the new one, which then makes the
        // left node full unless larger keys follow it, and those go to the right. A child alone
        // would have no sibling to be merged with, so an inner node takes two along.
        let ascends = at == shape.last + 1 && shape.run + 1 >= ASCENT_MIN.min(len / 2);
        let cut = match (ascends, at == len, left.level()) {
            (true, true, 0) => len,
            (true, true, _) => len - 1,
            (true, false, _) => at + 1,
            (false, ..) => entries.len() / 2,
        };
        let (to_left, to_right) = entries.split_at(cut);
        let separator = if left.level() == 0 {
            let (below, from) = (to_left[cut - 1].key, to_right[0].key);
            K::separator(left.view(below), left.view(from))
        } else {
            left.view(to_right[0].key)
        };

        let right = make(out_of_line_keys::keep::<K>(separator));
        right.set_high_word(left.high_word());
        right.set_right(left.right());
        fill(right, to_right);
        // The run continues in the half that the next key of an ascent goes to.
        if ascends && at == len {
            let mut shape = right.shape();
            (shape.last, shape.run) = (to_right.len() - 1, ASCENT_MIN);
            right.set_shape(shape);
        }

        // Changed from the front, so that what leads to keys and children is in both nodes for a
        // while rather than in none (S2 of `out_of_line_keys.rs` and N2 of
        // `node.rs` speak of places that can be found).
        if at < cut {
            for (i, entry) in to_left.iter().enumerate().skip(at) {
                left.set_entry(i, *entry, shape.prefix);
            }
        }
        left.clear(cut..len);
        let (last, run) = if ascends && at < cut {
            (at, shape.run + 1)
        } else {
            (0, 0)
        };
        left.set_shape(Shape {
            len: cut,
            last,
            run,
            ..shape
        });
        left.set_high_word(out_of_line_keys::keep::<K>(separator));
        left.set_right(Some(right));
        left.use_fences();
        right
    }

    /// Adds `right`, which was split off `left`, to the parent. The caller holds the latch of
    /// `left`, which readers pass; it is released.
    pub(super) fn tell_parent<'g>(
        &self,
        mut left: NodeRef<'g, K>,
        mut right: NodeRef<'g, K>,
        guard: &'g Guard,
    ) {
        loop {
            let separator = right.low();
            let level = left.level() + 1;
            // The root changes only under its latch, which we have if this is it.
            if self.root.load(guard) == left {
                self.grow(left, right, level);
                left.latch().unlatch();
                return;
            }
            let parent = self.latch_at(level, separator, guard);
            let at = parent.rank_of_child::<false>(separator, 0) + 1;
            let entry = entry_for(right);
            parent.latch().set_changing();
            if parent.len() < self.config.inner_max {
                parent.insert(at, entry);
                parent.latch().unlatch();
                left.latch().unlatch();
                return;
            }
            let uncle = self.split(parent, at, entry, |low| self.nodes.inner(level, low));
            parent.latch().end_change();
            left.latch().unlatch();
            (left, right) = (parent, uncle);
        }
    }

    /// Makes a new root above the old one and the node that was split off it.
    fn grow(&self, left: NodeRef<'_, K>, right: NodeRef<'_, K>, level: u8) {
        let root = self
            .nodes
            .inner::<K>(level, out_of_line_keys::keep::<K>(K::min()));
        fill(root, &[left, right].map(entry_for));
        self.counters.add(Event::RootSplit);
        self.root.store(root);
    }

    /// Latches the node of a level that covers `key`. Another thread may be about to make it.
    pub(super) fn latch_at<'g>(
        &self,
        level: u8,
        key: K::Ref<'_>,
        guard: &'g Guard,
    ) -> NodeRef<'g, K> {
        let mut turn = 0;
        loop {
            let mut path = self.descend::<false>(level, key, guard);
            self.settle::<false>(&mut path, key);
            let node = path.node;
            if node.level() == level {
                let dead = node.latch().latch().is_dead();
                if !dead && node.beyond::<false>(key).is_none() {
                    return node;
                }
                node.latch().unlatch();
                self.counters.add(Event::Restart);
            } else {
                // The old root has been split, and the splitter is about to put a root above.
                turn += 1;
                wait(turn);
            }
        }
    }
}

/// The entry of an inner node for a child.
pub(super) fn entry_for<K: Key>(child: NodeRef<'_, K>) -> Entry {
    Entry {
        key: out_of_line_keys::keep::<K>(child.low()),
        value: child.as_child(),
    }
}

/// Fills an empty node that is not published.
pub(super) fn fill<K: Key>(node: NodeRef<'_, K>, entries: &[Entry]) {
    let prefix = node.shared_by_fences();
    for (i, entry) in entries.iter().enumerate() {
        node.set_entry(i, *entry, prefix);
    }
    node.set_shape(Shape {
        len: entries.len(),
        prefix,
        ..Shape::default()
    });
    node.use_fences();
}
