//! Batched look-up.
//!
//! A batch descends together: each lane in turn makes one step, prefetches the node it will need next, and
//! yields to the other lanes, also across layers. A lane that meets a change takes the ordinary
//! descent.
//!
//! Paper: bwtree §2.5

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::Lookup;
use namiki_index::shared::batch::LANES;

use super::Masstree;
use super::get::{Next, judge};
use super::interior::Interior;
use super::key_slices::{Cut, Slicing};
use super::node::{Kind, NodeRef};
use super::version::Seen;

/// One lookup on its way down.
struct Lane<'k, 'g, K: Slicing> {
    key: Cut<'k>,
    cut: Cut<'k>,
    /// The next node, not read yet.
    node: NodeRef<'g, K>,
    /// The place that leads to it.
    from: From<'g, K>,
    lookup: Option<Lookup>,
}

/// The place that led to a node.
enum From<'g, K: Slicing> {
    /// The root of a layer.
    Layer,
    Parent(&'g Interior<K>, Seen),
}

impl<K: Slicing> Masstree<K> {
    /// At most [`LANES`] interleaved look-ups.
    pub(super) fn get_lanes(&self, keys: &[K::Ref<'_>], out: &mut Vec<Lookup>) {
        let guard = &epoch::pin();
        let Some((root, _)) = self.root(self.top(), guard) else {
            unreachable!("the first layer stays")
        };
        let mut lanes: [Lane<'_, '_, K>; LANES] = std::array::from_fn(|_| Lane {
            key: Cut::of(&[]),
            cut: Cut::of(&[]),
            node: root,
            from: From::Layer,
            lookup: None,
        });
        let lanes = &mut lanes[..keys.len()];
        for (lane, key) in lanes.iter_mut().zip(keys) {
            lane.key = Cut::first::<K>(*key);
            lane.cut = lane.key;
        }
        let mut going = lanes.len();
        while going > 0 {
            for lane in lanes.iter_mut().filter(|lane| lane.lookup.is_none()) {
                if !lane.step(guard) {
                    lane.lookup = Some(self.look_up(lane.key, guard));
                }
                going -= usize::from(lane.lookup.is_some());
            }
        }
        out.extend(lanes.iter().filter_map(|lane| lane.lookup));
    }
}

impl<'g, K: Slicing> Lane<'_, 'g, K> {
    /// Searches one node. False: a node on the path has changed.
    #[inline]
    fn step(&mut self, guard: &'g Guard) -> bool {
        let seen = self.node.stable();
        let current = match self.from {
            From::Layer => seen.is_root() && !seen.is_deleted(),
            From::Parent(parent, seen) => parent.header.version.unchanged(seen),
        };
        if !current {
            return false;
        }
        match self.node.kind() {
            Kind::Interior(interior) => {
                let Some(child) = interior.child(self.cut.slice, seen, guard) else {
                    return false;
                };
                if interior.header.is_above_leaves() {
                    child.prefetch_border();
                } else {
                    child.prefetch_interior();
                }
                (self.node, self.from) = (child, From::Parent(interior, seen));
            }
            Kind::Border(leaf) => {
                let Some(look) = leaf.look(&self.cut, seen, guard) else {
                    return false;
                };
                match judge(&look, &self.cut) {
                    Next::Answer(lookup) => self.lookup = Some(lookup),
                    Next::Layer(below, rest) => {
                        let Some(root) = super::node::root(below.root(), guard) else {
                            return false;
                        };
                        root.prefetch_interior();
                        (self.node, self.from, self.cut) = (root, From::Layer, rest);
                    }
                }
            }
        }
        true
    }
}
