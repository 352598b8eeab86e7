//! Each kind of statement, compared with what was measured.

use super::super::claim::{At, Statement};
use super::super::medians::{Points, Spread, short};
use super::{
    Evidence, FLAT, FitSpread, LITTLE, Missing, NEAR, NOTHING, along, gain, point, rate_line,
    ratio, stretch, threads_at,
};

impl Evidence {
    pub(super) fn look_at(&mut self, statement: Statement, points: &Points) -> Result<(), Missing> {
        match statement {
            Statement::Highest(lines, at) => {
                self.against_the_rest(lines, threads_at(at, points)?, points, |one, rest| {
                    (one, rest)
                })
            }
            Statement::Lowest(lines, at) => {
                self.against_the_rest(lines, threads_at(at, points)?, points, |one, rest| {
                    (rest, one)
                })
            }
            Statement::AboveAll(line, others, at) => self.against(
                &[line],
                others,
                threads_at(at, points)?,
                points,
                |one, other| (one, other),
            ),
            Statement::BelowAll(line, others, at) => self.against(
                &[line],
                others,
                threads_at(at, points)?,
                points,
                |one, other| (other, one),
            ),
            Statement::StandsOut(line, others, at) => self.against(
                &[line],
                others,
                threads_at(at, points)?,
                points,
                |one, other| (one, other.times(FLAT)),
            ),
            Statement::Among(line, others, at) => self.among(line, others, at, points),
            Statement::NotAbove(line, limit, at) => {
                let threads = threads_at(at, points)?;
                let (own, most) = (
                    point(line, threads, points)?,
                    point(limit, threads, points)?,
                );
                self.at_most(own, most.times(FLAT));
                self.side_by_side(threads, vec![(line, own), (limit, most)]);
                Ok(())
            }
            Statement::NowhereAbove(line, limit) => self.nowhere_above(line, limit, points),
            Statement::Order(highest_first, at) => {
                self.order(highest_first, threads_at(at, points)?, points)
            }
            Statement::OrderEverywhere(highest_first) => {
                threads_at(At::Fewest, points)?;
                let mut threads = points.threads().into_iter();
                threads.try_for_each(|threads| self.order(highest_first, threads, points))
            }
            Statement::Rises(line, up_to) => self.rises(line, up_to, points),
            Statement::GrowthSlows(line, up_to) => self.growth_slows(line, up_to, points),
            Statement::Straight(line, r_squared_min, up_to) => {
                self.straight(line, r_squared_min, up_to, points)
            }
            Statement::Falls(line, from) => self.falls(line, from, points),
            Statement::Climbs(line, from) => self.climbs(line, from, points),
            Statement::Linear(line, r_squared_min) => self.linear(line, r_squared_min, points),
            Statement::SmallIntercept(line) => self.small_intercept(line, points),
            Statement::NoDearer(line) => self.no_dearer(line, points),
            Statement::About(line, at, value) => {
                let found = self.value_at(line, at, points)?;
                self.at_most(Spread::exactly(value / NEAR), found);
                self.at_most(found, Spread::exactly(value * NEAR));
                Ok(())
            }
            Statement::Below(line, at, value) => {
                let found = self.value_at(line, at, points)?;
                self.above(Spread::exactly(value), found);
                Ok(())
            }
            Statement::Over(line, at, value) => {
                let found = self.value_at(line, at, points)?;
                self.above(found, Spread::exactly(value));
                Ok(())
            }
            Statement::Grows(line, from, to) => self.changes(line, (to, from), points).map(drop),
            Statement::GrowsLittle(line, from, to) => {
                let (upper, lower) = self.changes(line, (to, from), points)?;
                self.at_most(upper, lower.times(LITTLE));
                Ok(())
            }
            Statement::StopsRising(line, from) => self.levels(line, from, points).map(drop),
            Statement::Flat(line, from) => self.flat(line, from, points),
            Statement::DropsAfter(line, threads) => self.drops_after(line, threads, points),
            Statement::Ratio(upper, lower, at, times) => {
                let threads = threads_at(at, points)?;
                let high = point(upper, threads, points)?;
                let low = point(lower, threads, points)?;
                self.multiple((upper, high), (lower, low), times);
                Ok(())
            }
            Statement::LargestRatio(upper, lower, times) => {
                self.largest_ratio((upper, lower), times, points)
            }
            Statement::RatioOfPeaks(upper, lower, times) => {
                let high = peak(upper, points)?;
                self.multiple((upper, high), (lower, peak(lower, points)?), times);
                Ok(())
            }
            Statement::Crosses(line, at) => self.crosses(line, at, points),
            Statement::RatiosShrink(pairs, at) => self.ratios_shrink(pairs, at, points),
            Statement::RatioShrinks(upper, lower, from, to) => {
                self.ratio_shrinks((upper, lower), (from, to), points)
            }
            Statement::GainsOrder(most_first, from, to) => {
                self.gains_order(most_first, (from, to), points)
            }
        }
    }

    /// A line's value at one number of threads.
    fn value_at(&mut self, line: &str, at: At, points: &Points) -> Result<Spread, Missing> {
        let at = threads_at(at, points)?;
        let found = point(line, at, points)?;
        self.texts.push(along(line, &[(at, found)]));
        Ok(found)
    }

    fn among(
        &mut self,
        line: &'static str,
        others: &[&'static str],
        at: At,
        points: &Points,
    ) -> Result<(), Missing> {
        let threads = threads_at(at, points)?;
        let own = point(line, threads, points)?;
        let mut values = Vec::with_capacity(others.len() + 1);
        for &other in others {
            values.push((other, point(other, threads, points)?));
        }
        let spreads = || values.iter().map(|(_, spread)| *spread);
        let lowest = spreads().min_by(|one, other| one.median.total_cmp(&other.median));
        let highest = spreads().max_by(|one, other| one.median.total_cmp(&other.median));
        if let Some((lowest, highest)) = lowest.zip(highest) {
            self.at_most(own, highest.times(NEAR));
            self.at_most(lowest.times(1.0 / NEAR), own);
        }
        values.push((line, own));
        self.side_by_side(threads, values);
        Ok(())
    }

    fn nowhere_above(
        &mut self,
        line: &'static str,
        limit: &'static str,
        points: &Points,
    ) -> Result<(), Missing> {
        threads_at(At::Fewest, points)?;
        for at in points.threads() {
            let (own, most) = (point(line, at, points)?, point(limit, at, points)?);
            self.at_most(own, most.times(FLAT));
            self.side_by_side(at, vec![(line, own), (limit, most)]);
        }
        Ok(())
    }

    fn largest_ratio(
        &mut self,
        (upper, lower): (&'static str, &'static str),
        times: f64,
        points: &Points,
    ) -> Result<(), Missing> {
        threads_at(At::Fewest, points)?;
        let mut largest: Option<(u32, Spread, Spread)> = None;
        for at in points.threads() {
            let (high, low) = (point(upper, at, points)?, point(lower, at, points)?);
            let found = ratio(high, low).median;
            if largest.is_none_or(|(_, high, low)| found > ratio(high, low).median) {
                largest = Some((at, high, low));
            }
        }
        if let Some((at, high, low)) = largest {
            self.multiple((upper, high), (lower, low), times);
            self.texts.push(format!("that is at {at}"));
        }
        Ok(())
    }

    fn growth_slows(&mut self, line: &str, up_to: At, points: &Points) -> Result<(), Missing> {
        let stretch = stretch(line, (0, threads_at(up_to, points)?), points)?;
        let per_thread = stretch.windows(2).map(|step| {
            let ((from, first), (to, last)) = (step[0], step[1]);
            gain(first, last).times(1.0 / f64::from(to - from))
        });
        let [first, .., last] = per_thread.collect::<Vec<_>>()[..] else {
            return Err(Missing(format!("needs {line} at more --{}", points.flag())));
        };
        self.above(first, last);
        self.texts.push(along(line, &stretch));
        Ok(())
    }

    fn straight(
        &mut self,
        line: &str,
        r_squared_min: f64,
        up_to: At,
        points: &Points,
    ) -> Result<(), Missing> {
        let stretch = stretch(line, (0, threads_at(up_to, points)?), points)?;
        let curve = |of: fn(&Spread) -> f64| {
            let places = stretch.iter().map(|(at, it)| (f64::from(*at), of(it)));
            places.collect::<Vec<_>>()
        };
        let extremes = [curve(|it| it.low), curve(|it| it.high)];
        let fit = FitSpread::of(&curve(|it| it.median), &extremes)
            .ok_or_else(|| Missing(format!("needs {line} at more --{}", points.flag())))?;
        let runs = stretch.iter().map(|(_, it)| it.runs).min();
        let r_squared = Spread {
            runs: runs.unwrap_or(0),
            ..fit.r_squared
        };
        self.at_most(Spread::exactly(r_squared_min), r_squared);
        self.above(stretch[stretch.len() - 1].1, stretch[0].1);
        self.texts.push(format!(
            "{}, R² {:.4}, where at least {r_squared_min} is claimed",
            along(line, &stretch),
            fit.r_squared.median
        ));
        Ok(())
    }

    fn rises(&mut self, line: &str, up_to: At, points: &Points) -> Result<(), Missing> {
        let stretch = stretch(line, (0, threads_at(up_to, points)?), points)?;
        for step in stretch.windows(2) {
            self.above(step[1].1, step[0].1);
        }
        self.texts.push(along(line, &stretch));
        Ok(())
    }

    fn falls(&mut self, line: &str, from: At, points: &Points) -> Result<(), Missing> {
        let span = (threads_at(from, points)?, threads_at(At::Most, points)?);
        let stretch = stretch(line, span, points)?;
        for step in stretch.windows(2) {
            self.at_most(step[1].1, step[0].1.times(FLAT));
        }
        self.above(stretch[0].1, stretch[stretch.len() - 1].1);
        self.texts.push(along(line, &stretch));
        Ok(())
    }

    fn climbs(&mut self, line: &str, from: At, points: &Points) -> Result<(), Missing> {
        let span = (threads_at(from, points)?, threads_at(At::Most, points)?);
        let stretch = stretch(line, span, points)?;
        for step in stretch.windows(2) {
            self.at_most(step[0].1.times(1.0 / FLAT), step[1].1);
        }
        self.above(stretch[stretch.len() - 1].1, stretch[0].1);
        self.texts.push(along(line, &stretch));
        Ok(())
    }

    fn linear(&mut self, line: &str, r_squared_min: f64, points: &Points) -> Result<(), Missing> {
        let (_, fit) = rate_line(line, points)?;
        self.at_most(Spread::exactly(r_squared_min), fit.r_squared);
        self.texts.push(format!(
            "{line}: R² is {:.4} over {} points, where at least {r_squared_min} is claimed",
            fit.r_squared.median, fit.points
        ));
        Ok(())
    }

    fn small_intercept(&mut self, line: &str, points: &Points) -> Result<(), Missing> {
        let (rates, fit) = rate_line(line, points)?;
        let values = rates.medians.iter().map(|(_, _, value)| *value);
        let most = values.fold(0.0, f64::max);
        let limit = Spread::exactly(most * NOTHING);
        self.at_most(fit.intercept, limit);
        self.at_most(limit.times(-1.0), fit.intercept);
        self.texts.push(format!(
            "{line}: the fit crosses the axis at {}, and the highest value is {}",
            short(fit.intercept.median),
            short(most)
        ));
        Ok(())
    }

    fn no_dearer(&mut self, line: &str, points: &Points) -> Result<(), Missing> {
        let (rates, _) = rate_line(line, points)?;
        let mut by_rate = rates.medians.clone();
        by_rate.sort_by(|one, other| one.1.total_cmp(&other.1));
        let price = |(place, rate, _): (u32, f64, f64)| {
            point(line, place, points).map(|value| (rate, value.times(1.0 / rate)))
        };
        let few = price(by_rate[0])?;
        let many = price(by_rate[by_rate.len() - 1])?;
        self.at_most(many.1, few.1.times(FLAT));
        self.texts.push(format!(
            "{line}: {} for each of the reads of ordered execution at {} times as many, {} at {} times",
            short(few.1.median),
            short(few.0),
            short(many.1.median),
            short(many.0)
        ));
        Ok(())
    }

    fn flat(&mut self, line: &str, from: u16, points: &Points) -> Result<(), Missing> {
        let stretch = self.levels(line, from, points)?;
        let least = stretch[0].1.times(1.0 / FLAT);
        for (_, later) in &stretch[1..] {
            self.at_most(least, *later);
        }
        Ok(())
    }

    fn drops_after(&mut self, line: &str, threads: &[u16], points: &Points) -> Result<(), Missing> {
        for &threads in threads {
            let stretch = stretch(line, (threads.into(), points.cores().into()), points)?;
            self.above(stretch[0].1, stretch[1].1.times(FLAT));
            self.texts.push(along(line, &stretch[..2]));
        }
        Ok(())
    }

    fn crosses(&mut self, line: &'static str, at: At, points: &Points) -> Result<(), Missing> {
        let (first, last) = (threads_at(At::Fewest, points)?, threads_at(at, points)?);
        let here = point(line, first, points)?;
        let mut highest: Option<(&str, Spread)> = None;
        for &other in points.lines() {
            let there = point(other, first, points)?;
            if other != line && highest.is_none_or(|(_, most)| there.median > most.median) {
                highest = Some((other, there));
            }
        }
        if let Some((other, there)) = highest {
            self.above(there, here);
            self.texts.push(format!(
                "at {first}: {other} {}, {line} {}",
                short(there.median),
                short(here.median)
            ));
        }
        self.against_the_rest(&[line], last, points, |one, rest| (one, rest))
    }

    fn ratios_shrink(
        &mut self,
        pairs: &[(&str, &str)],
        at: At,
        points: &Points,
    ) -> Result<(), Missing> {
        let threads = threads_at(at, points)?;
        let mut ratios = Vec::with_capacity(pairs.len());
        for &(upper, lower) in pairs {
            let above = point(upper, threads, points)?;
            let ratio = ratio(above, point(lower, threads, points)?);
            let times = short(ratio.median);
            self.texts.push(format!("{upper} is {times} times {lower}"));
            ratios.push(ratio);
        }
        self.descending(&ratios);
        Ok(())
    }

    fn ratio_shrinks(
        &mut self,
        (upper, lower): (&str, &str),
        span: (At, At),
        points: &Points,
    ) -> Result<(), Missing> {
        let (from, to) = two_places(span, points)?;
        let mut ratios = Vec::with_capacity(2);
        for at in [from, to] {
            let found = ratio(point(upper, at, points)?, point(lower, at, points)?);
            let times = short(found.median);
            self.texts
                .push(format!("{upper} is {times} times {lower} at {at}"));
            ratios.push(found);
        }
        self.descending(&ratios);
        Ok(())
    }

    fn gains_order(
        &mut self,
        most_first: &[&str],
        span: (At, At),
        points: &Points,
    ) -> Result<(), Missing> {
        let (from, to) = two_places(span, points)?;
        let mut gains = Vec::with_capacity(most_first.len());
        for &line in most_first {
            let (first, last) = (point(line, from, points)?, point(line, to, points)?);
            gains.push(gain(first, last));
            self.texts.push(along(line, &[(from, first), (to, last)]));
        }
        self.descending(&gains);
        Ok(())
    }

    fn descending(&mut self, values: &[Spread]) {
        for step in values.windows(2) {
            self.above(step[0], step[1]);
        }
    }
}

/// The highest value of a line.
fn peak(line: &str, points: &Points) -> Result<Spread, Missing> {
    let stretch = stretch(line, (0, u32::MAX), points)?;
    let peaks = stretch.into_iter().map(|(_, spread)| spread);
    peaks
        .max_by(|one, other| one.median.total_cmp(&other.median))
        .ok_or_else(|| Missing(format!("needs {line}")))
}

/// Two different numbers of threads.
fn two_places((from, to): (At, At), points: &Points) -> Result<(u32, u32), Missing> {
    let (from, to) = (threads_at(from, points)?, threads_at(to, points)?);
    if from == to {
        return Err(Missing(format!("needs more --{}", points.flag())));
    }
    Ok((from, to))
}
