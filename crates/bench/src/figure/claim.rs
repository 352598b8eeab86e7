//! The papers' sentences about a figure, as statements that its medians can bear out or not.

use super::counted_explanation::Reason;
use super::run_row::Count;

/// A sentence of the paper that states a result.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Where it stands, as in `4.1.3`.
    pub(crate) section: &'static str,
    /// The sentence, or the part of it that counts.
    pub(crate) sentence: &'static str,
    pub(crate) english: &'static str,
    /// With fewer cores than these, nothing here could tell.
    pub(crate) cores_min: u16,
    /// The sentence holds if all of these do.
    pub(crate) statements: &'static [Statement],
    /// What was counted beside, and may say why it holds or does not.
    pub(crate) beside: &'static [Count],
    /// Why it does not hold where it was seen not to, if the counts of the run show it. If not, the figure says by
    /// how much the runs differ, or that no reason is known.
    pub(crate) why_not: Option<Reason>,
}

/// How many threads a statement is about; or tasks in each thread, where a figure's lines differ by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// As many as the paper says.
    Threads(u16),
    /// The fewest that were measured.
    Fewest,
    /// As many as there are cores here, or the next fewer that were measured.
    Cores,
    /// The most that were measured, more than there are cores, if so.
    Most,
}

/// Something about lines of a figure, named as they are in the figure. "Value" is what its vertical
/// axis shows.
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
    /// Of these lines, each is above the next.
    Order {
        highest_first: &'static [&'static str],
        at: At,
    },
    /// The same, for every number of threads that was measured.
    OrderEverywhere {
        highest_first: &'static [&'static str],
    },
    /// With each step to more threads, up to so many, the line rises.
    Rises { line: &'static str, up_to: At },
    /// From so many threads on, no step to more threads rises by more than a tenth, and with the most of them the
    /// line is lower than with so many.
    Falls { line: &'static str, from: At },
    /// From so many threads on, no step to more threads falls by more than a tenth, and with the most of them the
    /// line is higher than with so many.
    Climbs { line: &'static str, from: At },
    /// Over reads per second, the line is straight: of a least-squares fit, the coefficient of determination is at
    /// least this.
    Linear {
        line: &'static str,
        r_squared_min: f64,
    },
    /// The fit crosses the vertical axis within a tenth of the line's highest value from zero.
    SmallIntercept { line: &'static str },
    /// The value divided by the reads per second is, where there are the most of these, at most a tenth higher than
    /// where there are the fewest.
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
    /// The line is higher at the one than at the other.
    Grows {
        line: &'static str,
        from: At,
        to: At,
    },
    /// The line is higher at the one than at the other, by a quarter at most.
    GrowsLittle {
        line: &'static str,
        from: At,
        to: At,
    },
    /// With more threads than these, up to the number of cores, the line rises by a tenth at most.
    StopsRising { line: &'static str, from: u16 },
    /// With more threads than these, up to the number of cores, the line rises by a tenth at most, and falls by no
    /// more.
    Flat { line: &'static str, from: u16 },
    /// With the next more threads after each of these, the line is lower by a tenth or more.
    DropsAfter {
        line: &'static str,
        threads: &'static [u16],
    },
    /// One line is so many times as high as another, within a quarter.
    Ratio {
        upper: &'static str,
        lower: &'static str,
        at: At,
        times: f64,
    },
    /// The highest point of one line is so many times as high as that of another, within a quarter.
    RatioOfPeaks {
        upper: &'static str,
        lower: &'static str,
        times: f64,
    },
    /// The line is not the highest with the fewest threads, and it is with so many.
    Crosses { line: &'static str, at: At },
    /// From each pair of lines to the next, the first one's multiple of the second becomes smaller.
    RatiosShrink {
        pairs: &'static [(&'static str, &'static str)],
        at: At,
    },
    /// The first line's multiple of the second is smaller with the one number of threads than with the other.
    RatioShrinks {
        upper: &'static str,
        lower: &'static str,
        from: At,
        to: At,
    },
    /// From one number of threads to the other, each line gains more than the next.
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
