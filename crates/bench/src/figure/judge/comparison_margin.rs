//! The margin by which a comparison was decided, relative to the variation of its runs.

use super::super::medians::{Spread, short};

/// The margin of comparisons in which the runs of the two sides overlap: the largest difference of
/// medians, and the largest variation of a side's runs. Both are in percent of the larger side's
/// median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Doubt {
    apart_percent: f64,
    spread_percent: f64,
}

impl Doubt {
    /// The margin of one comparison.
    pub(super) fn between(one: Spread, other: Spread) -> Self {
        let size = |of: fn(&Spread) -> f64| of(&one).abs().max(of(&other).abs());
        // A gain may be 0 in the median without being 0 in each run.
        let mut whole = size(|side| side.median);
        if whole == 0.0 {
            whole = size(|side| side.low).max(size(|side| side.high));
        }
        let percent = |part: f64| {
            if whole == 0.0 {
                0.0
            } else {
                part / whole * 100.0
            }
        };
        Self {
            apart_percent: percent((one.median - other.median).abs()),
            spread_percent: percent(size(|side| side.high - side.low)),
        }
    }

    /// The maximum of both.
    pub(super) fn or_more(self, other: Self) -> Self {
        Self {
            apart_percent: self.apart_percent.max(other.apart_percent),
            spread_percent: self.spread_percent.max(other.spread_percent),
        }
    }

    /// Whether the runs of a side differ at all.
    pub(super) fn varies(self) -> bool {
        self.spread_percent > 0.0
    }

    /// The reason why a claim is undecided, or fails by nothing. `as_claimed` says on which side
    /// the medians are.
    pub(crate) fn text(self, as_claimed: bool) -> String {
        if !self.varies() {
            return "What is compared is the same on both sides, in every run.".to_owned();
        }
        let medians = if as_claimed {
            "the medians are as claimed, but where runs overlap they are apart by"
        } else {
            "where the medians are not as claimed, they miss that by"
        };
        format!(
            "The runs do not decide it: {medians} {} % at most, and what is compared differs by up to {} % from run \
             to run. More runs might decide.",
            short(self.apart_percent),
            short(self.spread_percent)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(low: f64, median: f64, high: f64) -> Spread {
        Spread {
            low,
            median,
            high,
            runs: 3,
        }
    }

    #[test]
    fn differences_are_parts_of_the_larger_side() {
        let doubt = Doubt::between(spread(90.0, 95.0, 105.0), spread(80.0, 100.0, 110.0));
        assert_eq!((doubt.apart_percent, doubt.spread_percent), (5.0, 30.0));
        let why = doubt.text(false);
        assert!(why.contains("miss that by 5.00 % at most"), "{why}");
        assert!(doubt.text(true).contains("apart by 5.00 % at most"));
        assert!(why.contains("by up to 30.0 %"), "{why}");
        let other = Doubt::between(spread(90.0, 100.0, 100.0), spread(90.0, 90.0, 95.0));
        assert_eq!((other.apart_percent, other.spread_percent), (10.0, 10.0));
        let both = doubt.or_more(other);
        assert_eq!((both.apart_percent, both.spread_percent), (10.0, 30.0));
    }

    #[test]
    fn a_zero_median_is_compared_by_its_runs() {
        let doubt = Doubt::between(spread(-1.0, 0.0, 3.0), spread(0.0, 0.0, 4.0));
        assert_eq!((doubt.apart_percent, doubt.spread_percent), (0.0, 100.0));
        let same = Doubt::between(spread(0.0, 0.0, 0.0), spread(0.0, 0.0, 0.0));
        assert!(same.text(false).contains("the same on both sides"));
    }
}
