//! Look-up of one key.
//!
//! Paper: bwtree §2 (its reference 3 is ART: Search)

use crossbeam_epoch as epoch;

use super::ArtTree;
use super::descend::Reached;
use super::prefix_compare::ArtKey;
use crate::shared::scan::Target;
use crate::{IndexError, Lookup};

impl<K: ArtKey> ArtTree<K> {
    #[inline]
    pub(super) fn get_key(&self, key: &[u8]) -> Result<Lookup, IndexError> {
        let key = K::parse(key)?;
        let guard = &epoch::pin();
        let mut turn = 0;
        loop {
            let reached = self.try_leaf(Target::At(key), &mut (), guard);
            if let Some(lookup) = reached.and_then(|reached| Self::look(&reached, key)) {
                return Ok(lookup);
            }
            self.restart(&mut turn);
        }
    }

    /// The answer of a leaf about a key. `None`: the leaf has changed.
    #[inline]
    pub(super) fn look(reached: &Reached<'_, K>, key: K::Ref<'_>) -> Option<Lookup> {
        let leaf = reached.leaf;
        let lookup = match leaf.find(key) {
            Some((_, payload)) => Lookup::Found(payload),
            None => Lookup::Missing(leaf.mark().version()),
        };
        leaf.lock().check(reached.version).then_some(lookup)
    }
}
