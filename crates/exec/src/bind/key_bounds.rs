//! Key bounds: the range of keys of a plan's [`KeyRange`], as bounds of their bytes.
//!
//! A bound that has a value for each column of the key is a key itself, and exact. A bound for the
//! first columns alone is a prefix of many keys: the first bytes behind all of them bound them from
//! above. There may be no such bytes, behind `u64::MAX` for example: then no key is above the
//! bound, and all are below it.

use std::cmp::Ordering;
use std::ops::Bound;

use namiki_data::columns::key_codec::{self, EncodeError};
use namiki_data::columns::{Datum, NullOrder, Schema};

use crate::plan::KeyRange;

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyBounds {
    pub(crate) lower: Bound<Vec<u8>>,
    pub(crate) upper: Bound<Vec<u8>>,
}

impl KeyBounds {
    /// The bounds, borrowed.
    #[inline]
    pub(crate) fn as_slices(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let slice = |bound| Bound::map(Bound::as_ref(bound), Vec::as_slice);
        (slice(&self.lower), slice(&self.upper))
    }

    /// The keys of a range.
    pub(crate) fn of(schema: &Schema, range: &KeyRange) -> Result<Self, EncodeError> {
        let edge_of = |value: &Option<Datum>| -> Result<Option<Edge>, EncodeError> {
            let edge = value.as_ref().map(|value| Edge::of(schema, range, value));
            edge.transpose()
        };
        let (from, above) = (edge_of(&range.from)?, edge_of(&range.above)?);
        let (to, below) = (edge_of(&range.to)?, edge_of(&range.below)?);
        let given = [&range.from, &range.above, &range.to, &range.below];
        if given.contains(&&Some(Datum::Null)) {
            // No comparison with a missing value is true.
            return Ok(Self::empty());
        }
        let mut bounds = Self::beginning_with(schema, &range.equal)?;
        let next = schema.key().get(range.equal.len());
        let marked = |mark: u8| -> Result<Vec<u8>, EncodeError> {
            let mut bytes = key_codec::encode_prefix(schema, &range.equal)?;
            bytes.push(mark);
            Ok(bytes)
        };
        // Missing values come first or last, and are neither below nor above anything.
        match next.and_then(|at| schema.nulls(*at)) {
            Some(NullOrder::First) if to.is_some() || below.is_some() => {
                let first_value = marked(key_codec::VALUE_MARK)?;
                bounds.tighten_lower(Bound::Included(first_value));
            }
            Some(NullOrder::Last) if from.is_some() || above.is_some() => {
                let first_missing = marked(key_codec::LAST_NULL_MARK)?;
                bounds.tighten_upper(Bound::Excluded(first_missing));
            }
            _ => {}
        }
        if let Some(from) = from {
            bounds.tighten_lower(Bound::Included(from.bytes));
        }
        if let Some(above) = above {
            match above.behind() {
                Behind::Key(key) => bounds.tighten_lower(Bound::Excluded(key)),
                Behind::From(first) => bounds.tighten_lower(Bound::Included(first)),
                Behind::Nothing => return Ok(Self::empty()),
            }
        }
        if let Some(to) = to {
            match to.behind() {
                Behind::Key(key) => bounds.tighten_upper(Bound::Included(key)),
                Behind::From(first) => bounds.tighten_upper(Bound::Excluded(first)),
                Behind::Nothing => {}
            }
        }
        if let Some(below) = below {
            bounds.tighten_upper(Bound::Excluded(below.bytes));
        }
        Ok(bounds)
    }

    /// The keys with these values in their first columns.
    fn beginning_with(schema: &Schema, values: &[Datum]) -> Result<Self, EncodeError> {
        let edge = Edge {
            bytes: key_codec::encode_prefix(schema, values)?,
            is_key: values.len() == schema.key().len(),
        };
        if values.is_empty() {
            return Ok(Self {
                lower: Bound::Unbounded,
                upper: Bound::Unbounded,
            });
        }
        let lower = Bound::Included(edge.bytes.clone());
        let upper = match edge.behind() {
            Behind::Key(key) => Bound::Included(key),
            Behind::From(first) => Bound::Excluded(first),
            Behind::Nothing => Bound::Unbounded,
        };
        Ok(Self { lower, upper })
    }

    /// No key.
    fn empty() -> Self {
        Self {
            lower: Bound::Included(Vec::new()),
            upper: Bound::Excluded(Vec::new()),
        }
    }

    /// Takes the higher one of two lower bounds.
    fn tighten_lower(&mut self, bound: Bound<Vec<u8>>) {
        if compare_lower(&bound, &self.lower).is_gt() {
            self.lower = bound;
        }
    }

    /// Takes the lower one of two upper bounds.
    fn tighten_upper(&mut self, bound: Bound<Vec<u8>>) {
        if compare_upper(&bound, &self.upper).is_lt() {
            self.upper = bound;
        }
    }
}

/// A value that bounds a column, as bytes of the key up to it.
struct Edge {
    bytes: Vec<u8>,
    /// It is the key's last column: no more than one key begins with these bytes.
    is_key: bool,
}

/// The keys behind an edge.
enum Behind {
    /// The keys behind this one.
    Key(Vec<u8>),
    /// The keys from these bytes on.
    From(Vec<u8>),
    Nothing,
}

impl Edge {
    /// The first value of the column behind the equal ones.
    fn of(schema: &Schema, range: &KeyRange, value: &Datum) -> Result<Self, EncodeError> {
        let values = [range.equal.as_slice(), std::slice::from_ref(value)].concat();
        Ok(Self {
            bytes: key_codec::encode_prefix(schema, &values)?,
            is_key: values.len() == schema.key().len(),
        })
    }

    fn behind(self) -> Behind {
        if self.is_key {
            return Behind::Key(self.bytes);
        }
        match namiki_data::after_prefix(&self.bytes) {
            Bound::Excluded(first) | Bound::Included(first) => Behind::From(first),
            Bound::Unbounded => Behind::Nothing,
        }
    }
}

/// Compares two lower bounds. Ascending: no bound, from a key, behind it.
fn compare_lower(a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> Ordering {
    fn rank(bound: &Bound<Vec<u8>>) -> Option<(&[u8], bool)> {
        match bound {
            Bound::Unbounded => None,
            Bound::Included(key) => Some((key, false)),
            Bound::Excluded(key) => Some((key, true)),
        }
    }
    rank(a).cmp(&rank(b))
}

/// Compares two upper bounds. Ascending: before a key, up to it, no bound.
fn compare_upper(a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> Ordering {
    fn rank(bound: &Bound<Vec<u8>>) -> (bool, &[u8], bool) {
        match bound {
            Bound::Excluded(key) => (false, key, false),
            Bound::Included(key) => (false, key, true),
            Bound::Unbounded => (true, &[], false),
        }
    }
    rank(a).cmp(&rank(b))
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use namiki_data::columns::{Column, ColumnType};

    use super::*;

    #[test]
    fn the_papers_range_holds_what_it_says() {
        let columns = vec![
            Column::new("segment", ColumnType::Text),
            Column::new("balance", ColumnType::Decimal { scale: 2 }),
            Column::new("id", ColumnType::I64),
        ];
        let schema = Schema::new(columns, &["segment", "balance", "id"]).unwrap();
        let range = KeyRange {
            equal: vec!["AUTOMOBILE".into()],
            above: Some(9980_i64.into()),
            ..KeyRange::default()
        };
        let bounds = KeyBounds::of(&schema, &range).unwrap();
        for (segment, balance, id, within) in [
            ("AUTOMOBILE", "9980.00", i64::MAX, false),
            ("AUTOMOBILE", "9980.01", i64::MIN, true),
            ("AUTOMOBILE", "9999.99", 1, true),
            ("AUTOMOBILES", "9999.99", 1, false),
            ("BUILDING", "9999.99", 1, false),
        ] {
            let balance = Datum::parse_decimal(balance).unwrap();
            let key = key_codec::encode_prefix(&schema, &[segment.into(), balance, id.into()]);
            assert_eq!(
                bounds.as_slices().contains(key.unwrap().as_slice()),
                within,
                "{segment} {id}"
            );
        }
    }

    #[test]
    fn text_alone_in_a_key_is_bounded_exactly() {
        let schema = Schema::new(vec![Column::new("name", ColumnType::Text)], &["name"]).unwrap();
        let range = |name: &str| {
            let mut range = KeyRange::default();
            let value: Datum = "ab".into();
            match name {
                "equal" => range.equal.push(value),
                "above" => range.above = Some(value),
                "from" => range.from = Some(value),
                "to" => range.to = Some(value),
                "below" => range.below = Some(value),
                "from and above" => (range.from, range.above) = (Some(value.clone()), Some(value)),
                "to and below" => (range.to, range.below) = (Some(value.clone()), Some(value)),
                _ => panic!("{name}"),
            }
            KeyBounds::of(&schema, &range).unwrap()
        };
        let texts = ["", "a", "ab", "abc", "b"];
        for (name, expected) in [
            ("equal", [false, false, true, false, false]),
            ("above", [false, false, false, true, true]),
            ("from", [false, false, true, true, true]),
            ("to", [true, true, true, false, false]),
            ("below", [true, true, false, false, false]),
            ("from and above", [false, false, false, true, true]),
            ("to and below", [true, true, false, false, false]),
        ] {
            let bounds = range(name);
            assert_eq!(
                texts.map(|text| bounds.as_slices().contains(text.as_bytes())),
                expected,
                "{name}"
            );
        }
    }
}
