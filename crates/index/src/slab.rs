//! Nodes of one size, side by side in large pieces of memory.
//!
//! A look-up in a large tree misses the TLB as well as the cache, and in a virtual machine the one
//! costs about as much as the other. So nodes come from *chunks*, which grow with what the slab holds
//! up to the size of a huge page, and the kernel is asked to back those with huge pages. A chunk in
//! which no node is left goes back to the allocator; one node keeps its chunk. New nodes go to the
//! chunk with the lowest address that has room, so that others have a chance to become empty.
//!
//! One lock guards the slab. A node is allocated for a split and freed after a merge, once in some
//! dozen changes of a tree whose nodes are changed in place; a tree that allocates more often than
//! that would want a slab for each of some groups of threads.
#![expect(unsafe_code, reason = "nodes are allocated by size, not by type")]

use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_epoch::Guard;
use namiki_platform::advise_huge_pages;

use crate::memory;

/// Nodes begin at cache lines.
const ALIGN: usize = 64;
const CHUNK_BYTES_MIN: usize = 16 << 10;
/// A huge page.
const CHUNK_BYTES_MAX: usize = 2 << 20;

/// A supply of nodes of one size.
pub(crate) struct Slab {
    /// A multiple of [`ALIGN`].
    node_bytes: usize,
    chunks: Mutex<Chunks>,
}

#[derive(Default)]
struct Chunks {
    /// By their addresses.
    all: BTreeMap<usize, Chunk>,
    /// The addresses of those with room for a node.
    with_room: BTreeSet<usize>,
    bytes: usize,
}

struct Chunk {
    start: NonNull<u8>,
    layout: Layout,
    /// The first byte that was never part of a node.
    fresh: usize,
    /// The places of freed nodes.
    free: Vec<NonNull<u8>>,
    /// Nodes in use.
    used: usize,
    /// Nodes that are no longer used, but somebody may still look at.
    waiting: usize,
}

// SAFETY: chunks are memory, owned by the slab and not bound to a thread.
unsafe impl Send for Chunks {}

impl Chunk {
    fn has_room(&self, node_bytes: usize) -> bool {
        !self.free.is_empty() || self.fresh + node_bytes <= self.layout.size()
    }
}

impl Slab {
    /// For nodes of at least so many bytes.
    pub(crate) fn new(node_bytes: usize) -> Self {
        Self {
            node_bytes: node_bytes.max(1).next_multiple_of(ALIGN),
            chunks: Mutex::default(),
        }
    }

    fn chunks(&self) -> MutexGuard<'_, Chunks> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a node, uninitialised, aligned to a cache line. It is good until it is
    /// [freed](Self::free), or the slab dropped.
    pub(crate) fn allocate(&self) -> NonNull<u8> {
        let mut chunks = self.chunks();
        let at = match chunks.with_room.first() {
            Some(at) => *at,
            None => chunks.grow(self.node_bytes),
        };
        let Some(chunk) = chunks.all.get_mut(&at) else {
            unreachable!("a chunk with room is a chunk")
        };
        chunk.used += 1;
        let node = chunk.free.pop().unwrap_or_else(|| {
            let place = chunk.fresh;
            chunk.fresh += self.node_bytes;
            // SAFETY: the chunk has room, so the place lies within it.
            unsafe { chunk.start.add(place) }
        });
        if !chunk.has_room(self.node_bytes) {
            chunks.with_room.remove(&at);
        }
        node
    }

    /// Takes a node back.
    ///
    /// # Safety
    /// It came from [`allocate`](Self::allocate) of this slab, is given back once, and nobody refers
    /// to it.
    pub(crate) unsafe fn free(&self, node: NonNull<u8>) {
        let mut chunks = self.chunks();
        chunks.of(node).1.used -= 1;
        chunks.put_back(node);
    }

    /// Takes a node back when everybody who is pinned now has unpinned.
    ///
    /// # Safety
    /// It came from [`allocate`](Self::allocate) of this slab, is given back once, and whoever refers
    /// to it is pinned.
    pub(crate) unsafe fn retire(self: &Arc<Self>, node: NonNull<u8>, guard: &Guard) {
        {
            let mut chunks = self.chunks();
            let (_, chunk) = chunks.of(node);
            chunk.used -= 1;
            chunk.waiting += 1;
        }
        let slab = Arc::clone(self);
        let free = move || {
            let mut chunks = slab.chunks();
            chunks.of(node).1.waiting -= 1;
            chunks.put_back(node);
        };
        // SAFETY: all it refers to is the slab, which it keeps alive; and by the caller's promise
        // nobody refers to the node when it runs. That may be in another thread (see `Chunks`).
        unsafe { guard.defer_unchecked(free) };
    }

    /// Bytes of the chunks in which nodes are used, with their free places.
    pub(crate) fn bytes(&self) -> usize {
        let chunks = self.chunks();
        let used = chunks.all.values().filter(|chunk| chunk.used > 0);
        used.map(|chunk| chunk.layout.size() + chunk.free.capacity() * size_of::<NonNull<u8>>())
            .sum()
    }
}

impl Chunks {
    /// The chunk that a node lies in, and its address.
    fn of(&mut self, node: NonNull<u8>) -> (usize, &mut Chunk) {
        let chunk = self.all.range_mut(..=node.as_ptr().addr()).next_back();
        let Some((at, chunk)) = chunk else {
            unreachable!("a node lies in a chunk")
        };
        (*at, chunk)
    }

    /// Notes that a place is free, and gives its chunk back if no node is left there.
    fn put_back(&mut self, node: NonNull<u8>) {
        let (at, chunk) = self.of(node);
        chunk.free.push(node);
        if chunk.used + chunk.waiting > 0 {
            self.with_room.insert(at);
            return;
        }
        self.with_room.remove(&at);
        if let Some(chunk) = self.all.remove(&at) {
            self.bytes -= chunk.layout.size();
            // SAFETY: it was allocated with this layout, and its last node has been given back.
            unsafe { memory::free(chunk.start, chunk.layout) };
        }
    }

    /// Adds a chunk, as large as all there are together, and returns its address.
    fn grow(&mut self, node_bytes: usize) -> usize {
        let least = CHUNK_BYTES_MIN.max((2 * node_bytes).next_power_of_two());
        let bytes = self
            .bytes
            .next_power_of_two()
            .clamp(least, CHUNK_BYTES_MAX.max(least));
        let layout = Layout::from_size_align(
            bytes,
            if bytes >= CHUNK_BYTES_MAX {
                bytes
            } else {
                ALIGN
            },
        );
        let layout = layout.unwrap_or_else(|_| unreachable!("a power of two aligned to itself"));
        let start = memory::allocate(layout);
        if bytes >= CHUNK_BYTES_MAX {
            advise_huge_pages(start.as_ptr(), bytes);
        }
        let at = start.as_ptr().addr();
        self.bytes += bytes;
        self.with_room.insert(at);
        self.all.insert(
            at,
            Chunk {
                start,
                layout,
                fresh: 0,
                free: Vec::new(),
                used: 0,
                waiting: 0,
            },
        );
        at
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let chunks = self.chunks.get_mut();
        for chunk in chunks.unwrap_or_else(PoisonError::into_inner).all.values() {
            // SAFETY: it was allocated with this layout; nodes are good until the slab is dropped.
            unsafe { memory::free(chunk.start, chunk.layout) };
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn nodes_lie_apart_and_empty_chunks_go_back() {
        let slab = Slab::new(1_000);
        assert_eq!(slab.bytes(), 0);
        let take =
            |count: usize| -> Vec<NonNull<u8>> { (0..count).map(|_| slab.allocate()).collect() };
        let mut nodes = take(5_000);
        let places: BTreeSet<usize> = nodes.iter().map(|node| node.as_ptr().addr()).collect();
        assert_eq!(places.len(), 5_000);
        assert!(places.iter().all(|place| place.is_multiple_of(ALIGN)));
        let close = places.iter().zip(places.iter().skip(1));
        assert!(close.clone().all(|(one, next)| next - one >= 1_024));
        assert!(slab.bytes() < 5_000 * 1_024 + CHUNK_BYTES_MAX);
        for node in &nodes {
            // SAFETY: ours, and as large as asked for.
            unsafe { node.as_ptr().write_bytes(7, 1_000) };
        }
        // What was freed is used again, and not more.
        let full = slab.bytes();
        for node in nodes.drain(1_000..3_000) {
            // SAFETY: allocated above, once.
            unsafe { slab.free(node) };
        }
        nodes.extend(take(2_000));
        assert!(slab.bytes() <= full + 2 * 2_000 * size_of::<usize>());
        // The chunk of the last node stays.
        for node in nodes.drain(1..) {
            // SAFETY: allocated above, once.
            unsafe { slab.free(node) };
        }
        assert!(slab.bytes() < 2 * CHUNK_BYTES_MIN, "{}", slab.bytes());
        // SAFETY: allocated above, once.
        unsafe { slab.free(nodes[0]) };
        assert_eq!(slab.bytes(), 0);
    }
}
