//! Equi-depth histograms of sorted keys: what a planner estimates the rows of a range with.
//!
//! The builder sees the keys once, in order, and does not know how many there will be. It notes every `step`-th key;
//! when it has noted twice as many as it may keep, it drops every second one and doubles the step. So each bucket has
//! exactly `step` rows, the last one perhaps fewer, and the memory is bounded:
//!
//! ```text
//!   step 1   a b c d e f g h          8 noted, 4 may be kept
//!   step 2   a   c   e   g   i …      the next one is noted two rows later
//! ```
//! A bound is the beginning of a key, at most [`BOUND_BYTES_MAX`] bytes of it: what is cut off makes an estimate no
//! worse than by one bucket.

use serde::{Deserialize, Serialize};

/// The most buckets that are kept; at least half as many are, where there are enough rows.
pub(crate) const BUCKETS_MAX: usize = 128;
/// The longest bound, in bytes.
pub(crate) const BOUND_BYTES_MAX: usize = 32;

/// How the keys of a sorted run are spread, in buckets of the same number of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Rows of each bucket but the last, which may have fewer. 0 in the histogram of no rows.
    pub rows_per_bucket: u64,
    /// The first key of each bucket, in ascending order: as many of its bytes as are kept, in hexadecimal.
    #[serde(with = "hexadecimal")]
    pub bounds: Vec<Vec<u8>>,
}

impl Histogram {
    /// About how many of `rows` rows have keys from `lower` (included) up to `upper` (excluded); without a bound,
    /// from the first or up to the last. A bucket that a bound falls into counts half.
    #[must_use]
    pub fn rows_between(&self, rows: u64, lower: Option<&[u8]>, upper: Option<&[u8]>) -> u64 {
        let below = |key: &[u8]| -> u64 {
            let key = &key[..key.len().min(BOUND_BYTES_MAX)];
            let buckets = self.bounds.partition_point(|bound| bound.as_slice() < key) as u64;
            let halves = (2 * buckets).saturating_sub(1);
            (halves.saturating_mul(self.rows_per_bucket) / 2).min(rows)
        };
        let from = lower.map_or(0, below);
        let to = upper.map_or(rows, below);
        to.saturating_sub(from)
    }

    /// Why this cannot be the histogram of so many rows; nothing if it can.
    pub(crate) fn contradiction(&self, rows: u64) -> Option<String> {
        let buckets = self.bounds.len() as u64;
        let expected = match self.rows_per_bucket {
            0 => 0,
            step => rows.div_ceil(step),
        };
        if buckets != expected || (rows > 0 && buckets == 0) {
            return Some(format!(
                "has {buckets} buckets of {} rows for {rows} rows",
                self.rows_per_bucket
            ));
        }
        if self.bounds.len() > 2 * BUCKETS_MAX {
            return Some(format!("has {buckets} buckets"));
        }
        if self.bounds.iter().any(|it| it.len() > BOUND_BYTES_MAX) {
            return Some("has a bound that is too long".to_owned());
        }
        // Bounds that are cut off may be equal.
        (!self.bounds.is_sorted()).then(|| "has bounds that do not ascend".to_owned())
    }
}

/// Makes the histogram of keys that come in ascending order.
#[derive(Debug)]
pub(crate) struct HistogramBuilder {
    step: u64,
    /// Rows until the next key is noted.
    skip: u64,
    bounds: Vec<Vec<u8>>,
}

impl HistogramBuilder {
    pub(crate) fn new() -> Self {
        Self {
            step: 1,
            skip: 0,
            bounds: Vec::new(),
        }
    }

    /// The next key.
    pub(crate) fn push(&mut self, key: &[u8]) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        if self.bounds.len() == BUCKETS_MAX {
            let mut number = 0_usize;
            self.bounds.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.step *= 2;
        }
        // With an even number of bounds, the row of this key is a multiple of the doubled step, too.
        self.bounds
            .push(key[..key.len().min(BOUND_BYTES_MAX)].to_vec());
        self.skip = self.step - 1;
    }

    pub(crate) fn finish(self) -> Histogram {
        if self.bounds.is_empty() {
            return Histogram::default();
        }
        Histogram {
            rows_per_bucket: self.step,
            bounds: self.bounds,
        }
    }
}

/// Bytes as text in JSON.
mod hexadecimal {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        bounds: &[Vec<u8>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(bounds.iter().map(|bound| {
            let digits = bound.iter().map(|byte| format!("{byte:02x}"));
            digits.collect::<String>()
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Vec<u8>>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let bytes = texts.iter().map(|text| decode(text));
        bytes
            .collect::<Option<_>>()
            .ok_or_else(|| D::Error::custom("a bound of a histogram is not hexadecimal"))
    }

    fn decode(text: &str) -> Option<Vec<u8>> {
        let digits = text.bytes().map(|digit| char::from(digit).to_digit(16));
        let digits: Vec<u32> = digits.collect::<Option<_>>()?;
        if !digits.len().is_multiple_of(2) {
            return None;
        }
        let pairs = digits.chunks_exact(2);
        Some(pairs.map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: u64) -> Histogram {
        let mut builder = HistogramBuilder::new();
        (0..rows).for_each(|row| builder.push(&row.to_be_bytes()));
        builder.finish()
    }

    #[test]
    fn every_bucket_begins_at_a_multiple_of_its_rows() {
        for rows in [0, 1, 2, 127, 128, 129, 255, 256, 257, 1_000, 65_537] {
            let histogram = of(rows);
            assert_eq!(histogram.contradiction(rows), None, "{rows} rows");
            for (number, bound) in (0..).zip(&histogram.bounds) {
                let row: u64 = number * histogram.rows_per_bucket;
                assert_eq!(bound.as_slice(), row.to_be_bytes(), "{rows} rows");
            }
            let enough = rows < 128 || histogram.bounds.len() >= BUCKETS_MAX / 2;
            assert!(enough && histogram.bounds.len() <= BUCKETS_MAX);
        }
    }

    #[test]
    fn an_estimate_errs_by_one_bucket_at_each_end() {
        let rows = 100_000;
        let histogram = of(rows);
        for (lower, upper) in [(0, 100_000), (5, 6), (40_000, 90_001), (99_990, 200_000)] {
            let estimate = histogram.rows_between(
                rows,
                Some(&u64::to_be_bytes(lower)),
                Some(&u64::to_be_bytes(upper)),
            );
            let exact = upper.min(rows) - lower;
            let off = estimate.abs_diff(exact);
            assert!(off <= 2 * histogram.rows_per_bucket, "{estimate}, {exact}");
        }
        assert_eq!(histogram.rows_between(rows, None, None), rows);
    }

    #[test]
    fn a_histogram_comes_back_from_json_unless_it_is_senseless() {
        let histogram = of(1_000);
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        for senseless in ["\"0\"", "\"xy\"", "\"é0\"", "7"] {
            let text = format!("{{\"rows_per_bucket\": 1, \"bounds\": [{senseless}]}}");
            assert!(serde_json::from_str::<Histogram>(&text).is_err(), "{text}");
        }
        let mut unsorted = histogram.clone();
        unsorted.bounds.swap(3, 4);
        assert!(unsorted.contradiction(1_000).is_some());
        assert!(histogram.contradiction(5_000).is_some());
        assert!(Histogram::default().contradiction(1).is_some());
    }
}
