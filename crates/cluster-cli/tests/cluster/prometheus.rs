//! A page of `/metrics`, read as strictly as Prometheus's text format is defined.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::WATCHDOG;

/// The status code and the body of a page, requested by `method`.
pub(crate) fn request(method: &str, address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// The samples of a page.
pub(crate) struct Page(BTreeMap<String, f64>);

impl Page {
    /// Requests and reads the metrics of a node.
    pub(crate) fn of(address: &str) -> Self {
        let (status, text) = request("GET", address, "/metrics");
        assert_eq!(status, 200, "{text}");
        Self::read(&text)
    }

    /// Reads a page: every sample belongs to the family that was described last, no family and no
    /// sample occurs twice, and histograms are cumulative.
    fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line is complete");
        let mut families = HashSet::new();
        let mut samples = BTreeMap::new();
        let (mut family, mut kind) = (String::new(), String::new());
        let mut buckets: HashMap<String, Vec<(f64, f64)>> = HashMap::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').unwrap();
                assert!(
                    !help.is_empty() && families.insert(name.to_owned()),
                    "{line}"
                );
                name.clone_into(&mut family);
                continue;
            }
            if let Some(of) = line.strip_prefix("# TYPE ") {
                let (name, of) = of.split_once(' ').unwrap();
                assert_eq!(name, family);
                assert!(["counter", "gauge", "histogram"].contains(&of), "{line}");
                of.clone_into(&mut kind);
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            let name = series.split('{').next().unwrap();
            let is_name = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
            assert!(name.chars().all(is_name), "{line}");
            let suffix = name.strip_prefix(&*family).unwrap();
            let suffixes: &[&str] = if kind == "histogram" {
                &["_bucket", "_sum", "_count"]
            } else {
                &[""]
            };
            assert!(suffixes.contains(&suffix), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(value >= 0.0, "{line}");
            if suffix == "_bucket" {
                let (labels, bound) = series.rsplit_once("le=\"").unwrap();
                let bound = bound.strip_suffix("\"}").unwrap();
                let bound = if bound == "+Inf" {
                    f64::INFINITY
                } else {
                    bound.parse().unwrap()
                };
                let of = labels
                    .trim_end_matches(['{', ','])
                    .replace("_bucket", "_count");
                buckets.entry(of).or_default().push((bound, value));
            }
            let twice = samples.insert(series.to_owned(), value);
            assert_eq!(twice, None, "{line}");
        }
        for (count, buckets) in &buckets {
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
            let last = buckets.last().unwrap();
            assert_eq!(last.0, f64::INFINITY);
            // The labels without `le` end where that began.
            let count = if count.contains('{') {
                format!("{count}}}")
            } else {
                count.clone()
            };
            assert_eq!(Some(&last.1), samples.get(&count), "{count}");
        }
        Self(samples)
    }

    /// A sample, named without the prefix of all.
    pub(crate) fn get(&self, series: &str) -> f64 {
        let found = self.0.get(&format!("namiki_cluster_{series}"));
        *found.unwrap_or_else(|| panic!("{series} is not in {:?}", self.0.keys()))
    }

    /// The names of all samples, without labels and without the prefix of all.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        let names = self.0.keys().map(|series| {
            let name = series.split('{').next().unwrap();
            name.strip_prefix("namiki_cluster_").unwrap()
        });
        names.collect()
    }

    pub(crate) fn has(&self, series: &str) -> bool {
        self.0.contains_key(&format!("namiki_cluster_{series}"))
    }
}
