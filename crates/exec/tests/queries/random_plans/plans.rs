//! Random plans over random tables.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use namiki_data::columns::{Column, ColumnType, Datum};
use namiki_exec::plan::{
    AggregateCall, AggregateFunction, Comparison, Expr, Find, HashJoin, IndexScan, Input, Join,
    KeyRange, Named, NestedLoopJoin, Plan, Scan, SortKey, column, literal,
};
use namiki_exec::source::Tables;
use namiki_platform::seeded_random::Random;

use super::tables::{TYPES, datum};

/// A column in the output of an operator.
#[derive(Clone, Debug)]
struct Given {
    name: String,
    column_type: ColumnType,
}

/// A plan and its output.
pub(crate) struct RandomPlan {
    pub(crate) plan: Plan,
    /// The number of times that each operator is in it.
    pub(crate) operators: BTreeMap<&'static str, usize>,
    pub(crate) determined: Determined,
}

/// The guarantee of a plan about its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Determined {
    /// The rows and their order.
    Order,
    /// The rows.
    Rows,
    /// The number of rows: some of the rows without the limit at the root.
    Count,
    /// Only that they are among the rows without limits of unordered rows.
    Some,
}

/// A limit that every row passes.
const ALL_ROWS: u64 = 1 << 40;

/// The plan without limits of unordered rows.
pub(crate) fn without_limits(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    if let Plan::Limit(limit) = &plan {
        let input = without_limits(&limit.input);
        if limit.rows == ALL_ROWS {
            return input.limit(ALL_ROWS);
        }
        let is_determined = is_in_order(&input) && input == *limit.input;
        return if is_determined { plan } else { input };
    }
    let strip = |input: &mut Input| *input = without_limits(input).into();
    match &mut plan {
        Plan::Filter(it) => strip(&mut it.input),
        Plan::Project(it) => strip(&mut it.input),
        Plan::Aggregate(it) => strip(&mut it.input),
        Plan::Sort(it) => strip(&mut it.input),
        Plan::NestedLoopJoin(it) => strip(&mut it.outer),
        Plan::HashJoin(it) => {
            strip(&mut it.build);
            strip(&mut it.probe);
        }
        Plan::Join(it) => {
            strip(&mut it.left);
            strip(&mut it.right);
        }
        Plan::Scan(_) | Plan::IndexScan(_) | Plan::Find(_) | Plan::Limit(_) => {}
    }
    plan
}

/// Whether the rows come in the order of a sort.
fn is_in_order(plan: &Plan) -> bool {
    match plan {
        Plan::Sort(_) => true,
        Plan::Filter(it) => is_in_order(&it.input),
        Plan::Project(it) => is_in_order(&it.input),
        Plan::Limit(it) => is_in_order(&it.input),
        _ => false,
    }
}

pub(crate) struct Maker<'r> {
    random: &'r mut Random,
    tables: &'r Tables,
    names: &'r [String],
    aliases: usize,
    operators: BTreeMap<&'static str, usize>,
    /// Estimated number of rows so far.
    rows: f64,
    /// A limit lets some rows pass, and which ones is not determined.
    is_loose: bool,
}

/// A join with more output rows is left out: the plain evaluator keeps them all.
const ROWS_MAX: f64 = 20_000.0;

/// Estimated number of different values.
fn distinct(column_type: ColumnType) -> f64 {
    match column_type {
        ColumnType::Bool => 2.0,
        ColumnType::Bytes => 4.0,
        ColumnType::Text => 6.0,
        _ => 12.0,
    }
}

impl<'r> Maker<'r> {
    pub(crate) fn new(random: &'r mut Random, tables: &'r Tables, names: &'r [String]) -> Self {
        Self {
            random,
            tables,
            names,
            aliases: 0,
            operators: BTreeMap::new(),
            rows: 0.0,
            is_loose: false,
        }
    }

    pub(crate) fn make(mut self) -> RandomPlan {
        let joins = [0, 1, 1, 2, 2, 3][self.random.index(6)];
        let (mut plan, mut given) = self.joined(joins);
        for _ in 0..self.random.index(3) {
            (plan, given) = match self.random.index(3) {
                0 => self.filter(plan, given),
                1 => self.project(plan, given),
                // An aggregate over some rows differs from the one over all.
                _ if self.is_loose => (plan, given),
                _ => self.aggregate(plan, given),
            };
            plan = self.maybe_limit(plan, &given);
        }
        // Joins above groups, too.
        if self.random.chance(0.12) {
            (plan, given) = self.join(plan, given);
        }
        let is_sorted = self.random.chance(0.25);
        if is_sorted {
            plan = self.sort(plan, &given);
        }
        let is_limited = self.random.chance(0.2);
        if is_limited {
            self.count("limit");
            plan = plan.limit(self.random.below(40));
        }
        RandomPlan {
            determined: match (self.is_loose, is_sorted, is_limited) {
                (true, ..) => Determined::Some,
                (false, true, _) => Determined::Order,
                (false, false, true) => Determined::Count,
                (false, false, false) => Determined::Rows,
            },
            plan,
            operators: self.operators,
        }
    }

    /// Sometimes limits the rows: those of a sort to a few, others to a few or to more than exist.
    fn maybe_limit(&mut self, plan: Plan, given: &[Given]) -> Plan {
        if !self.random.chance(0.12) {
            return plan;
        }
        self.count("limit");
        if !self.is_loose && self.random.chance(0.4) {
            let mut plan = self.sort(plan, given);
            if self.random.chance(0.5) {
                plan = self.filter(plan, given.to_vec()).0;
            }
            let rows = 1 + self.random.below(200);
            self.rows = self.rows.min(rows as f64);
            return plan.limit(rows);
        }
        if self.random.chance(0.5) {
            return plan.limit(ALL_ROWS);
        }
        self.is_loose = true;
        let rows = 1 + self.random.below(200);
        self.rows = self.rows.min(rows as f64);
        plan.limit(rows)
    }

    fn count(&mut self, operator: &'static str) {
        *self.operators.entry(operator).or_default() += 1;
    }

    fn joined(&mut self, joins: usize) -> (Plan, Vec<Given>) {
        let (mut plan, mut given) = self.access();
        for _ in 0..joins {
            plan = self.maybe_limit(plan, &given);
            (plan, given) = self.join(plan, given);
        }
        (plan, given)
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("a{}", self.aliases)
    }

    fn given_by(&self, table: &str, alias: &str) -> Vec<Given> {
        let source = &self.tables.get(table).unwrap().source;
        let columns = source.schema().columns().iter();
        let given = columns.map(|column| Given {
            name: format!("{alias}.{}", column.name),
            column_type: column.column_type,
        });
        given.collect()
    }

    fn table(&mut self) -> String {
        self.names[self.random.index(self.names.len())].clone()
    }

    /// A range of a key with these columns.
    fn range(&mut self, columns: &[Column]) -> KeyRange {
        let mut range = KeyRange::default();
        if self.random.chance(0.85) {
            return range;
        }
        if self.random.chance(0.3) {
            let listed = &columns[..1 + self.random.index(columns.len())];
            range.one_of = listed.iter().map(|it| self.list(it.column_type)).collect();
            return range;
        }
        for column in &columns[..self.random.index(columns.len() + 1)] {
            if self.random.chance(0.7) {
                break;
            }
            range.equal.push(self.key_value(column, 0.1));
        }
        if let Some(next) = columns.get(range.equal.len()) {
            let mut bound = |chance| {
                let is_bounded = self.random.chance(chance);
                is_bounded.then(|| self.key_value(next, 0.01))
            };
            (range.from, range.above) = (bound(0.3), bound(0.2));
            (range.to, range.below) = (bound(0.2), bound(0.3));
        }
        range
    }

    /// Several values of a type, some of them repeated or missing.
    fn list(&mut self, column_type: ColumnType) -> Vec<Datum> {
        let one = |random: &mut Random| {
            if random.chance(0.1) {
                Datum::Null
            } else {
                datum(random, column_type)
            }
        };
        let count = self.random.index(12);
        (0..count).map(|_| one(self.random)).collect()
    }

    /// A value of a column; sometimes none if the column is nullable.
    fn key_value(&mut self, column: &Column, missing: f64) -> Datum {
        if column.nullable && self.random.chance(missing) {
            Datum::Null
        } else {
            datum(self.random, column.column_type)
        }
    }

    /// The columns of the key of a table or of an index.
    fn key(&self, table: &str, index: Option<&str>) -> Vec<Column> {
        let found = self.tables.get(table).unwrap();
        let source = index.map_or(&found.source, |index| &found.indexes[index]);
        let schema = source.schema();
        let key = schema.key().iter().map(|at| schema.columns()[*at].clone());
        key.collect()
    }

    fn index_of(&mut self, table: &str) -> Option<String> {
        let found = self.tables.get(table).unwrap();
        let names: Vec<&String> = found.indexes.keys().collect();
        (!names.is_empty()).then(|| names[self.random.index(names.len())].clone())
    }

    fn access(&mut self) -> (Plan, Vec<Given>) {
        let (table, alias) = (self.table(), self.alias());
        let given = self.given_by(&table, &alias);
        let filter = self.random.chance(0.25).then(|| self.condition(&given, 1));
        if self.random.chance(0.25) {
            return self.find(table, alias, given);
        }
        let index = self.index_of(&table).filter(|_| self.random.chance(0.5));
        let key = self.key(&table, index.as_deref());
        let range = self.range(&key);
        self.rows = self.tables.get(&table).unwrap().source.rows() as f64;
        let plan = match index {
            Some(index) => {
                self.count("index_scan");
                Plan::IndexScan(IndexScan {
                    table,
                    index,
                    alias: Some(alias),
                    range,
                    filter,
                })
            }
            None => {
                self.count("scan");
                Plan::Scan(Scan {
                    table,
                    alias: Some(alias),
                    range,
                    filter,
                })
            }
        };
        (plan, given)
    }

    /// The access path is left to the planner.
    fn find(&mut self, table: String, alias: String, given: Vec<Given>) -> (Plan, Vec<Given>) {
        self.count("find");
        let filter = self.random.chance(0.7).then(|| self.condition(&given, 1));
        self.rows = self.tables.get(&table).unwrap().source.rows() as f64;
        let plan = Plan::Find(Find {
            table,
            alias: Some(alias),
            filter,
        });
        (plan, given)
    }

    /// An expression of a type, over one of these columns if there is one.
    fn value_of(&mut self, column_type: ColumnType, given: &[Given]) -> Expr {
        if self.random.chance(0.005) {
            return literal(Datum::Null);
        }
        let same: Vec<&Given> = given
            .iter()
            .filter(|it| it.column_type == column_type)
            .collect();
        let number: Vec<&Given> = given
            .iter()
            .filter(|it| it.column_type.is_number() && column_type.is_number())
            .collect();
        let pool = if same.is_empty() || self.random.chance(0.2) {
            number
        } else {
            same
        };
        if pool.is_empty() {
            return literal(datum(self.random, column_type));
        }
        let own = column(&pool[self.random.index(pool.len())].name);
        if column_type.is_number() && self.random.chance(0.1) {
            return own.plus(literal(1));
        }
        own
    }

    fn join(&mut self, plan: Plan, given: Vec<Given>) -> (Plan, Vec<Given>) {
        if self.random.chance(0.6) {
            self.nested_loop(plan, given)
        } else {
            self.hash_join(plan, given)
        }
    }

    fn nested_loop(&mut self, outer: Plan, given: Vec<Given>) -> (Plan, Vec<Given>) {
        let (table, alias) = (self.table(), self.alias());
        let index = self.index_of(&table).filter(|_| self.random.chance(0.5));
        let key = self.key(&table, index.as_deref());
        let inner = self.tables.get(&table).unwrap().source.rows() as f64;
        let rows = self.rows * (inner / distinct(key[0].column_type)).max(1.0);
        if rows > ROWS_MAX {
            return (outer, given);
        }
        self.rows = rows;
        self.count("nested_loop_join");
        let columns = 1 + self.random.index(key.len());
        let columns = if self.random.chance(0.75) { 1 } else { columns };
        let lookup = key[..columns]
            .iter()
            .map(|it| self.value_of(it.column_type, &given))
            .collect();
        let inner = self.given_by(&table, &alias);
        let all = [given, inner].concat();
        let filter = self.random.chance(0.2).then(|| self.condition(&all, 1));
        let plan = Plan::NestedLoopJoin(NestedLoopJoin {
            outer: outer.into(),
            table,
            index,
            alias: Some(alias),
            lookup,
            filter,
            table_first: false,
        });
        (plan, all)
    }

    fn hash_join(&mut self, probe: Plan, given: Vec<Given>) -> (Plan, Vec<Given>) {
        let (before, rows) = (self.operators.clone(), self.rows);
        let (mut build, mut built) = self.access();
        if self.random.chance(0.2) {
            (build, built) = self.filter(build, built);
        }
        let mut on = Vec::new();
        for _ in 0..1 + self.random.index(2) {
            let own = built[self.random.index(built.len())].clone();
            if on.is_empty() {
                self.rows = rows * (self.rows / distinct(own.column_type)).max(1.0);
            }
            on.push((column(&own.name), self.value_of(own.column_type, &given)));
        }
        if self.rows > ROWS_MAX {
            (self.operators, self.rows) = (before, rows);
            return (probe, given);
        }
        if self.random.chance(0.4) {
            return self.join_of(probe, given, build, built, on);
        }
        self.count("hash_join");
        let swapped = self.random.chance(0.5);
        let all = if swapped {
            [given, built].concat()
        } else {
            [built, given].concat()
        };
        let filter = self.random.chance(0.2).then(|| self.condition(&all, 1));
        let (build, probe) = if swapped {
            (probe, build)
        } else {
            (build, probe)
        };
        if swapped {
            on = on.into_iter().map(|(a, b)| (b, a)).collect();
        }
        let plan = Plan::HashJoin(HashJoin {
            build: build.into(),
            probe: probe.into(),
            on,
            filter,
            probe_first: false,
        });
        (plan, all)
    }

    /// The access path is left to the planner.
    fn join_of(
        &mut self,
        left: Plan,
        given: Vec<Given>,
        right: Plan,
        built: Vec<Given>,
        on: Vec<(Expr, Expr)>,
    ) -> (Plan, Vec<Given>) {
        self.count("join");
        let swapped = self.random.chance(0.3);
        let on = on.into_iter().map(|(right, left)| {
            if swapped {
                (right, left)
            } else {
                (left, right)
            }
        });
        let on = on.collect();
        let ((left, given), (right, built)) = if swapped {
            ((right, built), (left, given))
        } else {
            ((left, given), (right, built))
        };
        let all = [given, built].concat();
        let filter = self.random.chance(0.2).then(|| self.condition(&all, 1));
        let plan = Plan::Join(Join {
            left: left.into(),
            right: right.into(),
            on,
            filter,
        });
        (plan, all)
    }

    fn filter(&mut self, plan: Plan, given: Vec<Given>) -> (Plan, Vec<Given>) {
        self.count("filter");
        let keep = self.condition(&given, 2);
        (plan.filter(keep), given)
    }

    fn condition(&mut self, given: &[Given], depth: usize) -> Expr {
        if depth > 0 && self.random.chance(0.4) {
            let (a, b) = (
                self.condition(given, depth - 1),
                self.condition(given, depth - 1),
            );
            return match self.random.index(3) {
                0 => a.and(b),
                1 => a.or(b),
                _ => !a,
            };
        }
        if given.is_empty() {
            return literal(true);
        }
        let own = given[self.random.index(given.len())].clone();
        let value = column(&own.name);
        match self.random.index(8) {
            0 => {
                let is_null = value.is_null();
                if self.random.chance(0.5) {
                    is_null
                } else {
                    !is_null
                }
            }
            1 => {
                let values = [1 + self.random.index(4), self.random.index(60)];
                let values = values[usize::from(self.random.chance(0.3))];
                let list = (0..values).map(|_| {
                    if self.random.chance(0.1) {
                        Datum::Null
                    } else {
                        datum(self.random, own.column_type)
                    }
                });
                let list: Vec<Datum> = list.collect();
                value.is_in(list)
            }
            2 if own.column_type == ColumnType::Text => {
                let part = ["", "a", "z"][self.random.index(3)];
                if self.random.chance(0.5) {
                    value.starts_with(part)
                } else {
                    value.contains(part)
                }
            }
            3 if own.column_type == ColumnType::Bool => value,
            _ => {
                // Most conditions hold for most rows.
                let comparison = match self.random.index(9) {
                    at @ 0..6 => Comparison::ALL[at],
                    6 => Comparison::NotEqual,
                    7 => Comparison::LessOrEqual,
                    _ => Comparison::GreaterOrEqual,
                };
                let other = if self.random.chance(0.6) {
                    literal(datum(self.random, own.column_type))
                } else {
                    self.value_of(own.column_type, given)
                };
                value.compare(comparison, other)
            }
        }
    }

    fn project(&mut self, plan: Plan, given: Vec<Given>) -> (Plan, Vec<Given>) {
        self.count("project");
        let mut columns = Vec::new();
        let mut new = Vec::new();
        for at in 0..1 + self.random.index(4) {
            let name = format!("p{}_{at}", self.aliases);
            let (of, column_type) = if given.is_empty() || self.random.chance(0.1) {
                let column_type = TYPES[self.random.index(7)];
                (literal(datum(self.random, column_type)), column_type)
            } else {
                let own = given[self.random.index(given.len())].clone();
                match own.column_type {
                    ColumnType::I64 if self.random.chance(0.5) => {
                        (column(&own.name).times(literal(3)), ColumnType::I64)
                    }
                    other => (column(&own.name), other),
                }
            };
            columns.push(Named::new(&name, of));
            new.push(Given { name, column_type });
        }
        self.aliases += 1;
        (plan.project(columns), new)
    }

    fn aggregate(&mut self, plan: Plan, given: Vec<Given>) -> (Plan, Vec<Given>) {
        self.count("aggregate");
        self.aliases += 1;
        let mut group_by = Vec::new();
        let mut new = Vec::new();
        for at in 0..self.random.index(3).min(given.len()) {
            let own = given[self.random.index(given.len())].clone();
            let name = format!("g{}_{at}", self.aliases);
            group_by.push(Named::new(&name, column(&own.name)));
            new.push(Given {
                name,
                column_type: own.column_type,
            });
        }
        let mut calculate = Vec::new();
        for at in 0..1 + self.random.index(3) {
            let name = format!("s{}_{at}", self.aliases);
            let (call, column_type) = self.call(&name, &given);
            calculate.push(call);
            new.push(Given { name, column_type });
        }
        let plan = Plan::Aggregate(namiki_exec::plan::Aggregate {
            input: plan.into(),
            group_by,
            calculate,
        });
        (plan, new)
    }

    fn call(&mut self, name: &str, given: &[Given]) -> (AggregateCall, ColumnType) {
        if given.is_empty() || self.random.chance(0.2) {
            return (AggregateCall::count(name), ColumnType::I64);
        }
        let own = given[self.random.index(given.len())].clone();
        let of = column(&own.name);
        let scale = match own.column_type {
            ColumnType::Decimal { scale } => scale,
            _ => 0,
        };
        let (function, column_type) = match self.random.index(5) {
            0 => (AggregateFunction::Min, own.column_type),
            1 => (AggregateFunction::Max, own.column_type),
            2 if own.column_type.is_number() => {
                (AggregateFunction::Sum, ColumnType::Decimal { scale })
            }
            3 if own.column_type.is_number() && scale < 20 => (
                AggregateFunction::Avg,
                ColumnType::Decimal { scale: scale + 6 },
            ),
            _ => (AggregateFunction::Count, ColumnType::I64),
        };
        (AggregateCall::new(name, function, of), column_type)
    }

    fn sort(&mut self, plan: Plan, given: &[Given]) -> Plan {
        self.count("sort");
        let mut by = Vec::new();
        for _ in 0..1 + self.random.index(2) {
            if given.is_empty() {
                break;
            }
            let of = column(&given[self.random.index(given.len())].name);
            by.push(if self.random.chance(0.5) {
                SortKey::ascending(of)
            } else {
                SortKey::descending(of)
            });
        }
        plan.sort(by)
    }
}
