//! Key lists: lists of values for the first columns of a key. Rows are looked up by each
//! combination.

use namiki_data::columns::{ColumnType, Datum, Schema};

use crate::error::PlanError;
use crate::plan::KeyRange;

/// Limit of combinations in a plan.
const COMBINATIONS_MAX: usize = 1 << 30;

/// Different values of each column, in their order, and of the column's type. So the combinations
/// are different, too, and come in the order of the key.
#[derive(Clone, Debug)]
pub(crate) struct KeyLists {
    lists: Vec<Box<[Datum]>>,
    combinations: usize,
}

impl KeyLists {
    /// The lists of a range that has some.
    ///
    /// # Errors
    /// [`PlanError`], if there are more lists than columns, values that do not compare with their
    /// column, bounds in addition to the lists, or too many combinations.
    pub(super) fn of(table: &str, schema: &Schema, range: &KeyRange) -> Result<Self, PlanError> {
        let has_others = *range
            != KeyRange {
                one_of: range.one_of.clone(),
                ..KeyRange::default()
            };
        if has_others {
            return Err(PlanError::ListsAndBounds {
                table: table.to_owned(),
            });
        }
        if range.one_of.len() > schema.key().len() {
            return Err(PlanError::TooManyLookupValues {
                table: table.to_owned(),
                values: range.one_of.len(),
                columns: schema.key().len(),
            });
        }
        let mut lists = Vec::with_capacity(range.one_of.len());
        let mut combinations = 1_usize;
        for (values, at) in range.one_of.iter().zip(schema.key()) {
            let column = &schema.columns()[*at];
            let other = values
                .iter()
                .filter_map(Datum::column_type)
                .find(|own| !own.compares_with(column.column_type));
            if let Some(other) = other {
                return Err(PlanError::NotOfColumn {
                    table: table.to_owned(),
                    column: column.name.clone(),
                    expected: column.column_type,
                    found: other,
                });
            }
            let values = different_values(values, column.column_type);
            combinations = combinations.saturating_mul(values.len());
            lists.push(values);
        }
        if combinations > COMBINATIONS_MAX {
            return Err(PlanError::TooLarge {
                what: "combinations of values that a key is looked up by",
                max: COMBINATIONS_MAX,
            });
        }
        Ok(Self {
            lists,
            combinations,
        })
    }

    /// Number of columns of the key with a list.
    pub(crate) fn columns(&self) -> usize {
        self.lists.len()
    }

    /// Number of combinations.
    pub(crate) fn combinations(&self) -> usize {
        self.combinations
    }

    /// Number `at` of the combinations: a value of each column, from the last to the first.
    pub(crate) fn combination(&self, mut at: usize) -> impl Iterator<Item = (usize, &Datum)> {
        self.lists
            .iter()
            .enumerate()
            .rev()
            .map(move |(column, values)| {
                let value = &values[at % values.len()];
                at /= values.len();
                (column, value)
            })
    }
}

/// The values that a column of this type can have, each once.
pub(crate) fn different_values(values: &[Datum], of: ColumnType) -> Box<[Datum]> {
    let there = values.iter().filter(|value| **value != Datum::Null);
    let mut cast: Vec<Datum> = there.filter_map(|value| value.cast(of)).collect();
    cast.sort_unstable();
    cast.dedup();
    cast.into()
}

#[cfg(test)]
mod tests {
    use namiki_data::columns::Column;

    use super::*;

    #[test]
    fn combinations_are_different_and_in_order() {
        let columns = vec![
            Column::new("a", ColumnType::I64),
            Column::new("b", ColumnType::Decimal { scale: 2 }).nullable(),
        ];
        let schema = Schema::new(columns, &["a", "b"]).unwrap();
        let decimal = |text: &str| Datum::parse_decimal(text).unwrap();
        let range = KeyRange {
            one_of: vec![
                vec![
                    Datum::U64(7),
                    Datum::I64(-1),
                    decimal("7.0"),
                    decimal("1.5"),
                    Datum::Null,
                ],
                vec![decimal("0.125"), Datum::I64(2), Datum::Null, decimal("1.5")],
            ],
            ..KeyRange::default()
        };
        let lists = KeyLists::of("t", &schema, &range).unwrap();
        let all = (0..lists.combinations()).map(|at| {
            let values = lists.combination(at).map(|(_, value)| value.to_string());
            values.collect::<Vec<_>>().join(" ")
        });
        let all: Vec<String> = all.collect();
        assert_eq!(all, ["1.50 -1", "2.00 -1", "1.50 7", "2.00 7"]);
    }
}
