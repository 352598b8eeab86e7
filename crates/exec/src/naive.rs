//! The plain evaluator, which the executor is compared with. Every operator reads all of its input
//! into memory, rows are lists of values, names are looked up for each row. It is slow, and short
//! enough to be checked by reading.
//!
//! It shares with the executor the plan's types, the row codec, the arithmetic of two values and
//! the comparison of two values; names, missing values, joins, groups and orders are its own.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use namiki_data::columns::{ColumnType, Datum, SCALE_MAX, Schema, Value, key_codec, row_codec};

use crate::error::{ExecError, HexBytes, Names, PlanError};
use crate::plan::{
    Aggregate, AggregateCall, AggregateFunction, Expr, ExprNode, HashJoin, KeyRange,
    NestedLoopJoin, Plan, Sort,
};
use crate::source::{RowBatch, Source, Tables};

/// The rows of a plan, and the names of their columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The columns.
    pub columns: Vec<String>,
    /// The rows. In an order only if the plan sorts last.
    pub rows: Vec<Vec<Datum>>,
}

/// Runs a plan.
///
/// # Errors
/// [`ExecError`]. An error of the plan is found later than by the executor, or not at all if no row
/// reaches it.
pub fn run(plan: &Plan, tables: &Tables) -> Result<Answer, ExecError> {
    plan.check()?;
    let rows = Evaluator { tables }.rows(plan)?;
    Ok(Answer {
        columns: rows.names.into_iter().map(|(_, name)| name).collect(),
        rows: rows.rows,
    })
}

#[derive(Clone, Default)]
struct Rows {
    /// Table or alias, and column.
    names: Vec<(String, String)>,
    rows: Vec<Vec<Datum>>,
}

struct Evaluator<'t> {
    tables: &'t Tables,
}

impl Evaluator<'_> {
    fn rows(&self, plan: &Plan) -> Result<Rows, ExecError> {
        match plan {
            Plan::Find(find) => {
                let rows = self.table(&find.table, find.alias.as_deref())?;
                kept(rows, find.filter.as_ref())
            }
            Plan::Join(join) => self.pairs(&join.left, &join.right, &join.on, join.filter.as_ref()),
            Plan::Scan(scan) => {
                let rows = self.table(&scan.table, scan.alias.as_deref())?;
                let source = self.source(&scan.table, None)?;
                let rows = in_range(rows, source.schema(), &scan.table, &scan.range)?;
                kept(rows, scan.filter.as_ref())
            }
            Plan::IndexScan(scan) => {
                let rows = self.table(&scan.table, scan.alias.as_deref())?;
                let index = self.source(&scan.table, Some(&scan.index))?;
                let rows = in_range(rows, index.schema(), &scan.table, &scan.range)?;
                kept(rows, scan.filter.as_ref())
            }
            Plan::NestedLoopJoin(join) => self.nested_loop(join),
            Plan::HashJoin(HashJoin {
                build,
                probe,
                on,
                filter,
                probe_first: false,
            }) => self.pairs(build, probe, on, filter.as_ref()),
            Plan::HashJoin(join) => {
                let on = join
                    .on
                    .iter()
                    .map(|(build, probe)| (probe.clone(), build.clone()));
                let on: Vec<_> = on.collect();
                self.pairs(&join.probe, &join.build, &on, join.filter.as_ref())
            }
            Plan::Filter(filter) => kept(self.rows(&filter.input)?, Some(&filter.keep)),
            Plan::Project(project) => {
                let input = self.rows(&project.input)?;
                let named = project.columns.iter();
                let names = named.map(|named| (String::new(), named.name.clone()));
                let calculate = |row: &Vec<Datum>| {
                    let columns = project.columns.iter();
                    columns
                        .map(|named| value(&named.of, &input.names, row))
                        .collect()
                };
                Ok(Rows {
                    names: names.collect(),
                    rows: input.rows.iter().map(calculate).collect::<Result<_, _>>()?,
                })
            }
            Plan::Aggregate(aggregate) => grouped(self.rows(&aggregate.input)?, aggregate),
            Plan::Sort(sort) => sorted(self.rows(&sort.input)?, sort),
            Plan::Limit(limit) => {
                let mut rows = self.rows(&limit.input)?;
                rows.rows
                    .truncate(usize::try_from(limit.rows).unwrap_or(usize::MAX));
                Ok(rows)
            }
        }
    }

    fn source(&self, table: &str, index: Option<&str>) -> Result<&dyn Source, ExecError> {
        let known = || Names::of(self.tables.iter().map(|(name, _)| name));
        let found = self
            .tables
            .get(table)
            .ok_or_else(|| PlanError::UnknownTable {
                table: table.to_owned(),
                known: known(),
            })?;
        let Some(index) = index else {
            return Ok(&*found.source);
        };
        let own = found
            .indexes
            .get(index)
            .ok_or_else(|| PlanError::UnknownIndex {
                table: table.to_owned(),
                index: index.to_owned(),
                known: Names::of(found.indexes.keys().map(String::as_str)),
            })?;
        Ok(&**own)
    }

    /// All rows of a table.
    fn table(&self, table: &str, alias: Option<&str>) -> Result<Rows, ExecError> {
        let source = self.source(table, None)?;
        let mut rows = Vec::new();
        let mut batch = RowBatch::new();
        let mut last: Option<Vec<u8>> = None;
        loop {
            let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            batch.clear();
            source
                .scan(from, Bound::Unbounded, usize::MAX, &mut batch)
                .map_err(|error| ExecError::source(table, error))?;
            for (key, row) in (0..batch.len()).filter_map(|at| batch.get(at)) {
                let not_a_row = || ExecError::NotARow {
                    table: table.to_owned(),
                    key: HexBytes(key.to_vec()),
                };
                rows.push(row_codec::decode(source.schema(), key, row).ok_or_else(not_a_row)?);
            }
            if !batch.is_full() {
                break;
            }
            last = (0..batch.len())
                .rev()
                .find_map(|at| batch.get(at))
                .map(|(key, _)| key.to_vec());
        }
        let called = alias.unwrap_or(table);
        let columns = source.schema().columns().iter();
        Ok(Rows {
            names: columns
                .map(|it| (called.to_owned(), it.name.clone()))
                .collect(),
            rows,
        })
    }

    fn nested_loop(&self, join: &NestedLoopJoin) -> Result<Rows, ExecError> {
        let outer = self.rows(&join.outer)?;
        let inner = self.table(&join.table, join.alias.as_deref())?;
        let looked_up = self.source(&join.table, join.index.as_deref())?.schema();
        if join.lookup.len() > looked_up.key().len() {
            return Err(ExecError::Plan(PlanError::TooManyLookupValues {
                table: join.table.clone(),
                values: join.lookup.len(),
                columns: looked_up.key().len(),
            }));
        }
        let columns: Vec<usize> = looked_up
            .key()
            .iter()
            .take(join.lookup.len())
            .filter_map(|at| {
                let name = &looked_up.columns()[*at].name;
                inner.names.iter().position(|(_, own)| own == name)
            })
            .collect();
        let both = |outer: &[Datum], inner: &[Datum]| {
            if join.table_first {
                [inner, outer].concat()
            } else {
                [outer, inner].concat()
            }
        };
        let names = if join.table_first {
            [inner.names, outer.names.clone()].concat()
        } else {
            [outer.names.clone(), inner.names].concat()
        };
        let mut joined = Rows {
            names,
            rows: Vec::new(),
        };
        // Rows by their values, so that a large outer table does not take hours. Numbers of
        // different types that compare as equal must be found, too: the index is by one value, the
        // comparison by all.
        let mut by_first: BTreeMap<String, Vec<&Vec<Datum>>> = BTreeMap::new();
        for row in &inner.rows {
            let first = columns
                .first()
                .map(|at| normal(&row[*at]))
                .unwrap_or_default();
            by_first.entry(first).or_default().push(row);
        }
        for row in &outer.rows {
            let values = join.lookup.iter().map(|of| value(of, &outer.names, row));
            let values: Vec<Datum> = values.collect::<Result<_, _>>()?;
            let first = values.first().map(normal).unwrap_or_default();
            for other in by_first.get(&first).into_iter().flatten() {
                let equal = |(at, value): (&usize, &Datum)| equals(&other[*at], value);
                if columns.iter().zip(&values).all(equal) {
                    joined.rows.push(both(row, other));
                }
            }
        }
        kept(joined, join.filter.as_ref())
    }

    /// The pairs of rows that agree, those of the left input first.
    fn pairs(
        &self,
        left: &Plan,
        right: &Plan,
        on: &[(Expr, Expr)],
        filter: Option<&Expr>,
    ) -> Result<Rows, ExecError> {
        let (left, right) = (self.rows(left)?, self.rows(right)?);
        let mut by_first: BTreeMap<String, Vec<(Vec<Datum>, &Vec<Datum>)>> = BTreeMap::new();
        for row in &left.rows {
            let values = on.iter().map(|(of, _)| value(of, &left.names, row));
            let values: Vec<Datum> = values.collect::<Result<_, _>>()?;
            let first = values.first().map(normal).unwrap_or_default();
            by_first.entry(first).or_default().push((values, row));
        }
        let mut joined = Rows {
            names: [left.names.clone(), right.names.clone()].concat(),
            rows: Vec::new(),
        };
        for row in &right.rows {
            let values = on.iter().map(|(_, of)| value(of, &right.names, row));
            let values: Vec<Datum> = values.collect::<Result<_, _>>()?;
            let first = values.first().map(normal).unwrap_or_default();
            for (others, other) in by_first.get(&first).into_iter().flatten() {
                if others.iter().zip(&values).all(|(a, b)| equals(a, b)) {
                    joined
                        .rows
                        .push([other.as_slice(), row.as_slice()].concat());
                }
            }
        }
        kept(joined, filter)
    }
}

/// The same text for numbers that are equal.
fn normal(value: &Datum) -> String {
    match value.value().as_decimal() {
        None => format!("{value:?}"),
        Some(_) => {
            let text = value.to_string();
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        }
    }
}

/// Whether two values are there and equal.
fn equals(a: &Datum, b: &Datum) -> bool {
    *a != Datum::Null && *b != Datum::Null && a.value().total_cmp(b.value()).is_eq()
}

/// The rows with the columns of a key in a range.
fn in_range(
    mut rows: Rows,
    schema: &Schema,
    table: &str,
    range: &KeyRange,
) -> Result<Rows, ExecError> {
    let mut columns = Vec::new();
    for at in schema.key() {
        let column = &schema.columns()[*at];
        let place = rows.names.iter().position(|(_, name)| *name == column.name);
        let Some(place) = place else { continue };
        columns.push((place, column.column_type));
    }
    let bounds = [&range.from, &range.above, &range.to, &range.below];
    let used = range.one_of.len()
        + range.equal.len()
        + usize::from(bounds.iter().any(|bound| bound.is_some()));
    if used > columns.len() {
        return Err(ExecError::Plan(PlanError::WrongRange {
            table: table.to_owned(),
            source: key_codec::EncodeError::WrongCount {
                values: used,
                columns: columns.len(),
            },
        }));
    }
    let cast = |value: &Datum, to: ColumnType| value.cast(to).unwrap_or(Datum::Null);
    rows.rows.retain(|row| {
        let own = |at: usize| &row[columns[at].0];
        let equal = range.equal.iter().enumerate().all(|(at, value)| {
            let value = cast(value, columns[at].1);
            equals(own(at), &value) || *own(at) == Datum::Null && value == Datum::Null
        });
        let next = range.equal.len();
        let within = |bound: &Option<Datum>, holds: fn(Ordering) -> bool| {
            bound.as_ref().is_none_or(|bound| {
                let bound = cast(bound, columns[next].1);
                *own(next) != Datum::Null
                    && bound != Datum::Null
                    && holds(own(next).value().total_cmp(bound.value()))
            })
        };
        let listed = range.one_of.iter().enumerate().all(|(at, list)| {
            let mut list = list.iter();
            list.any(|value| equals(own(at), value))
        });
        listed
            && equal
            && within(&range.from, Ordering::is_ge)
            && within(&range.above, Ordering::is_gt)
            && within(&range.to, Ordering::is_le)
            && within(&range.below, Ordering::is_lt)
    });
    Ok(rows)
}

fn kept(mut rows: Rows, filter: Option<&Expr>) -> Result<Rows, ExecError> {
    let Some(filter) = filter else {
        return Ok(rows);
    };
    let mut kept = Vec::new();
    for row in rows.rows {
        if value(filter, &rows.names, &row)? == Datum::Bool(true) {
            kept.push(row);
        }
    }
    rows.rows = kept;
    Ok(rows)
}

fn column_of(name: &str, names: &[(String, String)]) -> Result<usize, PlanError> {
    let matches = |(table, column): &(String, String)| match name.split_once('.') {
        Some((in_table, own)) => table == in_table && column == own || column == name,
        None => column == name,
    };
    let mut found = names.iter().enumerate().filter(|(_, it)| matches(it));
    match (found.next(), found.next()) {
        (Some((at, _)), None) => Ok(at),
        (Some(_), Some(_)) => Err(PlanError::AmbiguousColumn {
            column: name.to_owned(),
        }),
        (None, _) => Err(PlanError::UnknownColumn {
            column: name.to_owned(),
            known: Names::of(names.iter().map(|(_, name)| name.as_str())),
        }),
    }
}

/// True, false or neither.
fn truth(
    expr: &Expr,
    names: &[(String, String)],
    row: &[Datum],
) -> Result<Option<bool>, ExecError> {
    Ok(match value(expr, names, row)? {
        Datum::Bool(truth) => Some(truth),
        _ => None,
    })
}

fn of_truth(truth: Option<bool>) -> Datum {
    truth.map_or(Datum::Null, Datum::Bool)
}

fn value(expr: &Expr, names: &[(String, String)], row: &[Datum]) -> Result<Datum, ExecError> {
    Ok(match expr.node() {
        ExprNode::Column(name) => row[column_of(name, names)?].clone(),
        ExprNode::Literal(value) => value.clone(),
        ExprNode::Compare(comparison, left, right) => {
            let (left, right) = (value(left, names, row)?, value(right, names, row)?);
            if left == Datum::Null || right == Datum::Null {
                return Ok(Datum::Null);
            }
            Datum::Bool(comparison.holds(left.value().total_cmp(right.value())))
        }
        ExprNode::And(parts) => {
            let truths = parts.iter().map(|part| truth(part, names, row));
            let truths: Vec<Option<bool>> = truths.collect::<Result<_, _>>()?;
            of_truth(if truths.contains(&Some(false)) {
                Some(false)
            } else if truths.contains(&None) {
                None
            } else {
                Some(true)
            })
        }
        ExprNode::Or(parts) => {
            let truths = parts.iter().map(|part| truth(part, names, row));
            let truths: Vec<Option<bool>> = truths.collect::<Result<_, _>>()?;
            of_truth(if truths.contains(&Some(true)) {
                Some(true)
            } else if truths.contains(&None) {
                None
            } else {
                Some(false)
            })
        }
        ExprNode::Not(inner) => of_truth(truth(inner, names, row)?.map(|truth| !truth)),
        ExprNode::IsNull(inner) => Datum::Bool(value(inner, names, row)? == Datum::Null),
        ExprNode::In(inner, list) => {
            let own = value(inner, names, row)?;
            of_truth(if own == Datum::Null {
                None
            } else if list.written().iter().any(|other| equals(&own, other)) {
                Some(true)
            } else if list.written().contains(&Datum::Null) {
                None
            } else {
                Some(false)
            })
        }
        ExprNode::StartsWith(inner, part) => match value(inner, names, row)? {
            Datum::Text(text) => Datum::Bool(text.starts_with(part)),
            _ => Datum::Null,
        },
        ExprNode::Contains(inner, part) => match value(inner, names, row)? {
            Datum::Text(text) => Datum::Bool(text.contains(part)),
            _ => Datum::Null,
        },
        ExprNode::Calculate(op, parts) => {
            let overflow = || ExecError::Overflow {
                expression: expr.to_string(),
            };
            let mut result: Option<Datum> = None;
            for part in parts {
                let right = value(part, names, row)?;
                result = Some(match result {
                    None => right,
                    Some(left) => {
                        let next = op.apply(left.value(), right.value());
                        next.map(Value::to_datum).ok_or_else(overflow)?
                    }
                });
            }
            result.unwrap_or(Datum::Null)
        }
    })
}

fn grouped(input: Rows, aggregate: &Aggregate) -> Result<Rows, ExecError> {
    let mut groups: BTreeMap<Vec<Datum>, Vec<&Vec<Datum>>> = BTreeMap::new();
    if aggregate.group_by.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for row in &input.rows {
        let key = aggregate
            .group_by
            .iter()
            .map(|it| value(&it.of, &input.names, row));
        groups
            .entry(key.collect::<Result<_, _>>()?)
            .or_default()
            .push(row);
    }
    let names = aggregate.group_by.iter().map(|it| &it.name);
    let names = names.chain(aggregate.calculate.iter().map(|it| &it.name));
    let mut rows = Vec::new();
    for (mut key, members) in groups {
        for call in &aggregate.calculate {
            key.push(calculated(call, &input.names, &members)?);
        }
        rows.push(key);
    }
    Ok(Rows {
        names: names.map(|name| (String::new(), name.clone())).collect(),
        rows,
    })
}

fn calculated(
    call: &AggregateCall,
    names: &[(String, String)],
    members: &[&Vec<Datum>],
) -> Result<Datum, ExecError> {
    let Some(of) = &call.of else {
        return Ok(Datum::I64(members.len() as i64));
    };
    let values = members.iter().map(|row| value(of, names, row));
    let mut values: Vec<Datum> = values.collect::<Result<_, _>>()?;
    values.retain(|value| *value != Datum::Null);
    let overflow = || ExecError::Overflow {
        expression: call.name.clone(),
    };
    // In two halves, so that sums on the way may be beyond what the result has to fit.
    let sum = || -> Option<(i128, u8)> {
        let (mut high, mut low, mut scale) = (0_i128, 0_i128, 0);
        for value in &values {
            let (unscaled, own_scale) = value.value().as_decimal()?;
            high += unscaled >> 64;
            low += unscaled & i128::from(u64::MAX);
            scale = own_scale;
        }
        high += low >> 64;
        low &= i128::from(u64::MAX);
        Some((high.checked_mul(1 << 64)?.checked_add(low)?, scale))
    };
    if call.function == AggregateFunction::Count {
        return Ok(Datum::I64(values.len() as i64));
    }
    if values.is_empty() {
        return Ok(Datum::Null);
    }
    Ok(match call.function {
        AggregateFunction::Count => Datum::I64(values.len() as i64),
        AggregateFunction::Min => values.iter().min().cloned().unwrap_or(Datum::Null),
        AggregateFunction::Max => values.iter().max().cloned().unwrap_or(Datum::Null),
        AggregateFunction::Sum => {
            let (unscaled, scale) = sum().ok_or_else(overflow)?;
            Datum::Decimal { unscaled, scale }
        }
        AggregateFunction::Avg => {
            let (unscaled, scale) = sum().ok_or_else(overflow)?;
            let count = values.len() as i128;
            let scaled = unscaled.checked_mul(1_000_000).ok_or_else(overflow)?;
            let half = if scaled < 0 { -(count / 2) } else { count / 2 };
            let digits = scale.saturating_add(6);
            if digits > SCALE_MAX {
                return Err(ExecError::Plan(PlanError::TooPrecise {
                    name: call.name.clone(),
                    digits,
                    digits_max: SCALE_MAX,
                }));
            }
            Datum::Decimal {
                unscaled: scaled.checked_add(half).ok_or_else(overflow)? / count,
                scale: digits,
            }
        }
    })
}

fn sorted(mut input: Rows, sort: &Sort) -> Result<Rows, ExecError> {
    let mut keyed = Vec::new();
    for row in input.rows {
        let keys = sort.by.iter().map(|key| value(&key.of, &input.names, &row));
        keyed.push((keys.collect::<Result<Vec<Datum>, _>>()?, row));
    }
    keyed.sort_by(|(a_keys, a), (b_keys, b)| {
        let mut pairs = a_keys.iter().zip(b_keys).zip(&sort.by);
        let by_keys = pairs.find_map(|((a, b), key)| {
            let order = a.value().total_cmp(b.value());
            let order = if key.descending {
                order.reverse()
            } else {
                order
            };
            order.is_ne().then_some(order)
        });
        let all = || {
            let mut pairs = a.iter().zip(b).map(|(a, b)| a.value().total_cmp(b.value()));
            pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        by_keys.unwrap_or_else(all)
    });
    input.rows = keyed.into_iter().map(|(_, row)| row).collect();
    Ok(input)
}
