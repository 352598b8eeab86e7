//! How series look: colours for light and dark, markers and dashes.
//!
//! No two of the first sixteen have the same marker, so lines are told apart on paper, too.

/// Series have as many colours, and as many shapes of markers.
pub(super) const COLOURS: usize = 8;
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];
const SHAPES: [&str; COLOURS] = [
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z",
    "M-4 -4H4V4H-4Z",
    "M0 -5.5L5 4H-5Z",
    "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",
    "M0 5.5L5 -4H-5Z",
    "M-5 -2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z",
    "M-5 -4.5H5L-5 4.5H5Z",
    "M-4 -5L5 0L-4 5Z",
];

/// The look of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) colour: usize,
    /// The marker's outline.
    pub(super) shape: &'static str,
    /// Whether the marker is filled with the colour, or else with the ground.
    pub(super) is_filled: bool,
    pub(super) dashes: &'static str,
}

impl Look {
    /// The look of the series at this place.
    pub(super) fn of(index: usize) -> Self {
        let (colour, turn) = (index % COLOURS, index / COLOURS);
        Self {
            colour,
            shape: SHAPES[colour],
            is_filled: turn.is_multiple_of(2),
            dashes: DASHES[(index + turn) % DASHES.len()],
        }
    }

    /// The marker's class.
    pub(super) fn class(self) -> String {
        let colour = self.colour;
        if self.is_filled {
            format!("f{colour}")
        } else {
            format!("hollow s{colour}")
        }
    }
}

/// Colours of one of the reader's modes.
pub(super) struct Palette {
    ground: &'static str,
    ink: &'static str,
    soft: &'static str,
    rule: &'static str,
    series: [&'static str; COLOURS],
}

pub(super) const LIGHT: Palette = Palette {
    ground: "#ffffff",
    ink: "#1c2126",
    soft: "#5c6670",
    rule: "#dfe3e8",
    series: [
        "#0b62a8", "#c2410c", "#0f7a5a", "#a12c78", "#8a6100", "#5b4bb5", "#0e8ba5", "#454d55",
    ],
};
const DARK: Palette = Palette {
    ground: "#15191d",
    ink: "#e8ecf0",
    soft: "#9aa5b0",
    rule: "#2f363d",
    series: [
        "#6cb4f5", "#ff9a66", "#4fd1a5", "#f08cc8", "#e3b341", "#b3a6ff", "#5fd7e8", "#c3ccd5",
    ],
};

/// Styles that do not depend on colours.
const PLAIN: &str = "\
.chart{font-family:system-ui,'Helvetica Neue',Arial,'Noto Sans CJK JP',sans-serif;font-size:13px}\
.chart .soft{font-size:12px}.chart .title{font-size:16px;font-weight:600}\
.chart polyline{fill:none;stroke-width:2}.chart .middle{text-anchor:middle}.chart .end{text-anchor:end}\
.chart .whisker{stroke-width:1.3}.chart .hollow{stroke-width:1.8}\
.chart .ring{fill:none;stroke-width:1.8;stroke-dasharray:none}";

impl Palette {
    /// Plain colours without variables: programs other than browsers draw unknown values in black.
    pub(super) fn rules(&self) -> String {
        let Self {
            ground,
            ink,
            soft,
            rule,
            series,
        } = self;
        let mut rules = format!(
            ".chart .ground,.chart .hollow{{fill:{ground}}}.chart text{{fill:{ink}}}.chart .soft{{fill:{soft}}}\
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

/// The complete style: light, unless the reader prefers dark. Paper is light.
pub(crate) fn style() -> String {
    let (light, dark) = (LIGHT.rules(), DARK.rules());
    format!("{PLAIN}{light}@media screen and (prefers-color-scheme:dark){{{dark}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither in colour nor without.
    #[test]
    fn no_two_of_twelve_series_look_alike() {
        for one in 0..12 {
            for other in 0..one {
                let (one, other) = (Look::of(one), Look::of(other));
                let marker = |look: Look| (look.shape, look.is_filled);
                assert_ne!(marker(one), marker(other));
                assert_ne!((one.colour, one.dashes), (other.colour, other.dashes));
            }
        }
        for palette in [LIGHT, DARK] {
            let colours: std::collections::BTreeSet<_> = palette.series.iter().collect();
            assert_eq!(colours.len(), COLOURS);
        }
        assert_eq!(
            SHAPES
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len(),
            COLOURS
        );
    }

    #[test]
    fn colours_are_plain_and_each_class_has_one() {
        assert!(!style().contains("var("));
        let light = LIGHT.rules();
        for colour in 0..COLOURS {
            assert!(light.contains(&format!(".chart .s{colour}{{stroke:#")));
            assert!(light.contains(&format!(".chart .f{colour}{{fill:#")));
        }
    }
}
