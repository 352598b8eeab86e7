//! Inner nodes: Node4, Node16, Node48 and Node256, which part a range of keys by one byte.
//!
//! A node has a *path*, the bytes that all of its bounds begin with, and *bounds*, each of which is
//! the path and one more byte. Child 0 is below the first bound, child `i` from bound `i` to the
//! next. A key that leaves the path lies before all bounds or behind them, so it goes to child 0 or
//! to the last child: every key has a child.
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
//! - I1. Words are written under the lock (`lock.rs`, L1). A reader that read the version before a
//!   link may follow that link (`node.rs`, N3), and learns by `check` whether it was right.
//! - I2. Places for links that are not used are zero.
//! - I3. Each child has one run of bytes; neighbouring runs have different links.
//! - I4. The path of a node begins with the path of the node above it and is longer.
//!
//! Paper: bwtree §2 (its reference 3 is ART)

use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;

use super::kind::Kind;
use super::node::{Link, NodeRef};
use super::prefix_compare::BEFORE;
use crate::key::{Key, OwnedKey};

/// A child and the byte of the bound it begins with; `BEFORE` for child 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Child<'g, K> {
    pub(super) from: i32,
    pub(super) link: Link<'g, K>,
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

/// Makes a node with the given path and children, in order.
pub(super) fn build<'g, K: Key>(
    path: &[u8],
    children: &[Child<'_, K>],
    guard: &'g Guard,
) -> NodeRef<'g, K> {
    let node = NodeRef::new_inner(Kind::for_children(children.len()), path, guard);
    node.write(children);
    node
}

/// Children with a bound put into the range of the child `old`.
pub(super) fn parted<'g, K: Key>(
    mut children: Vec<Child<'g, K>>,
    old: Link<'g, K>,
    left: Link<'g, K>,
    byte: u8,
    right: Link<'g, K>,
) -> Vec<Child<'g, K>> {
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
    /// The path as bytes of its own.
    pub(super) fn path_bytes(self) -> Vec<u8> {
        if K::INLINE {
            self.head().to_be_bytes()[8 - self.path_len()..].to_vec()
        } else {
            self.path().to_vec()
        }
    }

    /// Children. At least one, as the node was complete before it could be found.
    #[inline]
    fn count(self) -> usize {
        self.header().count.load(Ordering::Relaxed) as usize
    }

    /// Byte `i` of the bytes that begin at the first word: a bound's, or the index's.
    #[inline]
    fn byte(self, i: usize) -> u8 {
        (self.load(i / 8) >> (i % 8 * 8)) as u8
    }

    /// The position among the links of the child of a rank.
    #[inline]
    fn place(self, rank: i32) -> usize {
        if self.kind() == Kind::Node256 {
            return (rank + 1) as usize;
        }
        if rank == BEFORE {
            return 0;
        }
        let byte = rank as u8;
        if self.kind() == Kind::Node48 {
            return self.byte(byte as usize) as usize;
        }
        let mut place = at_most(self.load(0), byte);
        if self.kind() == Kind::Node16 {
            place += at_most(self.load(1), byte);
        }
        // Behind the bounds that there are, the bytes say nothing.
        (place as usize).min(self.count() - 1)
    }

    /// The link for a rank. Right if the version is the same before and after.
    #[inline]
    pub(super) fn find(self, rank: i32) -> Link<'g, K> {
        self.link_at(self.place(rank))
    }

    /// The bytes of the bound that the child of a rank begins with and of the next one, if there are.
    /// Right if the version is the same before and after.
    pub(super) fn bounds(self, rank: i32) -> (Option<u8>, Option<u8>) {
        if matches!(self.kind(), Kind::Node4 | Kind::Node16) {
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

    /// The bound with that byte as a key: eight-byte keys are filled up with zeros, as a bound is less
    /// than all keys that begin with it.
    pub(super) fn bound(self, byte: u8) -> OwnedKey<K> {
        if K::INLINE {
            let bytes = self.head() << 8 | u64::from(byte);
            return OwnedKey::from_parts(bytes << (56 - 8 * self.path_len()), Vec::new());
        }
        let mut bytes = Vec::with_capacity(self.path_len() + 1);
        bytes.extend_from_slice(self.path());
        bytes.push(byte);
        OwnedKey::from_parts(0, bytes)
    }

    /// The children in order. Right if the version is the same before and after.
    pub(super) fn children(self) -> Vec<Child<'g, K>> {
        let mut children = vec![Child {
            from: BEFORE,
            link: self.link_at(0),
        }];
        match self.kind() {
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
    pub(super) fn write(self, children: &[Child<'_, K>]) {
        assert!(
            !children.is_empty() && children.len() <= self.kind().most(),
            "children fit"
        );
        self.header()
            .count
            .store(children.len() as u32, Ordering::Relaxed);
        if self.kind() == Kind::Node256 {
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
        for i in 0..self.kind().most() {
            let child = children.get(i);
            self.set_link(i, child.map_or(Link::NONE, |child| child.link));
        }
        for word in 0..self.kind().index_words() {
            let mut bytes = [0; 8];
            for (i, byte) in bytes.iter_mut().enumerate() {
                let i = word * 8 + i;
                *byte = if self.kind() == Kind::Node48 {
                    let not_behind = children.partition_point(|child| child.from <= i as i32);
                    (not_behind - 1) as u8
                } else {
                    children.get(i + 1).map_or(0xff, |child| child.from as u8)
                };
            }
            self.store(word, u64::from_le_bytes(bytes));
        }
    }

    /// Whether it has as many children as it can.
    pub(super) fn is_full(self) -> bool {
        self.count() == self.kind().most()
    }

    /// Replaces a child by another. False: the old child is not there. To be called under the lock.
    pub(super) fn replace(self, old: Link<'_, K>, new: Link<'_, K>) -> bool {
        let mut found = false;
        for i in 0..self.kind().most() {
            if self.link_at(i) == old {
                self.set_link(i, new);
                found = true;
            }
        }
        found
    }

    /// Puts a bound into the range of the child `old`, and links to what is left and right of it. To be
    /// called under the lock, if the node is not full.
    pub(super) fn part(self, old: Link<'g, K>, left: Link<'g, K>, byte: u8, right: Link<'g, K>) {
        if self.kind() == Kind::Node256 {
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
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::node::LeafRef;
    use super::super::retire::Subtree;
    use super::*;
    use crate::key::Fixed8;
    use crate::shared::leaf_table::LeafTable;

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
        let guard = &crossbeam_epoch::pin();
        let table = LeafTable::new();
        let leaf = || {
            let mark = table.mark().unwrap();
            LeafRef::<Fixed8>::new_leaf(Kind::Bucket, 1, mark, guard).link()
        };
        for bounds in [1, 2, 3, 4, 15, 16, 40, 47, 48, 49, 100, 255, 256] {
            for first in [0, 1, 256 - bounds] {
                let first = first.min(256 - bounds);
                let from = std::iter::once(BEFORE).chain(first..first + bounds);
                let children: Vec<_> = from.map(|from| Child { from, link: leaf() }).collect();
                let node = build(&[1, 2], &children, guard);
                let _freed = Subtree::of(node.link());
                assert_eq!(node.kind(), Kind::for_children(children.len()));
                assert_eq!(node.children(), children);
                assert_eq!(node.path_bytes(), [1, 2]);
                assert_eq!(node.bound(3).get(), 0x01_02_03 << 40);
                for rank in BEFORE..=255 {
                    let at = children.partition_point(|child| child.from <= rank);
                    assert_eq!(node.find(rank), children[at - 1].link, "{bounds} {rank}");
                    let (from, to) = node.bounds(rank);
                    assert_eq!(from.map_or(BEFORE, i32::from), children[at - 1].from);
                    assert_eq!(to.map(i32::from), children.get(at).map(|c| c.from));
                }
            }
        }
    }
}
