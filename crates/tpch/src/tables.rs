//! TPC-H's tables: columns, keys, indexes, and numbers of rows.

use clap::ValueEnum;
use namiki::NewTable;
use namiki::query::{Column, ColumnType, Schema, SchemaError};
use tpchgen::generators::{CustomerGenerator, OrderGenerator, PartGenerator, SupplierGenerator};

use crate::rows::{self, Rows};

const INT: ColumnType = ColumnType::I64;
const TEXT: ColumnType = ColumnType::Text;
const DATE: ColumnType = ColumnType::Date;
const MONEY: ColumnType = ColumnType::Decimal { scale: 2 };

/// Orders have one to seven line items, uniformly distributed.
const LINE_ITEMS_PER_ORDER: i64 = 4;
/// Suppliers of each part.
const SUPPLIERS_PER_PART: i64 = 4;

/// The index of customers by market segment and balance.
pub(crate) const CUSTOMER_INDEX: &str = "c_mktsegment_acctbal";
/// The index of orders by customer.
pub(crate) const ORDERS_INDEX: &str = "o_custkey";

/// A table of TPC-H. Small ones come first, so that a load that cannot work fails early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TpchTable {
    /// Five regions.
    Region,
    /// 25 nations.
    Nation,
    /// The suppliers of parts.
    Supplier,
    /// The customers. A third of them have no orders.
    Customer,
    /// The parts that customers order.
    Part,
    /// The suppliers of each part, four of them.
    Partsupp,
    /// Ten for each customer.
    Orders,
    /// Four for each order.
    Lineitem,
}

impl TpchTable {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Nation => "nation",
            Self::Supplier => "supplier",
            Self::Customer => "customer",
            Self::Part => "part",
            Self::Partsupp => "partsupp",
            Self::Orders => "orders",
            Self::Lineitem => "lineitem",
        }
    }

    /// Its rows at a scale, in the order of its key; each row has a value for every column.
    #[must_use]
    pub fn rows(self, scale: f64) -> Rows {
        match self {
            Self::Region => rows::region(scale),
            Self::Nation => rows::nation(scale),
            Self::Supplier => rows::supplier(scale),
            Self::Customer => rows::customer(scale),
            Self::Part => rows::part(scale),
            Self::Partsupp => rows::partsupp(scale),
            Self::Orders => rows::orders(scale),
            Self::Lineitem => rows::lineitem(scale),
        }
    }

    /// Approximate number of rows at a scale, in constant time.
    #[must_use]
    pub fn row_estimate(self, scale: f64) -> u64 {
        let orders = || OrderGenerator::calculate_row_count(scale, 1, 1);
        let parts = || PartGenerator::calculate_row_count(scale, 1, 1);
        let rows = match self {
            Self::Region => 5,
            Self::Nation => 25,
            Self::Supplier => SupplierGenerator::calculate_row_count(scale, 1, 1),
            Self::Customer => CustomerGenerator::calculate_row_count(scale, 1, 1),
            Self::Part => parts(),
            Self::Partsupp => SUPPLIERS_PER_PART * parts(),
            Self::Orders => orders(),
            Self::Lineitem => LINE_ITEMS_PER_ORDER * orders(),
        };
        rows.max(0).unsigned_abs()
    }

    /// Exact number of rows at a scale. Line items are counted order by order, which takes some
    /// nanoseconds for each.
    #[must_use]
    pub fn row_count(self, scale: f64) -> u64 {
        if self != Self::Lineitem {
            return self.row_estimate(scale);
        }
        let mut line_count = OrderGenerator::create_line_count_random();
        let of_an_order = |_| {
            let lines = line_count.next_value();
            line_count.row_finished();
            u64::from(lines.unsigned_abs())
        };
        (0..Self::Orders.row_estimate(scale)).map(of_an_order).sum()
    }

    /// The table as it is loaded.
    ///
    /// # Errors
    /// Never: a test makes all of them.
    pub fn definition(self) -> Result<NewTable, SchemaError> {
        let columns = self.columns().iter();
        let columns = columns.map(|(name, column_type)| Column::new(name, *column_type));
        let schema = Schema::new(columns.collect(), self.key())?;
        let table = NewTable::new(self.name(), schema);
        Ok(match self {
            // The paper's query looks its customers up by this index.
            Self::Customer => table.index(CUSTOMER_INDEX, &["c_mktsegment", "c_acctbal"]),
            // And their orders by this one.
            Self::Orders => table.index(ORDERS_INDEX, &["o_custkey"]),
            _ => table,
        })
    }

    fn key(self) -> &'static [&'static str] {
        match self {
            Self::Region => &["r_regionkey"],
            Self::Nation => &["n_nationkey"],
            Self::Supplier => &["s_suppkey"],
            Self::Customer => &["c_custkey"],
            Self::Part => &["p_partkey"],
            Self::Partsupp => &["ps_partkey", "ps_suppkey"],
            Self::Orders => &["o_orderkey"],
            Self::Lineitem => &["l_orderkey", "l_linenumber"],
        }
    }

    fn columns(self) -> &'static [(&'static str, ColumnType)] {
        match self {
            Self::Region => &[("r_regionkey", INT), ("r_name", TEXT), ("r_comment", TEXT)],
            Self::Nation => &[
                ("n_nationkey", INT),
                ("n_name", TEXT),
                ("n_regionkey", INT),
                ("n_comment", TEXT),
            ],
            Self::Supplier => &[
                ("s_suppkey", INT),
                ("s_name", TEXT),
                ("s_address", TEXT),
                ("s_nationkey", INT),
                ("s_phone", TEXT),
                ("s_acctbal", MONEY),
                ("s_comment", TEXT),
            ],
            Self::Customer => &[
                ("c_custkey", INT),
                ("c_name", TEXT),
                ("c_address", TEXT),
                ("c_nationkey", INT),
                ("c_phone", TEXT),
                ("c_acctbal", MONEY),
                ("c_mktsegment", TEXT),
                ("c_comment", TEXT),
            ],
            Self::Part => &[
                ("p_partkey", INT),
                ("p_name", TEXT),
                ("p_mfgr", TEXT),
                ("p_brand", TEXT),
                ("p_type", TEXT),
                ("p_size", INT),
                ("p_container", TEXT),
                ("p_retailprice", MONEY),
                ("p_comment", TEXT),
            ],
            Self::Partsupp => &[
                ("ps_partkey", INT),
                ("ps_suppkey", INT),
                ("ps_availqty", INT),
                ("ps_supplycost", MONEY),
                ("ps_comment", TEXT),
            ],
            Self::Orders => &[
                ("o_orderkey", INT),
                ("o_custkey", INT),
                ("o_orderstatus", TEXT),
                ("o_totalprice", MONEY),
                ("o_orderdate", DATE),
                ("o_orderpriority", TEXT),
                ("o_clerk", TEXT),
                ("o_shippriority", INT),
                ("o_comment", TEXT),
            ],
            Self::Lineitem => &[
                ("l_orderkey", INT),
                ("l_partkey", INT),
                ("l_suppkey", INT),
                ("l_linenumber", INT),
                ("l_quantity", MONEY),
                ("l_extendedprice", MONEY),
                ("l_discount", MONEY),
                ("l_tax", MONEY),
                ("l_returnflag", TEXT),
                ("l_linestatus", TEXT),
                ("l_shipdate", DATE),
                ("l_commitdate", DATE),
                ("l_receiptdate", DATE),
                ("l_shipinstruct", TEXT),
                ("l_shipmode", TEXT),
                ("l_comment", TEXT),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: f64 = 0.01;

    #[test]
    fn rows_fit_their_columns_and_are_sorted_by_key() {
        for table in TpchTable::value_variants() {
            let schema = table.definition().unwrap().schema().clone();
            let (mut count, mut before) = (0, Vec::new());
            for row in table.rows(SCALE) {
                assert_eq!(row.len(), schema.columns().len(), "{table:?}");
                for (value, column) in row.iter().zip(schema.columns()) {
                    assert_eq!(
                        value.column_type(),
                        Some(column.column_type),
                        "{}",
                        column.name
                    );
                }
                let key: Vec<i64> = schema
                    .key()
                    .iter()
                    .map(|place| match row[*place] {
                        namiki::query::Datum::I64(key) => key,
                        ref other => panic!("{table:?}: {other:?}"),
                    })
                    .collect();
                assert!(before < key, "{table:?}: {before:?} before {key:?}");
                before = key;
                count += 1;
            }
            assert_eq!(table.row_count(SCALE), count, "{table:?}");
        }
    }

    #[test]
    fn another_scale_has_other_numbers_of_rows() {
        // The number in the benchmark's specification.
        assert_eq!(TpchTable::Lineitem.row_count(1.0), 6_001_215);
        for table in [TpchTable::Customer, TpchTable::Orders, TpchTable::Lineitem] {
            let at_two = table.row_count(2.0);
            assert_ne!(table.row_count(1.0), at_two, "{table:?}");
            assert_ne!(table.row_count(1.99), at_two, "{table:?}");
        }
    }
}
