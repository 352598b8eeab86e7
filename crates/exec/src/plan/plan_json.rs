//! Plans in plan files: an operator is an object of one entry, its name and its fields
//! (`docs/plan-files.md`).
//!
//! They are written by `serde`, and read from text alone, because `serde` does not keep the digits
//! of a number (`json_text.rs`).

use std::str::FromStr;

use namiki_data::columns::Datum;

use super::calculated::{AggregateCall, AggregateFunction, Named, SortKey};
use super::expression::Expr;
use super::expression_json::{datum_from_json, expr_from_json, list, two};
use super::json_text::{self, Json, JsonValue, PlanTextError, TextProblem, Wrong};
use super::operators::{
    Aggregate, Filter, Find, HashJoin, IndexScan, Input, Join, KeyRange, Limit, NestedLoopJoin,
    Plan, Project, Scan, Sort,
};

/// Reads a plan file.
impl FromStr for Plan {
    type Err = PlanTextError;

    fn from_str(text: &str) -> Result<Self, PlanTextError> {
        let read = json_text::read(text).and_then(|json| plan(json, 1));
        read.map_err(|wrong| wrong.in_text(text))
    }
}

/// The fields of an object, which are taken by their names.
struct Fields {
    at: usize,
    of: &'static str,
    left: Vec<(String, Json)>,
    known: Vec<&'static str>,
}

impl Fields {
    fn of(json: Json, of: &'static str) -> Result<Self, Wrong> {
        let JsonValue::Object(left) = json.value else {
            let why = format!("`{of}` is an object, and this is {}", json.value.kind());
            return Err(Wrong::plan(json.at, why));
        };
        Ok(Self {
            at: json.at,
            of,
            left,
            known: Vec::new(),
        })
    }

    fn optional(&mut self, name: &'static str) -> Option<Json> {
        self.known.push(name);
        let at = self.left.iter().position(|(own, _)| own == name)?;
        Some(self.left.remove(at).1)
    }

    /// A required field. Unknown fields are reported first: one of them may be its misspelling.
    fn required(&mut self, name: &'static str) -> Result<Json, Wrong> {
        let found = self.optional(name);
        found.ok_or_else(|| {
            let left = match self.left.first() {
                Some((other, _)) => format!("; it has `{other}`"),
                None => String::new(),
            };
            Wrong::plan(
                self.at,
                format!("`{}` needs a field `{name}`{left}", self.of),
            )
        })
    }

    /// Checks that there are no other fields.
    fn end(self) -> Result<(), Wrong> {
        let Some((name, json)) = self.left.into_iter().next() else {
            return Ok(());
        };
        let known: Vec<String> = self.known.iter().map(|name| format!("`{name}`")).collect();
        let (of, known) = (self.of, known.join(", "));
        Err(Wrong::plan(
            json.at,
            format!("`{of}` has no field `{name}`; it has {known}"),
        ))
    }

    fn text(&mut self, name: &'static str) -> Result<String, Wrong> {
        text(self.required(name)?, name)
    }

    fn optional_text(&mut self, name: &'static str) -> Result<Option<String>, Wrong> {
        self.optional(name).map(|json| text(json, name)).transpose()
    }

    fn flag(&mut self, name: &'static str) -> Result<bool, Wrong> {
        match self.optional(name) {
            None => Ok(false),
            Some(Json {
                value: JsonValue::Bool(value),
                ..
            }) => Ok(value),
            Some(other) => Err(Wrong::plan(other.at, format!("`{name}` is true or false"))),
        }
    }

    fn expr(&mut self, name: &'static str) -> Result<Option<Expr>, Wrong> {
        self.optional(name).map(expr_from_json).transpose()
    }

    fn list_of<T>(
        &mut self,
        name: &'static str,
        one: impl FnMut(Json) -> Result<T, Wrong>,
    ) -> Result<Vec<T>, Wrong> {
        let entries = list(self.required(name)?, name)?;
        entries.into_iter().map(one).collect()
    }

    fn optional_list_of<T>(
        &mut self,
        name: &'static str,
        one: impl FnMut(Json) -> Result<T, Wrong>,
    ) -> Result<Vec<T>, Wrong> {
        match self.optional(name) {
            Some(json) => list(json, name)?.into_iter().map(one).collect(),
            None => Ok(Vec::new()),
        }
    }

    /// The plan below, at this level.
    fn input(&mut self, name: &'static str, level: u32) -> Result<Input, Wrong> {
        plan(self.required(name)?, level).map(Input::from)
    }
}

fn text(json: Json, name: &str) -> Result<String, Wrong> {
    match json.value {
        JsonValue::Text(text) => Ok(text),
        other => {
            let why = format!("`{name}` is a string, and this is {}", other.kind());
            Err(Wrong::plan(json.at, why))
        }
    }
}

/// Reads the plan at this level, counted from 1.
fn plan(json: Json, level: u32) -> Result<Plan, Wrong> {
    let at = json.at;
    if level > Plan::DEPTH_MAX {
        let problem = TextProblem::TooDeep {
            what: "levels of operators",
            max: Plan::DEPTH_MAX as usize,
        };
        return Err(Wrong { at, problem });
    }
    let JsonValue::Object(mut entries) = json.value else {
        let why = format!(
            "an operator is an object of one entry, and this is {}",
            json.value.kind()
        );
        return Err(Wrong::plan(at, why));
    };
    let (Some((name, of)), true) = (entries.pop(), entries.is_empty()) else {
        return Err(Wrong::plan(
            at,
            "an operator is an object of one entry: its name, and its fields",
        ));
    };
    let below = level + 1;
    match name.as_str() {
        "find" => find(of),
        "join" => join(of, below),
        "scan" => scan(of),
        "index_scan" => index_scan(of),
        "nested_loop_join" => nested_loop_join(of, below),
        "hash_join" => hash_join(of, below),
        "filter" => filter(of, below),
        "project" => project(of, below),
        "aggregate" => aggregate(of, below),
        "sort" => sort(of, below),
        "limit" => limit(of, below),
        _ => Err(Wrong::plan(
            at,
            format!(
                "there is no operator `{name}`; there are find, join, scan, index_scan, nested_loop_join, hash_join, \
                 filter, project, aggregate, sort, limit"
            ),
        )),
    }
}

fn find(json: Json) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "find")?;
    let find = Find {
        table: fields.text("table")?,
        alias: fields.optional_text("as")?,
        filter: fields.expr("filter")?,
    };
    fields.end()?;
    Ok(Plan::Find(find))
}

fn scan(json: Json) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "scan")?;
    let scan = Scan {
        table: fields.text("table")?,
        alias: fields.optional_text("as")?,
        range: range(fields.optional("range"))?,
        filter: fields.expr("filter")?,
    };
    fields.end()?;
    Ok(Plan::Scan(scan))
}

fn index_scan(json: Json) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "index_scan")?;
    let scan = IndexScan {
        table: fields.text("table")?,
        index: fields.text("index")?,
        alias: fields.optional_text("as")?,
        range: range(fields.optional("range"))?,
        filter: fields.expr("filter")?,
    };
    fields.end()?;
    Ok(Plan::IndexScan(scan))
}

fn range(json: Option<Json>) -> Result<KeyRange, Wrong> {
    let Some(json) = json else {
        return Ok(KeyRange::default());
    };
    let mut fields = Fields::of(json, "range")?;
    let equal = fields.optional_list_of("equal", datum_from_json)?;
    let one_of = fields.optional_list_of("one_of", |json| -> Result<Vec<Datum>, Wrong> {
        list(json, "one_of")?
            .into_iter()
            .map(datum_from_json)
            .collect()
    })?;
    let mut bound = |name| fields.optional(name).map(datum_from_json).transpose();
    let range = KeyRange {
        equal,
        from: bound("from")?,
        above: bound("above")?,
        to: bound("to")?,
        below: bound("below")?,
        one_of,
    };
    fields.end()?;
    Ok(range)
}

fn join(json: Json, below: u32) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "join")?;
    let join = Join {
        left: fields.input("left", below)?,
        right: fields.input("right", below)?,
        on: fields.list_of("on", pair)?,
        filter: fields.expr("filter")?,
    };
    fields.end()?;
    Ok(Plan::Join(join))
}

fn hash_join(json: Json, below: u32) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "hash_join")?;
    let join = HashJoin {
        build: fields.input("build", below)?,
        probe: fields.input("probe", below)?,
        on: fields.list_of("on", pair)?,
        filter: fields.expr("filter")?,
        probe_first: fields.flag("probe_first")?,
    };
    fields.end()?;
    Ok(Plan::HashJoin(join))
}

fn pair(json: Json) -> Result<(Expr, Expr), Wrong> {
    let [left, right] = two(json, "on")?;
    Ok((expr_from_json(left)?, expr_from_json(right)?))
}

fn nested_loop_join(json: Json, below: u32) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "nested_loop_join")?;
    let join = NestedLoopJoin {
        outer: fields.input("outer", below)?,
        table: fields.text("table")?,
        index: fields.optional_text("index")?,
        alias: fields.optional_text("as")?,
        lookup: fields.list_of("lookup", expr_from_json)?,
        filter: fields.expr("filter")?,
        table_first: fields.flag("table_first")?,
    };
    fields.end()?;
    Ok(Plan::NestedLoopJoin(join))
}

fn filter(json: Json, below: u32) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "filter")?;
    let filter = Filter {
        input: fields.input("input", below)?,
        keep: expr_from_json(fields.required("keep")?)?,
    };
    fields.end()?;
    Ok(Plan::Filter(filter))
}

fn project(json: Json, below: u32) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "project")?;
    let project = Project {
        input: fields.input("input", below)?,
        columns: fields.list_of("columns", named)?,
    };
    fields.end()?;
    Ok(Plan::Project(project))
}

/// A column under its own name, or an expression under another.
fn named(json: Json) -> Result<Named, Wrong> {
    if let JsonValue::Text(name) = &json.value {
        return Ok(Named::column(name));
    }
    let mut fields = Fields::of(json, "an entry of columns or group_by")?;
    let named = Named {
        name: fields.text("as")?,
        of: expr_from_json(fields.required("of")?)?,
    };
    fields.end()?;
    Ok(named)
}

fn aggregate(json: Json, below: u32) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "aggregate")?;
    let aggregate = Aggregate {
        input: fields.input("input", below)?,
        group_by: fields.optional_list_of("group_by", named)?,
        calculate: fields.optional_list_of("calculate", call)?,
    };
    fields.end()?;
    Ok(Plan::Aggregate(aggregate))
}

fn call(json: Json) -> Result<AggregateCall, Wrong> {
    let mut fields = Fields::of(json, "an entry of calculate")?;
    let function = fields.required("function")?;
    let at = function.at;
    let name = text(function, "function")?;
    let found = AggregateFunction::ALL
        .into_iter()
        .find(|it| it.name() == name);
    let call = AggregateCall {
        function: found.ok_or_else(|| {
            let names = AggregateFunction::ALL
                .map(AggregateFunction::name)
                .join(", ");
            Wrong::plan(
                at,
                format!("there is no function `{name}`; there are {names}"),
            )
        })?,
        of: fields.expr("of")?,
        name: fields.text("as")?,
    };
    fields.end()?;
    Ok(call)
}

fn sort(json: Json, below: u32) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "sort")?;
    let sort = Sort {
        input: fields.input("input", below)?,
        by: fields.list_of("by", sort_key)?,
    };
    fields.end()?;
    Ok(Plan::Sort(sort))
}

/// An expression, ascending, or `{ "descending": expression }`.
fn sort_key(json: Json) -> Result<SortKey, Wrong> {
    match json.value {
        JsonValue::Object(mut entries) if entries.len() == 1 && entries[0].0 == "descending" => {
            let of = expr_from_json(entries.remove(0).1)?;
            Ok(SortKey::descending(of))
        }
        value => expr_from_json(Json { value, ..json }).map(SortKey::ascending),
    }
}

fn limit(json: Json, below: u32) -> Result<Plan, Wrong> {
    let mut fields = Fields::of(json, "limit")?;
    let input = fields.input("input", below)?;
    let rows = fields.required("rows")?;
    let limit = match &rows.value {
        JsonValue::Number(number) => number.parse().ok().map(|rows| Limit { input, rows }),
        _ => None,
    };
    let limit = limit
        .ok_or_else(|| Wrong::plan(rows.at, "`rows` is a number of rows: 0, 1, 2 and so on"))?;
    fields.end()?;
    Ok(Plan::Limit(limit))
}

#[cfg(test)]
mod tests {
    use super::super::{column, literal};
    use super::*;

    /// Paper: oode §3, figure 1.
    #[test]
    fn the_papers_query_comes_back_from_json() {
        let range = KeyRange {
            equal: vec!["AUTOMOBILE".into()],
            above: Some(9980_i64.into()),
            ..KeyRange::default()
        };
        let plan = Plan::index_scan("customer", "segment_balance", range)
            .index_lookup("orders", "by_customer", &["c_custkey"])
            .aggregate(
                &["c_nationkey"],
                vec![
                    AggregateCall::new("total", AggregateFunction::Sum, column("o_totalprice")),
                    AggregateCall::count("orders"),
                ],
            )
            .sort(vec![SortKey::descending(column("total"))])
            .limit(10);
        let text = serde_json::to_string_pretty(&plan).unwrap();
        assert_eq!(text.parse(), Ok(plan), "{text}");
    }

    #[test]
    fn all_operators_come_back_from_json() {
        let looked_up = KeyRange {
            one_of: vec![
                vec!["x".into(), Datum::Null],
                vec![Datum::I64(1)],
                Vec::new(),
            ],
            ..KeyRange::default()
        };
        let plan = Plan::find("a", column("x").less(literal(3)))
            .join(Plan::index_scan("b", "i", looked_up), &[("a.x", "b.y")])
            .hash_join(Plan::scan("b"), &[("b.y", "a.y")])
            .lookup("c", &["x"])
            .filter(column("x").less(literal(3)))
            .project(vec![
                Named::column("a.x"),
                Named::new("z", literal(1).plus(column("y"))),
            ])
            .sort(vec![SortKey::ascending(column("x"))]);
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(text.parse(), Ok(plan), "{text}");
    }

    #[test]
    fn a_wrong_plan_says_where_and_what() {
        for (text, says) in [
            (
                "{ \"scan\": {\n \"tabel\": \"a\" } }",
                "`scan` needs a field `table`; it has `tabel` (line 1, column 11)",
            ),
            (
                "{ \"scan\": {\n \"table\": \"a\",\n \"filtre\": true } }",
                "`scan` has no field `filtre`; it has `table`, `as`, `range`, `filter` (line 3, column 12)",
            ),
            ("{}", "an object of one entry"),
            ("[1]", "this is a list"),
            (
                r#"{"scan": {"table": "a"}, "scan": {"table": "b"}}"#,
                "two entries `scan`",
            ),
            (
                r#"{"scan": {"table": "a", "table": "b"}}"#,
                "two entries `table`",
            ),
            (
                r#"{"scan": {"table": "a", "range": {"to": 1, "to": 2}}}"#,
                "two entries `to`",
            ),
            (r#"{"scam": {"table": "a"}}"#, "no operator `scam`"),
            (
                r#"{"project": {"input": {"scan": {"table": "a"}}, "columns": [7]}}"#,
                "this is a number",
            ),
            (
                r#"{"limit": {"input": {"scan": {"table": "a"}}, "rows": 1.5}}"#,
                "a number of rows",
            ),
            (
                r#"{"aggregate": {"input": {"scan": {"table": "a"}}, "calculate": [{"function": "median", "as": "m"}]}}"#,
                "there are count, sum, min, max, avg",
            ),
        ] {
            let error = text.parse::<Plan>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
