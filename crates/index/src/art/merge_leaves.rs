//! Merges of leaves: a leaf with few records is merged into a neighbour, and the bound between them
//! is removed.
//!
//! The leaf and its neighbour lie on both sides of a bound of the leaf's own node. The neighbour may lie
//! deeper, as the first or last leaf of the next child; its range grows, so all nodes down to it change
//! their versions (`art/mod.rs`, A1). A node that is left with one child is replaced by that child
//! (the paper's path merge: here the path above need not change, as every node has all of its
//! path); one with few children by a smaller one. An empty leaf is always merged, so an emptied
//! tree is one leaf.
//!
//! Paper: bwtree §2 (its reference 3 is ART: Delete)

use crossbeam_epoch::Guard;

use super::ArtTree;
use super::descend::{At, Next, Reached, Step};
use super::inner::{self, Child};
use super::kind::Kind;
use super::node::LeafRef;
use super::prefix_compare::{ArtKey, BEFORE, BEHIND, Progress};
use super::split::lock_all;
use crate::shared::counters::Event;
use crate::shared::scan::Target;

/// The result of a merge attempt.
enum Attempt {
    /// The leaf has enough records; nothing was done.
    Enough,
    /// Merged. The leaf that covers the key now may have few records, too.
    Done,
    /// Another thread changed a node first.
    Lost,
}

/// The neighbour of a leaf, and the nodes between it and the leaf's own node.
struct Neighbour<'g, K> {
    between: Vec<Step<'g, K>>,
    reached: Reached<'g, K>,
    is_right: bool,
}

impl<K: ArtKey> ArtTree<K> {
    /// Merges the leaf that covers a key while it has few records and a neighbour with room.
    #[cold]
    pub(super) fn merge_if_few(&self, key: K::Ref<'_>, guard: &Guard) {
        let mut turn = 0;
        loop {
            match self.try_merge(key, guard) {
                Attempt::Enough => return,
                Attempt::Done => turn = 0,
                Attempt::Lost => self.restart(&mut turn),
            }
        }
    }

    fn try_merge(&self, key: K::Ref<'_>, guard: &Guard) -> Attempt {
        let mut way = Vec::new();
        let reached = self.leaf(Target::At(key), &mut way, guard);
        let leaf = reached.leaf;
        let few = leaf.count();
        if few > self.config.leaf_min() {
            return Attempt::Enough;
        }
        let [.., step] = &way[..] else {
            unreachable!("a way begins at the top")
        };
        if way.len() == 1 {
            return self.make_bucket(step, &reached, guard);
        }
        let children = step.node.children();
        if !step.node.lock().check(step.version) {
            return Attempt::Lost;
        }
        let Some(at) = children.iter().position(|child| child.link == step.link) else {
            return Attempt::Lost;
        };
        let Some(neighbour) = Self::neighbour(step, &children, at) else {
            return Attempt::Lost;
        };
        let other = neighbour.reached.leaf;
        let fits = !other.is_block() && few + other.count() <= self.config.merged_max();
        if few > 0 && !fits {
            return self.make_bucket(step, &reached, guard);
        }
        self.merge(&way, &reached, children, at, &neighbour, guard)
    }

    /// The leaf on the other side of the bound right of child `at`, or left of the last child.
    fn neighbour<'g>(
        step: &Step<'g, K>,
        children: &[Child<'g, K>],
        at: usize,
    ) -> Option<Neighbour<'g, K>> {
        let is_right = at + 1 < children.len();
        let mut link = children[if is_right { at + 1 } else { at - 1 }].link;
        // The first or the last path down, independent of the nodes' paths.
        let rank = if is_right { BEFORE } else { BEHIND };
        let mut above = At {
            node: step.node,
            version: step.version,
            rank,
        };
        let mut between = Vec::new();
        loop {
            match Self::follow(&above, link, Target::Last, &mut Progress::default())? {
                Next::Leaf(reached) => {
                    return Some(Neighbour {
                        between,
                        reached,
                        is_right,
                    });
                }
                Next::Node(next) => {
                    above = At { rank, ..next };
                    link = above.node.find(rank);
                    between.push(Step {
                        node: above.node,
                        version: above.version,
                        rank,
                        link,
                    });
                }
            }
        }
    }

    fn merge(
        &self,
        way: &[Step<'_, K>],
        reached: &Reached<'_, K>,
        mut children: Vec<Child<'_, K>>,
        at: usize,
        neighbour: &Neighbour<'_, K>,
        guard: &Guard,
    ) -> Attempt {
        let [.., parent, step] = way else {
            unreachable!("below the top and a node")
        };
        let node = step.node;
        // The bound right of the leaf goes, or left of it.
        if neighbour.is_right {
            children[at].link = children[at + 1].link;
            children.remove(at + 1);
        } else {
            children.remove(at);
        }
        let goes = children.len() == 1;
        let shrinks = goes || children.len() < node.kind().least();
        let mut above = None;
        if shrinks {
            match parent.node.lock().try_lock(parent.version) {
                Some(locked) => above = Some(locked),
                None => return Attempt::Lost,
            }
        }
        let (gone, into) = (reached.leaf, neighbour.reached.leaf);
        let (Some(mut own), Some(mut between), Some(mut gone_locked), Some(mut into_locked)) = (
            node.lock().try_lock(step.version),
            lock_all(&neighbour.between),
            gone.lock().try_lock(reached.version),
            into.lock().try_lock(neighbour.reached.version),
        ) else {
            return Attempt::Lost;
        };
        // Both are as they were when it was found that their records fit into one.
        self.table.merge(gone.mark(), into.mark());
        if gone.count() > 0 {
            let mut items = Vec::with_capacity(gone.count() + into.count());
            let (left, right) = if neighbour.is_right {
                (gone, into)
            } else {
                (into, gone)
            };
            left.items(left.all(), &mut items);
            right.items(right.all(), &mut items);
            into.write(&items, guard);
        }
        if shrinks {
            let smaller = if goes {
                children[0].link
            } else {
                inner::build(&node.path_bytes(), &children, guard).link()
            };
            parent.node.swap(node.link(), smaller, guard);
            own.obsolete();
        } else {
            node.keep(&children, guard);
        }
        gone_locked.obsolete();
        for locked in between.iter_mut().chain(&mut above) {
            locked.changed();
        }
        own.changed();
        into_locked.changed();
        self.counters.add(Event::Merge);
        Attempt::Done
    }

    /// A block with few records, which cannot be merged, becomes a bucket.
    fn make_bucket(&self, step: &Step<'_, K>, reached: &Reached<'_, K>, guard: &Guard) -> Attempt {
        let old = reached.leaf;
        if !old.is_block() {
            return Attempt::Enough;
        }
        let (Some(mut above), Some(mut locked)) = (
            step.node.lock().try_lock(step.version),
            old.lock().try_lock(reached.version),
        ) else {
            return Attempt::Lost;
        };
        let mut items = Vec::new();
        old.items(old.all(), &mut items);
        let new = LeafRef::new_leaf(Kind::Bucket, self.config.room(), old.mark().copy(), guard);
        new.write(&items, guard);
        self.replace_leaf(step, old, new, guard);
        above.changed();
        locked.obsolete();
        self.counters.add(Event::Consolidation);
        Attempt::Enough
    }
}
