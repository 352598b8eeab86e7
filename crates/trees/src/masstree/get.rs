//! Point reads.
//!
//! A read goes layer by layer. If the leaf has a link for the key's slice, the search continues in
//! that layer, provided that the key begins with the prefix that all keys there have in common.
//! Otherwise the key is absent, and the leaf with the link accounts for that: an insertion would
//! change that leaf (`layers.rs`).
//!
//! The payload of a long key is read from its suffix after the leaf was found unchanged. Should the
//! suffix be replaced in between, it still holds the last payload from before, which was there when
//! the leaf was validated or came later.
//!
//! Paper: bwtree §2.5

use crossbeam_epoch::{self as epoch, Guard};
use namiki_index::shared::counters::Event;
use namiki_index::{IndexError, Lookup};

use super::Masstree;
use super::border::{Content, Look};
use super::key_slices::{Cut, Slicing};
use super::suffix_block::Layer;

/// The next step after a search in a leaf.
pub(super) enum Next<'g, 'k> {
    Answer(Lookup),
    Layer(&'g Layer, Cut<'k>),
}

/// The answer of a leaf search about the key.
#[inline]
pub(super) fn judge<'g, 'k>(look: &Look<'g>, cut: &Cut<'k>) -> Next<'g, 'k> {
    let found = match look.content {
        Some(Content::Payload(payload)) => Some(payload),
        Some(Content::Suffix(suffix)) => (suffix.bytes() == cut.rest).then(|| suffix.payload()),
        Some(Content::Layer(layer)) => match layer.fits(cut.rest) {
            Some(rest) => return Next::Layer(layer, Cut::of(rest)),
            None => None,
        },
        None => None,
    };
    Next::Answer(found.map_or(Lookup::Missing(look.version), Lookup::Found))
}

impl<K: Slicing> Masstree<K> {
    #[inline]
    pub(super) fn get_key(&self, key: &[u8]) -> Result<Lookup, IndexError> {
        let key = K::parse(key)?;
        Ok(self.look_up(Cut::first::<K>(key), &epoch::pin()))
    }

    /// Looks up a whole key.
    #[inline]
    pub(super) fn look_up(&self, key: Cut<'_>, guard: &Guard) -> Lookup {
        let (mut layer, mut cut) = (self.top(), key);
        loop {
            let Some(path) = self.descend(layer, cut.slice, guard) else {
                // The layer was removed: the key may be in the layer above now.
                (layer, cut) = (self.top(), key);
                self.counters.add(Event::Restart);
                continue;
            };
            match path
                .leaf
                .look(&cut, path.seen, guard)
                .map(|look| judge(&look, &cut))
            {
                Some(Next::Answer(lookup)) => return lookup,
                Some(Next::Layer(below, rest)) => (layer, cut) = (below, rest),
                None => self.counters.add(Event::Restart),
            }
        }
    }
}
