//! The papers' sentences about a figure, as statements that its medians can confirm or refute.

use super::counted_explanation::Reason;
use super::run_row::Count;

/// A sentence of the paper that states a result.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The section of the sentence, as in `4.1.3`.
    pub(crate) section: &'static str,
    /// The sentence, or its relevant part.
    pub(crate) sentence: &'static str,
    pub(crate) english: &'static str,
    /// With fewer cores, the sentence cannot be tested.
    pub(crate) cores_min: u16,
    /// The sentence holds if all of these do.
    pub(crate) statements: &'static [Statement],
    /// Additional counts, which may explain the verdict.
    pub(crate) beside: &'static [Count],
    /// The known reason for a failure, given if the counts of the run show it. Otherwise the figure
    /// reports by how much the runs differ, or that no reason is known.
    pub(crate) why_not: Option<Reason>,
}

/// The number of threads that a statement is about; for figures over tasks, the number of tasks per
/// thread.
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

/// A statement about lines of a figure, which have the names used in the figure. "Value" is the
/// quantity on the vertical axis.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Statement {
    /// Each of these lines is above every other.
    Highest {
        lines: &'static [&'static str],
        at: At,
    },
    /// Each of these lines is below every other.
    Lowest {
        lines: &'static [&'static str],
        at: At,
    },
    /// Each of these lines is above the next.
    Order {
        highest_first: &'static [&'static str],
        at: At,
    },
    /// Each of these lines is above the next, for every measured number of threads.
    OrderEverywhere {
        highest_first: &'static [&'static str],
    },
    /// The line rises with each step to more threads, up to `up_to`.
    Rises { line: &'static str, up_to: At },
    /// No step beyond `from` threads raises the line by more than a tenth, and with the most
    /// threads the line is lower than at `from`.
    Falls { line: &'static str, from: At },
    /// No step beyond `from` threads lowers the line by more than a tenth, and with the most
    /// threads the line is higher than at `from`.
    Climbs { line: &'static str, from: At },
    /// The line is straight over reads per second: a least-squares fit has at least this
    /// coefficient of determination.
    Linear {
        line: &'static str,
        r_squared_min: f64,
    },
    /// The fit's intercept is within a tenth of the line's highest value from zero.
    SmallIntercept { line: &'static str },
    /// The quotient of the value and the reads per second is at most a tenth higher at the highest
    /// rate of reads than at the lowest.
    NoDearer { line: &'static str },
    /// The line is at this value, within a quarter.
    About {
        line: &'static str,
        at: At,
        value: f64,
    },
    /// The line is below this value.
    Below {
        line: &'static str,
        at: At,
        value: f64,
    },
    /// The line is above this value.
    Over {
        line: &'static str,
        at: At,
        value: f64,
    },
    /// The line is higher at `to` than at `from`.
    Grows {
        line: &'static str,
        from: At,
        to: At,
    },
    /// The line is higher at `to` than at `from`, by a quarter at most.
    GrowsLittle {
        line: &'static str,
        from: At,
        to: At,
    },
    /// Beyond this number of threads, up to the number of cores, the line rises by a tenth at most.
    StopsRising { line: &'static str, from: u16 },
    /// Beyond this number of threads, up to the number of cores, the line rises and falls by a
    /// tenth at most.
    Flat { line: &'static str, from: u16 },
    /// At the next larger number of threads after each of these, the line is lower by a tenth or
    /// more.
    DropsAfter {
        line: &'static str,
        threads: &'static [u16],
    },
    /// The ratio of two lines is `times`, within a quarter.
    Ratio {
        upper: &'static str,
        lower: &'static str,
        at: At,
        times: f64,
    },
    /// The ratio of the highest points of two lines is `times`, within a quarter.
    RatioOfPeaks {
        upper: &'static str,
        lower: &'static str,
        times: f64,
    },
    /// The line is not the highest with the fewest threads, but is the highest at `at`.
    Crosses { line: &'static str, at: At },
    /// The ratio of the two lines shrinks from each pair to the next.
    RatiosShrink {
        pairs: &'static [(&'static str, &'static str)],
        at: At,
    },
    /// The ratio of the two lines is smaller at `to` than at `from`.
    RatioShrinks {
        upper: &'static str,
        lower: &'static str,
        from: At,
        to: At,
    },
    /// Between the two numbers of threads, each line gains more than the next.
    GainsOrder {
        most_first: &'static [&'static str],
        from: At,
        to: At,
    },
}

impl Statement {
    /// The number of threads that decides.
    pub(crate) fn at(self) -> At {
        match self {
            Self::Highest { at, .. }
            | Self::Lowest { at, .. }
            | Self::Order { at, .. }
            | Self::Ratio { at, .. }
            | Self::Crosses { at, .. }
            | Self::RatiosShrink { at, .. }
            | Self::Rises { up_to: at, .. }
            | Self::Grows { to: at, .. }
            | Self::GrowsLittle { to: at, .. }
            | Self::RatioShrinks { to: at, .. }
            | Self::GainsOrder { to: at, .. } => at,
            Self::StopsRising { .. }
            | Self::Flat { .. }
            | Self::DropsAfter { .. }
            | Self::RatioOfPeaks { .. } => At::Cores,
            Self::About { at, .. } | Self::Below { at, .. } | Self::Over { at, .. } => at,
            Self::Falls { .. }
            | Self::Climbs { .. }
            | Self::Linear { .. }
            | Self::SmallIntercept { .. }
            | Self::NoDearer { .. }
            | Self::OrderEverywhere { .. } => At::Most,
        }
    }
}
