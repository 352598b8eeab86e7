//! Tables for tests: in memory, in segments, or both.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod source_layer;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki_data::columns::{Column, ColumnType, Datum, Schema, row_codec};
use namiki_exec::plan::{AggregateCall, AggregateFunction, KeyRange, Plan, column};
use namiki_exec::source::{MemoryTable, SegmentTable, Source, Table, Tables};
use namiki_exec::statistics::{StatisticsBuilder, TableStatistics};
use namiki_exec::{Degree, Options};
use namiki_platform::Stamp;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;
use namiki_segment::{Segment, SegmentId, Writer};

/// A disk in memory with a directory.
pub(crate) fn memory_disk() -> (Arc<SimDisk>, PathBuf) {
    let disk = SimDisk::new();
    let dir = PathBuf::from("/segments");
    disk.create_dir_all(&dir).unwrap();
    (Arc::new(disk), dir)
}

/// Writes the rows of a table to segments of `rows_per_segment` rows, and opens them.
pub(crate) fn in_segments(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    table: &MemoryTable,
    rows_per_segment: usize,
) -> SegmentTable {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let mut segments = Vec::new();
    for rows in table.encoded_rows().chunks(rows_per_segment.max(1)) {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let id = SegmentId::new(7, number);
        let path = dir.join(format!("{number}.segment"));
        let mut writer = Writer::create(disk, &path, id).unwrap();
        for (key, row) in rows {
            writer.push(key, row, Stamp(1)).unwrap();
        }
        writer.finish().unwrap();
        segments.push(Arc::new(Segment::open(disk, &path, id).unwrap()));
    }
    SegmentTable::new(table.schema().clone(), segments).unwrap()
}

pub(crate) fn options(threads: usize, tasks: usize) -> Options {
    Options {
        threads: NonZeroUsize::new(threads).unwrap(),
        degree: Degree::Fixed(tasks),
        ..Options::default()
    }
}

pub(crate) fn statistics(table: &MemoryTable) -> TableStatistics {
    let mut builder = StatisticsBuilder::new(table.schema());
    for (key, row) in table.encoded_rows() {
        builder.add(&row_codec::decode(table.schema(), key, row).unwrap());
    }
    builder.finish()
}

/// Rows of an `id`, an `other` number that is computed from it, and a `text` of this length.
pub(crate) fn long_texts(rows: i64, bytes: usize, other: impl Fn(i64) -> i64) -> MemoryTable {
    let columns = vec![
        Column::new("id", ColumnType::I64),
        Column::new("other", ColumnType::I64),
        Column::new("text", ColumnType::Text),
    ];
    let schema = Schema::new(columns, &["id"]).unwrap();
    let row = |id: i64| {
        let text = format!("{id:08}").repeat(bytes / 8);
        vec![id.into(), other(id).into(), text.as_str().into()]
    };
    MemoryTable::new(schema, (0..rows).map(row)).unwrap()
}

pub(crate) const SEGMENTS: [&str; 5] = [
    "AUTOMOBILE",
    "BUILDING",
    "FURNITURE",
    "HOUSEHOLD",
    "MACHINERY",
];

/// Customers and orders in the shape of TPC-H, ten orders for each customer.
pub(crate) struct Shop {
    pub(crate) customer: MemoryTable,
    pub(crate) customer_index: MemoryTable,
    pub(crate) orders: MemoryTable,
    pub(crate) orders_index: MemoryTable,
}

impl Shop {
    pub(crate) fn new(customers: i64, seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let money = ColumnType::Decimal { scale: 2 };
        let columns = vec![
            Column::new("c_custkey", ColumnType::I64),
            Column::new("c_name", ColumnType::Text),
            Column::new("c_nationkey", ColumnType::I64),
            Column::new("c_acctbal", money),
            Column::new("c_mktsegment", ColumnType::Text),
            Column::new("c_comment", ColumnType::Text),
        ];
        let schema = Schema::new(columns, &["c_custkey"]).unwrap();
        let decimal = |unscaled: u64| Datum::Decimal {
            unscaled: i128::from(unscaled),
            scale: 2,
        };
        let customer = (0..customers).map(|key| {
            vec![
                key.into(),
                format!("Customer#{key:09}").into(),
                (random.below(25) as i64).into(),
                decimal(random.below(1_000_000)),
                SEGMENTS[random.index(5)].into(),
                "x".repeat(random.index(100)).into(),
            ]
        });
        let customer = MemoryTable::new(schema, customer.collect::<Vec<_>>()).unwrap();
        let columns = vec![
            Column::new("o_orderkey", ColumnType::I64),
            Column::new("o_custkey", ColumnType::I64),
            Column::new("o_totalprice", money),
            Column::new("o_orderdate", ColumnType::Date),
            Column::new("o_comment", ColumnType::Text),
        ];
        let schema = Schema::new(columns, &["o_orderkey"]).unwrap();
        let orders = (0..customers * 10).map(|key| {
            vec![
                (key * 4).into(),
                (random.below(customers as u64) as i64).into(),
                decimal(random.below(50_000_000)),
                Datum::Date(8_035 + random.below(2_400) as i32),
                "y".repeat(random.index(80)).into(),
            ]
        });
        let orders = MemoryTable::new(schema, orders.collect::<Vec<_>>()).unwrap();
        Self {
            customer_index: customer.index(&["c_mktsegment", "c_acctbal"]).unwrap(),
            orders_index: orders.index(&["o_custkey"]).unwrap(),
            customer,
            orders,
        }
    }

    /// All of it in memory.
    pub(crate) fn in_memory(&self) -> Tables {
        let own = |table: &MemoryTable| -> Arc<dyn Source> { Arc::new(table.clone()) };
        self.tables(own)
    }

    /// All of it in segments.
    pub(crate) fn on_disk(&self, disk: &Arc<dyn Disk>, dir: &Path) -> Tables {
        self.tables(|table| Arc::new(in_segments(disk, dir, table, usize::MAX)))
    }

    fn tables(&self, of: impl Fn(&MemoryTable) -> Arc<dyn Source>) -> Tables {
        let mut tables = Tables::new();
        let customer = Table::new(of(&self.customer));
        let index = of(&self.customer_index);
        tables.insert("customer", customer.with_index("segment_balance", index));
        let orders = Table::new(of(&self.orders));
        tables.insert(
            "orders",
            orders.with_index("by_customer", of(&self.orders_index)),
        );
        tables
    }
}

/// Paper: oode §3, figure 1.
pub(crate) fn papers_query(balance_above: i64) -> Plan {
    let range = KeyRange {
        equal: vec!["AUTOMOBILE".into()],
        above: Some(balance_above.into()),
        ..KeyRange::default()
    };
    let calls = vec![
        AggregateCall::new("total", AggregateFunction::Sum, column("o_totalprice")),
        AggregateCall::count("orders"),
    ];
    Plan::index_scan("customer", "segment_balance", range)
        .index_lookup("orders", "by_customer", &["c_custkey"])
        .aggregate(&["c_nationkey"], calls)
}

/// Rows in the order of their values, for comparison.
pub(crate) fn sorted(mut rows: Vec<Vec<Datum>>) -> Vec<Vec<Datum>> {
    rows.sort();
    rows
}
