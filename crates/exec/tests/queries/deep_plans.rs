//! No plan and no expression ends the process, however deep or long it is, and however small the
//! stack: long chains run, deep trees are refused with an error that says so.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_data::columns::Datum;

use crate::support::{Shop, memory_disk};
use namiki_exec::plan::{
    AggregateCall, AggregateFunction, Expr, Named, Plan, SortKey, column, literal,
};
use namiki_exec::source::Tables;
use namiki_exec::{ExecError, Executor, Options, PlanError, naive};
use namiki_platform::disk::Disk;

const SMALL_STACK_BYTES: usize = 256 << 10;

/// Runs a closure in a thread with a small stack. A stack overflow ends the process, and so fails
/// the test.
fn in_a_small_stack(work: impl FnOnce() + Send) {
    std::thread::scope(|threads| {
        let small = std::thread::Builder::new().stack_size(SMALL_STACK_BYTES);
        small.spawn_scoped(threads, work).unwrap().join().unwrap();
    });
}

struct Setting {
    executor: Executor,
    tables: Tables,
}

impl Setting {
    fn new() -> Self {
        let disk: Arc<dyn Disk> = memory_disk().0;
        Self {
            executor: Executor::new(&disk, 0).unwrap(),
            tables: Shop::new(200, 7).in_memory(),
        }
    }

    fn options() -> Options {
        Options {
            threads: NonZeroUsize::new(2).unwrap(),
            ..Options::default()
        }
    }

    /// Runs a plan, explains it before and after, and compares it with the plain evaluator.
    fn run(&self, plan: &Plan) -> Vec<Vec<Datum>> {
        let options = Self::options();
        let explained = self.executor.explain(plan, &self.tables, &options).unwrap();
        assert!(!explained.to_string().is_empty());
        let mut rows = self.executor.run(plan, &self.tables, &options).unwrap();
        let answer = rows.collect_all().unwrap();
        assert!(!rows.explain().to_string().is_empty());
        let plain = naive::run(plan, &self.tables).unwrap();
        assert_eq!(answer.len(), plain.rows.len());
        answer
    }

    /// Every operation refuses the plan as too deep or too large.
    fn refuses(&self, plan: &Plan) {
        let options = Self::options();
        let is_refusal = |error: &ExecError| {
            let refusals = [
                matches!(error, ExecError::Plan(PlanError::TooDeep { .. })),
                matches!(error, ExecError::Plan(PlanError::TooLarge { .. })),
            ];
            refusals.contains(&true)
        };
        let explained = self.executor.explain(plan, &self.tables, &options);
        assert!(is_refusal(&explained.unwrap_err()));
        let run = self.executor.run(plan, &self.tables, &options);
        assert!(is_refusal(&run.err().unwrap()));
        assert!(is_refusal(&naive::run(plan, &self.tables).unwrap_err()));
        assert!(serde_json::to_string(plan).is_err());
        assert!(serde_json::to_value(plan).is_err());
        check_tree(plan);
    }
}

/// The code that the compiler derives for a plan.
fn check_tree(plan: &Plan) {
    let same = plan.clone();
    assert!(same == *plan && *plan != Plan::scan("customer").limit(7));
    assert!(!format!("{same:?} {same:#?}").is_empty());
    drop(same);
}

fn count(plan: Plan) -> Plan {
    plan.aggregate(&[], vec![AggregateCall::count("rows")])
}

/// The deepest plan of each kind that may run.
fn deepest_expressions() -> Vec<Expr> {
    let levels = Expr::DEPTH_MAX as usize;
    let is_rich = || column("c_acctbal").greater(literal(0));
    let nest = |levels: usize, first: Expr, outer: &dyn Fn(Expr) -> Expr| {
        (1..levels).fold(first, |inner, _| outer(inner))
    };
    vec![
        nest(levels - 1, is_rich(), &|inner| !inner),
        nest(levels - 1, is_rich(), &|inner| inner.equal(literal(true))),
        nest(levels - 1, column("c_custkey"), &|inner| inner.is_null()).equal(literal(false)),
        nest(levels - 1, is_rich(), &|inner| inner.is_in([true])),
        nest(levels - 1, column("c_custkey"), &|inner| {
            literal(1).minus(inner)
        })
        .less(literal(9)),
        nest(levels / 2, is_rich(), &|inner| {
            inner.or(literal(false)).and(literal(true))
        }),
    ]
}

/// The maximum depth in operators and in expressions at once, with each kind of operator.
fn deepest_plan(filter: &Expr) -> Plan {
    let mut plan = Plan::find("customer", filter.clone());
    let mut levels = 1;
    while levels < Plan::DEPTH_MAX - 1 {
        plan = match levels % 8 {
            0 => plan.project(vec![Named::column("c_custkey"), Named::column("c_acctbal")]),
            1 => plan.filter(filter.clone()),
            2 => plan.sort(vec![SortKey::ascending(column("c_custkey"))]),
            3 => plan.limit(1_000),
            4 => plan.filter(filter.clone()),
            5 => plan.aggregate(
                &["c_custkey"],
                vec![AggregateCall::new(
                    "c_acctbal",
                    AggregateFunction::Min,
                    column("c_acctbal"),
                )],
            ),
            6 if levels + 2 < Plan::DEPTH_MAX => {
                let keys =
                    Plan::scan("customer").project(vec![Named::new("k", column("c_custkey"))]);
                let both = plan.join(keys, &[("c_custkey", "k")]);
                levels += 1;
                both.project(vec![Named::column("c_custkey"), Named::column("c_acctbal")])
            }
            _ => plan.limit(1_000),
        };
        levels += 1;
    }
    count(plan)
}

#[test]
fn the_deepest_plans_run_in_a_small_stack() {
    let setting = Setting::new();
    in_a_small_stack(|| {
        for filter in deepest_expressions() {
            let plan = deepest_plan(&filter);
            setting.run(&plan);
            let text = serde_json::to_string(&plan).unwrap();
            let pretty = serde_json::to_string_pretty(&plan).unwrap();
            assert!(text.parse().as_ref() == Ok(&plan) && pretty.parse().as_ref() == Ok(&plan));
            check_tree(&plan);
            setting.refuses(&count(plan.clone()));
            setting.refuses(&Plan::find("customer", !!filter));
        }
    });
}

#[test]
fn long_chains_run_in_a_small_stack() {
    let setting = Setting::new();
    in_a_small_stack(|| {
        for length in [1_200, 30_000] {
            let keys = || (0..length).map(|key| column("c_custkey").equal(literal(key * 2)));
            let chains = [
                keys().reduce(Expr::or).unwrap(),
                keys().rev().reduce(|chain, key| key.or(chain)).unwrap(),
                Expr::any(keys()),
                !(keys().map(|key| !key).reduce(Expr::and).unwrap()),
                column("c_custkey").is_in((0..length).map(|key| key * 2)),
            ];
            for filter in &chains {
                let answer = setting.run(&count(Plan::find("customer", filter.clone())));
                assert_eq!(answer, [vec![Datum::I64(100)]]);
            }
            assert!(chains[0] == chains[1] && chains[1] == chains[2]);
            let sum = (0..length).fold(column("c_custkey"), |sum, _| sum.plus(literal(1)));
            let filter = sum
                .clone()
                .minus(literal(length))
                .equal(column("c_custkey"));
            let plan = Plan::scan("customer").filter(filter);
            assert_eq!(setting.run(&count(plan)), [vec![Datum::I64(200)]]);
            let text = serde_json::to_string(&sum).unwrap();
            assert!(text.parse() == Ok(sum));
        }
    });
}

/// Everything that can be nested, many times: built, cloned, compared, printed, refused, dropped.
#[test]
fn deep_trees_are_refused_and_dropped_in_a_small_stack() {
    let setting = Setting::new();
    let outer: [&(dyn Fn(Expr) -> Expr + Sync); 8] = [
        &|inner| !inner,
        &|inner| inner.is_null(),
        &|inner| inner.is_in([true, false]),
        &|inner| inner.starts_with("a"),
        &|inner| inner.contains("a"),
        &|inner| literal(0).less(inner.equal(literal(1))),
        &|inner| literal(1).minus(inner),
        &|inner| inner.or(column("a")).and(column("b")),
    ];
    let above: [&(dyn Fn(Plan) -> Plan + Sync); 9] = [
        &|plan| plan.filter(column("a").is_null()),
        &|plan| plan.project(vec![Named::column("a")]),
        &|plan| plan.aggregate(&["a"], Vec::new()),
        &|plan| plan.sort(vec![SortKey::descending(column("a"))]),
        &|plan| plan.limit(1),
        &|plan| plan.lookup("customer", &["a"]),
        &|plan| plan.hash_join(Plan::scan("orders"), &[("a", "b")]),
        &|plan| Plan::scan("orders").hash_join(plan, &[("a", "b")]),
        &|plan| Plan::scan("orders").join(plan, &[("a", "b")]),
    ];
    in_a_small_stack(|| {
        for depth in [Expr::DEPTH_MAX as usize + 1, 1_000, 50_000] {
            for outer in outer {
                let nest = || (0..depth).fold(column("c_custkey"), |inner, _| outer(inner));
                let deep = nest();
                assert!(deep == nest() && deep != outer(deep.clone()));
                assert!(format!("{deep} {deep:?} {deep:#?}").len() < 100_000);
                assert!(serde_json::to_string(&deep).is_err());
                setting.refuses(&Plan::find("customer", deep.clone()));
                setting.refuses(&Plan::scan("customer").project(vec![Named::new("a", deep)]));
            }
            for above in above {
                let nest = || (0..depth).fold(Plan::scan("customer"), |plan, _| above(plan));
                let deep = nest();
                assert!(deep == nest() && deep != above(deep.clone()));
                assert!(deep.tables().contains("customer"));
                setting.refuses(&deep);
            }
        }
    });
}

#[test]
fn a_million_levels_are_refused_in_a_small_stack() {
    let setting = Setting::new();
    in_a_small_stack(|| {
        let deep = (0..1_000_000).fold(column("c_custkey"), |inner, _| !inner);
        setting.refuses(&Plan::find("customer", deep));
        setting.refuses(&(0..1_000_000).fold(Plan::scan("customer"), |plan, _| plan.limit(1)));
    });
}

/// A tree that shares its parts can be larger than memory.
#[test]
fn trees_of_shared_parts_are_refused() {
    let setting = Setting::new();
    in_a_small_stack(|| {
        let double = |times: u32| {
            let one = column("c_custkey").less(literal(3));
            (0..times).fold(one, |half, _| half.clone().equal(half))
        };
        assert_eq!(
            setting.run(&count(Plan::find("customer", double(6)))).len(),
            1
        );
        setting.refuses(&Plan::find("customer", double(60)));
        assert!(double(60) == double(60) && double(60) != double(59));
        assert!(format!("{} {:?}", double(60), double(60)).contains("an expression of 62 levels"));
        let plan = (0..60).fold(Plan::scan("customer"), |half, _| {
            half.clone().hash_join(half, &[("a", "a")])
        });
        assert_eq!(plan.tables(), BTreeSet::from(["customer"]));
        setting.refuses(&plan);
    });
}

/// Each operator and each expression is within its own limit, and all of them together would be
/// larger than memory.
#[test]
fn expressions_that_are_too_large_together_are_refused() {
    let setting = Setting::new();
    let large = (0..20).fold(column("c_custkey").less(literal(3)), |half, _| {
        half.clone().equal(half)
    });
    let text = "a".repeat(1 << 20);
    let columns =
        |of: &Expr, count: usize| (0..count).map(|_| Named::new("a", of.clone())).collect();
    let many = column("c_custkey").is_in(0..1_000_000);
    let joined =
        |plan: Plan| (0..8).fold(plan, |half, _| half.clone().hash_join(half, &[("a", "a")]));
    in_a_small_stack(|| {
        setting.refuses(&Plan::scan("customer").project(columns(&large, 4)));
        setting.refuses(&joined(Plan::find("customer", many)));
        setting.refuses(&joined(
            Plan::scan("customer").project(vec![Named::new(&text, column("a"))]),
        ));
        let long = column("c_custkey").equal(literal(text.as_str()));
        setting.refuses(&joined(Plan::find("customer", long)));
    });
}

#[test]
fn deep_plan_files_are_refused_in_a_small_stack() {
    in_a_small_stack(|| {
        for depth in [Expr::DEPTH_MAX as usize, 1_000, 1_000_000] {
            for (begin, end) in [
                ("{\"not\":", "}"),
                ("{\"and\":[", "]}"),
                ("{\"-\":[1,", "]}"),
                ("{\"=\":[1,", "]}"),
                ("{\"in\":[", ",true]}"),
            ] {
                let text = format!("{}true{}", begin.repeat(depth), end.repeat(depth));
                let error = text.parse::<Expr>().unwrap_err().to_string();
                assert!(error.contains("more than"), "{error}");
            }
            for (begin, end) in [
                ("{\"limit\":{\"rows\":1,\"input\":", "}}"),
                (
                    "{\"hash_join\":{\"on\":[],\"build\":{\"scan\":{\"table\":\"a\"}},\"probe\":",
                    "}}",
                ),
            ] {
                let table = "{\"scan\":{\"table\":\"a\"}}";
                let text = format!("{}{table}{}", begin.repeat(depth), end.repeat(depth));
                let error = text.parse::<Plan>().unwrap_err().to_string();
                assert!(error.contains("more than"), "{error}");
            }
        }
    });
}
