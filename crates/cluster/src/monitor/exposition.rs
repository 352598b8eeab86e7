//! Prometheus's text format, version 0.0.4.

use std::fmt::{Display, Write as _};

use crate::metrics::{BOUNDS_NS, HistogramCounts};

/// Prefix of every name.
const PREFIX: &str = "namiki_cluster_";

/// A page of metrics. A family is described once, and its samples follow it.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

/// Labels of a sample.
type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// A counter without labels. Its name gets the suffix `_total`.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.counters(name, help).sample(&[], value);
    }

    /// Begins a family of counters.
    pub(super) fn counters(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(&format!("{name}_total"), help, "counter")
    }

    /// A gauge without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauges(name, help).sample(&[], value);
    }

    /// Begins a family of gauges.
    pub(super) fn gauges(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, help, "gauge")
    }

    /// Begins a family of histograms of times. Its name gets the suffix `_seconds`.
    pub(super) fn histograms(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(&format!("{name}_seconds"), help, "histogram")
    }

    fn family(&mut self, name: &str, help: &str, kind: &str) -> Family<'_> {
        let name = format!("{PREFIX}{name}");
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family {
            text: &mut self.0,
            name,
        }
    }
}

/// Samples of one name.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: String,
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.write("", labels, value);
    }

    /// A histogram of times.
    pub(super) fn histogram(&mut self, labels: Labels<'_>, counts: &HistogramCounts) {
        let mut below = 0;
        let bounds = BOUNDS_NS.iter().map(|ns| seconds(*ns).to_string());
        let bounds = bounds.chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(counts.buckets) {
            below += count;
            let labels = [labels, &[("le", &*bound)]].concat();
            self.write("_bucket", &labels, below);
        }
        self.write("_sum", labels, seconds(counts.sum_ns));
        self.write("_count", labels, below);
    }

    fn write(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let opening = if at == 0 { '{' } else { ',' };
            let text = text
                .replace('\\', r"\\")
                .replace('"', r#"\""#)
                .replace('\n', r"\n");
            let _ = write!(self.text, "{opening}{label}=\"{text}\"");
        }
        let closing = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{closing} {value}");
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_labels_escaped() {
        let mut page = Exposition::default();
        page.gauge("things", "Things.", 1.5);
        let mut counts = HistogramCounts::default();
        (counts.buckets[0], counts.buckets[16], counts.sum_ns) = (2, 1, 12_000_000_000);
        (page.histograms("waits", "Waits.")).histogram(&[("at", "a\"b\\c\nd")], &counts);
        let text = page.into_text();
        let begin = "# HELP namiki_cluster_things Things.\n# TYPE namiki_cluster_things gauge\nnamiki_cluster_things 1.5\n\
                     # HELP namiki_cluster_waits_seconds Waits.\n# TYPE namiki_cluster_waits_seconds histogram\n\
                     namiki_cluster_waits_seconds_bucket{at=\"a\\\"b\\\\c\\nd\",le=\"0.0001\"} 2\n";
        assert!(text.starts_with(begin), "{text}");
        let labels = r#"{at="a\"b\\c\nd""#;
        for line in [
            format!("namiki_cluster_waits_seconds_bucket{labels},le=\"10\"}} 2"),
            format!("namiki_cluster_waits_seconds_bucket{labels},le=\"+Inf\"}} 3"),
            format!("namiki_cluster_waits_seconds_sum{labels}}} 12"),
            format!("namiki_cluster_waits_seconds_count{labels}}} 3"),
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }
}
