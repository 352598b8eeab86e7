//! A summary of a query's answer for comparison: the number of rows and groups, and a checksum over
//! all of them.

use std::fmt;

use namiki_data::columns::Datum;
use namiki_exec::plan::{AggregateFunction, Plan};

/// The summary of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Number of grouped rows, if the answer counts them; for a plan without groups, the number of
    /// rows.
    pub(crate) rows: u64,
    /// Number of groups in the answer; `None` for a plan without groups.
    pub(crate) groups: Option<u64>,
    /// A checksum over all rows.
    pub(crate) checksum: u64,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.rows)?;
        if let Some(groups) = self.groups {
            write!(f, " in {groups} groups")?;
        }
        write!(f, ", checksum {:016x}", self.checksum)
    }
}

/// The summary of an answer that arrives row by row.
pub(crate) struct AnswerSum {
    /// The column that counts rows.
    count: Option<usize>,
    is_grouped: bool,
    /// Whether the order of rows is part of the answer.
    is_ordered: bool,
    answer_rows: u64,
    counted: u64,
    checksum: u64,
}

impl AnswerSum {
    /// A summary for a plan with these columns.
    pub(crate) fn new<'c>(plan: &Plan, columns: impl IntoIterator<Item = &'c str>) -> Self {
        let (mut below, mut is_ordered) = (plan, false);
        let (count, is_grouped) = loop {
            below = match below {
                Plan::Limit(limit) => &limit.input,
                Plan::Sort(sort) => {
                    is_ordered = true;
                    &sort.input
                }
                Plan::Aggregate(aggregate) => {
                    let counts = |call: &&namiki_exec::plan::AggregateCall| {
                        call.function == AggregateFunction::Count && call.of.is_none()
                    };
                    let call = aggregate.calculate.iter().find(counts);
                    break (call.map(|call| &*call.name), true);
                }
                _ => break (None, false),
            }
        };
        let mut columns = columns.into_iter();
        Self {
            count: count.and_then(|count| columns.position(|name| name == count)),
            is_grouped,
            is_ordered,
            answer_rows: 0,
            counted: 0,
            checksum: 0,
        }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row: &[Datum]) {
        self.answer_rows += 1;
        if let Some(Datum::I64(count)) = self.count.map(|at| &row[at]) {
            self.counted += count.unsigned_abs();
        }
        let of_row = hash_of(row);
        self.checksum = if self.is_ordered {
            (self.checksum ^ of_row)
                .wrapping_mul(FNV_PRIME)
                .rotate_left(5)
        } else {
            self.checksum.wrapping_add(of_row)
        };
    }

    /// The summary of all rows.
    pub(crate) fn finish(self) -> Answer {
        Answer {
            rows: if self.count.is_some() {
                self.counted
            } else {
                self.answer_rows
            },
            groups: self.is_grouped.then_some(self.answer_rows),
            checksum: self.checksum,
        }
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a over type and value of each column.
fn hash_of(row: &[Datum]) -> u64 {
    let mut hash = FNV_OFFSET;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    };
    for value in row {
        match value {
            Datum::Null => add(&[0]),
            Datum::Bool(value) => add(&[1, u8::from(*value)]),
            Datum::I64(value) => {
                add(&[2]);
                add(&value.to_le_bytes());
            }
            Datum::U64(value) => {
                add(&[3]);
                add(&value.to_le_bytes());
            }
            Datum::Decimal { unscaled, scale } => {
                add(&[4, *scale]);
                add(&unscaled.to_le_bytes());
            }
            Datum::F64(number) => {
                add(&[8]);
                add(&number.to_ordered_bits().to_le_bytes());
            }
            Datum::Date(days) => {
                add(&[5]);
                add(&days.to_le_bytes());
            }
            Datum::Text(text) => {
                add(&[6]);
                add(&(text.len() as u64).to_le_bytes());
                add(text.as_bytes());
            }
            Datum::Bytes(bytes) => {
                add(&[7]);
                add(&(bytes.len() as u64).to_le_bytes());
                add(bytes);
            }
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use namiki_exec::plan::{AggregateCall, SortKey, column};

    use super::*;

    fn summed(plan: &Plan, rows: &[Vec<Datum>]) -> Answer {
        let mut sum = AnswerSum::new(plan, ["a", "n"]);
        rows.iter().for_each(|row| sum.add(row));
        sum.finish()
    }

    #[test]
    fn an_answer_is_told_from_others_by_every_value() {
        let grouped = Plan::scan("t").aggregate(&["a"], vec![AggregateCall::count("n")]);
        let row = |a: i64, n: i64| vec![Datum::from(a), Datum::from(n)];
        let answer = summed(&grouped, &[row(1, 3), row(2, 4)]);
        assert_eq!((answer.rows, answer.groups), (7, Some(2)));
        assert_eq!(
            answer,
            summed(&grouped, &[row(2, 4), row(1, 3)]),
            "order means nothing"
        );
        for other in [
            &[row(1, 4), row(2, 3)][..],
            &[row(1, 3)],
            &[row(1, 3), row(2, 4), row(2, 4)],
            &[row(1, 3), vec![Datum::U64(2), Datum::from(4_i64)]],
        ] {
            assert_ne!(
                answer.checksum,
                summed(&grouped, other).checksum,
                "{other:?}"
            );
        }
        let sorted = grouped.sort(vec![SortKey::ascending(column("a"))]);
        let in_order = summed(&sorted, &[row(1, 3), row(2, 4)]);
        let swapped = summed(&sorted, &[row(2, 4), row(1, 3)]);
        assert_eq!((in_order.rows, swapped.rows), (7, 7));
        assert_ne!(in_order.checksum, swapped.checksum);
        let plain = summed(&Plan::scan("t"), &[row(1, 3), row(2, 4)]);
        assert_eq!((plain.rows, plain.groups), (2, None));
    }
}
