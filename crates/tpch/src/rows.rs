//! The rows of TPC-H's tables, made by `tpchgen`, in the order of each table's key.
//!
//! Every type is exact: amounts are decimals with two digits, stored as whole cents, and dates are
//! days. The generator produces the tables in the order of their keys, except the four suppliers of
//! each part.

use namiki::query::Datum;
use tpchgen::dates::TPCHDate;
use tpchgen::decimal::TPCHDecimal;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

/// Rows with a value for every column.
pub type Rows = Box<dyn Iterator<Item = Vec<Datum>>>;

/// Suppliers of each part.
const SUPPLIERS_PER_PART: usize = 4;

pub(crate) fn region(scale: f64) -> Rows {
    let rows = RegionGenerator::new(scale, 1, 1).into_iter();
    Box::new(rows.map(|row| vec![int(row.r_regionkey), text(row.r_name), text(row.r_comment)]))
}

pub(crate) fn nation(scale: f64) -> Rows {
    let rows = NationGenerator::new(scale, 1, 1).into_iter();
    Box::new(rows.map(|row| {
        vec![
            int(row.n_nationkey),
            text(row.n_name),
            int(row.n_regionkey),
            text(row.n_comment),
        ]
    }))
}

pub(crate) fn supplier(scale: f64) -> Rows {
    let rows = SupplierGenerator::new(scale, 1, 1).into_iter();
    Box::new(rows.map(|row| {
        vec![
            int(row.s_suppkey),
            text(row.s_name),
            text(row.s_address),
            int(row.s_nationkey),
            text(row.s_phone),
            cents(row.s_acctbal),
            text(row.s_comment),
        ]
    }))
}

pub(crate) fn customer(scale: f64) -> Rows {
    let rows = CustomerGenerator::new(scale, 1, 1).into_iter();
    Box::new(rows.map(|row| {
        vec![
            int(row.c_custkey),
            text(row.c_name),
            text(row.c_address),
            int(row.c_nationkey),
            text(row.c_phone),
            cents(row.c_acctbal),
            text(row.c_mktsegment),
            text(row.c_comment),
        ]
    }))
}

pub(crate) fn part(scale: f64) -> Rows {
    let rows = PartGenerator::new(scale, 1, 1).into_iter();
    Box::new(rows.map(|row| {
        vec![
            int(row.p_partkey),
            text(row.p_name),
            text(row.p_mfgr),
            text(row.p_brand),
            text(row.p_type),
            int(row.p_size),
            text(row.p_container),
            cents(row.p_retailprice),
            text(row.p_comment),
        ]
    }))
}

pub(crate) fn partsupp(scale: f64) -> Rows {
    let mut rows = PartSuppGenerator::new(scale, 1, 1).into_iter();
    let of_one_part = move || {
        let mut group: Vec<_> = rows.by_ref().take(SUPPLIERS_PER_PART).collect();
        group.sort_by_key(|row| (row.ps_partkey, row.ps_suppkey));
        let group = group.into_iter().map(|row| {
            vec![
                int(row.ps_partkey),
                int(row.ps_suppkey),
                int(row.ps_availqty),
                cents(row.ps_supplycost),
                text(row.ps_comment),
            ]
        });
        let group: Vec<_> = group.collect();
        (!group.is_empty()).then_some(group)
    };
    Box::new(std::iter::from_fn(of_one_part).flatten())
}

pub(crate) fn orders(scale: f64) -> Rows {
    let rows = OrderGenerator::new(scale, 1, 1).into_iter();
    Box::new(rows.map(|row| {
        vec![
            int(row.o_orderkey),
            int(row.o_custkey),
            text(row.o_orderstatus),
            cents(row.o_totalprice),
            day(row.o_orderdate),
            text(row.o_orderpriority),
            text(row.o_clerk),
            int(row.o_shippriority),
            text(row.o_comment),
        ]
    }))
}

pub(crate) fn lineitem(scale: f64) -> Rows {
    let rows = LineItemGenerator::new(scale, 1, 1).into_iter();
    Box::new(rows.map(|row| {
        vec![
            int(row.l_orderkey),
            int(row.l_partkey),
            int(row.l_suppkey),
            int(row.l_linenumber),
            // Whole pieces; the column has two decimal digits.
            decimal(row.l_quantity * 100),
            cents(row.l_extendedprice),
            cents(row.l_discount),
            cents(row.l_tax),
            text(row.l_returnflag),
            text(row.l_linestatus),
            day(row.l_shipdate),
            day(row.l_commitdate),
            day(row.l_receiptdate),
            text(row.l_shipinstruct),
            text(row.l_shipmode),
            text(row.l_comment),
        ]
    }))
}

fn int(value: impl Into<i64>) -> Datum {
    Datum::I64(value.into())
}

fn text(value: impl ToString) -> Datum {
    Datum::Text(value.to_string())
}

fn cents(value: TPCHDecimal) -> Datum {
    decimal(value.into_inner())
}

fn decimal(hundredths: i64) -> Datum {
    Datum::Decimal {
        unscaled: hundredths.into(),
        scale: 2,
    }
}

fn day(date: TPCHDate) -> Datum {
    Datum::Date(date.to_unix_epoch())
}
