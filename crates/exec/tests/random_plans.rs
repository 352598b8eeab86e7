//! Random plans over random tables have the plain evaluator's answer, wherever the rows are and however the plan is run.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "random/plans.rs"]
mod plans;
mod support;
#[path = "random/tables.rs"]
mod tables;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_exec::data::Datum;
use namiki_exec::plan::Plan;
use namiki_exec::{Degree, Executor, Mode, Options, naive};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::ReadFaults;
use namiki_platform::seeded_random::Random;
use plans::{Maker, RandomPlan};
use support::{memory_disk, sorted};
use tables::{RandomTables, Where, random_tables};

/// Tables of one seed are used for several plans.
const TABLES: u64 = 150;
const PLANS_PER_TABLES: u64 = 10;

fn options(random: &mut Random) -> Options {
    let degree = match random.index(4) {
        0 => Degree::Fixed(1),
        1 => Degree::Fixed(1 + random.index(8)),
        2 => Degree::Fixed(64),
        _ => Degree::Adaptive,
    };
    Options {
        threads: NonZeroUsize::new(1 + random.index(4)).unwrap(),
        degree,
        mode: if random.chance(0.2) {
            Mode::Ordered
        } else {
            Mode::OutOfOrder
        },
        output_rows_max: 1 + random.index(1000),
        window_tasks: if random.chance(0.3) {
            random.index(3_000)
        } else {
            0
        },
        ..Options::default()
    }
}

/// The rows of a limited plan without the limit.
fn without_limit(plan: &Plan) -> &Plan {
    match plan {
        Plan::Limit(limit) => &limit.input,
        other => other,
    }
}

fn check(
    seed: u64,
    made: &RandomPlan,
    tables: &RandomTables,
    executor: &Executor,
    how: &Options,
) -> bool {
    let said = || {
        format!(
            "seed {seed}, {how:?}\n{}",
            serde_json::to_string(&made.plan).unwrap()
        )
    };
    let expected = naive::run(&made.plan, &tables.plain)
        .unwrap_or_else(|error| panic!("{error}: {}", said()))
        .rows;
    let mut rows = executor
        .run(&made.plan, &tables.tables, how)
        .unwrap_or_else(|error| panic!("{error}: {}", said()));
    let answer = rows
        .collect_all()
        .unwrap_or_else(|error| panic!("{error}: {}", said()));
    let statistics = rows.statistics();
    assert_eq!(statistics.counters.tasks_live, 0, "{}", said());
    assert_eq!(
        statistics.counters.tasks_in_flight,
        0,
        "{statistics:?} {}",
        said()
    );
    assert_eq!(executor.frames_in_flight(), 0, "{}", said());
    if let Degree::Fixed(degree) = how.degree {
        assert!(
            statistics.tasks_in_flight_max <= degree.max(how.window_tasks) as u64,
            "{statistics:?} {}",
            said()
        );
    }
    let is_not_empty = !answer.is_empty();
    if made.is_sorted {
        assert_eq!(answer, expected, "{}", said());
    } else if made.limited.is_some() {
        assert_eq!(answer.len(), expected.len(), "{}", said());
        let all = naive::run(without_limit(&made.plan), &tables.plain)
            .unwrap()
            .rows;
        let mut left: BTreeMap<Vec<Datum>, usize> = BTreeMap::new();
        for row in all {
            *left.entry(row).or_default() += 1;
        }
        for row in answer {
            let count = left.get_mut(&row).filter(|count| **count > 0);
            *count.unwrap_or_else(|| panic!("{row:?} is too many: {}", said())) -= 1;
        }
    } else {
        assert_eq!(sorted(answer), sorted(expected), "{}", said());
    }
    is_not_empty
}

/// At least one in ten plans has each operator, three in ten have two joins or more, and half have rows in the answer.
#[test]
fn random_plans_have_the_plain_answer() {
    let mut with_operator: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut plans, mut not_empty, mut two_joins) = (0, 0, 0);
    for table_seed in 0..TABLES {
        let place = [Where::Memory, Where::Segments, Where::Mixed][table_seed as usize % 3];
        let (sim, dir) = memory_disk();
        sim.set_read_faults(ReadFaults::harmless(table_seed));
        let disk: Arc<dyn Disk> = sim;
        let mut random = Random::stream(1, table_seed);
        let tables = random_tables(&mut random, place, &disk, &dir);
        let executor = Executor::new(&disk, 0).unwrap();
        for number in 0..PLANS_PER_TABLES {
            let seed = table_seed * PLANS_PER_TABLES + number;
            let mut random = Random::stream(2, seed);
            let made = Maker::new(&mut random, &tables.plain, &tables.names).make();
            let how = options(&mut random);
            not_empty += usize::from(check(seed, &made, &tables, &executor, &how));
            plans += 1;
            for operator in made.operators.keys() {
                *with_operator.entry(operator).or_default() += 1;
            }
            let joins = |name: &str| made.operators.get(name).copied().unwrap_or_default();
            two_joins +=
                usize::from(joins("nested_loop_join") + joins("hash_join") + joins("join") >= 2);
        }
    }
    println!("{plans} plans, {not_empty} with rows, {two_joins} with two joins: {with_operator:?}");
    assert!(plans >= 1000 && not_empty * 2 >= plans && two_joins * 10 >= plans * 3);
    assert_eq!(with_operator.len(), 11);
    assert!(
        with_operator.values().all(|count| count * 10 >= plans),
        "{with_operator:?}"
    );
}
