//! The reproducible figures: those of `tictoc-pwal`, `pwal`, `oode`, `raft-pwal` and `bwtree` that
//! show measurements, with the papers' sentences about them that runs can decide.

mod bwtree;
mod oode;
mod pwal;
mod raft_pwal;
mod tictoc_pwal;

use super::definition::Figure;

/// All figures, paper by paper and in order.
pub(crate) fn figures() -> impl Iterator<Item = &'static Figure> {
    let of_logs = tictoc_pwal::FIGURES.iter().chain(pwal::FIGURES);
    let of_others = oode::FIGURES.iter().chain(raft_pwal::FIGURES);
    of_logs.chain(of_others).chain(bwtree::FIGURES)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::claim::Statement;
    use super::super::counted_explanation::Seen;
    use super::super::definition::{Across, Runs, Work};
    use super::*;
    use crate::args;
    use crate::device_choice::Device;
    use crate::index::Mix;

    /// A typo in a name would show up only on a machine that can test the claim.
    #[test]
    fn claims_speak_of_lines_that_there_are() {
        for figure in figures() {
            let names = figure.line_names();
            let distinct: BTreeSet<_> = names.iter().collect();
            assert_eq!(distinct.len(), names.len(), "{}", figure.slug());
            let known = |lines: &[&str]| lines.iter().all(|line| names.contains(line));
            for claim in figure.claims {
                assert!(!claim.statements.is_empty(), "{}", claim.english);
                for &statement in claim.statements {
                    let all_known = match statement {
                        Statement::Highest(lines, ..) | Statement::Lowest(lines, ..) => {
                            known(lines)
                        }
                        Statement::Order(highest_first, ..)
                        | Statement::OrderEverywhere(highest_first) => known(highest_first),
                        Statement::Among(line, others, _)
                        | Statement::AboveAll(line, others, _)
                        | Statement::BelowAll(line, others, _)
                        | Statement::StandsOut(line, others, _) => known(&[line]) && known(others),
                        Statement::Rises(line, ..)
                        | Statement::GrowthSlows(line, ..)
                        | Statement::Straight(line, ..)
                        | Statement::Falls(line, ..)
                        | Statement::Grows(line, ..)
                        | Statement::GrowsLittle(line, ..)
                        | Statement::StopsRising(line, ..)
                        | Statement::Flat(line, ..)
                        | Statement::DropsAfter(line, ..)
                        | Statement::Climbs(line, ..)
                        | Statement::Linear(line, ..)
                        | Statement::SmallIntercept(line)
                        | Statement::NoDearer(line)
                        | Statement::About(line, ..)
                        | Statement::Below(line, ..)
                        | Statement::Over(line, ..)
                        | Statement::Crosses(line, ..) => known(&[line]),
                        Statement::Ratio(upper, lower, ..)
                        | Statement::NotAbove(upper, lower, ..)
                        | Statement::NowhereAbove(upper, lower)
                        | Statement::LargestRatio(upper, lower, ..)
                        | Statement::RatioShrinks(upper, lower, ..)
                        | Statement::RatioOfPeaks(upper, lower, ..) => known(&[upper, lower]),
                        Statement::RatiosShrink(pairs, ..) => {
                            pairs.iter().all(|(upper, lower)| known(&[upper, lower]))
                        }
                        Statement::GainsOrder(most_first, ..) => known(most_first),
                    };
                    assert!(all_known, "{}: {statement:?}", figure.slug());
                }
                if let Some(model) = &claim.cost_model {
                    assert!(known(&[model.line]), "{}: {model:?}", figure.slug());
                }
                for seen in claim.why_not.iter().flat_map(|reason| reason.seen) {
                    let all_known = match *seen {
                        Seen::Threads(_) | Seen::FewMetLocks => true,
                        Seen::Less { line, than, .. } => known(&[line, than]),
                        Seen::Many { lines, .. } => known(lines),
                        Seen::Steady { line, .. } => known(&[line]),
                    };
                    assert!(all_known, "{}: {seen:?}", figure.slug());
                }
            }
            if let Across::Kinds { kinds, bars, .. } = figure.across {
                for (name, lines) in bars {
                    assert!(known(lines) && lines.len() == kinds.len(), "{name}");
                }
            }
        }
    }

    #[test]
    fn specs_and_devices_are_spelled_as_on_the_command_line() {
        for figure in figures() {
            assert!(figure.experiment.device.parse::<Device>().is_ok());
            if let Runs::Index { mix, .. } = figure.experiment.runs {
                assert!(mix.parse::<Mix>().is_ok(), "{mix}");
            }
            for line in figure.lines {
                if let Work::Transactions { spec, .. } = line.work {
                    assert!(args::spec(spec).is_ok(), "{spec}");
                }
            }
        }
    }

    #[test]
    fn figures_have_numbers_of_their_own_and_experiments_names() {
        let slugs: BTreeSet<String> = figures().map(Figure::slug).collect();
        assert_eq!(slugs.len(), figures().count());
        for one in figures() {
            for other in figures() {
                let same = std::ptr::eq(one.experiment, other.experiment);
                assert_eq!(one.experiment.name == other.experiment.name, same);
            }
        }
    }
}
