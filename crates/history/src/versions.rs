//! The versions of every key in the order of their stamps, with their writers.

use super::transactions::{History, KeyId, NEVER_WRITTEN, VersionStamp};
use super::violation::{Party, Violation};

/// Written before the recording began, by no transaction of the history.
pub(super) const INITIAL: u32 = u32::MAX;

/// One version: when it was created and the index of its writer (or [`INITIAL`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub(super) stamp: VersionStamp,
    pub(super) writer: u32,
}

/// All versions in one array, grouped by key and rising by stamp within a key.
pub(super) struct Versions {
    all: Vec<Version>,
    /// `all[first[k]..first[k + 1]]` belong to key `k`.
    first: Vec<u32>,
}

impl Versions {
    /// Sorts the written versions.
    ///
    /// # Errors
    /// Two writers of one version, or a writer that committed with the stamp [`NEVER_WRITTEN`].
    pub(super) fn collect(history: &History) -> Result<Self, Violation> {
        let mut written: Vec<(u32, VersionStamp, u32)> = history
            .initial
            .iter()
            .map(|&(key, stamp)| (key.0, stamp, INITIAL))
            .collect();
        for (index, transaction) in history.transactions.iter().enumerate() {
            if transaction.stamp == NEVER_WRITTEN && !transaction.writes.is_empty() {
                return Err(Violation::WroteWithoutStamp {
                    writer: transaction.id,
                });
            }
            let wrote = transaction.writes.iter();
            written.extend(wrote.map(|key| (key.0, transaction.stamp, index as u32)));
        }
        written.sort_unstable();
        // One transaction may write a key several times; only its last value is a version.
        written.dedup();

        let mut first = vec![0; history.names.len() + 1];
        for window in written.windows(2) {
            let [(key, stamp, one), (other_key, other_stamp, other)] = *window else {
                continue;
            };
            if (key, stamp) == (other_key, other_stamp) {
                return Err(Violation::TwoWriters {
                    key: history.key_name(KeyId(key)),
                    stamp,
                    writers: [party(history, one), party(history, other)],
                });
            }
        }
        for (key, _, _) in &written {
            first[*key as usize + 1] += 1;
        }
        for key in 1..first.len() {
            first[key] += first[key - 1];
        }
        let all = written
            .into_iter()
            .map(|(_, stamp, writer)| Version { stamp, writer })
            .collect();
        Ok(Self { all, first })
    }

    /// The versions of one key, oldest first.
    pub(super) fn of(&self, key: KeyId) -> &[Version] {
        let key = key.0 as usize;
        &self.all[self.first[key] as usize..self.first[key + 1] as usize]
    }

    /// Number of versions of `key` that a reader of the one at `stamp` knew of: that one and all
    /// older; none for [`NEVER_WRITTEN`]. So `of(key)[known]`, if it exists, is the version that
    /// overwrote it.
    pub(super) fn known(&self, key: KeyId, stamp: VersionStamp) -> Option<usize> {
        if stamp == NEVER_WRITTEN {
            return Some(0);
        }
        self.of(key)
            .binary_search_by_key(&stamp, |version| version.stamp)
            .ok()
            .map(|at| at + 1)
    }

    /// Total number of versions.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

/// A writer as messages name it.
pub(super) fn party(history: &History, writer: u32) -> Party {
    match history.transactions.get(writer as usize) {
        Some(transaction) => Party::Transaction(transaction.id),
        None => Party::Initial,
    }
}
