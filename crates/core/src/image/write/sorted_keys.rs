//! The rows of a table with an unordered index, in the order of keys: its keys are gathered and
//! sorted first.

use std::ops::{Bound, ControlFlow, Range};

use namiki_platform::Stamp;

use crate::error::Error;
use crate::image::write::rows_at_stamp::{KeyBounds, RowsAtStamp, VisitRow};

/// The rows of a table as of one stamp S, which are read key by key.
pub(crate) trait RowsByKey {
    /// Visits every key that had a row as of S, or any version above the S of the previous image,
    /// in any order and once. It may visit others.
    ///
    /// # Errors
    /// The error that prevents the visit. The checkpoint fails then.
    fn visit_keys(&mut self, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error>;

    /// Copies the key's value as of S and tells its stamp; `None` if the key had no row.
    ///
    /// # Errors
    /// As [`RowsByKey::visit_keys`].
    fn row(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Stamp>, Error>;

    /// Whether a commit with a stamp above `since` and not above S may have changed or deleted this key.
    ///
    /// # Errors
    /// As [`RowsByKey::visit_keys`].
    fn has_changed(&mut self, key: &[u8], since: Stamp) -> Result<bool, Error>;

    /// As [`RowsAtStamp::written_through`].
    fn written_through(&mut self, key: Option<&[u8]>) {
        let _ = key;
    }
}

/// Such rows in the order of their keys. The keys are gathered when the first are asked for, and stay in memory.
pub(crate) struct SortedRows<R> {
    rows: R,
    keys: Option<SortedKeys>,
}

impl<R: RowsByKey> SortedRows<R> {
    pub(crate) fn new(rows: R) -> Self {
        Self { rows, keys: None }
    }

    fn parts(&mut self) -> Result<(&mut R, &SortedKeys), Error> {
        if self.keys.is_none() {
            let mut keys = SortedKeys::default();
            self.rows.visit_keys(&mut |key| keys.push(key))?;
            keys.sort();
            self.keys = Some(keys);
        }
        Ok((&mut self.rows, self.keys.get_or_insert_default()))
    }
}

impl<R: RowsByKey> RowsAtStamp for SortedRows<R> {
    fn visit(&mut self, bounds: KeyBounds<'_>, visit: &mut VisitRow<'_>) -> Result<(), Error> {
        let (rows, keys) = self.parts()?;
        let mut value = Vec::new();
        for key in keys.within(bounds) {
            if let Some(stamp) = rows.row(key, &mut value)?
                && visit(key, &value, stamp) == ControlFlow::Break(())
            {
                break;
            }
        }
        Ok(())
    }

    fn changed_since(&mut self, bounds: KeyBounds<'_>, since: Stamp) -> Result<bool, Error> {
        let (rows, keys) = self.parts()?;
        for key in keys.within(bounds) {
            if rows.has_changed(key, since)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn written_through(&mut self, key: Option<&[u8]>) {
        self.rows.written_through(key);
    }
}

/// Keys, one after the other in memory.
#[derive(Default)]
struct SortedKeys {
    bytes: Vec<u8>,
    /// Where each lies. Sorted by what lies there.
    ranges: Vec<(usize, usize)>,
}

impl SortedKeys {
    fn push(&mut self, key: &[u8]) {
        self.ranges.push((self.bytes.len(), key.len()));
        self.bytes.extend_from_slice(key);
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.ranges
            .sort_unstable_by_key(|&(at, len)| &bytes[at..at + len]);
    }

    fn key(&self, (at, len): (usize, usize)) -> &[u8] {
        &self.bytes[at..at + len]
    }

    fn within(&self, (lower, upper): KeyBounds<'_>) -> impl Iterator<Item = &[u8]> {
        let Range { start, end } = Range {
            start: match lower {
                Bound::Unbounded => 0,
                Bound::Included(bound) => self.ranges.partition_point(|it| self.key(*it) < bound),
                Bound::Excluded(bound) => self.ranges.partition_point(|it| self.key(*it) <= bound),
            },
            end: match upper {
                Bound::Unbounded => self.ranges.len(),
                Bound::Included(bound) => self.ranges.partition_point(|it| self.key(*it) <= bound),
                Bound::Excluded(bound) => self.ranges.partition_point(|it| self.key(*it) < bound),
            },
        };
        let ranges = self.ranges.get(start..end).unwrap_or_default();
        ranges.iter().map(|place| self.key(*place))
    }
}

#[cfg(test)]
mod tests {
    use namiki_platform::seeded_random::Random;

    use super::*;
    use crate::image::write::model_table::ModelTable;

    /// The keys of a table, visited in another order than theirs.
    struct ByKey<'a>(&'a ModelTable);

    impl RowsByKey for ByKey<'_> {
        fn visit_keys(&mut self, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
            let mut keys = self.0.keys();
            keys.sort_by_key(|key| namiki_platform::hash::hash_of(1, key));
            keys.iter().for_each(|key| visit(key));
            Ok(())
        }

        fn row(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Stamp>, Error> {
            Ok(self.0.rows().remove(key).map(|(found, stamp)| {
                *value = found;
                stamp
            }))
        }

        fn has_changed(&mut self, key: &[u8], since: Stamp) -> Result<bool, Error> {
            let mut table = self.0;
            table.changed_since((Bound::Included(key), Bound::Included(key)), since)
        }
    }

    fn visited(
        rows: &mut impl RowsAtStamp,
        bounds: KeyBounds<'_>,
        most: usize,
    ) -> Vec<(Vec<u8>, Vec<u8>, Stamp)> {
        let mut found = Vec::new();
        rows.visit(bounds, &mut |key, value, stamp| {
            found.push((key.to_vec(), value.to_vec(), stamp));
            if found.len() < most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .unwrap();
        found
    }

    #[test]
    fn rows_without_an_order_come_in_the_order_of_keys() {
        let mut random = Random::seeded(8);
        let mut table = ModelTable::default();
        for stamp in 1..120 {
            let key = vec![b'k'; random.index(3)];
            let key = [&key[..], &random.below(50).to_string().into_bytes()].concat();
            if random.chance(0.2) {
                table.delete(&key, Stamp(stamp));
            } else {
                table.put(&key, &key, Stamp(stamp));
            }
        }
        let mut sorted = SortedRows::new(ByKey(&table));
        assert!(visited(&mut sorted, (Bound::Unbounded, Bound::Unbounded), 1000).len() > 40);
        for _ in 0..300 {
            let mut key = || table.any_key(&mut random).unwrap();
            let (lower, upper) = (key(), key());
            let bound = |random: &mut Random, key| match random.below(3) {
                0 => Bound::Unbounded,
                1 => Bound::Included(key),
                _ => Bound::Excluded(key),
            };
            let (lower, upper) = (lower.clone().min(upper.clone()), lower.max(upper));
            let bounds = (bound(&mut random, &*lower), bound(&mut random, &*upper));
            if matches!(bounds, (Bound::Excluded(lower), Bound::Excluded(upper)) if lower == upper)
            {
                continue;
            }
            let most = 1 + random.index(30);
            assert_eq!(
                visited(&mut sorted, bounds, most),
                visited(&mut &table, bounds, most)
            );
            let since = Stamp(random.below(120));
            let changed = sorted.changed_since(bounds, since).unwrap();
            assert_eq!(changed, (&mut &table).changed_since(bounds, since).unwrap());
        }
    }
}
