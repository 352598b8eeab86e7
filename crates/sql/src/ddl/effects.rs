//! What a transaction's changes of the catalogue leave to be done when it ends.

use std::collections::{HashMap, HashSet};

/// Core tables that were made or are no longer needed.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Made by this transaction: dropped if it does not commit. No committed row names them, so they are filled outside of
    /// the transaction.
    pub(crate) created: HashSet<u64>,
    /// Of those, the rows of tables, and the tables' numbers, as long as it has neither read nor written them: what is
    /// written outside of it then contradicts nothing, and all that there is is committed.
    pub(crate) untouched: HashMap<u64, u32>,
    /// Not named any more once it has committed.
    pub(crate) obsolete: Vec<u64>,
    /// Made, and given up by ROLLBACK TO SAVEPOINT: not named, however it ends.
    pub(crate) given_up: Vec<u64>,
    /// Sequences: their reserved numbers are void once it has committed.
    pub(crate) sequences: Vec<u32>,
    /// Sequences that it has made, with the first number that it has not reserved; `None` if it has reserved none.
    pub(crate) own_sequences: HashMap<u32, Option<i64>>,
    /// Tables with a marker that the transaction removes.
    pub(crate) marked: Vec<u32>,
    /// Tables with another version once it has committed; `None`: they are dropped.
    pub(crate) versions: Vec<(u32, Option<u64>)>,
    /// Whether it has run a command, whatever is left to be done.
    pub(crate) has_changed_catalogue: bool,
}

/// The effects at a savepoint.
#[derive(Debug)]
pub(crate) struct EffectsMark {
    created: HashSet<u64>,
    obsolete: usize,
    sequences: usize,
    own_sequences: HashSet<u32>,
    versions: usize,
}

impl Effects {
    /// Whether nothing is to be done.
    pub(crate) fn is_empty(&self) -> bool {
        self.created.is_empty()
            && self.obsolete.is_empty()
            && self.given_up.is_empty()
            && self.sequences.is_empty()
            && self.own_sequences.is_empty()
            && self.marked.is_empty()
            && self.versions.is_empty()
            && !self.has_changed_catalogue
    }

    /// What [`return_to`](Self::return_to) needs.
    pub(crate) fn mark(&self) -> EffectsMark {
        EffectsMark {
            created: self.created.clone(),
            obsolete: self.obsolete.len(),
            sequences: self.sequences.len(),
            own_sequences: self.own_sequences.keys().copied().collect(),
            versions: self.versions.len(),
        }
    }

    /// The transaction's changes since the savepoint were rolled back.
    pub(crate) fn return_to(&mut self, mark: &EffectsMark) {
        // The transaction may have read what it has made since: it is dropped when it has ended.
        let since = self.created.extract_if(|it| !mark.created.contains(it));
        self.given_up.extend(since);
        self.untouched
            .retain(|storage, _| mark.created.contains(storage));
        self.obsolete.truncate(mark.obsolete);
        self.sequences.truncate(mark.sequences);
        self.own_sequences
            .retain(|id, _| mark.own_sequences.contains(id));
        self.versions.truncate(mark.versions);
    }

    /// These tables are read or written through the transaction.
    pub(crate) fn touch(&mut self, tables: &[(u32, u64)]) {
        if !self.untouched.is_empty() {
            let is_used = |of: &u32| tables.iter().any(|(id, _)| id == of);
            self.untouched.retain(|_, of| !is_used(of));
        }
    }
}

impl EffectsMark {
    /// Whether a core table was there.
    pub(crate) fn has(&self, storage: u64) -> bool {
        self.created.contains(&storage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_savepoint_gives_back_what_it_saw() {
        let mut effects = Effects::default();
        effects.created.insert(1);
        effects.untouched.insert(1, 10);
        effects.versions.push((10, Some(5)));
        let mark = effects.mark();
        effects.created.insert(2);
        effects.untouched.insert(2, 11);
        effects.obsolete.push(1);
        effects.sequences.push(7);
        effects.own_sequences.insert(8, None);
        effects.versions.push((10, None));
        effects.return_to(&mark);
        assert_eq!(effects.created, HashSet::from([1]));
        assert_eq!(effects.untouched, HashMap::from([(1, 10)]));
        assert_eq!(effects.given_up, [2]);
        assert!(effects.obsolete.is_empty() && effects.sequences.is_empty());
        assert!(effects.own_sequences.is_empty());
        assert_eq!(effects.versions, [(10, Some(5))]);
        effects.touch(&[(10, 5)]);
        assert!(effects.untouched.is_empty());
    }
}
