//! Bulk load: whole layers built bottom-up from sorted keys and published at one instant.
//!
//! The first leaf is the existing empty root leaf; all others are built privately. Then the root
//! leaf is locked and receives its entries, and the prepared root is installed above it: that store
//! is the linearization point. Readers before it find an empty leaf; readers after it find a full
//! tree and wait for its first leaf.
//!
//! Layers are built from a work list, as thousands may be nested.
//!
//! Paper: bwtree §2.5
#![expect(unsafe_code, reason = "nodes of a failed load are freed")]

use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering;

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::IndexError;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;
use namiki_platform::sync::AtomicPtr;

use super::Masstree;
use super::border::{Border, Entry};
use super::interior::Interior;
use super::key_slices::{Cut, LONG, SLICE, Slicing};
use super::layers::shared_slices;
use super::node::{self, Header, Kind, NodeRef};
use super::split::is_root;
use super::suffix_block::Layer;

/// The keys of a load, concatenated, and the end of each.
#[derive(Default)]
struct Items {
    bytes: Vec<u8>,
    ends: Vec<(usize, u64)>,
}

impl Items {
    fn collect<K: Key, B: AsRef<[u8]>>(
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<Self, IndexError> {
        let mut items = Self::default();
        for (position, (key, payload)) in sorted.into_iter().enumerate() {
            let key = key.as_ref();
            K::parse(key)?;
            if position > 0 && items.key(position - 1) >= key {
                return Err(IndexError::NotSorted { position });
            }
            items.bytes.extend_from_slice(key);
            items.ends.push((items.bytes.len(), payload));
        }
        Ok(items)
    }

    fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1].0 };
        &self.bytes[start..self.ends[i].0]
    }
}

/// The nodes built so far, freed unless they are published.
struct Built<'a, K: Slicing> {
    tree: &'a Masstree<K>,
    nodes: Vec<*mut Header>,
    /// Entries of the layer that is being built, and the number of those that are in a leaf
    /// already.
    entries: Vec<Entry>,
    placed: usize,
    /// The entries of the first leaf.
    first: Vec<Entry>,
}

/// A layer still to be built: its keys, and the number of their bytes that are above it.
struct ToBuild<'g> {
    layer: &'g Layer,
    items: Range<usize>,
    offset: usize,
}

/// A node and the least slice it answers for.
type Low = (u64, *mut Header);

impl<K: Slicing> Masstree<K> {
    pub(super) fn load_sorted<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        let empty =
            |root: NodeRef<'_, K>| matches!(root.kind(), Kind::Border(leaf) if leaf.len() == 0);
        {
            let guard = &epoch::pin();
            if !self
                .root(self.top(), guard)
                .is_some_and(|(root, _)| empty(root))
            {
                return Err(IndexError::NotEmpty);
            }
        }
        let items = Items::collect::<K, B>(sorted)?;
        let count = items.ends.len();
        let guard = &epoch::pin();
        let Some((root, _)) = self.root(self.top(), guard) else {
            unreachable!("the first layer stays")
        };
        let Kind::Border(leaf) = root.kind() else {
            return Err(IndexError::NotEmpty);
        };
        let mut built = Built {
            tree: self,
            nodes: Vec::new(),
            entries: Vec::new(),
            placed: 0,
            first: Vec::new(),
        };
        let mut to_build = Vec::new();
        built.gather(&items, 0..count, 0, &mut to_build, guard);
        let (new_root, second) = built.build(Some(root.pointer()), guard)?;
        while let Some(next) = to_build.pop() {
            built.gather(&items, next.items, next.offset, &mut to_build, guard);
            let (root, _) = built.build(None, guard)?;
            // Not shown yet.
            next.layer.root().store(root, Ordering::Relaxed);
        }

        let mut lock = leaf.header.version.lock();
        if !is_root(self.top(), leaf) || leaf.len() > 0 {
            return Err(IndexError::NotEmpty);
        }
        if count == 0 {
            return Ok(0);
        }
        lock.splitting();
        leaf.mark.bump();
        for pointer in &built.nodes {
            // SAFETY: built above, and not freed.
            let new = unsafe { NodeRef::<K>::follow(*pointer) };
            if let Some(Kind::Border(new)) = new.map(NodeRef::kind) {
                self.table.split(&leaf.mark, &new.mark);
                new.publish(&self.table);
            }
        }
        leaf.fill(&built.first);
        leaf.set_next(second);
        if new_root != root.pointer() {
            lock.set_root(false);
            // `Release` pairs with the `Acquire` of threads that follow it.
            self.top().root().store(new_root, Ordering::Release);
            self.counters.add(Event::RootSplit);
        }
        built.nodes.clear();
        built.first.clear();
        Ok(count)
    }
}

impl<K: Slicing> Built<'_, K> {
    /// Makes the entries of one layer.
    fn gather<'g>(
        &mut self,
        items: &Items,
        range: Range<usize>,
        offset: usize,
        to_build: &mut Vec<ToBuild<'g>>,
        guard: &'g Guard,
    ) {
        (self.entries, self.placed) = (Vec::with_capacity(range.len()), 0);
        let cut = |i: usize| Cut::of(&items.key(i)[offset..]);
        let mut i = range.start;
        while i < range.end {
            let this = cut(i);
            let same = |other: &usize| {
                let other = cut(*other);
                this.marker == LONG && (other.slice, other.marker) == (this.slice, LONG)
            };
            let others = (i + 1..range.end).take_while(same).count();
            if others == 0 {
                let entry = Entry::of::<K>(&this, items.ends[i].1, guard);
                self.entries.push(entry);
            } else {
                // The prefix shared by the first and the last key is shared by all.
                let shared = shared_slices(this.rest, cut(i + others).rest);
                let root = AtomicPtr::new(ptr::null_mut());
                let layer = Layer::create(root, &this.rest[..shared], guard);
                self.entries.push(Entry::link(this.slice, layer));
                to_build.push(ToBuild {
                    layer,
                    items: i..i + 1 + others,
                    offset: offset + SLICE + shared,
                });
            }
            i += 1 + others;
        }
    }

    /// Makes the nodes of one layer. `first`: the leaf that its first entries are for. Returns the root
    /// and the second leaf.
    fn build(
        &mut self,
        first: Option<*mut Header>,
        guard: &Guard,
    ) -> Result<(*mut Header, *mut Header), IndexError> {
        let config = &self.tree.config;
        let fill = (config.leaf_max * config.load_percent / 100).max(1);
        let mut below: Vec<Low> = Vec::new();
        while self.placed < self.entries.len() || below.is_empty() {
            let len = leaf_len(&self.entries[self.placed..], fill);
            let entries = self.placed..self.placed + len;
            if let (Some(first), true) = (first, below.is_empty()) {
                self.first = self.entries[entries].to_vec();
                below.push((0, first));
            } else {
                let mark = self.tree.table.mark().ok_or(IndexError::OutOfPages)?;
                let alone = first.is_none() && len == self.entries.len();
                let low = if below.is_empty() {
                    0
                } else {
                    self.entries[entries.start].slice
                };
                let leaf = node::create(Border::<K>::new(mark, low, alone), guard);
                leaf.fill(&self.entries[entries]);
                let pointer = node::pointer(leaf);
                if let Some((_, before)) = below.last() {
                    leaf.set_prev(*before);
                    self.link(*before, pointer, first);
                }
                self.nodes.push(pointer);
                below.push((low, pointer));
            }
            self.placed += len;
        }
        let second = below.get(1).map_or(ptr::null_mut(), |(_, second)| *second);
        Ok((self.build_interiors(below, guard), second))
    }

    /// Makes one leaf follow another that was built here.
    fn link(&self, before: *mut Header, next: *mut Header, shown: Option<*mut Header>) {
        if shown == Some(before) {
            return;
        }
        // SAFETY: built here, and not freed.
        let before = unsafe { NodeRef::<K>::follow(before) };
        if let Some(Kind::Border(before)) = before.map(NodeRef::kind) {
            before.set_next(next);
        }
    }

    /// Makes the levels above some nodes and returns the root.
    fn build_interiors(&mut self, leaves: Vec<Low>, guard: &Guard) -> *mut Header {
        let config = &self.tree.config;
        let fill = (config.inner_max * config.load_percent / 100).max(2);
        let mut below = leaves;
        let mut level = 0;
        while below.len() > 1 {
            level += 1;
            // Equal shares, so that no node is left with one child.
            let count = below.len().div_ceil(fill);
            let share = below.len().div_ceil(count);
            let groups = below.chunks(share).map(|group| {
                let (slices, children): (Vec<u64>, Vec<_>) = group.iter().copied().unzip();
                let node = Interior::<K>::new(level, count == 1, &slices[1..], &children);
                (slices[0], node::pointer(node::create(node, guard)))
            });
            let above: Vec<Low> = groups.collect();
            self.nodes.extend(above.iter().map(|(_, node)| node));
            below = above;
        }
        below[0].1
    }
}

/// Number of entries that go into one leaf: about `fill`, so that no slice is cut.
fn leaf_len(entries: &[Entry], fill: usize) -> usize {
    if entries.len() <= fill {
        return entries.len();
    }
    let cut = |at: &usize| *at == entries.len() || entries[*at - 1].slice != entries[*at].slice;
    let back = (1..=fill).rev().find(cut);
    match back.or_else(|| (fill..=entries.len()).find(cut)) {
        Some(len) => len,
        None => unreachable!("the last entry ends a slice"),
    }
}

impl<K: Slicing> Drop for Built<'_, K> {
    fn drop(&mut self) {
        let loose = &self.entries[self.placed..];
        for entry in self.first.iter().chain(loose) {
            // SAFETY: made for this load, and never published.
            unsafe { entry.free() };
        }
        for pointer in self.nodes.drain(..) {
            // SAFETY: made for this load, and never published.
            unsafe {
                let Some(node) = NodeRef::<K>::follow(pointer) else {
                    continue;
                };
                if let Kind::Border(leaf) = node.kind() {
                    self.tree.table.discard(&leaf.mark);
                    leaf.free_blocks();
                }
                node.free();
            }
        }
    }
}
