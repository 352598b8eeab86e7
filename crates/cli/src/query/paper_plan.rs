//! The paper's query over the tables that `namiki load tpch` makes.

use namiki::query::{AggregateCall, AggregateFunction, KeyRange, Plan, column};

use crate::load::{CUSTOMER_INDEX, ORDERS_INDEX};

/// For each nation, the orders of its customers in one market segment with more than so much on their account.
///
/// ```sql
/// SELECT c_nationkey, sum(o_totalprice), count(*)
/// FROM customer, orders
/// WHERE c_custkey = o_custkey and c_mktsegment = 'AUTOMOBILE' and c_acctbal > 9980
/// GROUP BY c_nationkey
/// ```
///
/// Paper: oode §3, figure 1
pub(super) fn paper_plan() -> Plan {
    let range = KeyRange {
        equal: vec!["AUTOMOBILE".into()],
        above: Some(9980_i64.into()),
        ..KeyRange::default()
    };
    let calculate = vec![
        AggregateCall::new("total", AggregateFunction::Sum, column("o_totalprice")),
        AggregateCall::count("orders"),
    ];
    Plan::index_scan("customer", CUSTOMER_INDEX, range)
        .index_lookup("orders", ORDERS_INDEX, &["c_custkey"])
        .aggregate(&["c_nationkey"], calculate)
}
