//! Batched look-up: the cache misses of many look-ups overlap.
//!
//! A batch descends together, each lane one node at a time: when a lane knows its next node it prefetches
//! the cache lines it will need there, and yields to the next lane. A lane that meets a change takes the
//! ordinary descent.
//!
//! Paper: bwtree §2 (its reference 3 is ART: Search, here many at a time)

use crossbeam_epoch::{self as epoch, Guard};

use super::ArtTree;
use super::descend::{At, Next, Reached};
use super::node::Link;
use super::prefix_compare::{ArtKey, Progress};
use crate::Lookup;
use crate::shared::batch::LANES;
use crate::shared::scan::Target;

/// The state of a look-up during its descent.
enum Stage<'g, K> {
    /// A node was searched; the link found there is being fetched.
    Link(At<'g, K>, Link<'g, K>),
    /// The answer.
    Done(Lookup),
}

struct Lane<'k, 'g, K: ArtKey> {
    key: K::Ref<'k>,
    progress: Progress,
    stage: Stage<'g, K>,
}

impl<K: ArtKey> ArtTree<K> {
    /// At most [`LANES`] interleaved look-ups.
    pub(super) fn get_lanes(&self, keys: &[K::Ref<'_>], out: &mut Vec<Lookup>) {
        let guard = &epoch::pin();
        let mut lanes: Vec<Lane<'_, '_, K>> = Vec::with_capacity(LANES);
        for key in keys {
            lanes.push(Lane {
                key: *key,
                progress: Progress::default(),
                stage: self.fetch(self.first(guard), *key),
            });
        }
        let mut going = true;
        while going {
            going = false;
            for lane in &mut lanes {
                if let Stage::Link(at, link) = &lane.stage {
                    going = true;
                    lane.stage = self.step(at, *link, lane.key, &mut lane.progress, guard);
                }
            }
        }
        out.extend(lanes.iter().filter_map(|lane| match lane.stage {
            Stage::Done(lookup) => Some(lookup),
            Stage::Link(..) => None,
        }));
    }

    /// Searches a node and prefetches the node below.
    fn fetch<'g>(&'g self, at: At<'g, K>, key: K::Ref<'_>) -> Stage<'g, K> {
        let link = at.node.find(at.rank);
        self.prefetch(link, Target::At(key));
        Stage::Link(at, link)
    }

    /// One lane, one node.
    fn step<'g>(
        &'g self,
        at: &At<'g, K>,
        link: Link<'g, K>,
        key: K::Ref<'_>,
        progress: &mut Progress,
        guard: &'g Guard,
    ) -> Stage<'g, K> {
        match Self::follow(at, link, Target::At(key), progress) {
            Some(Next::Node(next)) => self.fetch(next, key),
            Some(Next::Leaf(reached)) => Stage::Done(self.answer(Some(reached), key, guard)),
            None => Stage::Done(self.answer(None, key, guard)),
        }
    }

    /// The answer of the leaf reached, or of the one that an ordinary search finds.
    #[inline]
    fn answer<'g>(
        &'g self,
        reached: Option<Reached<'g, K>>,
        key: K::Ref<'_>,
        guard: &'g Guard,
    ) -> Lookup {
        match reached.and_then(|reached| Self::look(&reached, key)) {
            Some(lookup) => lookup,
            None => self.search_again(key, guard),
        }
    }

    #[cold]
    fn search_again(&self, key: K::Ref<'_>, guard: &Guard) -> Lookup {
        let mut turn = 0;
        loop {
            self.restart(&mut turn);
            let reached = self.try_leaf(Target::At(key), &mut (), guard);
            if let Some(lookup) = reached.and_then(|reached| Self::look(&reached, key)) {
                return lookup;
            }
        }
    }
}
