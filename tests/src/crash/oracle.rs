//! The effects of transactions, and the states that a database may have after a crash.

use std::collections::{BTreeMap, BTreeSet};

use namiki::{Database, Error, Session, Table, Transaction, Value};

use super::backups::Backups;
use super::checkpoints::Checkpoints;
use super::error_text::with_sources;
use super::shown_views::ShownView;
use super::tables::{KEYS, Tables, rows};
use crate::key_encoding::Numbered;

/// The transactions that a recovery kept.
pub type Kept = BTreeSet<u64>;

/// The effects of one transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// `None` if the outcome of the commit is unknown.
    pub(super) stamp: Option<u64>,
    /// The versions that it read: key and stamp.
    pub(super) reads: Vec<(u64, u64)>,
    /// A value for each key, or a deletion.
    pub(super) writes: BTreeMap<u64, Option<Vec<u8>>>,
    /// Released by epochs: it may be kept without the versions that it overwrote unread.
    pub(super) by_epochs: bool,
    /// The table created during the run into which it also wrote.
    pub(super) extra: Option<u64>,
}

/// All transactions that committed, or may have.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    done: BTreeMap<u64, Done>,
    /// The errors of the transactions refused because the disk was full. None of their writes may be
    /// there.
    refusals: Vec<Error>,
    /// The data that views have shown, by their marks.
    shown: BTreeMap<u64, ShownView>,
    /// The checkpoints of the run.
    pub(super) checkpoints: Checkpoints,
    /// The backups.
    pub(super) backups: Backups,
}

/// The writers of each key, by stamp.
type Versions = BTreeMap<u64, BTreeMap<u64, u64>>;

/// The contents of a database.
struct Found {
    data: BTreeMap<u64, Vec<u8>>,
    stamps: BTreeMap<u64, u64>,
    first: BTreeMap<u64, u64>,
    last: BTreeMap<u64, u64>,
    /// Tables created during the run, and the transactions that wrote into them.
    extra: BTreeSet<(u64, u64)>,
}

impl Oracle {
    pub(super) fn push(&mut self, id: u64, done: Done) {
        self.done.insert(id, done);
    }

    /// The stamp of a transaction that wrote.
    pub(super) fn stamp_of_writer(&self, id: u64) -> Option<u64> {
        let done = self.done.get(&id)?;
        done.stamp.filter(|_| !done.writes.is_empty())
    }

    pub(super) fn refuse(&mut self, error: Error) {
        self.refusals.push(error);
    }

    pub(super) fn absorb(&mut self, other: Self) {
        self.done.extend(other.done);
        self.refusals.extend(other.refusals);
        self.shown.extend(other.shown);
        self.checkpoints += other.checkpoints;
        self.backups += other.backups;
    }

    /// Number of transactions refused because the disk was full.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refusals.len() as u64
    }

    /// Fails if a transaction was refused on a disk with room.
    pub(super) fn check_none_refused(&self) -> Result<(), String> {
        self.refusals.first().map_or(Ok(()), |error| {
            let why = with_sources(error);
            Err(format!("a disk with room has refused commits: {why}"))
        })
    }

    /// Fails if a checkpoint or a backup has failed on a disk without faults.
    pub(super) fn check_nothing_failed(&self) -> Result<(), String> {
        if let Some(error) = self.backups.failure() {
            return Err(format!("a backup has failed: {error:?}"));
        }
        let mut failures = self.checkpoints.failures.iter();
        failures.next().map_or(Ok(()), |error| {
            Err(format!("a checkpoint has failed: {error:?}"))
        })
    }

    /// Number of transactions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Whether the oracle has no transactions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Forgets lost writers, so that they would be unknown if they reappeared, and everything that
    /// belongs to the run only.
    pub(super) fn retain(&mut self, kept: &Kept, stamps: &BTreeMap<u64, u64>) {
        self.shown.clear();
        self.checkpoints = Checkpoints::default();
        self.backups = Backups::default();
        self.done
            .retain(|id, done| kept.contains(id) || done.writes.is_empty());
        for (id, done) in &mut self.done {
            done.stamp = done.stamp.or_else(|| stamps.get(id).copied());
            // The versions that these readers saw have been checked.
            if done.writes.is_empty() {
                done.reads.clear();
            }
        }
    }

    /// Compares a database with the states that it may have after a crash, given the transactions
    /// in `acknowledged`.
    ///
    /// # Errors
    /// The first mismatch.
    pub(super) fn verify<K: Numbered>(
        &self,
        db: &Database,
        tables: &Tables<K>,
        acknowledged: &[u64],
    ) -> Result<(Kept, BTreeMap<u64, u64>), String> {
        let mut session = db.session().map_err(|error| error.to_string())?;
        let ids: Vec<u64> = self.done.keys().copied().collect();
        let found = Found::read(db, &mut session, tables, &ids)
            .map_err(|error| format!("reading: {error}"))?;
        if found.first != found.last {
            return Err(format!(
                "partial transactions: first markers {:?}, last markers {:?}",
                found.first, found.last
            ));
        }
        let kept: Kept = found.first.keys().copied().collect();
        let extra = |id: &u64| Some((self.done.get(id)?.extra?, *id));
        let extra: BTreeSet<_> = kept.iter().filter_map(extra).collect();
        if extra != found.extra {
            return Err(format!(
                "tables made during the run should hold {extra:?}, but hold {:?}",
                found.extra
            ));
        }
        let stamps = self.check_kept(&kept, &found)?;
        self.check_acknowledged(acknowledged, &kept)?;
        let versions = self.versions(&stamps);
        self.check_closed(&kept, &versions)?;
        self.check_data(&kept, &versions, &found)?;
        Ok((kept, stamps))
    }

    /// Returns the stamps of all kept transactions, including those of unknown outcome.
    fn check_kept(&self, kept: &Kept, found: &Found) -> Result<BTreeMap<u64, u64>, String> {
        let mut stamps = BTreeMap::new();
        for (id, done) in &self.done {
            stamps.extend(done.stamp.map(|stamp| (*id, stamp)));
        }
        for id in kept {
            let done = self
                .done
                .get(id)
                .ok_or_else(|| format!("T{id} is there and must not be"))?;
            if found.first[id] != done.writes.len() as u64 {
                return Err(format!("T{id} has the marker {}", found.first[id]));
            }
            let stamp = found.stamps[id];
            if done.stamp.is_some_and(|known| known != stamp) {
                return Err(format!(
                    "T{id} committed at {:?} and came back with {stamp}",
                    done.stamp
                ));
            }
            stamps.insert(*id, stamp);
        }
        Ok(stamps)
    }

    fn check_acknowledged(&self, acknowledged: &[u64], kept: &Kept) -> Result<(), String> {
        for id in acknowledged {
            let done = self.done.get(id);
            let writes = done.is_some_and(|done| !done.writes.is_empty());
            if writes && !kept.contains(id) {
                return Err(format!("T{id} was acknowledged and is lost"));
            }
        }
        // Readers leave no trace of their own: the versions they saw have to be there.
        let versions = self.versions(&self.known_stamps());
        for id in acknowledged {
            let Some(done) = self.done.get(id) else {
                self.check_kept_as_shown(*id, kept, &versions)?;
                continue;
            };
            if done.writes.is_empty() {
                self.check_reads(*id, done, kept, &versions)?;
            }
        }
        Ok(())
    }

    /// Records the data that a view has shown after transaction `id`, and returns its mark.
    pub(super) fn show(&mut self, id: u64, shown: ShownView) -> u64 {
        self.shown.insert(ShownView::mark(id), shown);
        ShownView::mark(id)
    }

    /// Compares the data shown by views with the transactions replayed up to their stamps. Returns
    /// the number of views.
    pub(super) fn check_shown(&self) -> Result<u64, String> {
        for shown in self.shown.values() {
            let same = self.check_is_state_at(shown);
            same.map_err(|wrong| format!("a view at {}: {wrong}", shown.stamp))?;
        }
        Ok(self.shown.len() as u64)
    }

    /// Compares data with the transactions replayed up to a stamp.
    pub(super) fn check_is_state_at(&self, shown: &ShownView) -> Result<(), String> {
        let versions = self.versions(&self.known_stamps());
        let is_below = |stamp, _| stamp <= shown.stamp.0;
        self.check_is_state(&shown.data, &versions, is_below)
    }

    /// If the mark is that of a view, checks that everything the view has shown is kept.
    fn check_kept_as_shown(
        &self,
        mark: u64,
        kept: &Kept,
        versions: &Versions,
    ) -> Result<(), String> {
        let Some(shown) = self.shown.get(&mark) else {
            return Ok(());
        };
        let below = versions
            .values()
            .flat_map(|writers| writers.range(..=shown.stamp.0));
        let mut lost = below.filter(|(_, id)| !kept.contains(id));
        lost.next().map_or(Ok(()), |(_, id)| {
            Err(format!(
                "T{id} is lost, and a view at {} was shown",
                shown.stamp
            ))
        })
    }

    fn known_stamps(&self) -> BTreeMap<u64, u64> {
        let known = |(id, done): (&u64, &Done)| done.stamp.map(|stamp| (*id, stamp));
        self.done.iter().filter_map(known).collect()
    }

    fn versions(&self, stamps: &BTreeMap<u64, u64>) -> Versions {
        let mut versions = Versions::new();
        for (id, done) in &self.done {
            let Some(stamp) = stamps.get(id) else {
                continue;
            };
            for key in done.writes.keys() {
                versions.entry(*key).or_default().insert(*stamp, *id);
            }
        }
        versions
    }

    fn check_reads(
        &self,
        id: u64,
        done: &Done,
        kept: &Kept,
        versions: &Versions,
    ) -> Result<(), String> {
        for (key, stamp) in &done.reads {
            if *stamp == 0 {
                continue;
            }
            let writer = versions
                .get(key)
                .and_then(|versions| versions.get(stamp))
                .ok_or_else(|| {
                    format!("T{id} read version {stamp} of {key}, which was never written")
                })?;
            if !kept.contains(writer) {
                return Err(format!(
                    "T{id} is kept or acknowledged, but T{writer}, the writer of {key} that it read, is lost"
                ));
            }
        }
        Ok(())
    }

    fn check_closed(&self, kept: &Kept, versions: &Versions) -> Result<(), String> {
        for id in kept {
            self.check_reads(*id, &self.done[id], kept, versions)?;
        }
        for (key, versions) in versions {
            let mut lost = None;
            for id in versions.values() {
                match (kept.contains(id), lost) {
                    (false, _) => lost = Some(*id),
                    (true, Some(lost)) if !self.done[id].by_epochs => {
                        return Err(format!(
                            "T{id} is kept, but T{lost}, the writer of {key} that it overwrote, is lost"
                        ));
                    }
                    (true, _) => {}
                }
            }
        }
        Ok(())
    }

    fn check_data(&self, kept: &Kept, versions: &Versions, found: &Found) -> Result<(), String> {
        self.check_is_state(&found.data, versions, |_, id| kept.contains(&id))
    }

    /// Compares data with the last versions among those that count, by their stamps and writers.
    fn check_is_state(
        &self,
        data: &BTreeMap<u64, Vec<u8>>,
        versions: &Versions,
        counts: impl Fn(u64, u64) -> bool,
    ) -> Result<(), String> {
        let mut expected = BTreeMap::new();
        for (key, versions) in versions {
            let last = versions
                .iter()
                .rev()
                .find(|(stamp, id)| counts(**stamp, **id));
            if let Some((_, id)) = last
                && let Some(value) = &self.done[id].writes[key]
            {
                expected.insert(*key, value);
            }
        }
        let same = expected.len() == data.len()
            && expected
                .iter()
                .all(|(key, value)| data.get(key) == Some(value));
        if same {
            return Ok(());
        }
        let writer = |bytes: &[u8]| bytes.first_chunk().map(|id| u64::from_le_bytes(*id));
        let expected: BTreeMap<_, _> = expected.iter().map(|(k, v)| (k, writer(v))).collect();
        let data: BTreeMap<_, _> = data.iter().map(|(k, v)| (k, writer(v))).collect();
        Err(format!(
            "the last writers should be {expected:?}, but are {data:?}"
        ))
    }
}

impl Found {
    /// Reads all rows; from a table that cannot be scanned, the rows of transactions `ids`.
    fn read<K: Numbered>(
        db: &Database,
        session: &mut Session,
        tables: &Tables<K>,
        ids: &[u64],
    ) -> Result<Self, Error> {
        let keys: Vec<u64> = (0..KEYS).collect();
        let mut extras = Vec::new();
        for name in db.tables() {
            let number = name.strip_prefix("extra ").and_then(|n| n.parse().ok());
            if let Some(number) = number {
                extras.push((number, db.table::<K, ()>(&name)?));
            }
        }
        session.transact(|tx| {
            let mut extra = BTreeSet::new();
            for (number, table) in &extras {
                let rows = rows_in(tx, table, ids)?;
                extra.extend(rows.into_keys().map(|id| (*number, id)));
            }
            let first = rows_in(tx, &tables.first, ids)?;
            let mut stamps = BTreeMap::new();
            for id in first.keys() {
                let version = tx.version(&tables.first, &K::from(*id))?;
                stamps.insert(*id, version.stamp.0);
            }
            Ok(Self {
                extra,
                data: rows_in(tx, &tables.data, &keys)?,
                stamps,
                first,
                last: rows_in(tx, &tables.last, ids)?,
            })
        })
    }
}

/// The rows of a table for a transaction; if it cannot be scanned, those of the given keys.
fn rows_in<K: Numbered, V: Value + ?Sized>(
    tx: &mut Transaction,
    table: &Table<K, V>,
    keys: &[u64],
) -> Result<BTreeMap<u64, V::Owned>, Error> {
    let scanned = tx.scan(table, ..);
    rows(scanned, keys, |key| tx.get(table, key))
}
