//! Random plans over random tables have the plain evaluator's answer, wherever the rows are and
//! however the plan is run.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod plans;
pub(crate) mod tables;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_data::columns::Datum;

use crate::support::{memory_disk, sorted};
use namiki_exec::{Degree, ExecError, Executor, Mode, Options, naive};
use namiki_platform::disk::sim::ReadFaults;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;
use plans::{Determined, Maker, RandomPlan, without_limits};
use tables::{RandomTables, Where, random_tables};

/// Tables of one seed are used for several plans.
const TABLES: u64 = 150;
pub(crate) const PLANS_PER_TABLES: u64 = 10;

pub(crate) fn options(random: &mut Random) -> Options {
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
    let check_some = |answer: Vec<Vec<Datum>>| {
        let all = naive::run(&without_limits(&made.plan), &tables.plain)
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
    };
    match made.determined {
        Determined::Order => assert_eq!(answer, expected, "{}", said()),
        Determined::Rows => assert_eq!(sorted(answer), sorted(expected), "{}", said()),
        Determined::Count => {
            assert_eq!(answer.len(), expected.len(), "{}", said());
            check_some(answer);
        }
        Determined::Some => check_some(answer),
    }
    is_not_empty
}

/// Ends a query early, one way or another: with a matching error, and without remains. Returns
/// whether it ended early.
fn check_early_end(
    seed: u64,
    random: &mut Random,
    made: &RandomPlan,
    tables: &RandomTables,
    (executor, sim): (&Executor, &SimDisk),
    how: &Options,
) -> bool {
    let mut how = how.clone();
    let cause = random.index(4);
    let mut rows_max = usize::MAX;
    match cause {
        0 | 1 => rows_max = random.index(20),
        2 => how.memory_bytes_max = random.index(2_000),
        _ => {
            executor.cache().evict(usize::MAX);
            sim.set_read_faults(ReadFaults {
                error: 0.05,
                ..ReadFaults::harmless(seed)
            });
        }
    }
    let said = || {
        let plan = serde_json::to_string(&made.plan).unwrap();
        format!("seed {seed}, cause {cause}, {how:?}\n{plan}")
    };
    let mut rows = executor.run(&made.plan, &tables.tables, &how).unwrap();
    let mut taken = 0;
    let end = loop {
        if taken == rows_max {
            // Cancelled, dropped otherwise.
            break (cause == 0).then_some(ExecError::Cancelled);
        }
        match rows.next_row() {
            Ok(Some(_)) => taken += 1,
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    let statistics = match &end {
        Some(ExecError::Cancelled) => Some(rows.cancel()),
        Some(_) => Some(rows.statistics()),
        None => {
            drop(rows);
            None
        }
    };
    if let Some(statistics) = statistics {
        assert_eq!(statistics.counters.tasks_live, 0, "{}", said());
        assert_eq!(statistics.counters.tasks_in_flight, 0, "{}", said());
    }
    assert_eq!(executor.frames_in_flight(), 0, "{}", said());
    sim.set_read_faults(ReadFaults::harmless(seed));
    match (cause, &end) {
        (0, None | Some(ExecError::Cancelled))
        | (1..=3, None)
        | (2, Some(ExecError::MemoryExceeded { .. }))
        | (3, Some(ExecError::Source { .. })) => {}
        _ => panic!("{end:?}: {}", said()),
    }
    end.is_some()
}

/// At least one in ten plans has each operator, three in ten have two joins or more, and half have
/// rows in the answer.
#[test]
fn random_plans_have_the_plain_answer() {
    let mut with_operator: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut plans, mut not_empty, mut two_joins, mut early_ends) = (0, 0, 0, 0);
    for table_seed in 0..TABLES {
        let place = [Where::Memory, Where::Segments, Where::Mixed][table_seed as usize % 3];
        let (sim, dir) = memory_disk();
        sim.set_read_faults(ReadFaults::harmless(table_seed));
        let disk: Arc<dyn Disk> = Arc::clone(&sim) as _;
        let mut random = Random::stream(1, table_seed);
        let tables = random_tables(&mut random, place, &disk, &dir);
        let executor = Executor::new(&disk, 0).unwrap();
        for number in 0..PLANS_PER_TABLES {
            let seed = table_seed * PLANS_PER_TABLES + number;
            let mut random = Random::stream(2, seed);
            let made = Maker::new(&mut random, &tables.plain, &tables.names).make();
            let how = options(&mut random);
            if random.chance(0.3) {
                executor.cache().evict(usize::MAX);
            }
            if random.chance(0.7) {
                let on = (&executor, &*sim);
                let ended = check_early_end(seed, &mut random, &made, &tables, on, &how);
                early_ends += usize::from(ended);
            }
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
    println!(
        "{plans} plans, {not_empty} with rows, {two_joins} with two joins, {early_ends} ended early: {with_operator:?}"
    );
    assert!(early_ends * 10 >= plans);
    assert!(plans >= 1000 && not_empty * 2 >= plans && two_joins * 10 >= plans * 3);
    assert_eq!(with_operator.len(), 11);
    assert!(
        with_operator.values().all(|count| count * 10 >= plans),
        "{with_operator:?}"
    );
}
