//! The unmodified text of a plan file. An accepted plan is written, read again, and explained over
//! several tables.

use std::sync::{Arc, LazyLock};

use namiki_data::columns::{Column, ColumnType, Datum, Schema};
use namiki_exec::plan::Plan;
use namiki_exec::source::{MemoryTable, Table, Tables};
use namiki_exec::{Executor, Options};
use namiki_platform::disk::{Disk, MemoryDisk};

/// Created once, because an executor maps memory for pages.
static EXECUTOR: LazyLock<Executor> = LazyLock::new(|| {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    Executor::new(&disk, 0).expect("there is memory for pages")
});

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables::new();
    tables.insert("t", table());
    tables.insert("u", table());
    tables
});

/// A table with a column of each type, the first the key, and two rows.
fn table() -> Table {
    let decimal = ColumnType::Decimal { scale: 2 };
    let columns = vec![
        Column::new("id", ColumnType::I64),
        Column::new("u", ColumnType::U64).nullable(),
        Column::new("b", ColumnType::Bool).nullable(),
        Column::new("d", decimal).nullable(),
        Column::new("day", ColumnType::Date).nullable(),
        Column::new("name", ColumnType::Text).nullable(),
        Column::new("raw", ColumnType::Bytes).nullable(),
    ];
    let schema = Schema::new(columns, &["id"]).expect("the columns are different");
    let row = |id| {
        let mut row = vec![Datum::Null; 7];
        row[0] = Datum::I64(id);
        row
    };
    let rows = MemoryTable::new(schema, [row(1), row(-1)]).expect("the rows are of their columns");
    let index = rows.index(&["u", "name"]).expect("the columns are there");
    Table::new(Arc::new(rows)).with_index("by_u", Arc::new(index))
}

pub(super) fn accepts(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let plan: Plan = match text.parse() {
        Ok(plan) => plan,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let written = serde_json::to_string(&plan).expect("what was read can be written");
    let again: Plan = written.parse().expect("what was written can be read");
    assert_eq!(again, plan, "{written}");
    // A plan has one written form, whether functions built it or it was read.
    assert_eq!(serde_json::to_string(&again).ok(), Some(written));
    assert!(plan.tables().len() <= text.len());
    match EXECUTOR.explain(&plan, &TABLES, &Options::default()) {
        Ok(explanation) => assert!(!explanation.to_string().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    true
}
