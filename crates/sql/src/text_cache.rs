//! Plans by the texts that they were made of.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::front_end::Planned;
use crate::types::SqlType;

/// The identity of a kept plan: the text, and the types of literals and parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextKey {
    pub(crate) text: Arc<str>,
    pub(crate) types: Arc<[Option<SqlType>]>,
    /// Whether literals were lifted out of the text.
    pub(crate) is_lifted: bool,
}

/// A kept plan.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// Its tables' versions are compared before each run.
    Plan(Arc<Planned>),
    /// The lifted text has no row program, as of this change of the catalogue: the original text is planned.
    NoProgram(u64),
}

/// Plans of texts, at most so many.
#[derive(Debug)]
pub(crate) struct TextCache {
    entries_max: usize,
    entries: Mutex<HashMap<TextKey, Kept>>,
}

impl TextCache {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            entries_max: entries_max.max(1),
            entries: Mutex::default(),
        }
    }

    /// The kept plan of a text.
    pub(crate) fn get(&self, key: &TextKey) -> Option<Kept> {
        self.entries.lock().get(key).cloned()
    }

    /// Keeps a plan, in place of any other one if there are too many.
    pub(crate) fn put(&self, key: TextKey, kept: Kept) {
        let mut entries = self.entries.lock();
        if entries.len() >= self.entries_max
            && !entries.contains_key(&key)
            && let Some(victim) = entries.keys().next().cloned()
        {
            // The map's order is random.
            entries.remove(&victim);
        }
        entries.insert(key, kept);
    }

    /// Forgets a plan whose tables have changed.
    pub(crate) fn remove(&self, key: &TextKey) {
        self.entries.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_keeps_its_limit() {
        let cache = TextCache::new(2);
        let key = |text: &str| TextKey {
            text: text.into(),
            types: Arc::new([]),
            is_lifted: true,
        };
        for text in ["a", "b", "c", "c"] {
            cache.put(key(text), Kept::NoProgram(1));
        }
        let kept = ["a", "b", "c"]
            .iter()
            .filter(|text| cache.get(&key(text)).is_some());
        assert_eq!(kept.count(), 2);
        assert!(cache.get(&key("c")).is_some());
    }
}
