//! The way from the top to the leaf that covers a key, by optimistic lock coupling.
//!
//! The version of a child is read before that of its parent is checked: so the link was right when the
//! child's version was that, and nothing that concerns the child has changed between (A1).
#![expect(unsafe_code, reason = "follows links to nodes")]

use crossbeam_epoch::Guard;

use super::ArtTree;
use super::inner::NodeRef;
use super::leaf::LeafRef;
use super::link::Link;
use super::path::{ArtKey, BEFORE, Progress, Target};
use crate::counters::Event;
use crate::key::Key;
use crate::sync::wait;

/// An inner node on a way down.
pub(super) struct Step<'g, K> {
    pub(super) node: NodeRef<'g, K>,
    pub(super) version: u64,
    pub(super) rank: i32,
    /// Where the way goes on.
    pub(super) link: Link,
}

/// What is to be remembered of a way down.
pub(super) trait Trace<'g, K: ArtKey> {
    /// The way begins (again) at the top.
    fn clear(&mut self);
    /// It passes a node. The node is checked afterwards.
    fn pass(&mut self, step: Step<'g, K>);
}

/// Nothing.
impl<'g, K: ArtKey> Trace<'g, K> for () {
    #[inline]
    fn clear(&mut self) {}
    #[inline]
    fn pass(&mut self, _step: Step<'g, K>) {}
}

/// Every inner node, the top first.
impl<'g, K: ArtKey> Trace<'g, K> for Vec<Step<'g, K>> {
    fn clear(&mut self) {
        self.clear();
    }
    fn pass(&mut self, step: Step<'g, K>) {
        self.push(step);
    }
}

/// Where a way down ended.
pub(super) struct Reached<'g, K> {
    pub(super) leaf: LeafRef<'g, K>,
    pub(super) version: u64,
}

/// One step of a way down.
pub(super) enum Next<'g, K> {
    Node(At<'g, K>),
    Leaf(Reached<'g, K>),
}

/// An inner node, its version, and where the key goes there.
pub(super) struct At<'g, K> {
    pub(super) node: NodeRef<'g, K>,
    pub(super) version: u64,
    pub(super) rank: i32,
}

impl<K: ArtKey> ArtTree<K> {
    pub(super) fn top<'g>(&self, _guard: &'g Guard) -> NodeRef<'g, K> {
        // SAFETY: the top is alive as long as the tree, which outlives the guard's borrow in every
        // operation; it is an inner node.
        match unsafe { NodeRef::of(self.top) } {
            Some(top) => top,
            None => unreachable!("a tree has a top"),
        }
    }

    /// The first step. `None` never happens, as the top does not become obsolete.
    #[inline]
    pub(super) fn first<'g>(&self, guard: &'g Guard) -> Option<At<'g, K>> {
        let node = self.top(guard);
        Some(At {
            node,
            version: node.lock().read()?,
            rank: BEFORE,
        })
    }

    /// Follows a link read at `at`. `None`: something has changed.
    #[inline]
    pub(super) fn follow<'g>(
        at: &At<'g, K>,
        link: Link,
        target: Target<'_, K>,
        progress: &mut Progress,
    ) -> Option<Next<'g, K>> {
        if link.is_leaf() {
            // SAFETY: read from `at.node` after its version, by somebody pinned (I3).
            let leaf = unsafe { LeafRef::<K>::of(link) }?;
            let version = leaf.lock().read()?;
            let right = at.node.lock().check(at.version);
            return right.then_some(Next::Leaf(Reached { leaf, version }));
        }
        // SAFETY: as above.
        let node = unsafe { NodeRef::<K>::of(link) }?;
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

    /// The leaf that covers the target. `None`: something has changed on the way.
    #[inline]
    pub(super) fn try_leaf<'g>(
        &self,
        target: Target<'_, K>,
        trace: &mut impl Trace<'g, K>,
        guard: &'g Guard,
    ) -> Option<Reached<'g, K>> {
        trace.clear();
        let mut progress = Progress::default();
        let mut at = self.first(guard)?;
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
        &self,
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

    /// Something has changed under a search: it begins again, after a while if that goes on.
    #[cold]
    pub(super) fn restart(&self, turn: &mut u32) {
        self.counters.add(Event::Restart);
        wait(*turn);
        *turn += 1;
    }

    /// Asks for what a search will need where a link leads.
    #[inline]
    pub(super) fn prefetch(&self, link: Link, target: Target<'_, K>) {
        if link.is_leaf() {
            let head = match target {
                Target::At(key) if K::BLOCKS => <K as Key>::head(key, 0),
                _ => 0,
            };
            LeafRef::<K>::prefetch(link, head, self.config.room());
        } else {
            NodeRef::<K>::prefetch(link);
        }
    }
}
