//! How an operator reaches a table: by its key or by an index, and which part of that.

use std::ops::Bound;
use std::sync::Arc;

use super::column::ColumnId;
use crate::data::key_codec::{self, EncodeError};
use crate::data::{Datum, Schema};
use crate::error::{Names, PlanError};
use crate::plan::KeyRange;
use crate::source::{Source, Tables};

/// A table of a plan.
#[derive(Clone)]
pub(crate) struct Access {
    /// Its name, for messages.
    pub(crate) table: String,
    pub(crate) source: Arc<dyn Source>,
    /// The number in the plan of each of its columns.
    pub(crate) columns: Vec<ColumnId>,
    /// What it is reached by, unless that is its key.
    pub(crate) index: Option<IndexAccess>,
}

/// An index of a table of a plan.
#[derive(Clone)]
pub(crate) struct IndexAccess {
    pub(crate) name: String,
    pub(crate) source: Arc<dyn Source>,
    /// The number in the plan of each of its columns: those of the table's.
    pub(crate) columns: Vec<ColumnId>,
}

impl Access {
    /// The key or the index, by which the table is reached.
    pub(crate) fn path(&self) -> (&Arc<dyn Source>, &[ColumnId]) {
        match &self.index {
            Some(index) => (&index.source, &index.columns),
            None => (&self.source, &self.columns),
        }
    }

    /// Finds the sources; `columns` are the numbers of the table's columns, made by `number_of`.
    pub(crate) fn find(
        tables: &Tables,
        table: &str,
        index: Option<&str>,
        number_of: impl FnOnce(&Schema) -> Vec<ColumnId>,
    ) -> Result<Self, PlanError> {
        let found = tables.get(table).ok_or_else(|| PlanError::UnknownTable {
            table: table.to_owned(),
            known: Names::of(tables.iter().map(|(name, _)| name)),
        })?;
        let source = Arc::clone(&found.source);
        let columns = number_of(source.schema());
        let index = match index {
            None => None,
            Some(name) => {
                let own = found
                    .indexes
                    .get(name)
                    .ok_or_else(|| PlanError::UnknownIndex {
                        table: table.to_owned(),
                        index: name.to_owned(),
                        known: Names::of(found.indexes.keys().map(String::as_str)),
                    })?;
                let none = |why| PlanError::NotAnIndex {
                    table: table.to_owned(),
                    index: name.to_owned(),
                    why,
                };
                Some(IndexAccess {
                    name: name.to_owned(),
                    source: Arc::clone(own),
                    columns: index_columns(source.schema(), own.schema(), &columns)
                        .map_err(none)?,
                })
            }
        };
        Ok(Self {
            table: table.to_owned(),
            source,
            columns,
            index,
        })
    }
}

/// The numbers of an index's columns. Those of the table's key must be among them, to find the row.
fn index_columns(
    table: &Schema,
    index: &Schema,
    columns: &[ColumnId],
) -> Result<Vec<ColumnId>, &'static str> {
    let mut numbers = Vec::with_capacity(index.columns().len());
    for column in index.columns() {
        let at = table
            .column(&column.name)
            .ok_or("it has a column that the table has not")?;
        let own = &table.columns()[at];
        if own.column_type != column.column_type || own.nullable != column.nullable {
            return Err("one of its columns has another type than the table's");
        }
        numbers.push(columns[at]);
    }
    if !index.is_all_key() {
        return Err("it has columns that are not in its key");
    }
    if table
        .key()
        .iter()
        .any(|at| !numbers.contains(&columns[*at]))
    {
        return Err("it lacks a column of the table's key");
    }
    Ok(numbers)
}

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
        let prefix = key_codec::encode_prefix(schema, &range.equal)?;
        let next = schema.key().get(range.equal.len());
        // A key of one column of text has no end mark: longer text begins with shorter text there.
        let alone = schema.key().len() == 1
            && schema.columns()[schema.key()[0]]
                .column_type
                .fixed_bytes()
                .is_none();
        let is_exact = alone && !range.equal.is_empty();
        let bound = |value: &Datum| -> Result<Vec<u8>, EncodeError> {
            let mut values = range.equal.clone();
            values.push(value.clone());
            key_codec::encode_prefix(schema, &values)
        };
        let null = [&range.from, &range.above, &range.to, &range.below];
        let compares_with_null = null.contains(&&Some(Datum::Null));
        let above = |value: &Datum| -> Result<Bound<Vec<u8>>, EncodeError> {
            let bytes = bound(value)?;
            Ok(if alone {
                Bound::Excluded(bytes)
            } else {
                match key_codec::after_prefix(&bytes) {
                    Bound::Excluded(first) => Bound::Included(first),
                    // Nothing comes after it.
                    _ => Bound::Excluded(vec![255; bytes.len() + 1]),
                }
            })
        };
        let to = |value: &Datum| -> Result<Bound<Vec<u8>>, EncodeError> {
            let bytes = bound(value)?;
            Ok(if alone {
                Bound::Included(bytes)
            } else {
                key_codec::after_prefix(&bytes)
            })
        };
        let mut lowers = Vec::new();
        let mut uppers = Vec::new();
        if let Some(value) = &range.from {
            lowers.push(Bound::Included(bound(value)?));
        }
        if let Some(value) = &range.above {
            lowers.push(above(value)?);
        }
        if let Some(value) = &range.to {
            uppers.push(to(value)?);
        }
        if let Some(value) = &range.below {
            uppers.push(Bound::Excluded(bound(value)?));
        }
        if compares_with_null {
            // No comparison with a missing value is true.
            return Ok(Self::empty());
        }
        if lowers.is_empty() {
            let mut lower = prefix.clone();
            // Missing values come first, and are not below anything.
            let skips_null = next.is_some_and(|at| schema.columns()[*at].nullable);
            if !uppers.is_empty() && skips_null {
                lower.push(1);
            }
            lowers.push(if lower.is_empty() && !is_exact {
                Bound::Unbounded
            } else {
                Bound::Included(lower)
            });
        }
        if uppers.is_empty() {
            uppers.push(if is_exact {
                Bound::Included(prefix)
            } else {
                key_codec::after_prefix(&prefix)
            });
        }
        Ok(Self {
            lower: lowers
                .into_iter()
                .max_by(compare_lower)
                .unwrap_or(Bound::Unbounded),
            upper: uppers
                .into_iter()
                .min_by(compare_upper)
                .unwrap_or(Bound::Unbounded),
        })
    }

    /// No key.
    fn empty() -> Self {
        Self {
            lower: Bound::Included(Vec::new()),
            upper: Bound::Excluded(Vec::new()),
        }
    }
}

/// Which of two lower bounds is the higher one.
fn compare_lower(a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> std::cmp::Ordering {
    let rank = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key.clone(), false)),
        Bound::Excluded(key) => Some((key.clone(), true)),
    };
    rank(a).cmp(&rank(b))
}

/// Which of two upper bounds is the higher one.
fn compare_upper(a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> std::cmp::Ordering {
    let rank = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Excluded(key) => (false, key.clone(), false),
        Bound::Included(key) => (false, key.clone(), true),
        Bound::Unbounded => (true, Vec::new(), false),
    };
    rank(a).cmp(&rank(b))
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use super::*;
    use crate::data::{Column, ColumnType};

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
                _ => range.below = Some(value),
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
