//! A model of a table for tests: a map, with the stamps of all its changes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use namiki_platform::Stamp;
use namiki_platform::seeded_random::Random;

use crate::error::Error;
use crate::image::write::rows_at_stamp::{KeyBounds, RowsAtStamp, VisitRow};

/// Its rows with their stamps; keys without a value were deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelTable {
    versions: BTreeMap<Vec<u8>, (Option<Vec<u8>>, Stamp)>,
}

impl ModelTable {
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8], stamp: Stamp) {
        self.versions
            .insert(key.to_vec(), (Some(value.to_vec()), stamp));
    }

    pub(crate) fn delete(&mut self, key: &[u8], stamp: Stamp) {
        self.versions.insert(key.to_vec(), (None, stamp));
    }

    /// The rows that are there.
    pub(crate) fn rows(&self) -> BTreeMap<Vec<u8>, (Vec<u8>, Stamp)> {
        let rows = self
            .versions
            .iter()
            .filter_map(|(key, (value, stamp))| Some((key.clone(), (value.clone()?, *stamp))));
        rows.collect()
    }

    /// All keys that are there, or were.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.versions.keys().cloned().collect()
    }

    /// A key that is there, or was.
    pub(crate) fn any_key(&self, random: &mut Random) -> Option<Vec<u8>> {
        let keys = self.versions.len();
        let mut keys = (keys > 0).then(|| self.versions.keys().skip(random.index(keys)))?;
        keys.next().cloned()
    }
}

impl RowsAtStamp for &ModelTable {
    fn visit(&mut self, bounds: KeyBounds<'_>, visit: &mut VisitRow<'_>) -> Result<(), Error> {
        for (key, (value, stamp)) in self.versions.range::<[u8], _>(bounds) {
            if let Some(value) = value
                && visit(key, value, *stamp) == ControlFlow::Break(())
            {
                break;
            }
        }
        Ok(())
    }

    fn changed_since(&mut self, bounds: KeyBounds<'_>, since: Stamp) -> Result<bool, Error> {
        let mut versions = self.versions.range::<[u8], _>(bounds);
        Ok(versions.any(|(_, (_, stamp))| *stamp > since))
    }
}
