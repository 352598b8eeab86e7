//! Aggregates depend on the rows, and not on their order.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};

use crate::support::memory_disk;
use namiki_exec::plan::{AggregateCall, AggregateFunction, Named, Plan, column, literal};
use namiki_exec::source::{MemoryTable, Table, Tables};
use namiki_exec::{ExecError, Executor, Options, PlanError, naive};
use namiki_platform::disk::Disk;

fn tables(values: &[i64]) -> Tables {
    let columns = vec![
        Column::new("id", ColumnType::I64),
        Column::new("value", ColumnType::Decimal { scale: 0 }),
    ];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let rows = values.iter().enumerate().map(|(id, value)| {
        let value = Datum::Decimal {
            unscaled: i128::from(*value),
            scale: 0,
        };
        vec![Datum::I64(id as i64), value]
    });
    let mut tables = Tables::new();
    let table = MemoryTable::new(schema, rows).unwrap();
    tables.insert("values", Table::new(Arc::new(table)));
    tables
}

fn executor() -> Executor {
    let disk: Arc<dyn Disk> = memory_disk().0;
    Executor::new(&disk, 0).unwrap()
}

/// `values` × 2^64 - 1 × 2, about 2^127, of which no two fit a decimal.
fn huge(function: AggregateFunction) -> Plan {
    let huge = column("value").times(literal(i64::MAX)).times(literal(2));
    Plan::scan("values").aggregate(&[], vec![AggregateCall::new("all", function, huge)])
}

#[test]
fn a_sum_overflows_by_its_value_alone() {
    let executor = executor();
    let options = Options {
        threads: NonZeroUsize::MIN,
        ..Options::default()
    };
    let (one, minus) = (i64::MAX, -i64::MAX);
    let sum = |function, values: &[i64]| {
        let (plan, tables) = (huge(function), tables(values));
        let run = executor
            .run(&plan, &tables, &options)
            .unwrap()
            .collect_all();
        let naive = naive::run(&plan, &tables).map(|answer| answer.rows);
        match (run, naive) {
            (Ok(run), Ok(naive)) => {
                assert_eq!(run, naive);
                Some(run[0][0].clone())
            }
            (Err(ExecError::Overflow { .. }), Err(ExecError::Overflow { .. })) => None,
            other => panic!("{values:?}: {other:?}"),
        }
    };
    for function in [AggregateFunction::Sum, AggregateFunction::Avg] {
        let alone = sum(AggregateFunction::Sum, &[one]);
        assert!(alone.is_some());
        for values in [[one, one, minus], [one, minus, one], [minus, one, one]] {
            if function == AggregateFunction::Sum {
                assert_eq!(sum(function, &values), alone);
            }
        }
        for values in [[one, one, 0], [one, 0, one], [minus, 0, minus]] {
            assert_eq!(sum(function, &values), None);
        }
        assert!(sum(function, &[one, minus, one, minus]).is_some());
    }
}

/// A mean has six digits more than its argument, and plans may be nested deeply.
#[test]
fn a_mean_of_means_has_a_limit_on_digits() {
    let (executor, tables) = (executor(), tables(&[1, 2]));
    let mut plan = Plan::scan("values").project(vec![Named::new("mean", column("value"))]);
    for nested in 1..40 {
        let mean = AggregateCall::new("mean", AggregateFunction::Avg, column("mean"));
        plan = plan.aggregate(&[], vec![mean]);
        let run = executor.run(&plan, &tables, &Options::default());
        match run {
            Ok(mut rows) => {
                assert!(nested <= 5, "{nested}");
                rows.collect_all().unwrap();
            }
            Err(ExecError::Plan(PlanError::TooPrecise { name, .. })) => {
                assert!(nested > 5 && name == "mean", "{nested}");
            }
            Err(other) => panic!("{other}"),
        }
        let naive = naive::run(&plan, &tables);
        assert_eq!(naive.is_ok(), nested <= 5, "{naive:?}");
    }
}
