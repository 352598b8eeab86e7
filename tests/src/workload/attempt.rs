//! One attempt at a transaction, and the versions it saw.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki::{Direction, Error, Stamp, Transaction, Version};
use namiki_platform::seeded_random::Random;

use super::own_write_effect::{Own, below};
use super::{Numbers, Step};
use crate::key_encoding::Numbered;

/// Returns a larger instant than all earlier calls: a transaction that ended before another one
/// began has smaller instants.
pub(super) fn instant() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

/// A version and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) key: u64,
    pub(super) stamp: u64,
    pub(super) present: bool,
    pub(super) value: Option<u64>,
}

/// One attempt at a transaction, which may still fail.
#[derive(Debug)]
pub struct Attempt {
    pub(super) id: u64,
    pub(super) seen: Vec<Seen>,
    /// Its pending writes.
    pub(super) own: BTreeMap<u64, Own>,
    values: u64,
    pub(super) began: u64,
}

impl Attempt {
    /// Begins an attempt without steps. Ids are below 2⁴⁸ and distinct.
    #[must_use]
    pub fn new(id: u64) -> Self {
        Self {
            began: instant(),
            id,
            seen: Vec::new(),
            own: BTreeMap::new(),
            values: 0,
        }
    }

    /// A value that no other transaction writes.
    fn value(&mut self) -> u64 {
        self.values += 1;
        self.id << 16 | self.values
    }

    /// Does one step.
    ///
    /// # Errors
    /// Those of the engine; conflicts among them.
    ///
    /// # Panics
    /// If the transaction does not see its own writes.
    pub fn step<K: Numbered>(
        &mut self,
        tx: &mut Transaction,
        table: &Numbers<K>,
        step: Step,
        random: &mut Random,
    ) -> Result<(), Error> {
        match step {
            Step::Read(key) => self.read(tx, table, key, random).map(drop),
            Step::Put(key) => {
                let value = self.value();
                tx.put(table, &K::from(key), &value)?;
                self.own.insert(key, Own::Value(Some(value)));
                Ok(())
            }
            Step::Add(key) => {
                let amount = self.value();
                tx.add(table, &K::from(key), amount)?;
                let own = match self.own.get(&key) {
                    Some(own) => own.plus(amount),
                    None => Own::Added(amount),
                };
                self.own.insert(key, own);
                Ok(())
            }
            Step::Update(key) => {
                let before = self.read(tx, table, key, random)?;
                let value = self.value();
                let mut old = None;
                let updated = tx.update(table, &K::from(key), |found| {
                    old = Some(found);
                    value
                })?;
                assert_eq!(updated, old.is_some(), "an update tells what it did");
                if self.own.contains_key(&key) {
                    assert_eq!(old, before, "an update sees its transaction's own write");
                }
                // Another transaction's value may have changed in between; then the commit will
                // fail.
                if updated {
                    self.own.insert(key, Own::Value(Some(value)));
                }
                Ok(())
            }
            Step::UpdateMany { from, count } => {
                if random.chance(0.3) {
                    tx.prefetch(table, (from..from + count).map(K::from));
                }
                self.update_many(tx, table, from, count)
            }
            Step::Insert(key) => self.insert(tx, table, key, random),
            Step::Delete(key) => {
                let before = self.read(tx, table, key, random)?;
                let deleted = tx.delete(table, &K::from(key))?;
                if self.own.contains_key(&key) {
                    assert_eq!(deleted, before.is_some(), "a deletion sees its own writes");
                }
                if deleted {
                    self.own.insert(key, Own::Value(None));
                }
                Ok(())
            }
            Step::Scan {
                from,
                to,
                backward,
                limit,
            } => self.scan(tx, table, from, to, backward, limit),
            Step::WriteAndRollBack(key) => {
                let savepoint = tx.savepoint();
                if random.chance(0.5) {
                    tx.put(table, &K::from(key), &u64::MAX)?;
                } else {
                    tx.add(table, &K::from(key), 1)?;
                }
                tx.rollback_to(&savepoint)?;
                self.read(tx, table, key, random).map(drop)
            }
        }
    }

    /// Reads a key, and records the version unless it is the transaction's own. For a key that the
    /// transaction has added to, records the version below.
    fn read<K: Numbered>(
        &mut self,
        tx: &mut Transaction,
        table: &Numbers<K>,
        key: u64,
        random: &mut Random,
    ) -> Result<Option<u64>, Error> {
        if let Some(Own::Value(own)) = self.own.get(&key) {
            let value = tx.get(table, &K::from(key))?;
            assert_eq!(value, *own, "a transaction sees its own write of {key}");
            return Ok(value);
        }
        let (version, value) = if random.chance(0.5) {
            let value = tx.get(table, &K::from(key))?;
            (tx.version(table, &K::from(key))?, value)
        } else {
            (
                tx.version(table, &K::from(key))?,
                tx.get(table, &K::from(key))?,
            )
        };
        self.saw(key, version, value);
        Ok(value)
    }

    /// Records a version and the value that the transaction finds there. If it has added to the
    /// key, the value is the sum from now on.
    fn saw(&mut self, key: u64, version: Version, found: Option<u64>) {
        let value = match self.own.get(&key) {
            Some(&Own::Added(amount)) => {
                self.own.insert(key, Own::Value(found));
                below(found, amount, version.present)
            }
            _ => found,
        };
        self.seen.push(Seen {
            key,
            stamp: version.stamp.0,
            present: version.present,
            value,
        });
    }

    /// Records the versions only afterwards: they are those below its own writes.
    fn update_many<K: Numbered>(
        &mut self,
        tx: &mut Transaction,
        table: &Numbers<K>,
        from: u64,
        count: u64,
    ) -> Result<(), Error> {
        let keys: Vec<u64> = (from..from + count).chain([from]).collect();
        let mut found = BTreeMap::new();
        let mut written = self.own.clone();
        let mut calls = 0;
        let spelt = keys.iter().map(|key| K::from(*key));
        let updated = tx.update_many(table, spelt, |at, old| {
            let value = self.value();
            let key = keys[at];
            let known = written.insert(key, Own::Value(Some(value)));
            if let Some(Own::Value(known)) = known {
                assert_eq!(Some(old), known, "an update sees its own write of {key}");
            }
            found.entry(key).or_insert(old);
            calls += 1;
            value
        })?;
        assert_eq!(updated, calls, "an update tells what it did");
        for key in from..from + count {
            if !matches!(self.own.get(&key), Some(Own::Value(_))) {
                let version = tx.version(table, &K::from(key))?;
                self.saw(key, version, found.get(&key).copied());
            }
        }
        self.own = written;
        Ok(())
    }

    fn insert<K: Numbered>(
        &mut self,
        tx: &mut Transaction,
        table: &Numbers<K>,
        key: u64,
        random: &mut Random,
    ) -> Result<(), Error> {
        // Sometimes the gap is read first; sometimes the insertion is the first access.
        let looked = random.chance(0.5);
        if looked {
            self.read(tx, table, key, random)?;
        }
        let value = self.value();
        let inserted = match tx.insert(table, &K::from(key), &value) {
            Ok(()) => true,
            Err(Error::Duplicate { .. }) => false,
            Err(error) => return Err(error),
        };
        let own = self.own.get(&key);
        if let Some(own) = own {
            assert_eq!(
                inserted,
                !own.is_present(),
                "an insertion sees its own writes"
            );
        }
        // Below its own write, if it was one.
        match own {
            Some(Own::Value(_)) => {}
            None if looked => {}
            None if inserted => {
                let version = tx.version(table, &K::from(key))?;
                self.saw(key, version, None);
            }
            None | Some(Own::Added(_)) => self.read(tx, table, key, random).map(drop)?,
        }
        if inserted {
            self.own.insert(key, Own::Value(Some(value)));
        }
        Ok(())
    }

    fn scan<K: Numbered>(
        &mut self,
        tx: &mut Transaction,
        table: &Numbers<K>,
        from: u64,
        to: u64,
        backward: bool,
        limit: usize,
    ) -> Result<(), Error> {
        let direction = if backward {
            Direction::Backward
        } else {
            Direction::Forward
        };
        let spelt = |from, to| K::from(from)..=K::from(to);
        let mut found: Vec<(u64, u64)> = Vec::new();
        tx.scan_with(table, spelt(from, to), direction, |key, value| {
            found.push((key.into(), value));
            if found.len() < limit {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        let ordered = found.is_sorted_by(|a, b| if backward { a.0 > b.0 } else { a.0 < b.0 });
        assert!(ordered, "a scan is in order: {found:?}");
        // A scan that stopped early covers only the range up to its last key.
        let (from, to) = match found.last() {
            Some(&(last, _)) if found.len() >= limit && backward => (last, to),
            Some(&(last, _)) if found.len() >= limit => (from, last),
            _ => (from, to),
        };
        let versions: BTreeMap<u64, _> = tx
            .versions(table, spelt(from, to))?
            .into_iter()
            .map(|(key, version)| (K::number(&key), version))
            .collect();
        let found: BTreeMap<u64, u64> = found.into_iter().collect();
        for key in from..=to {
            let value = found.get(&key).copied();
            if let Some(Own::Value(own)) = self.own.get(&key) {
                assert_eq!(value, *own, "a scan sees its transaction's own {key}");
                continue;
            }
            // For a key that is not in the index, or has no version, `version` returns the deletion
            // before it.
            let version = match versions.get(&key) {
                Some(version) if version.stamp > Stamp(0) => *version,
                _ => tx.version(table, &K::from(key))?,
            };
            self.saw(key, version, value);
        }
        Ok(())
    }
}
