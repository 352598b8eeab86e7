//! Value lists, in which `in` looks a value up.

use std::sync::{Arc, OnceLock};

use namiki_data::columns::{Datum, Value};

/// Values as they were written, and sorted at the first look-up. Clones share them.
#[derive(Clone, Debug)]
pub struct ValueList(Arc<Values>);

#[derive(Debug)]
struct Values {
    written: Box<[Datum]>,
    sorted: OnceLock<Sorted>,
}

/// Different values in the order of [`Value::total_cmp`]: numbers of different types that are equal
/// are one.
#[derive(Debug)]
pub(crate) struct Sorted {
    pub(crate) values: Box<[Datum]>,
    /// Whether a missing value was among them.
    pub(crate) has_null: bool,
}

impl ValueList {
    pub(crate) fn new(written: impl IntoIterator<Item = Datum>) -> Self {
        Self(Arc::new(Values {
            written: written.into_iter().collect(),
            sorted: OnceLock::new(),
        }))
    }

    /// The values as they were written.
    #[must_use]
    pub fn written(&self) -> &[Datum] {
        &self.0.written
    }

    /// The values in order, without repetitions.
    pub(crate) fn sorted(&self) -> &Sorted {
        self.0.sorted.get_or_init(|| {
            let there = self.written().iter().filter(|it| **it != Datum::Null);
            let mut values: Vec<Datum> = there.cloned().collect();
            let has_null = values.len() < self.written().len();
            // Equal numbers of different types in one order, whatever the order in which they were
            // written.
            values.sort_unstable();
            values.dedup_by(|a, b| a.value().total_cmp(b.value()).is_eq());
            Sorted {
                values: values.into(),
                has_null,
            }
        })
    }
}

impl PartialEq for ValueList {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.written() == other.written()
    }
}

impl Sorted {
    /// Whether a value, which is not missing, is one of them; `None` if a missing one leaves that
    /// open.
    #[inline]
    pub(crate) fn has(&self, value: Value<'_>) -> Option<bool> {
        let found = self
            .values
            .binary_search_by(|own| own.value().total_cmp(value));
        if found.is_ok() {
            return Some(true);
        }
        (!self.has_null).then_some(false)
    }
}
