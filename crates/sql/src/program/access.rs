//! How a program reaches its rows: by key, by a range of an index, or all of them.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use namiki::{Direction, ScanRange, Transaction};
use namiki_data::after_prefix;
use namiki_data::columns::{ColumnType, Datum, NullOrder, key_codec};

use super::{Environment, RowValues, Scalar};
use crate::catalogue::Relation;
use crate::error::SqlResult;
use crate::storage::{OpenTable, Storage, index_prefix};

/// The rows that a program uses.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) relation: Arc<Relation>,
    pub(crate) path: Path,
    /// Whether the rows are visited in descending order of the key.
    pub(crate) is_descending: bool,
    /// What else has to hold.
    pub(crate) filter: Vec<Scalar>,
}

/// Where the rows are looked for.
#[derive(Clone, Debug)]
pub(crate) enum Path {
    /// The row with this primary key.
    Key(Vec<Scalar>),
    /// The rows with an index entry that begins with these values, within bounds for the next column.
    Range {
        /// The number of the index among the table's; `None`: the primary key.
        index: Option<usize>,
        equal: Vec<Scalar>,
        /// The bound, and whether it is in the range.
        lower: Option<(Scalar, bool)>,
        upper: Option<(Scalar, bool)>,
    },
    /// The rows whose primary key, or index entry, begins with one of several combinations of values: `IN (…)`.
    OneOf {
        /// The number of the index among the table's; `None`: the primary key.
        index: Option<usize>,
        /// For each column from the first one on, the values that it may have. Some of them may be equal or null.
        values: Vec<Vec<Scalar>>,
    },
    /// All rows.
    Full,
}

/// Rows that were found: keys and rows as they are stored.
type RowsFound = Vec<(Vec<u8>, Vec<u8>)>;

/// The bytes of a range: its ends.
pub(crate) type Ends = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A path with the values of its expressions.
#[derive(Clone, Debug)]
pub(crate) enum Located {
    /// No row.
    Nothing,
    /// The row of this key.
    Key(Vec<u8>),
    /// The rows of these keys, in ascending order and each once.
    Keys(Vec<Vec<u8>>),
    /// A range of the primary key, or of the index of this number.
    Range { index: Option<usize>, ends: Ends },
    /// Several such ranges, in ascending order and without common parts.
    Ranges {
        index: Option<usize>,
        ranges: Vec<Ends>,
    },
}

impl Access {
    /// The key of the one row, if the path is a key; `None` if one of its values is null.
    ///
    /// # Errors
    /// Those of the expressions.
    #[inline]
    pub(crate) fn key(
        &self,
        parts: &[Scalar],
        environment: &Environment,
    ) -> SqlResult<Option<Vec<u8>>> {
        let layout = &self.relation.layout;
        let alone = layout.key().len() == 1;
        let mut key = Vec::with_capacity(16 * parts.len());
        for (part, column) in parts.iter().zip(layout.key()) {
            let stored = layout.columns()[*column].column_type;
            let value = part.constant(environment)?;
            let Some(value) = storable(value, stored) else {
                return Ok(None);
            };
            key_codec::encode_column(value.value(), stored, None, alone, &mut key);
        }
        Ok(Some(key))
    }

    /// Visits the rows until `visit` breaks off. It sees rows for which the filter holds.
    ///
    /// # Errors
    /// Those of the transaction and of the expressions.
    pub(crate) fn visit(
        &self,
        tx: &mut Transaction,
        storage: &Storage,
        environment: &Environment,
        mut visit: impl FnMut(&RowValues<'_>, &[u8], &[u8]) -> SqlResult<ControlFlow<()>>,
    ) -> SqlResult<()> {
        let (relation, guard) = (&self.relation, &environment.guard);
        let table = storage.open(relation.row.storage)?;
        let mut visited = 0;
        let mut visit = |key: &[u8], row: &[u8]| -> SqlResult<ControlFlow<()>> {
            visited += 1;
            guard.visit(visited)?;
            let values = RowValues::Stored {
                format: &relation.format,
                key,
                row,
            };
            for condition in &self.filter {
                if !condition.holds(&values, environment)? {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            visit(&values, key, row)
        };
        let (index, mut ranges) = match self.locate(environment)? {
            Located::Nothing => return Ok(()),
            Located::Key(key) => {
                return match tx.row(&table.table, &key)? {
                    Some(row) => visit(&key, row).map(|_| ()),
                    None => Ok(()),
                };
            }
            Located::Keys(keys) => return self.visit_keys(tx, &table, keys, visit),
            Located::Range { index, ends } => (index, vec![ends]),
            Located::Ranges { index, ranges } => (index, ranges),
        };
        let direction = if self.is_descending {
            ranges.reverse();
            Direction::Backward
        } else {
            Direction::Forward
        };
        let Some(index) = index else {
            for ends in &ranges {
                if scan(tx, &table, ends, direction, &mut visit)?.is_break() {
                    break;
                }
            }
            return guard.check_reads(tx);
        };
        let index = storage.open(relation.row.indexes[index].storage)?;
        let mut keys = Vec::new();
        for ends in &ranges {
            let _ = scan(tx, &index, ends, Direction::Forward, |_, key| {
                keys.push(key.to_vec());
                guard.visit(keys.len())?;
                Ok(ControlFlow::Continue(()))
            })?;
        }
        guard.check_reads(tx)?;
        self.visit_keys(tx, &table, keys, visit)
    }

    /// Visits the rows of these keys, from the last one on if the order is descending.
    fn visit_keys(
        &self,
        tx: &mut Transaction,
        table: &OpenTable,
        mut keys: Vec<Vec<u8>>,
        mut visit: impl FnMut(&[u8], &[u8]) -> SqlResult<ControlFlow<()>>,
    ) -> SqlResult<()> {
        if self.is_descending {
            keys.reverse();
        }
        for key in keys {
            if let Some(row) = tx.row(&table.table, &key)?
                && visit(&key, row)?.is_break()
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Where the rows are, now that the values are known.
    ///
    /// # Errors
    /// Those of the expressions.
    pub(crate) fn locate(&self, environment: &Environment) -> SqlResult<Located> {
        Ok(match &self.path {
            Path::Full => Located::Range {
                index: None,
                ends: (Bound::Unbounded, Bound::Unbounded),
            },
            Path::Key(parts) => match self.key(parts, environment)? {
                Some(key) => Located::Key(key),
                None => Located::Nothing,
            },
            Path::Range {
                index,
                equal,
                lower,
                upper,
            } => {
                let ends = self.ends(*index, equal, lower.as_ref(), upper.as_ref(), environment)?;
                match ends {
                    Some(ends) => Located::Range {
                        index: *index,
                        ends,
                    },
                    None => Located::Nothing,
                }
            }
            Path::OneOf { index, values } => self.combinations(*index, values, environment)?,
        })
    }

    /// Where the rows with one of these combinations of values are.
    fn combinations(
        &self,
        index: Option<usize>,
        values: &[Vec<Scalar>],
        environment: &Environment,
    ) -> SqlResult<Located> {
        let relation = &self.relation;
        let columns: &[usize] = match index {
            Some(index) => &relation.row.indexes[index].columns,
            None => relation.layout.key(),
        };
        let alone = index.is_none() && columns.len() == 1;
        let mut prefixes = vec![Vec::new()];
        for (values, column) in values.iter().zip(columns) {
            let stored = relation.layout.columns()[*column].column_type;
            let mut longer = Vec::with_capacity(prefixes.len() * values.len());
            for value in values {
                let Some(value) = storable(value.constant(environment)?, stored) else {
                    continue;
                };
                for prefix in &prefixes {
                    let mut bytes = prefix.clone();
                    append(index, alone, &value, stored, &mut bytes);
                    longer.push(bytes);
                }
            }
            prefixes = longer;
        }
        prefixes.sort_unstable();
        prefixes.dedup();
        if index.is_none() && values.len() == columns.len() {
            return Ok(Located::Keys(prefixes));
        }
        let range = |prefix: Vec<u8>| {
            let end = after_prefix(&prefix);
            (Bound::Included(prefix), end)
        };
        Ok(Located::Ranges {
            index,
            ranges: prefixes.into_iter().map(range).collect(),
        })
    }

    /// All rows at once, before any of them is changed.
    ///
    /// # Errors
    /// As [`visit`](Self::visit).
    pub(crate) fn rows(
        &self,
        tx: &mut Transaction,
        storage: &Storage,
        environment: &Environment,
    ) -> SqlResult<RowsFound> {
        let mut rows = Vec::new();
        self.visit(tx, storage, environment, |_, key, row| {
            rows.push((key.to_vec(), row.to_vec()));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    /// The ends of a range; `None` if no row can be in it.
    fn ends(
        &self,
        index: Option<usize>,
        equal: &[Scalar],
        lower: Option<&(Scalar, bool)>,
        upper: Option<&(Scalar, bool)>,
        environment: &Environment,
    ) -> SqlResult<Option<Ends>> {
        let relation = &self.relation;
        let columns: &[usize] = match index {
            Some(index) => &relation.row.indexes[index].columns,
            None => relation.layout.key(),
        };
        let stored = |at: usize| relation.layout.columns()[columns[at]].column_type;
        let alone = index.is_none() && columns.len() == 1;
        let mut prefix = Vec::new();
        for (at, part) in equal.iter().enumerate() {
            let Some(value) = storable(part.constant(environment)?, stored(at)) else {
                return Ok(None);
            };
            append(index, alone, &value, stored(at), &mut prefix);
        }
        let bound = |bound: Option<&(Scalar, bool)>| -> SqlResult<Option<Option<(Vec<u8>, bool)>>> {
            let Some((scalar, included)) = bound else {
                return Ok(Some(None));
            };
            let Some(value) = storable(scalar.constant(environment)?, stored(equal.len())) else {
                return Ok(None);
            };
            let mut bytes = prefix.clone();
            append(index, alone, &value, stored(equal.len()), &mut bytes);
            Ok(Some(Some((bytes, *included))))
        };
        let (Some(lower), Some(upper)) = (bound(lower)?, bound(upper)?) else {
            return Ok(None);
        };
        let start = match lower {
            Some((bytes, true)) => Bound::Included(bytes),
            // A key alone is compared whole; otherwise further columns follow.
            Some((bytes, false)) if alone => Bound::Excluded(bytes),
            Some((bytes, false)) => match after_prefix::<Vec<u8>>(&bytes) {
                Bound::Excluded(end) => Bound::Included(end),
                _ => return Ok(None),
            },
            None if prefix.is_empty() => Bound::Unbounded,
            None => Bound::Included(prefix.clone()),
        };
        let end = match upper {
            Some((bytes, true)) if alone => Bound::Included(bytes),
            Some((bytes, true)) => after_prefix(&bytes),
            Some((bytes, false)) => Bound::Excluded(bytes),
            // Nulls are last, and no comparison with one holds.
            None if index.is_some() && lower_is_bounded(&start, &prefix) => {
                let mut nulls = prefix.clone();
                key_codec::encode_column(
                    Datum::Null.value(),
                    stored(equal.len()),
                    Some(NullOrder::Last),
                    false,
                    &mut nulls,
                );
                Bound::Excluded(nulls)
            }
            None if prefix.is_empty() => Bound::Unbounded,
            None => after_prefix(&prefix),
        };
        Ok(Some((start, end)))
    }
}

/// Appends a column of an index, or of the primary key, of which it is the only one if `alone`.
fn append(
    index: Option<usize>,
    alone: bool,
    value: &Datum,
    column_type: ColumnType,
    into: &mut Vec<u8>,
) {
    match index {
        Some(_) => index_prefix([(value, column_type)], into),
        None => key_codec::encode_column(value.value(), column_type, None, alone, into),
    }
}

fn lower_is_bounded(start: &Bound<Vec<u8>>, prefix: &[u8]) -> bool {
    matches!(start, Bound::Included(bytes) if bytes != prefix)
}

/// A value as a key stores it; `None` if it is null or no key can equal it, so that no row is found.
fn storable(value: Datum, stored: ColumnType) -> Option<Datum> {
    match value {
        Datum::Null => None,
        value if value.column_type() == Some(stored) => Some(value),
        value => value.cast(stored),
    }
}

/// The range between these ends.
pub(crate) fn scan_range<'b>(start: &'b Bound<Vec<u8>>, end: &'b Bound<Vec<u8>>) -> ScanRange<'b> {
    fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
        match bound {
            Bound::Included(bytes) => Bound::Included(bytes),
            Bound::Excluded(bytes) => Bound::Excluded(bytes),
            Bound::Unbounded => Bound::Unbounded,
        }
    }
    ScanRange::forward(slice(start), slice(end))
}

fn scan(
    tx: &mut Transaction,
    table: &OpenTable,
    (start, end): &Ends,
    direction: Direction,
    mut visit: impl FnMut(&[u8], &[u8]) -> SqlResult<ControlFlow<()>>,
) -> SqlResult<ControlFlow<()>> {
    let range = ScanRange {
        direction,
        ..scan_range(start, end)
    };
    let stopped = tx.scan_rows(&table.table, range, |key, row| match visit(key, row) {
        Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
        Ok(ControlFlow::Break(())) => ControlFlow::Break(Ok(())),
        Err(error) => ControlFlow::Break(Err(error)),
    })?;
    match stopped {
        None => Ok(ControlFlow::Continue(())),
        Some(done) => done.map(|()| ControlFlow::Break(())),
    }
}
