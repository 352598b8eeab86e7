//! Replaying commits into the tables.
//!
//! Changes of one frame are looked up together, so that their cache misses overlap; a log that is
//! read at a gigabyte a second has more changes than single look-ups could find records for.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use namiki_platform::{Generation, Stamp};
use smallvec::SmallVec;

use super::log_winners::LogWinners;
use super::replay_hash_table::Latest;
use crate::catalogue::table_journal::unknown_table;
use crate::concurrency::cc::with_protocol;
use crate::error::OpenError;
use crate::protocol_spec::ConcurrencyControl;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{Loaded, RawTable, TableId};
use crate::wal_format::commit_changes::{Change, Changes};

/// The tables that are filled.
pub(in crate::recovery) struct Tables<'a> {
    /// By their numbers; `None` for one that was dropped.
    replayed: Vec<Option<Replayed<'a>>>,
    /// The concurrency control that gives the records their words.
    concurrency: ConcurrencyControl,
}

struct Replayed<'a> {
    raw_table: &'a RawTable,
    /// Created at the log's first change of the table.
    latest: OnceLock<Latest<'a>>,
}

impl<'a> Tables<'a> {
    /// These, and dropped tables for all other numbers before `next_table`.
    pub(in crate::recovery) fn new(
        raw_tables: &'a BTreeMap<TableId, Arc<RawTable>>,
        next_table: TableId,
        concurrency: ConcurrencyControl,
    ) -> Self {
        let replayed = (0..next_table.0).map(|id| {
            let raw_table = raw_tables.get(&TableId(id))?;
            let latest = OnceLock::new();
            Some(Replayed { raw_table, latest })
        });
        Self {
            replayed: replayed.collect(),
            concurrency,
        }
    }

    /// Installs the version of each key that the commits change, unless it has a newer one.
    pub(in crate::recovery) fn apply<'c>(
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
                    self.load(of, &run)
                        .map_err(|(stamp, why)| undecodable(stamp, why))?;
                    run.clear();
                    of = table;
                }
                run.push(Loaded { key, value, stamp });
            }
        }
        self.load(of, &run)
            .map_err(|(stamp, why)| undecodable(stamp, why))
    }

    /// The record of a key, created if it does not exist; `None` if its table was dropped; or the
    /// reason why it cannot have one.
    pub(in crate::recovery) fn record(
        &self,
        table: TableId,
        key: &[u8],
    ) -> Result<Option<RecordRef>, String> {
        let Some(latest) = self.latest(table)? else {
            return Ok(None);
        };
        let record = with_protocol!(self.concurrency, P => latest.record::<P>(key));
        record.map(Some).map_err(|error| error.to_string())
    }

    /// Sets a record's value, whatever its version.
    pub(in crate::recovery) fn overwrite(&self, record: RecordRef, value: Option<&[u8]>) {
        with_protocol!(self.concurrency, P => RawTable::overwrite::<P>(record, value));
    }

    /// Marks a record's present value as the version of `stamp`.
    pub(in crate::recovery) fn stamp(&self, record: RecordRef, stamp: Stamp) {
        with_protocol!(self.concurrency, P => RawTable::stamp::<P>(record, stamp));
    }

    /// Changes of a dropped table are skipped.
    fn latest(&self, table: TableId) -> Result<Option<&Latest<'a>>, String> {
        match self.replayed.get(table.0 as usize) {
            Some(Some(Replayed { raw_table, latest })) => {
                Ok(Some(latest.get_or_init(|| Latest::new(raw_table))))
            }
            Some(None) => Ok(None),
            None => Err(format!("it changes {}", unknown_table(table))),
        }
    }

    /// Loads versions of one table; or returns the one that cannot be loaded, and the reason.
    pub(in crate::recovery) fn load(
        &self,
        table: TableId,
        run: &[Loaded<'_>],
    ) -> Result<(), (Stamp, String)> {
        let Some(first) = run.first() else {
            return Ok(());
        };
        let Some(latest) = self.latest(table).map_err(|why| (first.stamp, why))? else {
            return Ok(());
        };
        let loaded = with_protocol!(self.concurrency, P => latest.load::<P>(run));
        loaded.map_err(|(stamp, error)| (stamp, error.to_string()))
    }

    /// Builds the tables' trees once all is replayed, without the keys that were deleted.
    pub(in crate::recovery) fn finish(
        self,
        threads: usize,
        watch: impl Fn() -> Result<(), OpenError> + Sync,
    ) -> Result<(), OpenError> {
        let replayed = self.replayed.into_iter().flatten();
        for latest in replayed.filter_map(|it| it.latest.into_inner()) {
            latest.build(threads, &watch)?;
        }
        Ok(())
    }

    /// Sorts what was replayed, to be put into the tables' trees together with the rows of an image.
    pub(in crate::recovery) fn into_winners(
        self,
        threads: usize,
        watch: impl Fn() -> Result<(), OpenError> + Sync,
    ) -> Result<BTreeMap<TableId, LogWinners>, OpenError> {
        let mut winners = BTreeMap::new();
        for Replayed { raw_table, latest } in self.replayed.into_iter().flatten() {
            if let Some(latest) = latest.into_inner() {
                winners.insert(raw_table.id, latest.into_winners(threads, &watch)?);
            }
        }
        Ok(winners)
    }
}
