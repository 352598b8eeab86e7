//! Descent from the top to the leaf that covers a key, by optimistic lock coupling.
//!
//! The version of a child is read before that of its parent is checked. So the link was valid when
//! the child had that version, and nothing that concerns the child has changed in between
//! (`art/mod.rs`, A1).

use crossbeam_epoch::Guard;
use namiki_platform::sync::wait;

use super::ArtTree;
use super::node::{Below, LeafRef, Link, NodeRef};
use super::prefix_compare::{ArtKey, BEFORE, Progress};
use crate::shared::counters::Event;
use crate::shared::scan::Target;

/// An inner node on a descent path.
#[derive(Clone, Copy)]
pub(super) struct Step<'g, K> {
    pub(super) node: NodeRef<'g, K>,
    pub(super) version: u64,
    pub(super) rank: i32,
    /// The link that the descent follows.
    pub(super) link: Link<'g, K>,
}

/// Recorder of a descent path.
pub(super) trait Trace<'g, K: ArtKey> {
    /// The descent (re)starts at the top.
    fn clear(&mut self);
    /// The descent passes a node. The node is checked afterwards.
    fn pass(&mut self, step: Step<'g, K>);
}

/// Records nothing.
impl<'g, K: ArtKey> Trace<'g, K> for () {
    #[inline]
    fn clear(&mut self) {}
    #[inline]
    fn pass(&mut self, _step: Step<'g, K>) {}
}

/// Records every inner node, the top first.
impl<'g, K: ArtKey> Trace<'g, K> for Vec<Step<'g, K>> {
    fn clear(&mut self) {
        self.clear();
    }
    fn pass(&mut self, step: Step<'g, K>) {
        self.push(step);
    }
}

/// Records both.
impl<'g, K: ArtKey, A: Trace<'g, K>, B: Trace<'g, K>> Trace<'g, K> for (A, B) {
    fn clear(&mut self) {
        self.0.clear();
        self.1.clear();
    }
    fn pass(&mut self, step: Step<'g, K>) {
        self.0.pass(step);
        self.1.pass(step);
    }
}

/// The leaf at which a descent ended.
pub(super) struct Reached<'g, K> {
    pub(super) leaf: LeafRef<'g, K>,
    pub(super) version: u64,
}

/// The result of one step of a descent.
pub(super) enum Next<'g, K> {
    Node(At<'g, K>),
    Leaf(Reached<'g, K>),
}

/// An inner node, its version, and the key's rank there.
pub(super) struct At<'g, K> {
    pub(super) node: NodeRef<'g, K>,
    pub(super) version: u64,
    pub(super) rank: i32,
}

impl<K: ArtKey> ArtTree<K> {
    #[inline]
    pub(super) fn top<'g>(&'g self, _guard: &'g Guard) -> NodeRef<'g, K> {
        match self.top.link().follow() {
            Some(Below::Node(top)) => top,
            _ => unreachable!("a tree has a top"),
        }
    }

    /// The first step.
    #[inline]
    pub(super) fn first<'g>(&'g self, guard: &'g Guard) -> At<'g, K> {
        let node = self.top(guard);
        let Some(version) = node.lock().read() else {
            unreachable!("the top does not become obsolete")
        };
        At {
            node,
            version,
            rank: BEFORE,
        }
    }

    /// Follows a link read at `at`. `None`: something has changed.
    #[inline]
    pub(super) fn follow<'g>(
        at: &At<'g, K>,
        link: Link<'g, K>,
        target: Target<'_, K>,
        progress: &mut Progress,
    ) -> Option<Next<'g, K>> {
        match link.follow()? {
            Below::Leaf(leaf) => {
                let version = leaf.lock().read()?;
                let right = at.node.lock().check(at.version);
                right.then_some(Next::Leaf(Reached { leaf, version }))
            }
            Below::Node(node) => {
                let version = node.lock().read()?;
                if !at.node.lock().check(at.version) {
                    return None;
                }
                let rank = K::rank(target, node, progress);
                Some(Next::Node(At {
                    node,
                    version,
                    rank,
                }))
            }
        }
    }

    /// The leaf that covers the target. `None`: a node on the path has changed.
    // A look-up is little more than this: a separate call would add a third of its instructions.
    #[inline(always)]
    pub(super) fn try_leaf<'g>(
        &'g self,
        target: Target<'_, K>,
        trace: &mut impl Trace<'g, K>,
        guard: &'g Guard,
    ) -> Option<Reached<'g, K>> {
        trace.clear();
        let mut progress = Progress::default();
        let mut at = self.first(guard);
        loop {
            let link = at.node.find(at.rank);
            self.prefetch(link, target);
            trace.pass(Step {
                node: at.node,
                version: at.version,
                rank: at.rank,
                link,
            });
            match Self::follow(&at, link, target, &mut progress)? {
                Next::Node(next) => at = next,
                Next::Leaf(reached) => return Some(reached),
            }
        }
    }

    /// The same, as often as it takes.
    #[inline]
    pub(super) fn leaf<'g>(
        &'g self,
        target: Target<'_, K>,
        trace: &mut impl Trace<'g, K>,
        guard: &'g Guard,
    ) -> Reached<'g, K> {
        let mut turn = 0;
        loop {
            if let Some(reached) = self.try_leaf(target, trace, guard) {
                return reached;
            }
            self.restart(&mut turn);
        }
    }

    /// Restarts a search after a concurrent change, with a pause if restarts repeat.
    #[cold]
    pub(super) fn restart(&self, turn: &mut u32) {
        self.counters.add(Event::Restart);
        wait(*turn);
        *turn += 1;
    }

    /// Prefetches the cache lines that a search will need at the target of a link.
    #[inline]
    pub(super) fn prefetch(&self, link: Link<'_, K>, target: Target<'_, K>) {
        let byte = match target {
            Target::At(key) if K::BLOCKS => K::head(key, 0) as u8,
            _ => 0,
        };
        link.prefetch(byte, self.config.room());
    }
}
