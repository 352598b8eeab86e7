//! Descent from the root to a leaf, or to a level above.
//!
//! A child's address that was read in one state of the parent is valid as long as the thread is
//! pinned: the child keeps its lower fence for life; links to the right lead to entries that a
//! split has moved; and a merged child's own link leads to the node that has its keys, on the left.
//! So a reader never returns to the parent, and never holds one node while it reads another.
//!
//! Paper: bwtree §2.2 (the high key tells a search that came too far left to move right)

use std::ops::Bound;

use crossbeam_epoch::Guard;
use namiki_index::LeafVersion;
use namiki_index::key::Key;
use namiki_index::shared::range::before_end;

use super::BlinkTree;
use super::latch::Seen;
use super::node::NodeRef;

/// A node that a search has reached.
#[derive(Clone, Copy)]
pub(super) struct DescentPath<'g, K: Key> {
    pub(super) node: NodeRef<'g, K>,
    /// Estimated position in the node at which the search will end.
    pub(super) guess: usize,
    /// The parent, the node's position in it, and the node's number of entries according to the
    /// parent.
    parent: Option<(NodeRef<'g, K>, usize, usize)>,
}

impl<'g, K: Key> DescentPath<'g, K> {
    /// A path to a node that was not reached from its parent.
    pub(super) fn sideways(node: NodeRef<'g, K>) -> Self {
        Self {
            node,
            guess: 0,
            parent: None,
        }
    }

    /// Prefetches all entries that an insert here would move.
    #[inline]
    pub(super) fn prefetch_tail(&self, room: usize) {
        if let Some((.., noted)) = self.parent {
            self.node.prefetch_entries(self.guess, noted, room);
        }
    }

    /// Prefetches the entries of the right sibling, and returns it, if the parent knows one that
    /// begins before `end`. If the parent is changing, the prefetch may be useless.
    pub(super) fn prefetch_next(
        &self,
        end: Bound<K::Ref<'_>>,
        room: usize,
    ) -> Option<NodeRef<'g, K>> {
        let (parent, i, _) = self.parent?;
        let next = i + 1;
        if next >= parent.len() || !before_end::<K>(end, parent.key(next)) {
            return None;
        }
        let (node, len) = parent.child(next)?;
        node.prefetch_entries(0, len, room);
        Some(node)
    }

    /// Corrects the number of entries that the parent has for the node, if it is far off.
    #[inline(always)]
    fn correct(&self, len: usize) {
        if let Some((parent, i, noted)) = self.parent
            && noted.abs_diff(len) > 2
        {
            correct(parent, i, self.node, len);
        }
    }
}

#[cold]
fn correct<K: Key>(parent: NodeRef<'_, K>, i: usize, child: NodeRef<'_, K>, len: usize) {
    parent.note_len(i, child, len);
}

/// The result of a search for one key in its leaf, at one instant.
pub(super) struct Found<'g, K: Key> {
    pub(super) leaf: NodeRef<'g, K>,
    pub(super) seen: Seen,
    /// Number of smaller keys in the leaf.
    pub(super) at: usize,
    /// The payload, or the leaf's version if the key is absent.
    pub(super) payload: Result<u64, LeafVersion>,
}

/// The next step after one read of an inner node.
pub(super) enum Step<'g, K: Key> {
    /// Go to a child.
    Down(DescentPath<'g, K>),
    /// Go to another node, of the same level if the tree did not lose one.
    Over(NodeRef<'g, K>),
    /// Retry: the node has changed.
    Again,
}

impl<K: Key> BlinkTree<K> {
    /// Where every search begins.
    #[inline(always)]
    pub(super) fn start<'g>(&self, key: K::Ref<'_>, guard: &'g Guard) -> DescentPath<'g, K> {
        let node = self.root.load(guard);
        DescentPath {
            node,
            guess: node.guess_in_root(key),
            parent: None,
        }
    }

    /// Reads an inner node once, and prefetches the lines of the child that the search will need.
    #[inline(always)]
    pub(super) fn step<'g, const BELOW: bool>(
        &self,
        path: &DescentPath<'g, K>,
        key: K::Ref<'_>,
    ) -> Step<'g, K> {
        let node = path.node;
        let seen = node.begin();
        if seen.is_dead() {
            return node.right().map_or(Step::Again, Step::Over);
        }
        if let Some(right) = node.beyond::<BELOW>(key) {
            if node.unchanged(seen) {
                return Step::Over(right);
            }
            return Step::Again;
        }
        let i = node.rank_of_child::<BELOW>(key, path.guess);
        let Some((child, noted)) = node.child(i) else {
            assert!(
                !node.unchanged(seen),
                "an inner node has a child for every key"
            );
            return Step::Again;
        };
        let guess = node.guess(i, key, noted);
        child.prefetch(guess, self.nodes.room(node.level() - 1));
        if !node.unchanged(seen) {
            return Step::Again;
        }
        path.correct(node.len());
        Step::Down(DescentPath {
            node: child,
            guess,
            parent: Some((node, i, noted)),
        })
    }

    /// A node of `level`, or below if the tree is not that high, from which links lead to the one that
    /// covers the point at `key` (`BELOW`: just below it).
    #[inline(always)]
    pub(super) fn descend<'g, const BELOW: bool>(
        &self,
        level: u8,
        key: K::Ref<'_>,
        guard: &'g Guard,
    ) -> DescentPath<'g, K> {
        let mut path = self.start(key, guard);
        let mut at = path.node.level();
        while at > level {
            match self.step::<BELOW>(&path, key) {
                Step::Down(down) => {
                    path = down;
                    at -= 1;
                }
                Step::Over(node) => {
                    path = DescentPath::sideways(node);
                    at = node.level();
                }
                Step::Again => {}
            }
        }
        path
    }

    /// The node that covers the point, reached by links from one that is not right of it, as it is when it
    /// is read.
    #[inline(always)]
    pub(super) fn settle<'g, const BELOW: bool>(
        &self,
        path: &mut DescentPath<'g, K>,
        key: K::Ref<'_>,
    ) -> Seen {
        loop {
            let seen = path.node.begin();
            if seen.is_dead() {
                if let Some(node) = path.node.right() {
                    *path = DescentPath::sideways(node);
                }
                continue;
            }
            match path.node.beyond::<BELOW>(key) {
                None => return seen,
                Some(right) => {
                    if path.node.unchanged(seen) {
                        *path = DescentPath::sideways(right);
                    }
                }
            }
        }
    }

    /// Looks a key up in its leaf: the one that `path` leads to, or one to the right of that.
    #[inline(always)]
    pub(super) fn find<'g>(&self, path: &mut DescentPath<'g, K>, key: K::Ref<'_>) -> Found<'g, K> {
        loop {
            let seen = self.settle::<false>(path, key);
            let leaf = path.node;
            let (at, equal) = leaf.lower(key, path.guess);
            let payload = if equal {
                Ok(leaf.value(at))
            } else {
                Err(leaf.mark().version())
            };
            let len = leaf.len();
            if leaf.unchanged(seen) {
                path.correct(len);
                return Found {
                    leaf,
                    seen,
                    at,
                    payload,
                };
            }
        }
    }
}
