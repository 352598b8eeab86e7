//! An oracle that shares nothing with the engine: random plans, written as SQL, have the answer of
//! DuckDB.
//!
//! The plain evaluator (`naive.rs`) shares the engine's types, row codec and comparisons; a mistake
//! there is invisible to it. DuckDB gets the rows as SQL literals, and its answer comes back as
//! texts. `cargo xtask oracle` installs it and runs this.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sql;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use namiki_data::columns::Datum;
use namiki_exec::Executor;
use namiki_exec::plan::Plan;
use namiki_exec::source::Tables;
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::ReadFaults;
use namiki_platform::seeded_random::Random;
use serde_json::{Value as Json, json};

use crate::random_plans::plans::{Determined, Maker, without_limits};
use crate::random_plans::tables::{RandomTables, Where, random_tables};
use crate::random_plans::{PLANS_PER_TABLES, options};
use crate::support::memory_disk;

/// A row of texts, some of them missing.
type TextRow = Vec<Option<String>>;

/// A Python process with DuckDB, which answers line by line.
struct DuckDb {
    python: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl DuckDb {
    fn start(python: &OsStr) -> Self {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/queries/sql_oracle/duckdb_answers.py"
        );
        let mut python = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            to: python.stdin.take().unwrap(),
            from: BufReader::new(python.stdout.take().unwrap()),
            python,
        }
    }

    fn request(&mut self, request: &Json) -> Json {
        writeln!(self.to, "{request}").unwrap();
        self.to.flush().unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Runs statements.
    fn run(&mut self, statements: &[String]) {
        let reply = self.request(&json!({ "run": statements }));
        assert_eq!(reply, json!({}));
    }

    /// The rows of a query.
    fn ask(&mut self, query: &str) -> Vec<TextRow> {
        let mut reply = self.request(&json!({ "ask": query }));
        let rows = reply["rows"].take();
        serde_json::from_value(rows).unwrap_or_else(|_| panic!("{reply}: {query}"))
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        // The process ends when its input ends; a panic must not wait for it.
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
}

/// Replaces the tables in DuckDB.
fn give_tables(duckdb: &mut DuckDb, tables: &RandomTables) {
    let mut statements = Vec::new();
    for (name, rows) in tables.names.iter().zip(&tables.rows) {
        let schema = tables.plain.get(name).unwrap().source.schema();
        statements.push(format!("DROP TABLE IF EXISTS {name}"));
        statements.push(sql::create(name, schema));
        statements.extend(rows.chunks(500).map(|rows| sql::insert(name, rows)));
    }
    duckdb.run(&statements);
}

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text:?}")),
        Err(_) => default,
    }
}

fn sorted(mut rows: Vec<TextRow>) -> Vec<TextRow> {
    rows.sort();
    rows
}

/// Whether one list has all rows of the other, as often.
fn is_part_of(some: &[TextRow], all: &[TextRow]) -> bool {
    let mut left: BTreeMap<&TextRow, usize> = BTreeMap::new();
    for row in all {
        *left.entry(row).or_default() += 1;
    }
    some.iter().all(|row| match left.get_mut(row) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    })
}

/// Whether DuckDB confirms that the plan allows an answer.
fn is_right(
    duckdb: &mut DuckDb,
    plan: &Plan,
    tables: &Tables,
    determined: Determined,
    answer: &[TextRow],
) -> bool {
    let expected = duckdb.ask(&sql::query(plan, tables));
    match determined {
        Determined::Order => answer == expected,
        Determined::Rows => sorted(answer.to_vec()) == sorted(expected),
        Determined::Count | Determined::Some => {
            let all = duckdb.ask(&sql::query(&without_limits(plan), tables));
            let counted = determined == Determined::Some || answer.len() == expected.len();
            counted && is_part_of(answer, &all)
        }
    }
}

/// `NAMIKI_DUCKDB_PYTHON` names a Python that has DuckDB; `NAMIKI_ORACLE_PLANS` and
/// `NAMIKI_ORACLE_SEED` say how many plans are tried, and which come first. Without the first it is
/// left out: `cargo xtask oracle` installs DuckDB, and runs this.
#[test]
fn random_plans_have_the_answer_of_duckdb() {
    let Some(python) = std::env::var_os("NAMIKI_DUCKDB_PYTHON") else {
        println!("left out: DuckDB is not here; `cargo xtask oracle` installs it");
        return;
    };
    let plans = setting("NAMIKI_ORACLE_PLANS", 300);
    let first = setting("NAMIKI_ORACLE_SEED", 0);
    let mut duckdb = DuckDb::start(&python);
    let (mut not_empty, mut tried) = (0, 0);
    for table_seed in first..first + plans.div_ceil(PLANS_PER_TABLES) {
        let place = [Where::Memory, Where::Segments, Where::Mixed][table_seed as usize % 3];
        let (sim, dir) = memory_disk();
        sim.set_read_faults(ReadFaults::harmless(table_seed));
        let disk: Arc<dyn Disk> = sim;
        let mut random = Random::stream(3, table_seed);
        let tables = random_tables(&mut random, place, &disk, &dir);
        let executor = Executor::new(&disk, 0).unwrap();
        give_tables(&mut duckdb, &tables);
        for number in 0..PLANS_PER_TABLES.min(plans - tried) {
            let mut random = Random::stream(4, table_seed * PLANS_PER_TABLES + number);
            let made = Maker::new(&mut random, &tables.plain, &tables.names).make();
            let how = options(&mut random);
            let said = || {
                let plan = serde_json::to_string(&made.plan).unwrap();
                let sql = sql::query(&made.plan, &tables.plain);
                format!("--seed {table_seed}, plan {number} of it, {how:?}\n{plan}\n{sql}")
            };
            let mut rows = executor.run(&made.plan, &tables.tables, &how);
            let rows = rows
                .as_mut()
                .unwrap_or_else(|error| panic!("{error}: {}", said()));
            let answer = rows
                .collect_all()
                .unwrap_or_else(|error| panic!("{error}: {}", said()));
            let text = |value: &Datum| match value {
                Datum::Null => None,
                value => Some(value.to_string()),
            };
            let answer = answer.iter().map(|row| row.iter().map(text).collect());
            let answer: Vec<TextRow> = answer.collect();
            let right = is_right(
                &mut duckdb,
                &made.plan,
                &tables.plain,
                made.determined,
                &answer,
            );
            assert!(right, "{answer:?} is not DuckDB's answer: {}", said());
            not_empty += u64::from(!answer.is_empty());
            tried += 1;
        }
    }
    println!("{tried} plans have DuckDB's answer, {not_empty} with rows");
    assert!(tried == plans && not_empty * 10 >= plans * 4);
}
