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

/// Most bytes of all texts. Their plans take some twenty times as much.
const BYTES_MAX: usize = 8 << 20;

/// Plans of texts, at most so many, and of at most so many bytes.
#[derive(Debug)]
pub(crate) struct TextCache {
    entries_max: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    kept: HashMap<TextKey, Kept>,
    /// The bytes of their texts.
    bytes: usize,
}

impl Entries {
    fn remove(&mut self, key: &TextKey) {
        if self.kept.remove(key).is_some() {
            self.bytes -= key.text.len();
        }
    }
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
        self.entries.lock().kept.get(key).cloned()
    }

    /// Keeps a plan, in place of others if there are too many. That of a text of more than an eighth of all bytes is not
    /// kept.
    pub(crate) fn put(&self, key: TextKey, kept: Kept) {
        let bytes = key.text.len();
        if bytes > BYTES_MAX / 8 {
            return;
        }
        let mut entries = self.entries.lock();
        entries.remove(&key);
        while entries.kept.len() >= self.entries_max || entries.bytes + bytes > BYTES_MAX {
            // The map's order is random.
            let Some(victim) = entries.kept.keys().next().cloned() else {
                break;
            };
            entries.remove(&victim);
        }
        entries.bytes += bytes;
        entries.kept.insert(key, kept);
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

    #[test]
    fn the_cache_keeps_its_bytes() {
        let cache = TextCache::new(1000);
        let key = |number: usize, length: usize| TextKey {
            text: format!("{number} {}", " ".repeat(length)).into(),
            types: Arc::new([]),
            is_lifted: false,
        };
        let length = BYTES_MAX / 10;
        for number in 0..20 {
            cache.put(key(number, length), Kept::NoProgram(1));
        }
        cache.put(key(1, BYTES_MAX), Kept::NoProgram(1));
        assert!(cache.get(&key(1, BYTES_MAX)).is_none());
        assert!(cache.get(&key(19, length)).is_some());
        let kept = (0..20).filter(|number| cache.get(&key(*number, length)).is_some());
        // Ten are a little too long.
        assert_eq!(kept.count(), 9);
        assert!(cache.entries.lock().bytes <= BYTES_MAX);
    }
}
