//! Plans that have names: the paper's query, and slivers of TPC-H's queries 3, 5 and 10, over the
//! tables and indexes that `namiki load tpch` makes.
//!
//! The plans are files, `crates/exec/plans/*.json`. What they ask in SQL:
//!
//! ```sql
//! -- paper: figure 1 of oode
//! SELECT c_nationkey, sum(o_totalprice), count(*) FROM customer, orders
//! WHERE c_custkey = o_custkey AND c_mktsegment = 'AUTOMOBILE' AND c_acctbal > 9980 GROUP BY c_nationkey;
//!
//! -- q3-sliver
//! SELECT l_orderkey, o_orderdate, o_shippriority, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*)
//! FROM customer, orders, lineitem
//! WHERE c_mktsegment = 'BUILDING' AND c_acctbal > 9900 AND c_custkey = o_custkey AND l_orderkey = o_orderkey
//!   AND o_orderdate < '1995-03-15' AND l_shipdate > '1995-03-15'
//! GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10;
//!
//! -- q5-sliver
//! SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*)
//! FROM customer, orders, lineitem, supplier, nation, region
//! WHERE c_mktsegment = 'AUTOMOBILE' AND c_acctbal > 9800 AND c_custkey = o_custkey AND l_orderkey = o_orderkey
//!   AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey AND c_nationkey = n_nationkey
//!   AND n_regionkey = r_regionkey AND r_name = 'ASIA'
//!   AND o_orderdate >= '1994-01-01' AND o_orderdate < '1995-01-01'
//! GROUP BY n_name ORDER BY revenue DESC;
//!
//! -- q10-sliver
//! SELECT c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment,
//!        sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*)
//! FROM customer, orders, lineitem, nation
//! WHERE c_mktsegment = 'MACHINERY' AND c_acctbal > 9800 AND c_custkey = o_custkey AND l_orderkey = o_orderkey
//!   AND c_nationkey = n_nationkey AND l_returnflag = 'R'
//!   AND o_orderdate >= '1993-10-01' AND o_orderdate < '1994-01-01'
//! GROUP BY c_custkey, c_name, c_acctbal, c_phone, c_address, c_comment, n_name ORDER BY revenue DESC LIMIT 20;
//! ```
//!
//! A sliver joins the tables of TPC-H's query and returns its columns, for a small part of one
//! market segment, as the paper's query does. TPC-H's own queries read most of a table, which is a
//! scan's work, so a time of a sliver is no time of TPC-H.
//!
//! Paper: oode §3, figure 1

use super::Plan;

/// The name of the paper's query.
pub const PAPER: &str = "paper";

const FILES: [(&str, &str); 4] = [
    (PAPER, include_str!("../../plans/paper.json")),
    ("q3-sliver", include_str!("../../plans/q3-sliver.json")),
    ("q5-sliver", include_str!("../../plans/q5-sliver.json")),
    ("q10-sliver", include_str!("../../plans/q10-sliver.json")),
];

/// The names of all of them.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The plan of this name.
#[must_use]
pub fn named(name: &str) -> Option<Plan> {
    let (_, json) = FILES.iter().find(|(own, _)| *own == name)?;
    // A test reads them all.
    json.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_plan_is_one_and_comes_back_from_json() {
        for (name, json) in FILES {
            let plan: Plan = json
                .parse()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let again = serde_json::to_value(&plan).unwrap();
            let stored: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(again, stored, "{name}");
            assert_eq!(named(name), Some(plan));
        }
        assert_eq!(named("q99"), None);
    }
}
