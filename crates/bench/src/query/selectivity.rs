//! The selectivity of the paper's query on `customer`: its bound on `c_acctbal` is moved.
//!
//! `c_acctbal` is uniform over the cents from -999.99 to 9999.99, and `c_mktsegment` over five
//! names. A bound therefore selects a known fraction of a segment, which is a fifth of the table.
//! The paper's bound, 9980, selects the upper 20 of 11,000. The bounds 9800, 9000 and 7000 select
//! ten, fifty and 150 times as much.
//!
//! Paper: oode §3, figure 1

use std::fmt;
use std::str::FromStr;

use namiki_data::columns::Datum;
use namiki_exec::plan::Plan;
use serde::{Serialize, Serializer};

/// One cent above the largest possible balance, in cents.
const BALANCE_END_CENTS: i64 = 1_000_000;
/// Number of the largest balances that the paper's bound selects.
const PAPER_CENTS: i64 = 2_000;
/// Number of different balances.
const BALANCES: f64 = 1_099_999.0;
/// Number of market segments.
const SEGMENTS: f64 = 5.0;
/// Larger multiples put the bound below the smallest balance.
const MULTIPLE_MAX: i64 = 549;
/// The fraction of customers in one segment, which is the upper limit.
const MAX: f64 = 1.0 / SEGMENTS;

/// The named fractions of TPC-H's data: one, ten, fifty and 150 times the paper's, as written in
/// the contract of flags and keys.
const NAMED: [(f64, i64); 4] = [(0.000_368, 1), (0.0036, 10), (0.018, 50), (0.054, 150)];

/// A fraction of all customers, and the bound that selects it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Selectivity {
    part: f64,
    above_cents: i64,
}

impl Selectivity {
    /// The paper's selectivity.
    pub(crate) const PAPER: Self = Self::times(1);

    /// A multiple of the paper's selectivity.
    pub(crate) const fn times(multiple: i64) -> Self {
        let mut part = PAPER_CENTS as f64 * multiple as f64 / BALANCES / SEGMENTS;
        let mut at = 0;
        while at < NAMED.len() {
            if NAMED[at].1 == multiple {
                part = NAMED[at].0;
            }
            at += 1;
        }
        Self {
            part,
            above_cents: BALANCE_END_CENTS - PAPER_CENTS * multiple,
        }
    }

    /// The multiple of the paper's selectivity that selects about `wanted` of `customers`
    /// customers.
    pub(crate) fn taking(wanted: u64, customers: u64) -> Self {
        let of_paper = PAPER_CENTS as f64 / BALANCES / SEGMENTS * customers as f64;
        let multiple = (wanted as f64 / of_paper.max(f64::MIN_POSITIVE)).round();
        Self::times((multiple as i64).clamp(1, MULTIPLE_MAX))
    }

    /// The lower bound of `c_acctbal`.
    pub(crate) fn bound(self) -> f64 {
        self.above_cents as f64 / 100.0
    }

    pub(crate) fn datum(self) -> Datum {
        Datum::Decimal {
            unscaled: self.above_cents.into(),
            scale: 2,
        }
    }

    /// The fraction of all customers.
    pub(crate) fn part(self) -> f64 {
        self.part
    }

    /// Moves the bound of a plan that reads one range of an index on customers, as the paper's
    /// does. `None` if the plan has no such bound.
    pub(crate) fn applied(self, mut plan: Plan) -> Option<Plan> {
        if let Plan::IndexScan(scan) = &mut plan
            && scan.table == "customer"
            && scan.range.above.is_some()
        {
            scan.range.above = Some(self.datum());
            return Some(plan);
        }
        let mut inputs = plan.inputs_mut();
        let [input] = inputs.as_mut_slice() else {
            return None;
        };
        **input = self.applied((**input).clone().into_plan())?.into();
        Some(plan)
    }
}

impl FromStr for Selectivity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.strip_prefix('x') {
            Some(multiple) => multiple
                .parse()
                .ok()
                .filter(|multiple| (1..=MULTIPLE_MAX).contains(multiple))
                .map(Self::times),
            None => text
                .parse()
                .ok()
                .filter(|part| *part > 0.0 && *part <= MAX)
                .map(
                    |part: f64| match NAMED.iter().find(|(named, _)| *named == part) {
                        Some((_, multiple)) => Self::times(*multiple),
                        None => Self {
                            part,
                            above_cents: BALANCE_END_CENTS
                                - 1
                                - (part * SEGMENTS * BALANCES).round() as i64,
                        },
                    },
                ),
        };
        parsed.ok_or_else(|| {
            format!(
                "{text:?} is neither a part of all customers (above 0 and up to {MAX}: one market segment) nor a \
                 multiple of the paper's (x1 to x{MULTIPLE_MAX})"
            )
        })
    }
}

impl fmt::Display for Selectivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.part)
    }
}

impl Serialize for Selectivity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.part)
    }
}

#[cfg(test)]
mod tests {
    use namiki_exec::plan::stored;

    use super::*;

    #[test]
    fn the_papers_selectivity_is_the_papers_bound() {
        for (text, bound) in [
            ("0.000368", 9980.0),
            ("0.0036", 9800.0),
            ("0.018", 9000.0),
            ("0.054", 7000.0),
            ("x1", 9980.0),
            ("x30", 9400.0),
            ("0.2", -1000.0),
        ] {
            let selectivity: Selectivity = text.parse().unwrap();
            assert_eq!(selectivity.bound(), bound, "{text}");
        }
        assert_eq!(Selectivity::taking(550, 1_500_000), Selectivity::PAPER);
        assert_eq!(Selectivity::taking(6_000, 150_000).bound(), 7800.0);
        assert_eq!(Selectivity::taking(u64::MAX, 1), Selectivity::times(549));
        assert_eq!("x10".parse::<Selectivity>().unwrap().to_string(), "0.0036");
        for bad in ["", "0", "-0.1", "0.21", "x0", "x550", "x", "nan", "all"] {
            assert!(bad.parse::<Selectivity>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bound_takes_its_part_of_uniform_balances() {
        for part in [0.0001, 0.00123, 0.01, 0.1, 0.2] {
            let selectivity: Selectivity = part.to_string().parse().unwrap();
            let taken = (999_999 - selectivity.above_cents) as f64 / BALANCES / SEGMENTS;
            assert!((taken - part).abs() < 1e-6, "{part}: {taken}");
        }
    }

    #[test]
    fn the_bound_of_the_plan_is_moved_and_nothing_else() {
        let plan = stored::named(stored::PAPER).unwrap();
        let moved = Selectivity::times(50).applied(plan.clone()).unwrap();
        let text = serde_json::to_string(&moved).unwrap();
        assert!(text.contains(r#""above":{"decimal":"9000.00"}"#), "{text}");
        assert_ne!(moved, plan);
        assert_eq!(Selectivity::times(1).applied(Plan::scan("customer")), None);
    }
}
