//! Bulk load: a whole tree built from sorted keys and published at one instant.
//!
//! The first leaf replaces the empty root leaf; all other pages are built privately. One swap puts
//! a split delta over the first leaf. It leads to the second leaf and also names the prepared root:
//! from then on every key is reachable by side links, and the thread that completes that split (see
//! `split.rs`) installs the prepared root instead of making one.
//!
//! Paper: bwtree §4.2.2 (the split that this rides on)

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::IndexError;
use namiki_index::key::Key;
use namiki_index::shared::counters::Event;

use super::BwTree;
use super::base;
use super::descend::Place;
use super::node::{BaseHeader, NodeRef, OwnedNode};
use super::page_id::PageId;
use super::slots_of;
use super::variant::Variant;

/// Keys gathered for one leaf, each in its own bytes.
type Batch = Vec<(Vec<u8>, u64)>;

/// The pages of a load, freed if it fails.
struct Pages<'a, K: Key, V: Variant> {
    tree: &'a BwTree<K, V>,
    guard: &'a Guard,
    ids: Vec<PageId>,
}

impl<K: Key, V: Variant> Drop for Pages<'_, K, V> {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            self.tree.mapping.unfill(id, self.guard);
        }
    }
}

impl<K: Key, V: Variant> Pages<'_, K, V> {
    fn allocate(&mut self) -> Result<PageId, IndexError> {
        let id = self.tree.mapping.allocate().ok_or(IndexError::OutOfPages)?;
        self.ids.push(id);
        Ok(id)
    }

    fn fill(&self, id: PageId, node: OwnedNode<K, V>) {
        self.tree.mapping.fill(id, node);
    }
}

/// Sorted keys, taken off in batches of a leaf's length.
struct Input<I> {
    sorted: I,
    fill: usize,
    /// How many keys were taken.
    position: usize,
    last: Option<Vec<u8>>,
}

impl<I> Input<I> {
    fn next_batch<K: Key, B: AsRef<[u8]>>(&mut self) -> Result<Batch, IndexError>
    where
        I: Iterator<Item = (B, u64)>,
    {
        let mut batch = Batch::new();
        for (key, payload) in self.sorted.by_ref().take(self.fill) {
            let key = key.as_ref();
            let new = K::parse(key)?;
            if let Some(last) = &self.last
                && K::cmp(K::parse(last)?, new).is_ge()
            {
                let position = self.position;
                return Err(IndexError::NotSorted { position });
            }
            self.position += 1;
            self.last = Some(key.to_vec());
            batch.push((key.to_vec(), payload));
        }
        Ok(batch)
    }
}

fn leaf<K: Key, V: Variant>(
    header: &BaseHeader<'_, K>,
    batch: &Batch,
) -> Result<OwnedNode<K, V>, IndexError> {
    let entries = batch.iter();
    let entries = entries.map(|(key, payload)| Ok((K::parse(key)?, *payload)));
    let entries = entries.collect::<Result<Vec<_>, IndexError>>()?;
    Ok(base::build(header, &entries))
}

/// The lower fence of a leaf, in its own bytes, and the leaf.
type Fence = (Vec<u8>, PageId);

impl<K: Key, V: Variant> BwTree<K, V> {
    pub(super) fn load_sorted<B: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (B, u64)>,
    ) -> Result<usize, IndexError> {
        let guard = &epoch::pin();
        let root = self.root.load();
        let empty = self
            .mapping
            .load(root.page, guard)
            .filter(|head| is_empty_root(*head));
        let Some(empty) = empty else {
            return Err(IndexError::NotEmpty);
        };

        let mut pages = Pages {
            tree: self,
            guard,
            ids: Vec::new(),
        };
        let mut input = Input {
            sorted: sorted.into_iter(),
            fill: (self.config.leaf_max * self.config.load_percent / 100).max(1),
            position: 0,
            last: None,
        };

        // One batch ahead, as a leaf must know its right sibling and upper fence.
        let mut fences: Vec<Fence> = vec![(Vec::new(), root.page)];
        let mut first: Option<OwnedNode<K, V>> = None;
        let mut batch = input.next_batch::<K, B>()?;
        loop {
            let next = input.next_batch::<K, B>()?;
            let mut high = None;
            let mut right = PageId::NONE;
            if let (Some(below), Some(at)) = (batch.last(), next.first()) {
                right = pages.allocate()?;
                let separator = K::separator(K::parse(&below.0)?, K::parse(&at.0)?);
                high = Some(K::encode(separator, &mut [0; 8]).to_vec());
            }
            let Some((low, id)) = fences.last() else {
                unreachable!("the first is there")
            };
            let leftmost = *id == root.page;
            let header = BaseHeader {
                level: 0,
                right,
                counter: if leftmost {
                    empty.counter() + 1
                } else {
                    self.mapping.first_counter(*id)
                },
                low: if leftmost { K::min() } else { K::parse(low)? },
                high: high.as_deref().map(K::parse).transpose()?,
                slots: slots_of::<V>(0, &self.config),
            };
            let leaf = leaf(&header, &batch)?;
            if leftmost {
                first = Some(leaf);
            } else {
                pages.fill(*id, leaf);
            }
            match high {
                Some(high) => fences.push((high, right)),
                None => break,
            }
            batch = next;
        }
        let Some(first) = first else {
            unreachable!("the first leaf was built")
        };
        let new = if let Some(second) = fences.get(1) {
            let right = second.1;
            let top = self.load_inner(&mut pages, &fences)?;
            OwnedNode::split(first, right, top)
        } else {
            first
        };
        match self.mapping.replace(root.page, empty, new, guard) {
            Ok(head) => {
                pages.ids.clear();
                self.counters.add(Event::Consolidation);
                if let Some(split) = head.smo() {
                    self.complete(Place::new(root.page, split), guard);
                }
                Ok(input.position)
            }
            Err(_) => Err(IndexError::NotEmpty),
        }
    }

    /// Builds the levels above the leaves and returns the topmost page.
    fn load_inner(
        &self,
        pages: &mut Pages<'_, K, V>,
        leaves: &[Fence],
    ) -> Result<PageId, IndexError> {
        let fill = (self.config.inner_max * self.config.load_percent / 100).max(2);
        let mut below: Vec<Fence> = leaves.to_vec();
        let mut level = 0;
        while below.len() > 1 {
            level += 1;
            // Equal shares, so that no page is left with one child.
            let count = below.len().div_ceil(fill);
            let share = below.len().div_ceil(count);
            let groups: Vec<&[Fence]> = below.chunks(share).collect();
            let ids = groups
                .iter()
                .map(|_| pages.allocate())
                .collect::<Result<Vec<_>, _>>()?;
            let mut above = Vec::with_capacity(groups.len());
            for (i, group) in groups.iter().enumerate() {
                let low = |fence: &[u8]| -> Result<_, IndexError> {
                    Ok(if fence.is_empty() {
                        None
                    } else {
                        Some(fence.to_vec())
                    })
                };
                let entries = group
                    .iter()
                    .map(|(fence, id)| Ok((parse_fence::<K>(fence)?, u64::from(id.0))))
                    .collect::<Result<Vec<_>, IndexError>>()?;
                let next = groups.get(i + 1).map(|next| next[0].0.as_slice());
                let header = BaseHeader {
                    level,
                    right: ids.get(i + 1).copied().unwrap_or(PageId::NONE),
                    counter: 0,
                    low: entries[0].0,
                    high: next.map(parse_fence::<K>).transpose()?,
                    slots: 0,
                };
                pages.fill(ids[i], base::build(&header, &entries));
                above.push((low(&group[0].0)?.unwrap_or_default(), ids[i]));
            }
            below = above;
        }
        Ok(below[0].1)
    }
}

fn is_empty_root<K: Key, V: Variant>(head: NodeRef<'_, K, V>) -> bool {
    head.level() == 0
        && head.len() == 0
        && head.high().is_none()
        && head.smo().is_none()
        && !head.is_removed()
}

/// The leftmost fence is the smallest key, which is written as no bytes for both kinds of keys.
fn parse_fence<K: Key>(fence: &[u8]) -> Result<K::Ref<'_>, IndexError> {
    if fence.is_empty() {
        Ok(K::min())
    } else {
        K::parse(fence)
    }
}
