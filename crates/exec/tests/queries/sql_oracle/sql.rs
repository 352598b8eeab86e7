//! The SQL of a plan: a query inside a query for each operator, with columns `c0`, `c1` and so on.
//!
//! The SQL is written from the guarantees of plan files (`docs/plan-files.md`), and uses only the
//! plan and the schemas of the engine: a mistake in the engine's types, comparisons or encodings is
//! not repeated here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;

use namiki_data::columns::{Arithmetic, ColumnType, Datum, Schema};
use namiki_exec::plan::{
    Aggregate, AggregateCall, AggregateFunction, Expr, ExprNode, KeyRange, NestedLoopJoin, Plan,
    Sort, column as plan_column,
};
use namiki_exec::source::Tables;

/// The type of a column's values. It decides which values are comparable, and how a value is
/// written in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    /// A whole number of any size.
    Whole,
    /// A number with this many digits behind the point.
    Decimal(u8),
    Date,
    Text,
    Bytes,
}

impl Kind {
    fn of(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Bool => Self::Bool,
            ColumnType::I64 | ColumnType::U64 => Self::Whole,
            ColumnType::Decimal { scale } | ColumnType::LongDecimal { scale } => {
                Self::Decimal(scale)
            }
            ColumnType::F64 => unreachable!("random tables have none"),
            ColumnType::Date => Self::Date,
            ColumnType::Text => Self::Text,
            ColumnType::Bytes => Self::Bytes,
        }
    }

    /// Digits behind the point of a number.
    fn scale(self) -> Option<u8> {
        match self {
            Self::Whole => Some(0),
            Self::Decimal(scale) => Some(scale),
            _ => None,
        }
    }
}

/// An expression and its type; `None` for `NULL` alone.
struct Typed {
    sql: String,
    kind: Option<Kind>,
}

/// A query.
struct Relation {
    sql: String,
    /// The name of each column in a plan: its table or nothing, and its own.
    names: Vec<(String, String)>,
    kinds: Vec<Kind>,
    /// The rows are in the order of the column `o`.
    in_order: bool,
}

/// The query of a plan: every value as text, in the rows' order if they have one.
pub(super) fn query(plan: &Plan, tables: &Tables) -> String {
    let relation = Writer { tables }.relation(plan);
    let texts = relation
        .kinds
        .iter()
        .enumerate()
        .map(|(at, kind)| match kind {
            Kind::Text => format!("c{at}"),
            Kind::Bytes => format!("lower(hex(c{at}))"),
            Kind::Decimal(scale) => format!("CAST(CAST(c{at} AS DECIMAL(38, {scale})) AS VARCHAR)"),
            Kind::Bool | Kind::Whole | Kind::Date => format!("CAST(c{at} AS VARCHAR)"),
        });
    let texts: Vec<String> = texts.collect();
    let order = if relation.in_order { " ORDER BY o" } else { "" };
    format!(
        "SELECT {} FROM ({}) AS r{order}",
        texts.join(", "),
        relation.sql
    )
}

/// The statement that creates a table of these columns.
pub(super) fn create(name: &str, schema: &Schema) -> String {
    let columns = schema.columns().iter();
    let columns = columns.map(|it| format!("\"{}\" {}", it.name, sql_type(it.column_type)));
    let columns: Vec<String> = columns.collect();
    format!("CREATE TABLE {name} ({})", columns.join(", "))
}

/// The statements that insert rows into it, at least one.
pub(super) fn insert(name: &str, rows: &[Vec<Datum>]) -> String {
    let row = |row: &Vec<Datum>| {
        let values: Vec<String> = row.iter().map(|value| literal(value).sql).collect();
        format!("({})", values.join(", "))
    };
    let rows: Vec<String> = rows.iter().map(row).collect();
    format!("INSERT INTO {name} VALUES {}", rows.join(", "))
}

fn sql_type(column_type: ColumnType) -> String {
    match column_type {
        ColumnType::Bool => "BOOLEAN".to_owned(),
        ColumnType::I64 => "BIGINT".to_owned(),
        ColumnType::U64 => "UBIGINT".to_owned(),
        ColumnType::Decimal { scale } => format!("DECIMAL(18, {scale})"),
        ColumnType::LongDecimal { scale } => format!("DECIMAL(38, {scale})"),
        ColumnType::F64 => "DOUBLE".to_owned(),
        ColumnType::Date => "DATE".to_owned(),
        ColumnType::Text => "VARCHAR".to_owned(),
        ColumnType::Bytes => "BLOB".to_owned(),
    }
}

fn literal(value: &Datum) -> Typed {
    let column_type = value.column_type();
    let sql = match value {
        Datum::Null => "NULL".to_owned(),
        Datum::Bool(value) => value.to_string(),
        Datum::I64(value) => format!("CAST({value} AS BIGINT)"),
        Datum::U64(value) => format!("CAST({value} AS UBIGINT)"),
        Datum::Decimal { unscaled, scale } => decimal(*unscaled, *scale),
        Datum::F64(number) => format!("CAST('{number}' AS DOUBLE)"),
        Datum::Date(days) => format!("(DATE '1970-01-01' + CAST({days} AS INTEGER))"),
        Datum::Text(text) => text_literal(text),
        Datum::Bytes(bytes) => format!("unhex('{}')", hex(bytes)),
    };
    Typed {
        sql,
        kind: column_type.map(Kind::of),
    }
}

fn decimal(unscaled: i128, scale: u8) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!(
        "{:0>width$}",
        unscaled.unsigned_abs(),
        width = usize::from(scale) + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    format!("CAST('{sign}{whole}.{fraction}' AS DECIMAL(38, {scale}))")
}

fn text_literal(text: &str) -> String {
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        format!("'{text}'")
    } else {
        format!("decode(unhex('{}'))", hex(text.as_bytes()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A comparison, with numbers of both sides as decimals of one scale.
fn compared(left: &Typed, operator: &str, right: &Typed) -> String {
    let scale = |typed: &Typed| typed.kind.and_then(Kind::scale);
    let side = |typed: &Typed| match (scale(left), scale(right)) {
        (Some(a), Some(b)) if left.kind != right.kind => {
            format!("CAST({} AS DECIMAL(38, {}))", typed.sql, a.max(b))
        }
        _ => typed.sql.clone(),
    };
    format!("({} {operator} {})", side(left), side(right))
}

struct Writer<'t> {
    tables: &'t Tables,
}

impl Writer<'_> {
    fn relation(&self, plan: &Plan) -> Relation {
        match plan {
            Plan::Find(find) => {
                let table = self.table(&find.table, find.alias.as_deref());
                filtered(table, find.filter.as_ref())
            }
            Plan::Scan(scan) => {
                let table = self.table(&scan.table, scan.alias.as_deref());
                let rows = in_range(table, &self.key(&scan.table, None), &scan.range);
                filtered(rows, scan.filter.as_ref())
            }
            Plan::IndexScan(scan) => {
                let table = self.table(&scan.table, scan.alias.as_deref());
                let key = self.key(&scan.table, Some(&scan.index));
                filtered(in_range(table, &key, &scan.range), scan.filter.as_ref())
            }
            Plan::NestedLoopJoin(join) => self.nested_loop(join),
            Plan::HashJoin(join) => {
                let (build, probe) = (self.relation(&join.build), self.relation(&join.probe));
                let swapped: Vec<_> = join
                    .on
                    .iter()
                    .map(|(a, b)| (b.clone(), a.clone()))
                    .collect();
                let joined = if join.probe_first {
                    joined(&probe, &build, &swapped)
                } else {
                    joined(&build, &probe, &join.on)
                };
                filtered(joined, join.filter.as_ref())
            }
            Plan::Join(join) => {
                let (left, right) = (self.relation(&join.left), self.relation(&join.right));
                filtered(joined(&left, &right, &join.on), join.filter.as_ref())
            }
            Plan::Filter(filter) => filtered(self.relation(&filter.input), Some(&filter.keep)),
            Plan::Project(project) => {
                let input = self.relation(&project.input);
                let of = |at: usize| {
                    expression(&project.columns[at].of, &input.names, &input.kinds, "r")
                };
                let columns: Vec<Typed> = (0..project.columns.len()).map(of).collect();
                let names = project
                    .columns
                    .iter()
                    .map(|it| (String::new(), it.name.clone()));
                let order = if input.in_order { ", o" } else { "" };
                Relation {
                    sql: format!(
                        "SELECT {}{order} FROM ({}) AS r",
                        numbered(&columns),
                        input.sql
                    ),
                    names: names.collect(),
                    kinds: columns.iter().map(|it| it.kind.unwrap()).collect(),
                    in_order: input.in_order,
                }
            }
            Plan::Aggregate(aggregate) => grouped(&self.relation(&aggregate.input), aggregate),
            Plan::Sort(sort) => sorted(self.relation(&sort.input), sort),
            Plan::Limit(limit) => {
                let input = self.relation(&limit.input);
                let order = if input.in_order { " ORDER BY o" } else { "" };
                let sql = format!(
                    "SELECT * FROM ({}) AS r{order} LIMIT {}",
                    input.sql, limit.rows
                );
                Relation { sql, ..input }
            }
        }
    }

    fn table(&self, table: &str, alias: Option<&str>) -> Relation {
        let schema = self.tables.get(table).unwrap().source.schema();
        let called = alias.unwrap_or(table);
        let columns = schema.columns().iter().enumerate();
        let columns: Vec<String> = columns
            .map(|(at, it)| format!("\"{}\" AS c{at}", it.name))
            .collect();
        let all = || schema.columns().iter();
        Relation {
            sql: format!("SELECT {} FROM {table}", columns.join(", ")),
            names: all()
                .map(|it| (called.to_owned(), it.name.clone()))
                .collect(),
            kinds: all().map(|it| Kind::of(it.column_type)).collect(),
            in_order: false,
        }
    }

    /// The names of the columns of a key or an index.
    fn key(&self, table: &str, index: Option<&str>) -> Vec<String> {
        let found = self.tables.get(table).unwrap();
        let schema = index
            .map_or(&found.source, |index| &found.indexes[index])
            .schema();
        schema
            .key()
            .iter()
            .map(|at| schema.columns()[*at].name.clone())
            .collect()
    }

    fn nested_loop(&self, join: &NestedLoopJoin) -> Relation {
        let outer = self.relation(&join.outer);
        let inner = self.table(&join.table, join.alias.as_deref());
        let key = self.key(&join.table, join.index.as_deref());
        let own = |name: &String| plan_column(&format!("{}.{name}", inner.names[0].0));
        let on: Vec<(Expr, Expr)> = join
            .lookup
            .iter()
            .cloned()
            .zip(key.iter().map(own))
            .collect();
        let joined = if join.table_first {
            let swapped: Vec<_> = on.into_iter().map(|(a, b)| (b, a)).collect();
            joined(&inner, &outer, &swapped)
        } else {
            joined(&outer, &inner, &on)
        };
        filtered(joined, join.filter.as_ref())
    }
}

/// Columns under their numbers.
fn numbered(columns: &[Typed]) -> String {
    let columns = columns.iter().enumerate();
    let columns: Vec<String> = columns
        .map(|(at, it)| format!("{} AS c{at}", it.sql))
        .collect();
    columns.join(", ")
}

fn filtered(input: Relation, keep: Option<&Expr>) -> Relation {
    let Some(keep) = keep else {
        return input;
    };
    let keep = expression(keep, &input.names, &input.kinds, "r").sql;
    Relation {
        sql: format!("SELECT * FROM ({}) AS r WHERE {keep}", input.sql),
        ..input
    }
}

fn in_range(table: Relation, key: &[String], range: &KeyRange) -> Relation {
    let column = |at: usize| {
        let place = table
            .names
            .iter()
            .position(|(_, name)| *name == key[at])
            .unwrap();
        Typed {
            sql: format!("r.c{place}"),
            kind: Some(table.kinds[place]),
        }
    };
    let mut parts = vec!["true".to_owned()];
    for (at, value) in range.equal.iter().enumerate() {
        parts.push(match value {
            Datum::Null => format!("{} IS NULL", column(at).sql),
            value => compared(&column(at), "=", &literal(value)),
        });
    }
    for (at, list) in range.one_of.iter().enumerate() {
        let equal = |value| compared(&column(at), "=", &literal(value));
        let equal: Vec<String> = list.iter().map(equal).collect();
        parts.push(match equal.as_slice() {
            [] => "false".to_owned(),
            some => format!("({})", some.join(" OR ")),
        });
    }
    let bounds = [
        (&range.from, ">="),
        (&range.above, ">"),
        (&range.to, "<="),
        (&range.below, "<"),
    ];
    for (bound, operator) in bounds {
        if let Some(value) = bound {
            parts.push(compared(
                &column(range.equal.len()),
                operator,
                &literal(value),
            ));
        }
    }
    Relation {
        sql: format!(
            "SELECT * FROM ({}) AS r WHERE {}",
            table.sql,
            parts.join(" AND ")
        ),
        ..table
    }
}

fn joined(left: &Relation, right: &Relation, on: &[(Expr, Expr)]) -> Relation {
    let pair = |(a, b): &(Expr, Expr)| {
        let a = expression(a, &left.names, &left.kinds, "l");
        compared(&a, "=", &expression(b, &right.names, &right.kinds, "r"))
    };
    let on: Vec<String> = on.iter().map(pair).collect();
    let of_left = (0..left.kinds.len()).map(|at| format!("l.c{at} AS c{at}"));
    let of_right =
        (0..right.kinds.len()).map(|at| format!("r.c{at} AS c{}", left.kinds.len() + at));
    let columns: Vec<String> = of_left.chain(of_right).collect();
    Relation {
        sql: format!(
            "SELECT {} FROM ({}) AS l JOIN ({}) AS r ON {}",
            columns.join(", "),
            left.sql,
            right.sql,
            on.join(" AND ")
        ),
        names: [left.names.clone(), right.names.clone()].concat(),
        kinds: [left.kinds.clone(), right.kinds.clone()].concat(),
        in_order: false,
    }
}

fn grouped(input: &Relation, aggregate: &Aggregate) -> Relation {
    let of = |of: &Expr| expression(of, &input.names, &input.kinds, "r");
    let groups: Vec<Typed> = aggregate.group_by.iter().map(|it| of(&it.of)).collect();
    let mut columns: Vec<Typed> = aggregate.group_by.iter().map(|it| of(&it.of)).collect();
    let calls = aggregate.calculate.iter();
    columns.extend(calls.map(|call| calculated(call, call.of.as_ref().map(of))));
    let by = match groups.as_slice() {
        [] => String::new(),
        groups => {
            let groups: Vec<&str> = groups.iter().map(|it| it.sql.as_str()).collect();
            format!(" GROUP BY {}", groups.join(", "))
        }
    };
    let names = aggregate.group_by.iter().map(|it| &it.name);
    let names = names.chain(aggregate.calculate.iter().map(|it| &it.name));
    Relation {
        sql: format!(
            "SELECT {} FROM ({}) AS r{by}",
            numbered(&columns),
            input.sql
        ),
        names: names.map(|name| (String::new(), name.clone())).collect(),
        kinds: columns.iter().map(|it| it.kind.unwrap()).collect(),
        in_order: false,
    }
}

fn calculated(call: &AggregateCall, of: Option<Typed>) -> Typed {
    let Some(of) = of else {
        return Typed {
            sql: "count(*)".to_owned(),
            kind: Some(Kind::Whole),
        };
    };
    let value = &of.sql;
    let scale = of.kind.and_then(Kind::scale).unwrap_or_default();
    let sum = format!("sum(CAST({value} AS DECIMAL(38, {scale})))");
    let (sql, kind) = match call.function {
        AggregateFunction::Count => (format!("count({value})"), Kind::Whole),
        AggregateFunction::Min => (format!("min({value})"), of.kind.unwrap()),
        AggregateFunction::Max => (format!("max({value})"), of.kind.unwrap()),
        AggregateFunction::Sum => (sum, Kind::Decimal(scale)),
        AggregateFunction::Avg => {
            // Six digits more, half of the last one rounded away from zero, all in whole numbers.
            let power = 10_u128.pow(scale.into());
            let digits =
                format!("(CAST({sum} * CAST({power} AS DECIMAL(38, 0)) AS HUGEINT) * 1000000)");
            let half = format!("(count({value}) // 2)");
            let mean = format!(
                "(({digits} + CASE WHEN {digits} < 0 THEN -{half} ELSE {half} END) // count({value}))"
            );
            let unit = decimal(1, scale + 6);
            let shifted = format!("CAST({mean} AS DECIMAL(38, 0)) * {unit}");
            let sql = format!("CASE WHEN count({value}) = 0 THEN NULL ELSE {shifted} END");
            (sql, Kind::Decimal(scale + 6))
        }
    };
    Typed {
        sql,
        kind: Some(kind),
    }
}

fn sorted(input: Relation, sort: &Sort) -> Relation {
    let key = |of: &Expr| expression(of, &input.names, &input.kinds, "r").sql;
    let by = sort.by.iter().map(|it| {
        let direction = if it.descending {
            "DESC NULLS LAST"
        } else {
            "ASC NULLS FIRST"
        };
        format!("{} {direction}", key(&it.of))
    });
    let all = (0..input.kinds.len()).map(|at| format!("c{at} ASC NULLS FIRST"));
    let by: Vec<String> = by.chain(all).collect();
    let columns: Vec<String> = (0..input.kinds.len()).map(|at| format!("c{at}")).collect();
    Relation {
        sql: format!(
            "SELECT {}, row_number() OVER (ORDER BY {}) AS o FROM ({}) AS r",
            columns.join(", "),
            by.join(", "),
            input.sql
        ),
        in_order: true,
        ..input
    }
}

/// The column with this name.
fn place(name: &str, names: &[(String, String)]) -> usize {
    let is_it = |(table, own): &(String, String)| match name.split_once('.') {
        Some((of, column)) => table == of && own == column || own == name,
        None => own == name,
    };
    names
        .iter()
        .position(is_it)
        .unwrap_or_else(|| panic!("no column `{name}` in {names:?}"))
}

fn expression(expr: &Expr, names: &[(String, String)], kinds: &[Kind], from: &str) -> Typed {
    let of = |expr: &Expr| expression(expr, names, kinds, from);
    let all = |parts: &VecDeque<Expr>, word: &str| {
        let parts: Vec<String> = parts.iter().map(|part| of(part).sql).collect();
        format!("({})", parts.join(word))
    };
    let truth = |sql: String| Typed {
        sql,
        kind: Some(Kind::Bool),
    };
    match expr.node() {
        ExprNode::Column(name) => {
            let place = place(name, names);
            Typed {
                sql: format!("{from}.c{place}"),
                kind: Some(kinds[place]),
            }
        }
        ExprNode::Literal(value) => literal(value),
        ExprNode::Compare(comparison, left, right) => {
            truth(compared(&of(left), comparison.symbol(), &of(right)))
        }
        ExprNode::And(parts) => truth(all(parts, " AND ")),
        ExprNode::Or(parts) => truth(all(parts, " OR ")),
        ExprNode::Not(inner) => truth(format!("(NOT {})", of(inner).sql)),
        ExprNode::IsNull(inner) => truth(format!("({} IS NULL)", of(inner).sql)),
        ExprNode::In(inner, list) => {
            let list: Vec<String> = list
                .written()
                .iter()
                .map(|value| literal(value).sql)
                .collect();
            truth(format!("({} IN ({}))", of(inner).sql, list.join(", ")))
        }
        ExprNode::StartsWith(inner, text) => truth(format!(
            "starts_with({}, {})",
            of(inner).sql,
            text_literal(text)
        )),
        ExprNode::Contains(inner, text) => truth(format!(
            "contains({}, {})",
            of(inner).sql,
            text_literal(text)
        )),
        ExprNode::Calculate(op, parts) => {
            let parts = parts.iter().map(of);
            parts
                .reduce(|left, right| of_numbers(*op, &left, &right))
                .unwrap()
        }
        other => panic!("{other:?} has no SQL"),
    }
}

fn of_numbers(op: Arithmetic, left: &Typed, right: &Typed) -> Typed {
    let scales = (
        left.kind.and_then(Kind::scale),
        right.kind.and_then(Kind::scale),
    );
    let (Some(a), Some(b)) = scales else {
        panic!(
            "{} {} {} is no calculation with numbers",
            left.sql,
            op.symbol(),
            right.sql
        );
    };
    let scale = if op == Arithmetic::Multiply {
        a + b
    } else {
        a.max(b)
    };
    let exact = |side: &Typed| match side.kind {
        Some(Kind::Whole) => format!("CAST({} AS DECIMAL(38, 0))", side.sql),
        _ => side.sql.clone(),
    };
    let is_whole = left.kind == Some(Kind::Whole) && right.kind == Some(Kind::Whole);
    Typed {
        sql: format!("({} {} {})", exact(left), op.symbol(), exact(right)),
        kind: Some(if is_whole {
            Kind::Whole
        } else {
            Kind::Decimal(scale)
        }),
    }
}
