//! The chart of a measured figure.

use super::claim::At;
use super::definition::Across;
use super::judge::LinearFit;
use super::measure::Measure;
use super::medians::{RateLine, Spread};
use super::outcome::{Circumstances, Outcome};
use super::svg_chart::{Chart, Mark, Places, Remark, Series};

impl Outcome {
    /// The figure's chart.
    pub(crate) fn chart(&self) -> Chart {
        self.chart_of(self.figure.value)
    }

    /// The charts of other values of the same runs.
    pub(crate) fn charts_beside(&self) -> Vec<(Measure, Chart)> {
        let values = self.figure.experiment.beside.iter();
        let charts = values.map(|value| (*value, self.by(*value).chart_of(*value)));
        charts.collect()
    }

    /// The chart of the points, which are of this value.
    fn chart_of(&self, value: Measure) -> Chart {
        let figure = self.figure;
        let title = if value == figure.value {
            figure.title.to_owned()
        } else {
            format!("{}, beside {}", value.label(), figure.title)
        };
        let Circumstances {
            machine,
            device,
            length,
            repeat,
            ..
        } = &self.circumstances;
        let spread = match repeat {
            1 => "one run of each".to_owned(),
            repeat => format!("medians of {repeat} runs; whiskers from the lowest to the highest"),
        };
        let (places, mut series, x_label) = match figure.across {
            Across::Threads => self.curves(Places::Doubling, "threads"),
            Across::Tasks => self.curves(Places::Doubling, "tasks in each thread"),
            Across::Workers => self.curves(Places::Doubling, "workers of each node"),
            Across::Seconds => self.curves(Places::Even, "seconds since the first transaction"),
            Across::Percentiles => self.curves(Places::Even, "percentile of the latencies"),
            Across::WriteBytes => self.curves(Places::Doubling, "bytes of a write"),
            Across::RelativeIops { .. } => self.over_rates(),
            Across::Kinds {
                threads,
                kinds,
                bars,
            } => self.bars(threads, kinds, bars),
        };
        if matches!(figure.across, Across::Seconds) {
            // Drops lines for numbers of workers that were not requested.
            series.retain(|one| one.points.iter().any(Option::is_some));
        }
        let remarks = self.remarks(&series);
        Chart {
            title: format!("{} figure {}: {title}", figure.paper, figure.number),
            subtitles: vec![
                format!("{device}, {length}, {spread}"),
                format!("{} cores, {}", machine.cores, machine.cpu),
            ],
            x_label,
            y_label: value.label().to_owned(),
            places,
            series,
            remarks,
        }
    }

    /// The paper's own numbers, each once.
    fn remarks(&self, series: &[Series]) -> Vec<Remark> {
        let mut remarks: Vec<Remark> = Vec::new();
        let claims = self.judged.iter().map(|(claim, _)| claim);
        let of_the_chart = claims.filter(|claim| claim.value.is_none());
        for number in of_the_chart.flat_map(|claim| self.paper_numbers(claim)) {
            let words = number.text();
            if remarks.iter().any(|remark| remark.words == words) {
                continue;
            }
            let mark = number.place.and_then(|(line, threads, value)| {
                let (series, place) = self.position(series, line, threads)?;
                Some(Mark {
                    series,
                    place,
                    // The axis is not stretched to a number that is far from all that was measured.
                    value: self.is_near(value).then_some(value)?,
                })
            });
            remarks.push(Remark { words, mark });
        }
        remarks
    }

    /// Whether a value is within a factor of two of what was measured.
    fn is_near(&self, value: f64) -> bool {
        let lines = self.points.lines().iter();
        let threads = self.points.threads();
        let spreads = lines.flat_map(|line| threads.iter().map(|at| self.points.get(line, *at)));
        let medians: Vec<f64> = spreads.flatten().map(|spread| spread.median).collect();
        let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
        let most = medians.iter().copied().fold(0.0, f64::max);
        (least / 2.0..=most * 2.0).contains(&value)
    }

    /// The indexes of a line's series and of its place in the chart.
    fn position(&self, series: &[Series], line: &str, threads: u32) -> Option<(usize, usize)> {
        if let Across::Kinds { bars, .. } = self.figure.across {
            let places = bars.iter().enumerate().find_map(|(index, (_, lines))| {
                let place = lines.iter().position(|one| *one == line)?;
                Some((index, place))
            });
            return places;
        }
        if matches!(self.figure.across, Across::RelativeIops { .. }) {
            return None;
        }
        let index = series.iter().position(|one| one.name == line)?;
        let place = self.points.threads().iter().position(|at| *at == threads)?;
        Some((index, place))
    }

    /// Each point at its own reads per second, and the fitted lines.
    fn over_rates(&self) -> (Places, Vec<Series>, String) {
        let lines = self.points.lines().iter();
        let lines = lines
            .filter_map(|line| self.points.rates(line))
            .collect::<Vec<_>>();
        let rates_of = |line: &&RateLine| {
            line.medians
                .iter()
                .map(|(_, rate, _)| *rate)
                .collect::<Vec<_>>()
        };
        let mut rates: Vec<f64> = lines.iter().flat_map(rates_of).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let mut series = Vec::new();
        for rate_line in lines {
            let place = |rate: &f64| {
                let found = rate_line.medians.iter().find(|(_, own, _)| own == rate);
                found.and_then(|(place, _, _)| self.points.get(rate_line.line, *place))
            };
            series.push(Series {
                name: rate_line.line.to_owned(),
                points: rates.iter().map(place).collect(),
            });
            let medians = rate_line
                .medians
                .iter()
                .map(|(_, rate, value)| (*rate, *value));
            let medians: Vec<(f64, f64)> = medians.collect();
            if let Some(fit) = LinearFit::of(&medians) {
                let ends = [rates.first(), rates.last()];
                let point = |rate: &f64| {
                    let value = fit.intercept + fit.slope * rate;
                    // A fitted line has no runs that could vary.
                    let spread = Spread {
                        runs: 1,
                        ..Spread::exactly(value)
                    };
                    (ends.contains(&Some(rate)) && value >= 0.0).then_some(spread)
                };
                series.push(Series {
                    name: format!("fit of {}, R² {:.3}", rate_line.line, fit.r_squared),
                    points: rates.iter().map(point).collect(),
                });
            }
        }
        let label = "reads per second, ordered execution = 1";
        (Places::Straight(rates), series, label.to_owned())
    }

    fn curves(&self, places: fn(Vec<f64>) -> Places, label: &str) -> (Places, Vec<Series>, String) {
        let threads = self.points.threads();
        let series = self.points.lines().iter().map(|&line| Series {
            name: line.to_owned(),
            points: threads
                .iter()
                .map(|threads| self.points.get(line, *threads))
                .collect(),
        });
        let numbers = threads.iter().map(|threads| f64::from(*threads)).collect();
        (places(numbers), series.collect(), label.to_owned())
    }

    fn bars(
        &self,
        threads: u16,
        kinds: &[&str],
        bars: &[(&'static str, &[&str])],
    ) -> (Places, Vec<Series>, String) {
        // Other numbers are better than none, and the axis names them.
        let asked = self.points.threads_at(At::Threads(threads));
        let measured = asked.or(self.points.threads_at(At::Most));
        let threads = measured.unwrap_or(threads.into());
        let series = bars.iter().map(|(name, lines)| Series {
            name: (*name).to_owned(),
            points: lines
                .iter()
                .map(|line| self.points.get(line, threads))
                .collect(),
        });
        let names = kinds.iter().map(ToString::to_string).collect();
        (
            Places::Names(names),
            series.collect(),
            format!("transactions, {threads} threads"),
        )
    }
}
