//! The result of a run, and its checks.

use std::collections::BTreeMap;

use namiki::{Error, Session, Stamp};

use super::attempt::{Seen, instant};
use super::own_write_effect::Own;
use super::{Attempt, Numbers};
use crate::history::{History, Promise, Proof, Transaction, Violation, check, require};
use crate::key_encoding::Numbered;

/// All committed attempts of a run.
#[derive(Debug, Default)]
pub struct Run {
    /// For the checker.
    pub history: History,
    /// The effect of each version, by key and stamp.
    written: BTreeMap<(u64, u64), Own>,
    seen: Vec<(u64, Seen)>,
    /// Violated rules of stamps.
    broken: Vec<String>,
    /// Attempts that committed.
    pub committed: u64,
    /// Attempts that ended in a conflict.
    pub conflicts: u64,
}

impl Run {
    /// A run that begins with the current contents of the table.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn beginning_with<K: Numbered>(
        session: &mut Session,
        table: &Numbers<K>,
    ) -> Result<Self, Error> {
        let (versions, values) =
            session.transact(|tx| Ok((tx.versions(table, ..)?, tx.scan(table, ..)?)))?;
        let values = by_number(values);
        let mut run = Self::default();
        for (bytes, version) in versions {
            let key = K::number(&bytes);
            let name = run.history.key(1, &key.to_be_bytes());
            run.history.push_initial(name, version.stamp.0);
            let value = values.get(&key).copied();
            run.written
                .insert((key, version.stamp.0), Own::Value(value));
        }
        Ok(run)
    }

    /// Records a committed attempt.
    pub fn committed(&mut self, attempt: Attempt, stamp: Stamp) {
        let Attempt {
            id,
            seen,
            own,
            began,
            ..
        } = attempt;
        let mut transaction = Transaction::new(id, stamp.0).during(began, instant());
        for seen in seen {
            let key = self.history.key(1, &seen.key.to_be_bytes());
            transaction.reads.push((key, seen.stamp));
            if seen.stamp > stamp.0 || seen.stamp == stamp.0 && own.contains_key(&seen.key) {
                self.broken.push(format!(
                    "T{id} has stamp {} and read version {} of {}",
                    stamp.0, seen.stamp, seen.key
                ));
            }
            self.seen.push((id, seen));
        }
        for (key, own) in own {
            let name = self.history.key(1, &key.to_be_bytes());
            transaction.writes.push(name);
            self.written.insert((key, stamp.0), own);
        }
        self.history.push(transaction);
        self.committed += 1;
    }

    /// Merges the records of another thread.
    pub fn absorb(&mut self, other: Self) {
        self.history.absorb(other.history);
        self.written.extend(other.written);
        self.seen.extend(other.seen);
        self.broken.extend(other.broken);
        self.committed += other.committed;
        self.conflicts += other.conflicts;
    }

    /// The value of each version, by key and stamp; `None` for a deletion.
    fn values(&self) -> BTreeMap<(u64, u64), Option<u64>> {
        let mut before = None;
        let value = |(&(key, stamp), own): (&(u64, u64), &Own)| {
            let below = before.take_if(|(of, _)| *of == key);
            let value = own.on(below.and_then(|(_, value)| value));
            before = Some((key, value));
            ((key, stamp), value)
        };
        self.written.iter().map(value).collect()
    }

    /// The contents that the last versions imply.
    #[must_use]
    pub fn contents(&self) -> BTreeMap<u64, u64> {
        // The last version of a key comes after those before it.
        let last: BTreeMap<u64, Option<u64>> = self
            .values()
            .into_iter()
            .map(|((key, _), value)| (key, value))
            .collect();
        let present = |(key, value): (u64, Option<u64>)| Some((key, value?));
        last.into_iter().filter_map(present).collect()
    }

    /// Checks the history for cycles.
    ///
    /// # Errors
    /// The shortest cycle.
    pub fn check(&self, promise: Promise) -> Result<Proof, Violation> {
        check(&self.history, promise)
    }

    /// Checks that values belong to their versions, that stamps follow their rules, and that
    /// `contents` are the last versions.
    ///
    /// # Errors
    /// The first mismatch.
    pub fn check_contents(&self, contents: &BTreeMap<u64, u64>) -> Result<(), String> {
        if let Some(broken) = self.broken.first() {
            return Err(broken.clone());
        }
        let values = self.values();
        for (id, seen) in &self.seen {
            let written = match seen.stamp {
                0 => None,
                stamp => *values
                    .get(&(seen.key, stamp))
                    .ok_or_else(|| format!("T{id} saw {seen:?}, which was never written"))?,
            };
            if written != seen.value || written.is_some() != seen.present {
                return Err(format!("T{id} saw {seen:?}, but {written:?} was written"));
            }
        }
        let expected = self.contents();
        if &expected != contents {
            return Err(format!(
                "the last versions make {expected:?}, but there is {contents:?}"
            ));
        }
        Ok(())
    }

    /// Runs all checks above, with the table's contents read by one transaction.
    ///
    /// # Panics
    /// With the mismatch, `context`, and the place of the saved history if that is wrong.
    pub fn assert_right(
        &self,
        table: &Numbers<impl Numbered>,
        session: &mut Session,
        promise: Promise,
        context: &str,
    ) -> Proof {
        let contents =
            contents(session, table).unwrap_or_else(|error| panic!("{context}: {error}"));
        let proof = require(&self.history, promise, context);
        if let Err(wrong) = self.check_contents(&contents) {
            panic!("{context}: {wrong}");
        }
        proof
    }
}

/// The current contents of the table.
///
/// # Errors
/// Those of the engine.
pub fn contents(
    session: &mut Session,
    table: &Numbers<impl Numbered>,
) -> Result<BTreeMap<u64, u64>, Error> {
    session.transact(|tx| tx.scan(table, ..)).map(by_number)
}

fn by_number(rows: Vec<(impl Numbered, u64)>) -> BTreeMap<u64, u64> {
    let named = rows.into_iter().map(|(key, value)| (key.into(), value));
    named.collect()
}
