//! Inner nodes: Node4, Node16, Node48 and Node256, which part a range of keys by one byte.
//!
//! A node has a *path*, the bytes that all its bounds begin with, and *bounds*, each the path and one
//! byte more. Child 0 is below the first bound, child `i` from bound `i` to the next. What is not on
//! the path is before all bounds or behind them: so every key has a child, and the last child or
//! child 0 takes the keys that leave the path.
//!
//! ```text
//!  path "ab", bounds  "abd"    "abm"           rank: byte of the key, BEFORE, BEHIND
//!              child 0 | child 1 | child 2
//!       "a", "ab", "aba"  "abd".."abl~"  "abm", "abz", "b"
//!
//!  lock | head | path_len, count | words of the kind                               | path
//!                                  Node4    bytes of bounds (1), links (4)
//!                                  Node16   bytes of bounds (2), links (16)
//!                                  Node48   index by byte (32), links (48)
//!                                  Node256  link before all bounds, link by byte (256)
//! ```
//!
//! # Invariants
//! - I1. Kind, path and head are written before the node can be found, and never again.
//! - I2. All else is words that are read and written as atomics, written under the lock (L1).
//! - I3. A link in a node is null or leads to what was below the node at some time since the node's
//!   last version but one: unused places are null. Nodes are retired, not freed. So whoever is pinned
//!   and read the version before the link may follow it, and learns by `check` whether it was right.
//! - I4. Each child has one run of bytes; neighbouring runs have different links.
//! - I5. The path of a node begins with the path of the node above it and is longer.
//!
//! Paper: bwtree [3] (ART)
#![expect(unsafe_code, reason = "nodes are blocks of words of several sizes")]

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_platform::prefetch;

use super::link::{ALIGN, Kind, Link};
use super::lock::Lock;
use super::path::{BEFORE, window};
use crate::key::Key;
use crate::memory;
use crate::sync::{AtomicU32, AtomicU64};

#[repr(C)]
struct Header {
    lock: Lock,
    /// The last eight bytes of the path.
    head: u64,
    path_len: u32,
    /// Children.
    count: AtomicU32,
}

/// A child and the byte of the bound it begins with; `BEFORE` for child 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Child {
    pub(super) from: i32,
    pub(super) link: Link,
}

impl Kind {
    /// Most children of an inner node of this kind.
    pub(super) const fn most(self) -> usize {
        match self {
            Self::Node4 => 4,
            Self::Node16 => 16,
            Self::Node48 => 48,
            _ => 257,
        }
    }

    /// Fewer children than this are moved to a smaller kind. Less than what that kind can have, so
    /// that a node does not change its kind all the time.
    pub(super) const fn least(self) -> usize {
        match self {
            Self::Node4 => 2,
            Self::Node16 => 4,
            Self::Node48 => 13,
            _ => 40,
        }
    }

    /// The smallest kind for so many children.
    pub(super) const fn for_children(count: usize) -> Self {
        match count {
            0..=4 => Self::Node4,
            5..=16 => Self::Node16,
            17..=48 => Self::Node48,
            _ => Self::Node256,
        }
    }

    /// Words before the links.
    const fn link_words(self) -> usize {
        match self {
            Self::Node4 => 1,
            Self::Node16 => 2,
            Self::Node48 => 32,
            _ => 0,
        }
    }

    const fn words(self) -> usize {
        self.link_words() + self.most()
    }
}

/// An inner node that is alive during `'g`.
pub(super) struct NodeRef<'g, K> {
    at: NonNull<Header>,
    kind: Kind,
    _alive: PhantomData<(&'g Header, K)>,
}

impl<K> Clone for NodeRef<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for NodeRef<'_, K> {}

fn layout<K: Key>(kind: Kind, path_len: usize) -> Layout {
    let tail = if K::INLINE { 0 } else { path_len };
    let size = size_of::<Header>() + kind.words() * size_of::<AtomicU64>() + tail;
    match Layout::from_size_align(size, ALIGN) {
        Ok(layout) => layout,
        Err(_) => unreachable!("less than 70 KiB"),
    }
}

/// How many of the eight bytes of `word` are at most `byte`.
#[inline]
fn at_most(word: u64, byte: u8) -> u32 {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let wanted = u64::from(byte) * 0x0101_0101_0101_0101;
    // Bit 7 of each byte: the low seven bits compared without a borrow from the next byte.
    let low = (wanted | HIGH) - (word & !HIGH);
    (((wanted & !word) | (!(wanted ^ word) & low)) & HIGH).count_ones()
}

/// Makes a node with the given path and children, in order. Returns the link to it.
pub(super) fn build<K: Key>(path: &[u8], children: &[Child]) -> Link {
    let kind = Kind::for_children(children.len());
    let memory = memory::allocate(layout::<K>(kind, path.len()));
    let at = memory.cast::<Header>();
    // SAFETY: fresh memory of the right size and alignment (`layout`), ours alone. The words begin
    // behind the header, whose alignment is theirs, and the path behind the words.
    unsafe {
        at.write(Header {
            lock: Lock::new(),
            head: window(path, path.len()).unwrap_or(0),
            path_len: path.len() as u32,
            count: AtomicU32::new(0),
        });
        let words = at.add(1).cast::<AtomicU64>();
        for i in 0..kind.words() {
            words.add(i).write(AtomicU64::new(0));
        }
        if !K::INLINE {
            let tail = words.add(kind.words()).cast::<u8>();
            tail.copy_from_nonoverlapping(NonNull::from(path).cast(), path.len());
        }
    }
    let node = NodeRef::<K> {
        at,
        kind,
        _alive: PhantomData,
    };
    node.write(children);
    node.link()
}

/// Children with a bound put into the range of the child `old`.
pub(super) fn parted(
    mut children: Vec<Child>,
    old: Link,
    left: Link,
    byte: u8,
    right: Link,
) -> Vec<Child> {
    let Some(at) = children.iter().position(|child| child.link == old) else {
        unreachable!("the way went through this child")
    };
    children[at].link = left;
    let right = Child {
        from: i32::from(byte),
        link: right,
    };
    children.insert(at + 1, right);
    children
}

impl<'g, K: Key> NodeRef<'g, K> {
    /// The inner node that a link leads to. `None`: it leads nowhere.
    ///
    /// # Safety
    /// The link was read from a live tree, or from a node of it, by someone pinned throughout `'g`,
    /// after reading the version of the node (I3); or nobody else has the tree. It is not a leaf's.
    #[inline]
    pub(super) unsafe fn of(link: Link) -> Option<Self> {
        Some(Self {
            at: link.address()?.cast(),
            kind: link.kind()?,
            _alive: PhantomData,
        })
    }

    pub(super) fn link(self) -> Link {
        Link::new(self.at.cast(), self.kind)
    }

    pub(super) const fn kind(self) -> Kind {
        self.kind
    }

    #[inline]
    fn header(self) -> &'g Header {
        // SAFETY: whoever made the reference promised that the node is alive during `'g`; the header
        // was written before the link to it was.
        unsafe { self.at.as_ref() }
    }

    #[inline]
    pub(super) fn lock(self) -> &'g Lock {
        &self.header().lock
    }

    #[inline]
    pub(super) fn head(self) -> u64 {
        self.header().head
    }

    #[inline]
    pub(super) fn path_len(self) -> usize {
        self.header().path_len as usize
    }

    /// The path, if keys are byte strings.
    #[inline]
    pub(super) fn path(self) -> &'g [u8] {
        if K::INLINE {
            return &[];
        }
        // SAFETY: so many bytes were written behind the words by `build`, and never again (I1).
        unsafe {
            let words = self.at.add(1).cast::<AtomicU64>();
            let tail = words.add(self.kind.words()).cast::<u8>();
            std::slice::from_raw_parts(tail.as_ptr(), self.path_len())
        }
    }

    /// The path as bytes of its own.
    pub(super) fn path_bytes(self) -> Vec<u8> {
        if K::INLINE {
            self.head().to_be_bytes()[8 - self.path_len()..].to_vec()
        } else {
            self.path().to_vec()
        }
    }

    #[inline]
    fn word(self, i: usize) -> &'g AtomicU64 {
        debug_assert!(i < self.kind.words());
        // SAFETY: `build` wrote `kind.words()` words behind the header; all callers stay below, as a
        // count is at most `most` and the index of a Node48 holds numbers below 48 only.
        unsafe { self.at.add(1).cast::<AtomicU64>().add(i).as_ref() }
    }

    #[inline]
    fn link_at(self, i: usize) -> Link {
        // `Acquire` pairs with the `Release` of `set_link`: what it leads to is seen complete.
        Link::from_word(
            self.word(self.kind.link_words() + i)
                .load(Ordering::Acquire),
        )
    }

    fn set_link(self, i: usize, link: Link) {
        self.word(self.kind.link_words() + i)
            .store(link.word(), Ordering::Release);
    }

    /// Children. At least one, as the node was complete before it could be found.
    #[inline]
    fn count(self) -> usize {
        self.header().count.load(Ordering::Relaxed) as usize
    }

    /// Byte `i` of the bytes that begin at the first word: a bound's, or the index's.
    #[inline]
    fn byte(self, i: usize) -> u8 {
        (self.word(i / 8).load(Ordering::Relaxed) >> (i % 8 * 8)) as u8
    }

    /// The place of the child of a rank among the links.
    #[inline]
    fn place(self, rank: i32) -> usize {
        if self.kind == Kind::Node256 {
            return (rank + 1) as usize;
        }
        if rank == BEFORE {
            return 0;
        }
        let byte = rank as u8;
        if self.kind == Kind::Node48 {
            return self.byte(byte as usize) as usize;
        }
        let mut place = at_most(self.word(0).load(Ordering::Relaxed), byte);
        if self.kind == Kind::Node16 {
            place += at_most(self.word(1).load(Ordering::Relaxed), byte);
        }
        // Behind the bounds that there are, the bytes say nothing.
        (place as usize).min(self.count() - 1)
    }

    /// The link for a rank. Right if the version is the same before and after.
    #[inline]
    pub(super) fn find(self, rank: i32) -> Link {
        self.link_at(self.place(rank))
    }

    /// Asks for the cache lines that a search for this rank needs.
    #[inline]
    pub(super) fn prefetch(link: Link) {
        if let Some(address) = link.address() {
            prefetch(address.as_ptr());
            if matches!(link.kind(), Some(Kind::Node16)) {
                prefetch(address.as_ptr().wrapping_add(64));
                prefetch(address.as_ptr().wrapping_add(128));
            }
        }
    }

    /// The bytes of the bound that the child of a rank begins with and of the next one, if there are.
    /// Right if the version is the same before and after.
    pub(super) fn bounds(self, rank: i32) -> (Option<u8>, Option<u8>) {
        if matches!(self.kind, Kind::Node4 | Kind::Node16) {
            let place = self.place(rank);
            let low = (place > 0).then(|| self.byte(place - 1));
            return (low, (place + 1 < self.count()).then(|| self.byte(place)));
        }
        let link = self.find(rank);
        let (mut low, mut high) = (rank, rank + 1);
        while low > BEFORE && self.find(low - 1) == link {
            low -= 1;
        }
        while high <= 255 && self.find(high) == link {
            high += 1;
        }
        (u8::try_from(low).ok(), u8::try_from(high).ok())
    }

    /// The children in order. Right if the version is the same before and after.
    pub(super) fn children(self) -> Vec<Child> {
        let mut children = vec![Child {
            from: BEFORE,
            link: self.link_at(0),
        }];
        match self.kind {
            Kind::Node4 | Kind::Node16 => {
                children.extend((1..self.count()).map(|i| Child {
                    from: i32::from(self.byte(i - 1)),
                    link: self.link_at(i),
                }));
            }
            _ => {
                let mut last = self.find(BEFORE);
                for from in 0..=255 {
                    let link = self.find(from);
                    if link != last {
                        children.push(Child { from, link });
                        last = link;
                    }
                }
            }
        }
        children
    }

    /// Makes these the children. To be called under the lock, for no more than `most`.
    pub(super) fn write(self, children: &[Child]) {
        assert!(
            !children.is_empty() && children.len() <= self.kind.most(),
            "children fit"
        );
        self.header()
            .count
            .store(children.len() as u32, Ordering::Relaxed);
        if self.kind == Kind::Node256 {
            self.set_link(0, children[0].link);
            let mut next = 0;
            for byte in 0..=255 {
                if children
                    .get(next + 1)
                    .is_some_and(|child| child.from == byte)
                {
                    next += 1;
                }
                self.set_link(byte as usize + 1, children[next].link);
            }
            return;
        }
        for i in 0..self.kind.most() {
            let child = children.get(i);
            self.set_link(i, child.map_or(Link::NONE, |child| child.link));
        }
        for word in 0..self.kind.link_words() {
            let mut bytes = [0; 8];
            for (i, byte) in bytes.iter_mut().enumerate() {
                let i = word * 8 + i;
                *byte = if self.kind == Kind::Node48 {
                    let not_behind = children.partition_point(|child| child.from <= i as i32);
                    (not_behind - 1) as u8
                } else {
                    children.get(i + 1).map_or(0xff, |child| child.from as u8)
                };
            }
            self.word(word)
                .store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
    }

    /// Whether it has as many children as it can.
    pub(super) fn is_full(self) -> bool {
        self.count() == self.kind.most()
    }

    /// Puts another child in the place of one. To be called under the lock.
    pub(super) fn replace(self, old: Link, new: Link) {
        for i in 0..self.kind.most() {
            if self.link_at(i) == old {
                self.set_link(i, new);
            }
        }
    }

    /// Puts a bound into the range of the child `old`, and links to what is left and right of it. To be
    /// called under the lock, if the node is not full.
    pub(super) fn part(self, old: Link, left: Link, byte: u8, right: Link) {
        if self.kind == Kind::Node256 {
            for rank in BEFORE..=255 {
                if self.find(rank) == old {
                    let side = if rank < i32::from(byte) { left } else { right };
                    self.set_link(self.place(rank), side);
                }
            }
            let count = self.count() as u32 + 1;
            self.header().count.store(count, Ordering::Relaxed);
        } else {
            self.write(&parted(self.children(), old, left, byte, right));
        }
    }

    /// Bytes it takes.
    pub(super) fn bytes(self) -> usize {
        layout::<K>(self.kind, self.path_len()).size()
    }

    /// Frees the node, not what is below it.
    ///
    /// # Safety
    /// Nobody else can find it, or still has it.
    pub(super) unsafe fn free(self) {
        let layout = layout::<K>(self.kind, self.path_len());
        // SAFETY: the caller's promise; it came from `build` with this layout. Words need no drop:
        // they are numbers (loom's are checked out by its own run).
        unsafe { memory::free(self.at.cast(), layout) };
    }

    /// Frees the node when nobody who is pinned now can have it any more.
    ///
    /// # Safety
    /// It is obsolete and no link leads to it.
    pub(super) unsafe fn retire(self, guard: &Guard) {
        let link = self.link();
        // SAFETY: nobody finds it from now on (the caller's promise), and the collector waits for
        // those who may have found it.
        unsafe {
            guard.defer_unchecked(move || {
                if let Some(node) = NodeRef::<K>::of(link) {
                    node.free();
                }
            });
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::key::Fixed8;

    fn leaf(i: usize) -> Link {
        Link::from_word((i as u64 + 1) << 6 | Kind::Bucket as u64)
    }

    #[test]
    fn bytes_are_compared_eight_at_a_time() {
        let word = u64::from_le_bytes([0, 1, 127, 128, 129, 200, 254, 255]);
        for byte in 0..=255_u8 {
            let expected = word.to_le_bytes().iter().filter(|b| **b <= byte).count();
            assert_eq!(at_most(word, byte), expected as u32, "{byte}");
        }
    }

    /// Every kind finds the same children, says the same bounds, and gives the children back.
    #[test]
    fn each_kind_parts_the_bytes_by_its_bounds() {
        for bounds in [1, 2, 3, 4, 15, 16, 40, 47, 48, 49, 100, 255, 256] {
            for first in [0, 1, 256 - bounds as i32] {
                let first = first.min(256 - bounds as i32);
                let mut children = vec![Child {
                    from: BEFORE,
                    link: leaf(0),
                }];
                children.extend((0..bounds).map(|i| Child {
                    from: first + i as i32,
                    link: leaf(i + 1),
                }));
                let link = build::<Fixed8>(&[1, 2], &children);
                // SAFETY: just made, ours alone.
                let Some(node) = (unsafe { NodeRef::<Fixed8>::of(link) }) else {
                    panic!("there")
                };
                assert_eq!(node.kind(), Kind::for_children(bounds + 1));
                assert_eq!(node.children(), children);
                assert_eq!(node.path_bytes(), [1, 2]);
                for rank in BEFORE..=255 {
                    let at = children.partition_point(|child| child.from <= rank);
                    assert_eq!(node.find(rank), children[at - 1].link, "{bounds} {rank}");
                    let (from, to) = node.bounds(rank);
                    assert_eq!(from.map_or(BEFORE, i32::from), children[at - 1].from);
                    assert_eq!(to.map(i32::from), children.get(at).map(|c| c.from));
                }
                // SAFETY: ours alone.
                unsafe { node.free() };
            }
        }
    }
}
