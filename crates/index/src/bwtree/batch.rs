//! Many lookups at once.
//!
//! One lookup spends most of its time waiting for memory, one dependent miss per level. A batch goes
//! down the tree level by level: first every lane asks for its page, then every lane searches. So the
//! misses of a whole batch overlap. A lane that meets anything unusual takes the ordinary way.
//!
//! Paper: bwtree §4.1.1 (the same Read, many at a time)

use crossbeam_epoch as epoch;

use super::BwTree;
use super::node::NodeRef;
use super::search::{At, Place};
use crate::key::Key;
use crate::{IndexError, Lookup};

/// Lookups that go down together: about as many misses as a core keeps under way.
const LANES: usize = 16;

/// One lookup on its way down. A finished lane has no next page.
struct Lane<'k, 'g, K: Key> {
    key: K::Ref<'k>,
    place: Option<Place<'g, K>>,
    lookup: Option<Lookup>,
}

impl<K: Key> BwTree<K> {
    pub(super) fn get_batch(
        &self,
        keys: &[&[u8]],
        out: &mut Vec<Lookup>,
    ) -> Result<(), IndexError> {
        out.clear();
        for key in keys {
            K::parse(key)?;
        }
        out.reserve(keys.len());
        for batch in keys.chunks(LANES) {
            self.get_lanes(batch, out)?;
        }
        Ok(())
    }

    fn get_lanes(&self, keys: &[&[u8]], out: &mut Vec<Lookup>) -> Result<(), IndexError> {
        let guard = &epoch::pin();
        let root = self.root.load().page;
        let first = self
            .mapping
            .load(root, guard)
            .map(|head| Place { id: root, head });
        let mut lanes: [Lane<'_, '_, K>; LANES] = std::array::from_fn(|_| Lane {
            key: K::min(),
            place: None,
            lookup: None,
        });
        let lanes = &mut lanes[..keys.len()];
        for (lane, key) in lanes.iter_mut().zip(keys) {
            lane.key = K::parse(key)?;
            lane.place = first;
        }
        let mut going = true;
        while going {
            going = false;
            let mut next = [super::mapping::PageId::NONE; LANES];
            let mut lines = 0;
            for (lane, next) in lanes.iter_mut().zip(&mut next) {
                if lane.lookup.is_some() {
                    continue;
                }
                match self.step(lane.place, lane.key) {
                    Step::Answer(lookup) => {
                        if let Some(place) = lane.place {
                            self.tidy_after_read(place, guard);
                        }
                        lane.lookup = Some(lookup);
                    }
                    Step::Down(page, ask) => {
                        self.mapping.prefetch(page);
                        (*next, lines, going) = (page, ask, true);
                    }
                    Step::Unusual => {
                        let place = self.leaf(At(lane.key), guard);
                        lane.lookup = Some(answer(place, lane.key));
                    }
                }
            }
            for (lane, id) in lanes.iter_mut().zip(next) {
                if lane.lookup.is_none() {
                    lane.place = self.mapping.load(id, guard).map(|head| {
                        head.prefetch(lines);
                        Place { id, head }
                    });
                }
            }
        }
        out.extend(lanes.iter().filter_map(|lane| lane.lookup));
        Ok(())
    }

    /// One lane, one level.
    #[inline]
    fn step(&self, place: Option<Place<'_, K>>, key: K::Ref<'_>) -> Step {
        match place {
            Some(place) if !place.head.is_removed() && !place.head.is_left_of(At(key)) => {
                let head: NodeRef<'_, K> = place.head;
                if head.level() == 0 {
                    Step::Answer(answer(place, key))
                } else {
                    Step::Down(head.child_for(At(key)), self.lines_below(head.level()))
                }
            }
            _ => Step::Unusual,
        }
    }
}

/// What one lane does next.
enum Step {
    Answer(Lookup),
    /// To a page, of which so many lines are needed.
    Down(super::mapping::PageId, usize),
    /// A page that is being removed, or was split and the parent does not know yet.
    Unusual,
}

fn answer<K: Key>(place: Place<'_, K>, key: K::Ref<'_>) -> Lookup {
    match place.head.find(key) {
        Some(payload) => Lookup::Found(payload),
        None => Lookup::Missing(place.version()),
    }
}
