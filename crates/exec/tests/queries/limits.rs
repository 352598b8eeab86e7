//! A limit lets its number of rows pass, and every one of them reaches its end, whatever the
//! operators above it do.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_data::columns::Datum;

use crate::support::{Shop, memory_disk, sorted};
use namiki_exec::plan::{AggregateCall, Named, Plan, SortKey, column, literal};
use namiki_exec::source::Tables;
use namiki_exec::{Degree, Executor, Options, naive};
use namiki_platform::disk::Disk;

struct Setting {
    executor: Executor,
    on_disk: Tables,
    in_memory: Tables,
}

impl Setting {
    fn new() -> Self {
        let shop = Shop::new(2_000, 11);
        let (sim, dir) = memory_disk();
        let disk: Arc<dyn Disk> = sim;
        Self {
            executor: Executor::new(&disk, 0).unwrap(),
            on_disk: shop.on_disk(&disk, &dir),
            in_memory: shop.in_memory(),
        }
    }

    /// Runs a plan cold, and with its tables in memory, by one thread and by several; checks each
    /// answer.
    fn each_answer(&self, plan: &Plan, check: impl Fn(Vec<Vec<Datum>>, &str)) {
        for tables in [&self.on_disk, &self.in_memory] {
            for (threads, tasks, window_tasks) in
                [(1, 1, 0), (1, 64, 0), (2, 8, 0), (4, 32, 0), (2, 16, 500)]
            {
                let options = Options {
                    threads: NonZeroUsize::new(threads).unwrap(),
                    degree: Degree::Fixed(tasks),
                    window_tasks,
                    ..Options::default()
                };
                self.executor.cache().evict(usize::MAX);
                let mut rows = self.executor.run(plan, tables, &options).unwrap();
                let answer = rows.collect_all().unwrap();
                check(answer, &format!("{options:?}"));
                assert_eq!(rows.statistics().counters.tasks_live, 0);
                assert_eq!(self.executor.frames_in_flight(), 0);
            }
        }
    }
}

/// Rows that have passed wait for pages when the last one passes: its end must not end them.
#[test]
fn rows_that_passed_a_limit_below_a_join_stay() {
    let setting = Setting::new();
    for limit in [0, 1, 10, 100, 2_000, 5_000] {
        let customers = Plan::scan("orders").limit(limit);
        let joined = customers.lookup("customer", &["o_custkey"]);
        setting.each_answer(&joined, |answer, how| {
            assert_eq!(answer.len() as u64, limit, "limit {limit}, {how}");
        });
    }
}

/// The last row that passes has many matches in the hash table.
#[test]
fn all_pairs_of_limited_rows_are_given() {
    let setting = Setting::new();
    let one = |plan: Plan, name: &str, key: &str| {
        plan.project(vec![
            Named::new(name, literal(1)),
            Named::new(key, column(key)),
        ])
    };
    let build = one(Plan::scan("customer"), "a", "c_custkey");
    let probe = one(Plan::scan("orders").limit(3), "b", "o_orderkey");
    let pairs = probe.hash_join(build, &[("a", "b")]);
    setting.each_answer(&pairs, |answer, how| {
        assert_eq!(answer.len(), 3 * 2_000, "{how}");
    });
}

/// The first rows in sort order pass, whatever is between the sort and the limit, and above the
/// limit.
#[test]
fn a_limit_above_a_sort_takes_the_first_rows() {
    let setting = Setting::new();
    let sort = || Plan::scan("orders").sort(vec![SortKey::descending(column("o_totalprice"))]);
    let projected = sort().project(vec![
        Named::new("key", column("o_orderkey")),
        Named::new("customer", column("o_custkey")),
    ]);
    let filtered = sort().filter(column("o_custkey").less(literal(1_000)));
    let plans = [
        projected.limit(100).lookup("customer", &["customer"]),
        filtered.limit(1_000).lookup("customer", &["o_custkey"]),
        sort().limit(50).lookup("customer", &["o_custkey"]),
        sort()
            .limit(50)
            .lookup("customer", &["o_custkey"])
            .sort(vec![SortKey::ascending(column("c_custkey"))])
            .limit(7)
            .index_lookup("orders", "by_customer", &["c_custkey"])
            .aggregate(&["c_nationkey"], vec![AggregateCall::count("orders")]),
    ];
    for plan in &plans {
        let expected = sorted(naive::run(plan, &setting.in_memory).unwrap().rows);
        setting.each_answer(plan, |answer, how| {
            assert_eq!(sorted(answer), expected, "{how}");
        });
    }
}

#[test]
fn limits_above_each_other_let_the_least_number_pass() {
    let setting = Setting::new();
    for (lower, upper) in [(10, 3), (3, 10), (700, 700)] {
        let plan = Plan::scan("orders")
            .limit(lower)
            .filter(column("o_orderkey").greater_or_equal(literal(0)))
            .limit(upper)
            .lookup("customer", &["o_custkey"]);
        setting.each_answer(&plan, |answer, how| {
            assert_eq!(answer.len(), lower.min(upper) as usize, "{how}");
        });
    }
}
