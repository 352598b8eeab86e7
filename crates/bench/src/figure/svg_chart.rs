//! Charts as SVG: lines with markers over numbers, or bars over names, with the spread of the runs.
//!
//! Colours follow the reader's light or dark mode; lines also differ by marker and dashes. All
//! charts have the same style, so that many can be combined in one page.

use std::fmt::Write;

use super::medians::{Spread, short};

/// A chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// Further information, one line each.
    pub(crate) subtitles: Vec<String>,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) places: Places,
    pub(crate) series: Vec<Series>,
}

/// The possible positions on the horizontal axis.
#[derive(Clone, Debug)]
pub(crate) enum Places {
    /// Points at these numbers, connected by lines.
    Numbers(Vec<f64>),
    /// Bars at these names.
    Names(Vec<String>),
}

/// A series: one colour, one entry of the legend.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// One point for each position; `None` where nothing was measured.
    pub(crate) points: Vec<Option<Spread>>,
}

const WIDTH: f64 = 830.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 570.0;
const PLOT_HEIGHT: f64 = 300.0;
const LINE_HEIGHT: f64 = 18.0;
/// Distance from the bottom of the plot to the bottom of the chart.
const FOOT: f64 = 58.0;
/// Labels closer than this are left out.
const LABELS_APART: f64 = 16.0;
/// Minimal number of ticks on the vertical axis; there may be a few more.
const TICKS: f64 = 5.0;
/// Series differ by colour up to this many; more of them, by colour and dashes.
const COLOURS: usize = 6;
const DASHES: [&str; COLOURS] = ["none", "7 3", "2 3", "9 3 2 3", "4 4", "1 2"];

/// The colour of a series, and its dashes.
fn look(index: usize) -> (usize, &'static str) {
    let colour = index % COLOURS;
    (colour, DASHES[(colour + index / COLOURS) % COLOURS])
}

/// Colours of one of the reader's modes.
struct Palette {
    ground: &'static str,
    ink: &'static str,
    soft: &'static str,
    rule: &'static str,
    series: [&'static str; COLOURS],
}

const LIGHT: Palette = Palette {
    ground: "#ffffff",
    ink: "#1c2126",
    soft: "#5c6670",
    rule: "#dfe3e8",
    series: [
        "#0b62a8", "#c2410c", "#0f7a5a", "#a12c78", "#8a6100", "#5b4bb5",
    ],
};
const DARK: Palette = Palette {
    ground: "#15191d",
    ink: "#e8ecf0",
    soft: "#9aa5b0",
    rule: "#2f363d",
    series: [
        "#6cb4f5", "#ff9a66", "#4fd1a5", "#f08cc8", "#e3b341", "#b3a6ff",
    ],
};

/// Styles that do not depend on colours.
const SHAPES: &str = "\
.chart{font-family:system-ui,'Helvetica Neue',Arial,'Noto Sans CJK JP',sans-serif;font-size:13px}\
.chart .soft{font-size:12px}.chart .title{font-size:16px;font-weight:600}\
.chart polyline{fill:none;stroke-width:2}.chart .middle{text-anchor:middle}.chart .end{text-anchor:end}\
.chart .whisker{stroke-width:1.3}";

impl Palette {
    /// Plain colours without variables: programs other than browsers draw unknown values in black.
    fn rules(&self) -> String {
        let Self {
            ground,
            ink,
            soft,
            rule,
            series,
        } = self;
        let mut rules = format!(
            ".chart .ground{{fill:{ground}}}.chart text{{fill:{ink}}}.chart .soft{{fill:{soft}}}\
             .chart .rule{{stroke:{rule}}}.chart .axis{{stroke:{soft}}}.chart .over{{stroke:{ink}}}"
        );
        for (number, colour) in series.iter().enumerate() {
            rules.push_str(&format!(
                ".chart .s{number}{{stroke:{colour}}}.chart .f{number}{{fill:{colour}}}"
            ));
        }
        rules
    }
}

/// The complete style: light, unless the reader prefers dark.
fn style() -> String {
    let (light, dark) = (LIGHT.rules(), DARK.rules());
    format!("{SHAPES}{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

impl Chart {
    /// The chart as one `svg` element.
    pub(crate) fn svg(&self) -> String {
        let mut drawing = Drawing::new(self);
        drawing.frame(self);
        match &self.places {
            Places::Numbers(numbers) => drawing.lines(numbers, &self.series),
            Places::Names(names) => drawing.bars(names, &self.series),
        }
        drawing.legend(&self.series, &self.places);
        drawing.text.push_str("</svg>\n");
        drawing.text
    }

    /// The largest value drawn.
    fn highest(&self) -> f64 {
        let points = self.series.iter().flat_map(|series| &series.points);
        points
            .flatten()
            .map(|point| point.high)
            .filter(|high| high.is_finite())
            .fold(0.0, f64::max)
    }
}

/// An SVG under construction.
struct Drawing {
    text: String,
    top: f64,
    bottom: f64,
    height: f64,
    step: f64,
    /// The value at the upper end of the vertical axis.
    most: f64,
}

/// Escapes XML's special characters.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The distance between ticks: 1, 2 or 5 times a power of ten.
fn step(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let rough = highest / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let lead = match rough / power {
        lead if lead <= 1.0 => 1.0,
        lead if lead <= 2.0 => 2.0,
        lead if lead <= 5.0 => 5.0,
        _ => 10.0,
    };
    lead * power
}

/// Tick labels in thousands or millions, all with the digits that their distance requires.
fn tick(value: f64, step: f64, most: f64) -> String {
    let (unit, name) = match most {
        most if most > 1e6 => (1e6, " M"),
        most if most > 1e3 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let decimals = (-(step / unit).log10() - 1e-9).ceil().max(0.0) as usize;
    if value == 0.0 {
        return "0".to_owned();
    }
    if decimals > 4 {
        return format!("{value:.0e}");
    }
    format!("{:.decimals$}{name}", value / unit)
}

impl Drawing {
    fn new(chart: &Chart) -> Self {
        let highest = chart.highest();
        let step = step(highest);
        let top = 54.0 + chart.subtitles.len() as f64 * LINE_HEIGHT;
        let bottom = top + PLOT_HEIGHT;
        Self {
            text: String::new(),
            top,
            bottom,
            height: bottom + FOOT,
            step,
            most: (highest / step).ceil().max(1.0) * step,
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

    fn rule(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.add(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        ));
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (value / self.most).min(1.0) * PLOT_HEIGHT
    }

    fn frame(&mut self, chart: &Chart) {
        let (height, title) = (self.height, escaped(&chart.title));
        self.add(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="{title}">"#
        ));
        self.add(format_args!("<title>{title}</title>"));
        let style = style();
        self.add(format_args!("<style>{style}</style>"));
        self.add(format_args!(
            r#"<rect class="ground" width="{WIDTH}" height="{height}"/>"#
        ));
        self.words((16.0, 26.0), "title", &chart.title);
        for (number, line) in chart.subtitles.iter().enumerate() {
            self.words((16.0, 46.0 + number as f64 * LINE_HEIGHT), "soft", line);
        }
        let ticks = (self.most / self.step).round() as u32;
        for number in 0..=ticks {
            let value = f64::from(number) * self.step;
            let y = self.y(value);
            let class = if number == 0 { "axis" } else { "rule" };
            self.rule((LEFT, y), (RIGHT, y), class);
            let words = tick(value, self.step, self.most);
            self.words((LEFT - 8.0, y + 4.0), "soft end", &words);
        }
        let middle = f64::midpoint(self.top, self.bottom);
        let label = escaped(&chart.y_label);
        self.add(format_args!(
            r#"<text transform="translate(20 {middle:.1}) rotate(-90)" class="soft middle">{label}</text>"#
        ));
        let below = (f64::midpoint(LEFT, RIGHT), self.bottom + 42.0);
        self.words(below, "soft middle", &chart.x_label);
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
        let most = numbers.iter().copied().fold(1.0, f64::max);
        let x = |number: f64| LEFT + 12.0 + number / most * (RIGHT - LEFT - 28.0);
        let mut free_from = f64::MIN;
        for &number in numbers {
            let at = x(number);
            self.rule((at, self.bottom), (at, self.bottom + 5.0), "axis");
            if at >= free_from {
                self.words(
                    (at, self.bottom + 20.0),
                    "soft middle",
                    &short_count(number),
                );
                free_from = at + LABELS_APART;
            }
        }
        for (index, one) in series.iter().enumerate() {
            let (colour, dashes) = look(index);
            let points: Vec<(f64, Spread)> = numbers
                .iter()
                .zip(&one.points)
                .filter_map(|(number, point)| Some((x(*number), (*point)?)))
                .collect();
            for (at, point) in &points {
                self.whisker(*at, *point, &format!("s{colour}"));
            }
            let places: Vec<String> = points
                .iter()
                .map(|(at, point)| format!("{at:.1},{:.1}", self.y(point.median)))
                .collect();
            let places = places.join(" ");
            self.add(format_args!(
                r#"<polyline class="s{colour}" stroke-dasharray="{dashes}" points="{places}"/>"#
            ));
            for (at, point) in points {
                let words = format!("{}: {}", one.name, spread_text(point));
                self.marker((at, self.y(point.median)), colour, &words);
            }
        }
    }

    fn bars(&mut self, names: &[String], series: &[Series]) {
        let room = (RIGHT - LEFT) / names.len().max(1) as f64;
        let width = room * 0.7 / series.len().max(1) as f64;
        for (place, name) in names.iter().enumerate() {
            let from = LEFT + place as f64 * room;
            self.words((from + room / 2.0, self.bottom + 20.0), "soft middle", name);
            for (index, one) in series.iter().enumerate() {
                let Some(point) = one.points.get(place).copied().flatten() else {
                    continue;
                };
                let x = from + room * 0.15 + index as f64 * width;
                let (y, colour) = (self.y(point.median), index % COLOURS);
                let (height, inner) = (self.bottom - y, width - 3.0);
                let words = escaped(&format!("{}, {name}: {}", one.name, spread_text(point)));
                self.add(format_args!(
                    r#"<rect class="f{colour}" x="{x:.1}" y="{y:.1}" width="{inner:.1}" height="{height:.1}"><title>{words}</title></rect>"#
                ));
                self.whisker(x + inner / 2.0, point, "over");
            }
        }
    }

    /// A filled marker with a shape for each series, and its description.
    fn marker(&mut self, (x, y): (f64, f64), colour: usize, words: &str) {
        let shape = match colour {
            0 => "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z",
            1 => "M-4 -4H4V4H-4Z",
            2 => "M0 -5.5L5 4H-5Z",
            3 => "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",
            4 => "M0 5.5L5 -4H-5Z",
            _ => "M-5 -2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z",
        };
        let words = escaped(words);
        self.add(format_args!(
            r#"<path class="f{colour}" transform="translate({x:.1} {y:.1})" d="{shape}"><title>{words}</title></path>"#
        ));
    }

    fn legend(&mut self, series: &[Series], places: &Places) {
        let x = RIGHT + 24.0;
        for (index, one) in series.iter().enumerate() {
            let y = self.top + 10.0 + index as f64 * 24.0;
            let (colour, dashes) = look(index);
            match places {
                Places::Numbers(_) => {
                    self.add(format_args!(
                        r#"<path class="s{colour}" stroke-width="2" stroke-dasharray="{dashes}" d="M{x:.1} {y:.1}h30"/>"#
                    ));
                    self.marker((x + 15.0, y), colour, &one.name);
                }
                Places::Names(_) => {
                    let top = y - 6.0;
                    self.add(format_args!(
                        r#"<rect class="f{colour}" x="{x:.1}" y="{top:.1}" width="30" height="12"/>"#
                    ));
                }
            }
            self.words((x + 38.0, y + 4.5), "", &one.name);
        }
    }
}

fn short_count(number: f64) -> String {
    format!("{number:.0}")
}

fn spread_text(point: Spread) -> String {
    let (median, low, high) = (short(point.median), short(point.low), short(point.high));
    match point.runs {
        1 => median,
        runs => format!("{median} ({low} to {high} in {runs} runs)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64) -> Option<Spread> {
        Spread::of(vec![median * 0.9, median, median * 1.2])
    }

    fn chart(places: Places) -> Chart {
        let series = |name: &str, scale: f64| Series {
            name: name.to_owned(),
            points: vec![spread(scale), None, spread(3.0 * scale)],
        };
        Chart {
            title: "a < b & c".to_owned(),
            subtitles: vec!["one".to_owned(), "two".to_owned()],
            x_label: "threads".to_owned(),
            y_label: "\"tps\"".to_owned(),
            places,
            series: vec![series("P-WAL", 1e6), series("WAL", 2e5)],
        }
    }

    #[test]
    fn a_series_is_a_polyline_with_markers_and_whiskers() {
        let document = chart(Places::Numbers(vec![1.0, 2.0, 4.0])).svg();
        let document = roxmltree::Document::parse(&document).unwrap();
        let of_class = |name: &str| {
            let nodes = document.descendants();
            nodes.filter(|n| n.attribute("class") == Some(name)).count()
        };
        let svg = |name| ("http://www.w3.org/2000/svg", name);
        let polylines: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name(svg("polyline")))
            .collect();
        assert_eq!(polylines.len(), 2);
        for polyline in polylines {
            assert_eq!(polyline.attribute("points").unwrap().split(' ').count(), 2);
        }
        // Two points, and the one of the legend.
        assert_eq!(of_class("f0"), 3);
        assert_eq!(of_class("whisker s1"), 6);
        let title = document.root_element().first_element_child().unwrap();
        assert_eq!(title.text(), Some("a < b & c"));
    }

    #[test]
    fn bars_are_a_rectangle_a_point() {
        let names = ["r10", "u5r5", "u10"].map(ToOwned::to_owned).to_vec();
        let document = chart(Places::Names(names)).svg();
        let document = roxmltree::Document::parse(&document).unwrap();
        let bars = document.descendants().filter(|node| {
            node.tag_name().name() == "rect" && node.attribute("class") == Some("f1")
        });
        assert_eq!(bars.count(), 3);
    }

    #[test]
    fn colours_are_plain_and_each_class_has_one() {
        let document = chart(Places::Numbers(vec![1.0, 2.0, 4.0])).svg();
        assert!(!document.contains("var("), "{document}");
        let light = LIGHT.rules();
        for colour in 0..COLOURS {
            assert!(light.contains(&format!(".chart .s{colour}{{stroke:#")));
            assert!(light.contains(&format!(".chart .f{colour}{{fill:#")));
        }
    }

    #[test]
    fn as_many_as_ten_lines_look_different() {
        let looks: std::collections::BTreeSet<_> = (0..10).map(look).collect();
        assert_eq!(looks.len(), 10);
    }

    #[test]
    fn nothing_measured_is_still_a_chart() {
        let mut empty = chart(Places::Numbers(vec![]));
        empty.series.clear();
        assert!(roxmltree::Document::parse(&empty.svg()).is_ok());
    }

    #[test]
    fn ticks_are_round_and_tell_each_other_apart() {
        assert_eq!(step(9.3e5), 2e5);
        assert_eq!(step(0.0), 1.0);
        assert!((step(0.031) - 0.01).abs() < 1e-12);
        assert_eq!(tick(2e5, 2e5, 1e6), "200 k");
        assert_eq!(tick(1.5e6, 5e5, 2.5e6), "1.5 M");
        assert_eq!(tick(0.02, 0.01, 0.04), "0.02");
        assert_eq!(tick(0.0, 2e5, 1e6), "0");
        assert_eq!(tick(2e-6, 1e-6, 4e-6), "2e-6");
    }
}
