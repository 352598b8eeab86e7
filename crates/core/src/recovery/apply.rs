//! Replaying commits into the tables.
//!
//! Changes of one frame are looked up together, so that their cache misses overlap; a log that comes
//! in at a gigabyte a second brings changes faster than a table can be searched for one after the
//! other.

use std::sync::Arc;

use namiki_platform::{Generation, Stamp};
use smallvec::SmallVec;

use super::latest::Latest;
use crate::cc::TicToc;
use crate::codec::{Change, Changes};
use crate::error::OpenError;
use crate::space::{Loaded, Space, TableId};

/// The tables that are filled.
pub(super) struct Tables<'a> {
    tables: Vec<Latest<'a>>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(spaces: &'a [Arc<Space>]) -> Self {
        Self {
            tables: spaces.iter().map(|space| Latest::new(space)).collect(),
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
        let mut run = SmallVec::<[Loaded<'c>; 32]>::new();
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
        let found = self.tables.get(table as usize);
        let found = found.ok_or_else(|| format!("it changes table {table}, which there is not"))?;
        let loaded = found.load::<TicToc>(run);
        loaded.map_err(|error| error.to_string())
    }

    /// Builds the tables' trees once all is replayed, without the keys that were deleted.
    pub(super) fn finish(
        self,
        threads: usize,
        watch: impl Fn() -> Result<(), OpenError> + Sync,
    ) -> Result<(), OpenError> {
        for table in self.tables {
            table.build(threads, &watch)?;
        }
        Ok(())
    }
}
