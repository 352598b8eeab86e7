//! The papers' sentences about a figure, as statements that its medians can confirm or refute.

use super::cost_model::CostModel;
use super::counted_explanation::Reason;
use super::measure::Measure;
use super::run_row::Count;

/// A sentence of the paper that states a result, or one of ours beside it.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The section of the sentence, as in `4.1.3`.
    pub(crate) section: &'static str,
    /// The sentence, or its relevant part; empty if it is ours.
    pub(crate) sentence: &'static str,
    pub(crate) english: &'static str,
    /// With fewer cores, the sentence cannot be tested.
    pub(crate) cores_min: u16,
    /// The sentence holds if all of these do.
    pub(crate) statements: &'static [Statement],
    /// The quantity that they are about; `None` means that of the figure.
    pub(crate) value: Option<Measure>,
    /// Additional counts, which may explain the verdict.
    pub(crate) beside: &'static [Count],
    /// The known reason for a failure, given if the counts of the run show it. Otherwise the figure
    /// reports by how much the runs differ, or that no reason is known.
    pub(crate) why_not: Option<Reason>,
    /// If the claim fails, and no such reason is seen: counts that may add up to the values.
    pub(crate) cost_model: Option<CostModel>,
}

impl Claim {
    /// A claim by a sentence of this section, and its translation.
    pub(crate) const fn new(
        section: &'static str,
        sentence: &'static str,
        english: &'static str,
        statements: &'static [Statement],
        terms: Terms,
    ) -> Self {
        let Terms {
            cores_min,
            beside,
            why_not,
            cost_model,
        } = terms;
        Self {
            section,
            sentence,
            english,
            cores_min,
            statements,
            value: None,
            beside,
            why_not,
            cost_model,
        }
    }

    /// The same about another quantity of the same runs than the figure's.
    pub(crate) const fn about(self, value: Measure) -> Self {
        Self {
            value: Some(value),
            ..self
        }
    }

    /// A claim of ours about what this repository adds. It does not count as a sentence of the
    /// paper.
    pub(crate) const fn ours(
        english: &'static str,
        statements: &'static [Statement],
        terms: Terms,
    ) -> Self {
        Self::new("", "", english, statements, terms)
    }

    /// Whether it is ours.
    pub(crate) const fn is_ours(&self) -> bool {
        self.sentence.is_empty()
    }
}

/// The fields that claims of a figure share.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    cores_min: u16,
    beside: &'static [Count],
    why_not: Option<Reason>,
    cost_model: Option<CostModel>,
}

impl Terms {
    /// Any number of cores, these counts, and no known reason for a failure.
    pub(crate) const fn new(beside: &'static [Count]) -> Self {
        Self {
            cores_min: 1,
            beside,
            why_not: None,
            cost_model: None,
        }
    }

    /// The same for this number of cores or more.
    pub(crate) const fn cores(self, cores_min: u16) -> Self {
        Self { cores_min, ..self }
    }

    /// The same with a reason for a failure.
    pub(crate) const fn unless(self, reason: Reason) -> Self {
        Self {
            why_not: Some(reason),
            ..self
        }
    }

    /// The same with counts that may add up to the values, if the claim fails.
    pub(crate) const fn or_adds_up(self, model: CostModel) -> Self {
        Self {
            cost_model: Some(model),
            ..self
        }
    }
}

/// The number of threads that a statement is about; for figures over tasks, the number of tasks per
/// thread; for figures over percentiles, the percentile; for figures over writes, their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The paper's number.
    Threads(u16),
    /// The smallest measured number.
    Fewest,
    /// The number of cores of this machine, or the next smaller measured number.
    Cores,
    /// The largest measured number, if it exceeds the number of cores.
    Most,
}

/// Names of lines, as in the figure.
type Lines = &'static [&'static str];

/// A statement about lines of a figure, which have the names used in the figure. "Value" is the
/// quantity on the vertical axis, or that of [`Claim::value`]. The fields are in the order in which
/// the comment has them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Statement {
    /// Each of these lines is above every other, at this number of threads.
    Highest(Lines, At),
    /// Each of these lines is below every other, at this number of threads.
    Lowest(Lines, At),
    /// The line is above each of these others, at this number of threads.
    AboveAll(&'static str, Lines, At),
    /// The line is below each of these others, at this number of threads.
    BelowAll(&'static str, Lines, At),
    /// The line is above each of these others by more than a tenth, at this number of threads.
    StandsOut(&'static str, Lines, At),
    /// The line is between the lowest and the highest of these others, or within a quarter of one
    /// of the two, at this number of threads.
    Among(&'static str, Lines, At),
    /// The first line is at most a tenth above the second, at this number of threads.
    NotAbove(&'static str, &'static str, At),
    /// The first line is at most a tenth above the second, for every measured number of threads.
    NowhereAbove(&'static str, &'static str),
    /// Each of these lines is above the next, at this number of threads.
    Order(Lines, At),
    /// Each of these lines is above the next, for every measured number of threads.
    OrderEverywhere(Lines),
    /// The line rises with each step to more threads, up to this number.
    Rises(&'static str, At),
    /// The line gains less for each additional thread in its last step up to this number of threads
    /// than in its first.
    GrowthSlows(&'static str, At),
    /// The line is straight over the threads, with at least this coefficient of determination of a
    /// least-squares fit, and rises, up to this number.
    Straight(&'static str, f64, At),
    /// For the line, no step beyond this number of threads raises it by more than a tenth, and with
    /// the most threads the line is lower than there.
    Falls(&'static str, At),
    /// For the line, no step beyond this number of threads lowers it by more than a tenth, and with
    /// the most threads the line is higher than there.
    Climbs(&'static str, At),
    /// The line is straight over reads per second: a least-squares fit has at least this
    /// coefficient of determination.
    Linear(&'static str, f64),
    /// The fit's intercept is within a tenth of the line's highest value from zero.
    SmallIntercept(&'static str),
    /// The quotient of the value and the reads per second is at most a tenth higher at the highest
    /// rate of reads than at the lowest.
    NoDearer(&'static str),
    /// The line, at this number of threads, is at this value, within a quarter.
    About(&'static str, At, f64),
    /// The line, at this number of threads, is below this value.
    Below(&'static str, At, f64),
    /// The line, at this number of threads, is above this value.
    Over(&'static str, At, f64),
    /// From the first number of threads to the second, the line becomes higher.
    Grows(&'static str, At, At),
    /// From the first number of threads to the second, the line becomes higher, by a quarter at
    /// most.
    GrowsLittle(&'static str, At, At),
    /// The line, beyond this number of threads and up to the number of cores, rises by a tenth at
    /// most.
    StopsRising(&'static str, u16),
    /// The line, beyond this number of threads and up to the number of cores, rises and falls by a
    /// tenth at most.
    Flat(&'static str, u16),
    /// The line is lower, by a tenth or more, at the next larger number of threads after each of
    /// these.
    DropsAfter(&'static str, &'static [u16]),
    /// The ratio of the first line to the second, at this number of threads, is this one, within a
    /// quarter.
    Ratio(&'static str, &'static str, At, f64),
    /// The largest ratio of the first line to the second at one number of threads is this one, within
    /// a quarter.
    LargestRatio(&'static str, &'static str, f64),
    /// The ratio of the highest points of the first line and the second is this one, within a
    /// quarter.
    RatioOfPeaks(&'static str, &'static str, f64),
    /// The line is not the highest with the fewest threads, but is the highest at this number.
    Crosses(&'static str, At),
    /// The ratio of two lines shrinks from each pair to the next, at this number of threads.
    RatiosShrink(&'static [(&'static str, &'static str)], At),
    /// The ratio of the first line to the second is larger at the first number of threads than at
    /// the second.
    RatioShrinks(&'static str, &'static str, At, At),
    /// Each line gains more than the next, from the first number of threads to the second.
    GainsOrder(Lines, At, At),
}

impl Statement {
    /// The number of threads that decides.
    pub(crate) fn at(self) -> At {
        match self {
            Self::Highest(.., at)
            | Self::Lowest(.., at)
            | Self::AboveAll(.., at)
            | Self::BelowAll(.., at)
            | Self::StandsOut(.., at)
            | Self::Among(.., at)
            | Self::NotAbove(.., at)
            | Self::Order(.., at)
            | Self::Ratio(.., at, _)
            | Self::Crosses(.., at)
            | Self::RatiosShrink(.., at)
            | Self::Rises(.., at)
            | Self::GrowthSlows(.., at)
            | Self::Straight(.., at)
            | Self::Grows(.., at)
            | Self::GrowsLittle(.., at)
            | Self::RatioShrinks(.., at)
            | Self::GainsOrder(.., at) => at,
            Self::StopsRising(..)
            | Self::Flat(..)
            | Self::DropsAfter(..)
            | Self::RatioOfPeaks(..) => At::Cores,
            Self::About(.., at, _) | Self::Below(.., at, _) | Self::Over(.., at, _) => at,
            Self::Falls(..)
            | Self::Climbs(..)
            | Self::Linear(..)
            | Self::SmallIntercept(..)
            | Self::NoDearer(..)
            | Self::NowhereAbove(..)
            | Self::OrderEverywhere(..) => At::Most,
            Self::LargestRatio(..) => At::Fewest,
        }
    }
}
