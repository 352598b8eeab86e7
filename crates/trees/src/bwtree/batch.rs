//! Batched look-up.
//!
//! A batch descends level by level: first every lane prefetches its page, then every lane searches.
//! A lane that meets anything unusual takes the ordinary descent.
//!
//! Paper: bwtree §4.1.1 (the same Read, many at a time)

use crossbeam_epoch as epoch;
use namiki_index::Lookup;
use namiki_index::key::Key;
use namiki_index::shared::batch::LANES;

use super::BwTree;
use super::base::child_prefetch_hint::DescentPath;
use super::descend::{At, Place};
use super::variant::Variant;

/// One lookup on its way down. A finished lane has no next page.
struct Lane<'k, 'g, K: Key, V: Variant> {
    key: K::Ref<'k>,
    /// The path that led to the page.
    path: DescentPath<'g>,
    place: Option<Place<'g, K, V>>,
    lookup: Option<Lookup>,
}

impl<K: Key, V: Variant> BwTree<K, V> {
    /// At most [`LANES`] interleaved look-ups.
    pub(super) fn get_lanes(&self, keys: &[K::Ref<'_>], out: &mut Vec<Lookup>) {
        let guard = &epoch::pin();
        let root = self.root.load().page;
        let first = self
            .mapping
            .load(root, guard)
            .map(|head| Place::new(root, head));
        let mut lanes: [Lane<'_, '_, K, V>; LANES] = std::array::from_fn(|_| Lane {
            key: K::min(),
            path: DescentPath::unknown(root),
            place: None,
            lookup: None,
        });
        let lanes = &mut lanes[..keys.len()];
        for (lane, key) in lanes.iter_mut().zip(keys) {
            lane.key = *key;
            lane.place = first;
        }
        let mut going = true;
        while going {
            going = false;
            let mut next = [None; LANES];
            for (lane, next) in lanes.iter_mut().zip(&mut next) {
                if lane.lookup.is_some() {
                    continue;
                }
                match self.step(lane) {
                    Step::Answer(lookup) => {
                        if let Some(place) = lane.place {
                            self.compact_after_read(place, guard);
                        }
                        lane.lookup = Some(lookup);
                    }
                    Step::Down(path) => {
                        self.mapping.prefetch(path.child);
                        (*next, going) = (Some(path), true);
                    }
                    Step::Unusual => {
                        let place = self.leaf(At(lane.key), guard);
                        lane.lookup = Some(answer(place, lane.key));
                    }
                }
            }
            for (lane, path) in lanes.iter_mut().zip(next) {
                if let Some(path) = path {
                    let head = self.mapping.load(path.child, guard);
                    lane.place = head.map(|head| Place::new(path.child, head));
                    lane.path = path;
                }
            }
        }
        out.extend(lanes.iter().filter_map(|lane| lane.lookup));
    }

    /// One lane, one level.
    #[inline]
    fn step<'g>(&self, lane: &Lane<'_, 'g, K, V>) -> Step<'g> {
        match lane.place {
            Some(place) if !place.head.is_removed() && !place.head.is_left_of(At(lane.key)) => {
                lane.path.correct(place.head);
                if place.head.level() == 0 {
                    return Step::Answer(answer(place, lane.key));
                }
                let path = place.head.path(At(lane.key));
                path.prefetch::<K, V>(place.head.base_hint());
                Step::Down(path)
            }
            _ => Step::Unusual,
        }
    }
}

/// The next step of one lane.
enum Step<'g> {
    Answer(Lookup),
    /// To another page.
    Down(DescentPath<'g>),
    /// The page is being removed, or was split and the parent does not know yet.
    Unusual,
}

fn answer<K: Key, V: Variant>(place: Place<'_, K, V>, key: K::Ref<'_>) -> Lookup {
    match place.head.find(key) {
        Some(payload) => Lookup::Found(payload),
        None => Lookup::Missing(place.version()),
    }
}
