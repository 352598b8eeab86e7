//! The results of a long run: a row for each interval, and one for the whole.

use serde::Serialize;

use super::amplification::UserData;
use super::watch::{Interval, Whole};
use crate::kv::result_row::KvRow;
use crate::result_writer::{Cell, Row, median};
use crate::run_stages::quotient;

/// The run that an interval belongs to.
#[derive(Clone, Debug)]
pub(super) struct RunName {
    pub(super) store: &'static str,
    pub(super) spec: Option<String>,
    pub(super) index: Option<String>,
    pub(super) streams: Option<u16>,
    pub(super) workload: &'static str,
    pub(super) durable: &'static str,
    pub(super) threads: u16,
    pub(super) skew: f64,
    pub(super) round: u32,
}

/// One interval, as a line of JSON and of CSV. The keys are a stable contract.
#[derive(Clone, Debug, Serialize)]
pub(super) struct IntervalRow {
    /// `interval`, which distinguishes it from the row of the whole run.
    kind: &'static str,
    store: &'static str,
    spec: Option<String>,
    index: Option<String>,
    streams: Option<u16>,
    workload: &'static str,
    durable: &'static str,
    threads: u16,
    skew: f64,
    round: u32,
    /// From the beginning of the run to the end of the interval.
    end_seconds: f64,
    interval_seconds: f64,
    committed: u64,
    tps: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    p999_us: Option<f64>,
    max_us: Option<f64>,
    device_bytes: Option<u64>,
    file_bytes: u64,
}

impl IntervalRow {
    pub(super) fn new(run: &RunName, interval: &Interval) -> Self {
        let run = run.clone();
        let latency = interval.latencies.summary();
        Self {
            kind: "interval",
            store: run.store,
            spec: run.spec,
            index: run.index,
            streams: run.streams,
            workload: run.workload,
            durable: run.durable,
            threads: run.threads,
            skew: run.skew,
            round: run.round,
            end_seconds: interval.end_seconds,
            interval_seconds: interval.seconds,
            committed: interval.committed,
            tps: interval.tps(),
            p50_us: latency.map(|us| us.p50),
            p99_us: latency.map(|us| us.p99),
            p999_us: latency.map(|us| us.p999),
            max_us: latency.map(|us| us.max),
            device_bytes: interval.device_bytes,
            file_bytes: interval.file_bytes,
        }
    }
}

impl Interval {
    fn tps(&self) -> Option<f64> {
        quotient(self.committed as f64, self.seconds)
    }
}

impl Row for IntervalRow {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        vec![
            ("store", Cell::key(self.store)),
            ("workload", Cell::key(self.workload)),
            ("threads", Cell::key(self.threads)),
            ("seconds", Cell::key(format!("{:.0}", self.end_seconds))),
            ("tps", Cell::measure(self.tps)),
            ("p50 us", Cell::measure(self.p50_us)),
            ("p99 us", Cell::measure(self.p99_us)),
            ("p99.9 us", Cell::measure(self.p999_us)),
            ("max us", Cell::measure(self.max_us)),
            ("written MB", Cell::megabytes(self.device_bytes)),
            ("files MB", Cell::megabytes(self.file_bytes)),
        ]
    }
}

/// The whole run. The keys are a stable contract.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LongRow<'a> {
    /// `run`, which distinguishes it from the rows of its intervals.
    kind: &'static str,
    #[serde(flatten)]
    run: KvRow<'a>,
    #[serde(flatten)]
    long: LongResult,
}

/// Results of a long run that a short one lacks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct LongResult {
    intervals: usize,
    /// The interval with the lowest rate.
    tps_min: Option<f64>,
    tps_median: Option<f64>,
    tps_max: Option<f64>,
    /// The longest time without a commit, in whole milliseconds.
    longest_stall_ms: u64,
    /// Seconds with less than a tenth of the commits of the median second.
    slow_seconds: u64,
    /// Bytes written to the device.
    device_bytes: Option<u64>,
    /// Bytes written to the device for each byte of keys and values that was updated.
    write_amplification: Option<f64>,
    /// Bytes of files at the end of the interval with the most.
    file_bytes_max: u64,
    /// Bytes of files at the end of the last interval.
    file_bytes: u64,
    /// Bytes of files for each byte of keys and values in the table, with the most files.
    space_amplification_max: Option<f64>,
    /// The same at the end of the last interval.
    space_amplification: Option<f64>,
}

impl LongResult {
    /// The result of these intervals, in their order.
    pub(super) fn new(intervals: &[Interval], whole: &Whole, data: UserData) -> Self {
        let rates: Vec<f64> = intervals.iter().filter_map(Interval::tps).collect();
        let file_bytes = intervals.last().map_or(0, |last| last.file_bytes);
        let file_bytes_max = intervals.iter().map(|it| it.file_bytes).max();
        let file_bytes_max = file_bytes_max.unwrap_or(0);
        Self {
            intervals: intervals.len(),
            tps_min: rates.iter().copied().min_by(f64::total_cmp),
            tps_max: rates.iter().copied().max_by(f64::total_cmp),
            tps_median: median(rates),
            longest_stall_ms: whole.stalls.longest_ms,
            slow_seconds: whole.stalls.slow_seconds,
            device_bytes: whole.device_bytes,
            write_amplification: whole
                .device_bytes
                .and_then(|bytes| data.write_amplification(bytes)),
            file_bytes_max,
            file_bytes,
            space_amplification_max: data.space_amplification(file_bytes_max),
            space_amplification: data.space_amplification(file_bytes),
        }
    }
}

impl<'a> LongRow<'a> {
    pub(super) fn new(run: KvRow<'a>, long: LongResult) -> Self {
        Self {
            kind: "run",
            run,
            long,
        }
    }
}

impl Row for LongRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let Self { run, long, .. } = self;
        let latency = run.latency_us;
        vec![
            ("store", Cell::key(run.store)),
            ("workload", Cell::key(run.workload)),
            ("threads", Cell::key(run.threads)),
            ("tps", Cell::measure(run.tps)),
            ("min tps", Cell::measure(long.tps_min)),
            ("max tps", Cell::measure(long.tps_max)),
            ("p50 us", Cell::measure(latency.map(|us| us.p50))),
            ("p99 us", Cell::measure(latency.map(|us| us.p99))),
            ("p99.9 us", Cell::measure(latency.map(|us| us.p999))),
            ("stall ms", Cell::count(long.longest_stall_ms)),
            ("slow s", Cell::count(long.slow_seconds)),
            ("write amp", Cell::measure(long.write_amplification)),
            ("space amp", Cell::measure(long.space_amplification)),
            ("max space", Cell::measure(long.space_amplification_max)),
            ("isolation", Cell::key(run.isolation)),
            ("durability", Cell::key(&run.durability)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::commit_times::Stalls;
    use super::*;
    use crate::latency::Latencies;

    fn interval(seconds: f64, committed: u64, file_bytes: u64) -> Interval {
        Interval {
            end_seconds: 0.0,
            seconds,
            committed,
            latencies: Latencies::new(),
            device_bytes: None,
            file_bytes,
        }
    }

    #[test]
    fn a_run_is_summed_up_from_its_intervals() {
        let intervals = [
            interval(10.0, 5000, 3000),
            interval(10.0, 100, 9000),
            interval(5.0, 3000, 2000),
        ];
        let stalls = Stalls {
            longest_ms: 70,
            slow_seconds: 9,
        };
        let whole = Whole {
            stalls,
            device_bytes: Some(30_000),
        };
        // 100 updates of 10 records of 8 + 92 bytes.
        let result = LongResult::new(&intervals, &whole, UserData::new(100, 10, 92));
        let due = LongResult {
            intervals: 3,
            tps_min: Some(10.0),
            tps_median: Some(500.0),
            tps_max: Some(600.0),
            longest_stall_ms: 70,
            slow_seconds: 9,
            device_bytes: Some(30_000),
            write_amplification: Some(3.0),
            file_bytes_max: 9000,
            file_bytes: 2000,
            space_amplification_max: Some(9.0),
            space_amplification: Some(2.0),
        };
        assert_eq!(result, due);
    }
}
