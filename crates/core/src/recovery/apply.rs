//! Replaying commits into the tables.
//!
//! Changes of one frame are looked up together, so that their cache misses overlap; a log that comes
//! in at a gigabyte a second brings changes faster than a table can be searched for one after the
//! other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namiki_platform::{Generation, Stamp};

use crate::cc::TicToc;
use crate::codec::{Change, Changes};
use crate::error::OpenError;
use crate::space::{Loaded, Space, TableId};

/// The tables that are filled.
pub(super) struct Tables<'a> {
    spaces: &'a [Arc<Space>],
    deletes: AtomicBool,
}

impl<'a> Tables<'a> {
    pub(super) fn new(spaces: &'a [Arc<Space>]) -> Self {
        Self {
            spaces,
            deletes: AtomicBool::new(false),
        }
    }

    /// Gives each key that the commits change its version, unless it has a newer one.
    pub(super) fn apply<'c>(
        &self,
        generation: Generation,
        commits: impl IntoIterator<Item = (Stamp, &'c [u8])>,
    ) -> Result<(), OpenError> {
        let undecodable = |stamp, why: String| OpenError::Undecodable {
            generation,
            stamp,
            why,
        };
        // Changes of the same table that follow each other.
        let mut run: Vec<Loaded<'c>> = Vec::new();
        let mut of = TableId(0);
        for (stamp, payload) in commits {
            for change in Changes::new(payload) {
                let Change { table, key, value } =
                    change.map_err(|error| undecodable(stamp, error.to_string()))?;
                if table != of {
                    self.load(of, &run).map_err(|why| undecodable(stamp, why))?;
                    run.clear();
                    of = table;
                }
                if value.is_none() {
                    self.deletes.store(true, Ordering::Relaxed);
                }
                run.push(Loaded { key, value, stamp });
            }
        }
        let last = run.last().map_or(Stamp(0), |change| change.stamp);
        self.load(of, &run).map_err(|why| undecodable(last, why))
    }

    fn load(&self, TableId(table): TableId, run: &[Loaded<'_>]) -> Result<(), String> {
        if run.is_empty() {
            return Ok(());
        }
        let space = self.spaces.get(table as usize);
        let space = space.ok_or_else(|| format!("it changes table {table}, which there is not"))?;
        let loaded = space.load::<TicToc>(run);
        loaded.map_err(|error| error.to_string())
    }

    /// Forgets the keys that were deleted, once all is replayed.
    pub(super) fn finish(&self) {
        if self.deletes.load(Ordering::Relaxed) {
            for space in self.spaces {
                space
                    .unhook_absent()
                    .expect("an index can remove the keys that it holds");
            }
        }
    }
}
