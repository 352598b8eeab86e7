//! Charts as SVG: lines with markers over numbers, or bars over names, with the spread of the runs
//! and the paper's own numbers.
//!
//! A chart has any width: its words are broken into lines, so none is cut. Colours follow the
//! reader's light or dark mode; lines also differ by marker. All charts have the same style, so
//! that many can be combined in one page.

mod axis;
mod look;
#[cfg(test)]
mod tests;
mod words;

#[cfg(test)]
pub(super) use self::tests::nothing_is_cut;

use std::fmt::Write;

use self::axis::Axis;
pub(crate) use self::look::style;
use self::look::{COLOURS, Look};
use self::words::{PLAIN, SMALL, TITLE, width, wrapped};
use super::medians::{Spread, plain, short};

/// A chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// Further information, one paragraph each.
    pub(crate) subtitles: Vec<String>,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) places: Places,
    pub(crate) series: Vec<Series>,
    /// What the paper's text says about the series, in its own numbers.
    pub(crate) remarks: Vec<Remark>,
}

/// The possible positions on the horizontal axis.
#[derive(Clone, Debug)]
pub(crate) enum Places {
    /// Points at these numbers, ascending, connected by lines. Equal factors have equal distances.
    Doubling(Vec<f64>),
    /// The same with equal distances, from zero, for what may be a straight line: the vertical
    /// axis begins at zero, too.
    Straight(Vec<f64>),
    /// Points at these numbers, with equal distances from zero.
    Even(Vec<f64>),
    /// Bars at these names.
    Names(Vec<String>),
}

/// A series: one look, one entry of the legend.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// One point for each position; `None` where nothing was measured.
    pub(crate) points: Vec<Option<Spread>>,
}

/// A number of the paper's text, and what was found here.
#[derive(Clone, Debug)]
pub(crate) struct Remark {
    /// Both numbers in words.
    pub(crate) words: String,
    /// Where the paper's number would lie in this chart.
    pub(crate) mark: Option<Mark>,
}

/// A place in a chart for a number of the paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// The index of the series.
    pub(crate) series: usize,
    /// The index of the position.
    pub(crate) place: usize,
    pub(crate) value: f64,
}

/// The widths of charts, for a screen and for a phone, in pixels.
pub(crate) const WIDE: f64 = 830.0;
pub(crate) const NARROW: f64 = 350.0;
const PLOT_HEIGHT: f64 = 300.0;
const MARGIN: f64 = 16.0;
const LINE_HEIGHT: f64 = 18.0;
/// The room of a sample in the legend, and of an entry's distance from the next.
const SAMPLE: f64 = 38.0;
const APART: f64 = 18.0;
/// Labels closer than this are left out.
const LABELS_APART: f64 = 7.0;

impl Chart {
    /// The chart as one document.
    pub(crate) fn svg(&self) -> String {
        self.drawn(
            WIDE,
            Some(&self.title),
            &format!("<style>{}</style>\n", style()),
        )
    }

    /// The chart as an element of a page that has the [`style`], and a heading with the title.
    pub(crate) fn element(&self, width: f64) -> String {
        self.drawn(width, None, "")
    }

    fn drawn(&self, width: f64, title: Option<&str>, style: &str) -> String {
        let mut drawing = Drawing::new(self, width);
        drawing.head(self, title);
        drawing.vertical_axis();
        match &self.places {
            Places::Doubling(numbers) | Places::Straight(numbers) | Places::Even(numbers) => {
                drawing.lines(numbers, &self.series);
            }
            Places::Names(names) => drawing.bars(names, &self.series),
        }
        drawing.marks(&self.remarks);
        drawing.below(&self.x_label);
        drawing.legend(&self.series, &self.places);
        drawing.remarks(&self.remarks);
        drawing.finish(&self.title, style)
    }

    /// The vertical axis, on which all runs lie.
    fn values(&self) -> Axis {
        let points = self.series.iter().flat_map(|series| &series.points);
        let points: Vec<&Spread> = points.flatten().collect();
        let of = |value: fn(&Spread) -> f64| points.iter().map(move |point| value(point));
        let marks = self.remarks.iter().filter_map(|remark| remark.mark);
        let marks: Vec<f64> = marks.map(|mark| mark.value).collect();
        let medians: Vec<f64> = of(|point| point.median).chain(marks).collect();
        let ends = of(|point| point.high).chain(of(|point| point.low));
        let all: Vec<f64> = medians.iter().copied().chain(ends).collect();
        match self.places {
            Places::Straight(_) => Axis::linear(all.into_iter()),
            Places::Doubling(_) | Places::Even(_) | Places::Names(_) => {
                Axis::fitting(&medians, &all)
            }
        }
    }

    /// The horizontal position of each place, from 0 to 1; and the labels there.
    fn horizontal(&self) -> (Vec<f64>, Vec<(f64, String)>) {
        match &self.places {
            Places::Doubling(numbers) if numbers.first().is_some_and(|least| *least > 0.0) => {
                let (least, most) = (numbers[0], numbers[numbers.len() - 1]);
                let share = |number: &f64| {
                    if most > least {
                        (number / least).ln() / (most / least).ln()
                    } else {
                        0.5
                    }
                };
                let shares: Vec<f64> = numbers.iter().map(share).collect();
                let labels = numbers.iter().map(ToString::to_string);
                (shares.clone(), shares.into_iter().zip(labels).collect())
            }
            Places::Doubling(numbers) | Places::Straight(numbers) | Places::Even(numbers) => {
                let axis = Axis::linear(numbers.iter().copied());
                let ticks = axis.ticks.iter();
                let ticks = ticks.map(|(at, label)| (axis.share(*at), label.clone()));
                let shares = numbers.iter().map(|number| axis.share(*number));
                (shares.collect(), ticks.collect())
            }
            Places::Names(names) => {
                let share = |at| (at as f64 + 0.5) / names.len() as f64;
                ((0..names.len()).map(share).collect(), Vec::new())
            }
        }
    }
}

/// An SVG under construction, from top to bottom.
struct Drawing {
    text: String,
    width: f64,
    /// The ends of the plot.
    left: f64,
    right: f64,
    bottom: f64,
    /// The lower end of what has been drawn.
    end: f64,
    axis: Axis,
    y_label: String,
    /// Horizontal positions of the places.
    places: Vec<f64>,
    labels: Vec<(f64, String)>,
    /// The horizontal position of each series at each place, for marks.
    centres: Vec<Vec<f64>>,
}

/// Escapes XML's special characters.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

impl Drawing {
    fn new(chart: &Chart, width: f64) -> Self {
        let axis = chart.values();
        let (shares, labels) = chart.horizontal();
        let widest = |labels: &[(f64, String)]| {
            let widths = labels.iter().map(|(_, label)| words::width(label, SMALL));
            widths.fold(0.0, f64::max)
        };
        let left = widest(&axis.ticks) + MARGIN + 8.0;
        let right = width - MARGIN.max(widest(&labels) / 2.0 + 4.0);
        // Lines keep away from the axis; bars have room of their own.
        let (from, room) = match chart.places {
            Places::Names(_) => (left, right - left),
            _ => (left + 12.0, right - left - 20.0),
        };
        let x = |share: f64| from + share * room;
        let places: Vec<f64> = shares.iter().map(|share| x(*share)).collect();
        let logarithmic = if axis.is_logarithmic() {
            ", logarithmic"
        } else {
            ""
        };
        Self {
            text: String::new(),
            width,
            left,
            right,
            bottom: 0.0,
            end: 0.0,
            y_label: format!("{}{logarithmic}", chart.y_label),
            centres: vec![places.clone(); chart.series.len()],
            places,
            labels: labels
                .into_iter()
                .map(|(share, label)| (x(share), label))
                .collect(),
            axis,
        }
    }

    /// Adds elements. Writing to a string does not fail.
    fn add(&mut self, elements: std::fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(elements);
        self.text.push('\n');
    }

    fn words(&mut self, (x, y): (f64, f64), class: &str, words: &str) {
        let words = escaped(words);
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{words}</text>"#
        ));
    }

    /// Lines of words from the left end, below what has been drawn.
    fn paragraph(&mut self, class: &str, (size, from): (f64, f64), text: &str) {
        for line in wrapped(text, size, self.width - MARGIN - from) {
            self.end += (size * 1.4).ceil();
            self.words((from, self.end), class, &line);
        }
    }

    fn rule(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.add(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        ));
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.axis.share(value) * PLOT_HEIGHT
    }

    /// The title and what stands below it, and the name of the vertical axis.
    fn head(&mut self, chart: &Chart, title: Option<&str>) {
        self.end = 4.0;
        self.paragraph("title", (TITLE, MARGIN), title.unwrap_or_default());
        for subtitle in &chart.subtitles {
            self.paragraph("soft", (SMALL, MARGIN), subtitle);
        }
        self.end += 8.0;
        let label = self.y_label.clone();
        self.paragraph("soft", (SMALL, MARGIN), &label);
        self.bottom = self.end + 18.0 + PLOT_HEIGHT;
    }

    fn vertical_axis(&mut self) {
        for (number, (value, label)) in self.axis.ticks.clone().into_iter().enumerate() {
            let y = self.y(value);
            let class = if number == 0 { "axis" } else { "rule" };
            self.rule((self.left, y), (self.right, y), class);
            self.words((self.left - 8.0, y + 4.0), "soft end", &label);
        }
        self.rule((self.left, self.bottom), (self.right, self.bottom), "axis");
    }

    fn whisker(&mut self, x: f64, point: Spread, class: &str) {
        if point.runs < 2 {
            return;
        }
        let (high, low) = (self.y(point.high), self.y(point.low));
        let class = format!("whisker {class}");
        self.rule((x, high), (x, low), &class);
        self.rule((x - 4.0, high), (x + 4.0, high), &class);
        self.rule((x - 4.0, low), (x + 4.0, low), &class);
    }

    fn lines(&mut self, numbers: &[f64], series: &[Series]) {
        let mut free_from = f64::MIN;
        for (at, label) in self.labels.clone() {
            self.rule((at, self.bottom), (at, self.bottom + 5.0), "axis");
            let half = width(&label, SMALL) / 2.0;
            if at - half >= free_from {
                self.words((at, self.bottom + 20.0), "soft middle", &label);
                free_from = at + half + LABELS_APART;
            }
        }
        self.end = self.bottom + 20.0;
        for (index, one) in series.iter().enumerate() {
            let look = Look::of(index);
            let (colour, dashes) = (look.colour, look.dashes);
            let points: Vec<(f64, f64, Spread)> = numbers
                .iter()
                .zip(&one.points)
                .zip(&self.places)
                .filter_map(|((number, point), x)| Some((*x, *number, (*point)?)))
                .collect();
            for (x, _, point) in &points {
                self.whisker(*x, *point, &format!("s{colour}"));
            }
            let places: Vec<String> = points
                .iter()
                .map(|(x, _, point)| format!("{x:.1},{:.1}", self.y(point.median)))
                .collect();
            let places = places.join(" ");
            self.add(format_args!(
                r#"<polyline class="s{colour}" stroke-dasharray="{dashes}" points="{places}"/>"#
            ));
            for (x, number, point) in points {
                let words = format!("{} at {}: {}", one.name, plain(number), spread_text(point));
                self.marker((x, self.y(point.median)), look, &words);
            }
        }
    }

    fn bars(&mut self, names: &[String], series: &[Series]) {
        let room = (self.right - self.left) / names.len().max(1) as f64;
        let width = room * 0.7 / series.len().max(1) as f64;
        let mut end = self.bottom + 2.0;
        for (place, name) in names.iter().enumerate() {
            let from = self.left + place as f64 * room;
            self.end = self.bottom + 2.0;
            for line in wrapped(name, SMALL, room - 4.0) {
                self.end += LINE_HEIGHT;
                self.words((from + room / 2.0, self.end), "soft middle", &line);
            }
            end = end.max(self.end);
            for (index, one) in series.iter().enumerate() {
                let x = from + room * 0.15 + index as f64 * width;
                let inner = width - 3.0;
                self.centres[index][place] = x + inner / 2.0;
                let Some(point) = one.points.get(place).copied().flatten() else {
                    continue;
                };
                let (y, colour) = (self.y(point.median), index % COLOURS);
                let height = self.bottom - y;
                let words = escaped(&format!("{}, {name}: {}", one.name, spread_text(point)));
                self.add(format_args!(
                    r#"<rect class="f{colour}" x="{x:.1}" y="{y:.1}" width="{inner:.1}" height="{height:.1}"><title>{words}</title></rect>"#
                ));
                self.whisker(x + inner / 2.0, point, "over");
            }
        }
        self.end = end;
    }

    /// A marker with the look of its series, and its description.
    fn marker(&mut self, (x, y): (f64, f64), look: Look, words: &str) {
        let (class, shape, words) = (look.class(), look.shape, escaped(words));
        self.add(format_args!(
            r#"<path class="{class}" transform="translate({x:.1} {y:.1})" d="{shape}"><title>{words}</title></path>"#
        ));
    }

    fn ring(&mut self, (x, y): (f64, f64), series: usize, words: &str) {
        let (colour, words) = (Look::of(series).colour, escaped(words));
        self.add(format_args!(
            r#"<circle class="ring s{colour}" cx="{x:.1}" cy="{y:.1}" r="8"><title>{words}</title></circle>"#
        ));
    }

    /// Rings where the paper's numbers lie.
    fn marks(&mut self, remarks: &[Remark]) {
        for remark in remarks {
            let Some(mark) = remark.mark.filter(|mark| self.axis.has(mark.value)) else {
                continue;
            };
            let of_series = self.centres.get(mark.series);
            if let Some(x) = of_series.and_then(|places| places.get(mark.place)).copied() {
                self.ring((x, self.y(mark.value)), mark.series, &remark.words);
            }
        }
    }

    /// The name of the horizontal axis.
    fn below(&mut self, label: &str) {
        self.end += 4.0;
        let middle = f64::midpoint(self.left, self.right);
        let room = 2.0 * (middle - MARGIN).min(self.width - MARGIN - middle);
        for line in wrapped(label, SMALL, room) {
            self.end += LINE_HEIGHT;
            self.words((middle, self.end), "soft middle", &line);
        }
        self.end += 8.0;
    }

    /// Entries side by side, as many in a row as have room.
    fn legend(&mut self, series: &[Series], places: &Places) {
        let mut x = MARGIN;
        let mut y = self.end + LINE_HEIGHT;
        for (index, one) in series.iter().enumerate() {
            let lines = wrapped(&one.name, PLAIN, self.width - 2.0 * MARGIN - SAMPLE);
            let widths = lines.iter().map(|line| width(line, PLAIN));
            let room = SAMPLE + widths.fold(0.0, f64::max);
            if x > MARGIN && x + room > self.width - MARGIN {
                x = MARGIN;
                y += LINE_HEIGHT + 4.0;
            }
            let look = Look::of(index);
            let (colour, dashes) = (look.colour, look.dashes);
            match places {
                Places::Names(_) => {
                    let top = y - 10.0;
                    self.add(format_args!(
                        r#"<rect class="f{colour}" x="{x:.1}" y="{top:.1}" width="30" height="12"/>"#
                    ));
                }
                _ => {
                    let middle = y - 4.5;
                    self.add(format_args!(
                        r#"<path class="s{colour}" stroke-width="2" stroke-dasharray="{dashes}" d="M{x:.1} {middle:.1}h30"/>"#
                    ));
                    self.marker((x + 15.0, middle), look, &one.name);
                }
            }
            for (number, line) in lines.iter().enumerate() {
                if number > 0 {
                    y += LINE_HEIGHT;
                }
                self.words((x + SAMPLE, y), "", line);
            }
            x += room + APART;
        }
        self.end = y;
    }

    /// The paper's numbers beside those found here.
    fn remarks(&mut self, remarks: &[Remark]) {
        for remark in remarks {
            self.end += 6.0;
            let first = self.end + 13.0;
            if let Some(mark) = remark.mark.filter(|mark| self.axis.has(mark.value)) {
                self.ring((MARGIN + 15.0, first), mark.series, "the paper's number");
            }
            self.paragraph("", (PLAIN, MARGIN + SAMPLE), &remark.words);
        }
    }

    /// The document around what has been drawn.
    fn finish(self, title: &str, style: &str) -> String {
        let (width, height, title) = (self.width, (self.end + MARGIN).ceil(), escaped(title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n\
             {style}<rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            self.text
        )
    }
}

fn spread_text(point: Spread) -> String {
    let (median, low, high) = (short(point.median), short(point.low), short(point.high));
    match point.runs {
        1 => median,
        runs => format!("{median} ({low} to {high} in {runs} runs)"),
    }
}
