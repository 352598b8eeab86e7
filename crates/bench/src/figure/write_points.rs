//! The points of figures in which threads only write: a log's writes without the log, and writes of
//! several lengths, in order or at random.

use std::collections::BTreeSet;
use std::sync::Arc;

use namiki_platform::disk::Disk;

use super::definition::{Figure, Line, Work, WriteOrder};
use super::run_row::RunRow;
use crate::args::{Length, TimedArgs};
use crate::device::{Access, Ground, Probe};
use crate::device_choice::DeviceChoice;
use crate::error::BenchError;
use crate::run_folder::Place;

/// The number of writes of a quick run.
pub(crate) const QUICK_WRITES: u64 = 64;
/// Bytes of the device that all writers of a line share.
const AREA_BYTES: u64 = 64 << 20;
const QUICK_AREA_BYTES: u64 = 4 << 20;

/// Writes as `device` issues them.
pub(crate) struct Writes {
    access: Access,
    bytes: u32,
    /// The number of transactions whose log is one write; `None` if the writes are of no log.
    pub(crate) transactions: Option<u64>,
    pub(crate) threads: u16,
    /// Length of each thread's file.
    file_bytes: u64,
    device: DeviceChoice,
    timed: TimedArgs,
}

/// The requested parameters, and the defaults of the experiment.
pub(crate) struct Asked<'a> {
    /// Lengths of a write.
    pub(crate) bytes: &'a [u32],
    pub(crate) device: DeviceChoice,
    pub(crate) timed: TimedArgs,
    pub(crate) quick: bool,
}

/// The length of a run, for readers.
pub(crate) fn length_text(timed: &TimedArgs, quick: bool) -> String {
    let length = match timed.length() {
        Length::Time(time) => format!("{} s a run", time.as_secs_f64()),
        Length::Operations(writes) => format!("{writes} writes"),
    };
    format!("{length}, over {} MiB", area_bytes(quick) >> 20)
}

fn area_bytes(quick: bool) -> u64 {
    if quick { QUICK_AREA_BYTES } else { AREA_BYTES }
}

/// The points of an experiment with writes alone: every line with each length of a write, ascending.
pub(crate) fn write_points(figures: &[&Figure], asked: &Asked<'_>) -> Vec<(&'static str, Writes)> {
    let lengths: BTreeSet<u32> = asked.bytes.iter().copied().collect();
    let lines: Vec<&'static Line> = figures.iter().flat_map(|figure| figure.lines).collect();
    let mut points = Vec::new();
    for bytes in lengths {
        let mut names = BTreeSet::new();
        for line in &lines {
            let Work::Writes(work) = line.work else {
                continue;
            };
            if !names.insert(line.name) {
                continue;
            }
            let writes = Writes {
                access: match work.order {
                    WriteOrder::Sequential => Access::OwnFiles,
                    WriteOrder::Random => Access::OwnFilesAtRandom,
                },
                bytes,
                transactions: None,
                threads: work.writers,
                file_bytes: area_bytes(asked.quick) / u64::from(work.writers),
                device: asked.device.clone(),
                timed: asked.timed.clone(),
            };
            points.push((line.name, writes));
        }
    }
    points
}

impl Writes {
    /// The writes of a log: each has `bytes` bytes, the log of `transactions` transactions.
    pub(crate) fn of_log(
        bytes: u32,
        transactions: u64,
        threads: u16,
        device: DeviceChoice,
        timed: TimedArgs,
    ) -> Self {
        Self {
            access: Access::OwnFiles,
            bytes,
            transactions: Some(transactions),
            threads,
            file_bytes: Probe::FILE_BYTES,
            device,
            timed,
        }
    }

    /// The line and its numbers, for readers.
    pub(crate) fn describe(&self, line: &str) -> String {
        match self.transactions {
            Some(_) => format!("{line}, {} threads", self.threads),
            None => format!("{line}, {} bytes", self.bytes),
        }
    }

    /// Runs once.
    pub(crate) fn run(&self, place: &Place) -> Result<RunRow, BenchError> {
        let dir = place.scratch()?;
        let ready = self.device.open(dir.path(), self.threads, true)?;
        let probe = Probe {
            access: self.access,
            bytes: self.bytes,
            threads: self.threads,
            file_bytes: self.file_bytes,
            work_us: 0,
        };
        let disk: Arc<dyn Disk> = ready.disk.clone();
        // A log creates the shared file when it is opened. Here no log is opened; the writes need
        // at least one block, and no more than the size with which other devices are measured.
        if let Some((path, region_bytes)) = &ready.shared
            && !path.exists()
        {
            let each = self.file_bytes.max(self.bytes.into());
            let bytes = (*region_bytes).min(each) * u64::from(self.threads);
            disk.create(path, bytes)
                .map_err(BenchError::file("create", path))?;
        }
        let probed = probe.run(&disk, Ground::of(&ready, dir.path()), &self.timed)?;
        let total = probed.total;
        let row = RunRow {
            device: self.device.device.to_string(),
            seed: self.timed.seed,
            seconds: total.seconds,
            latency_us: total.latencies.summary(),
            pause_ns: ready.pause_ns,
            ..RunRow::default()
        };
        let written = total.done * u64::from(self.bytes);
        let cpu_us = total.per_operation(probed.cpu_ns as f64 / 1e3);
        let Some(transactions) = self.transactions else {
            return Ok(RunRow {
                write_bytes: Some(self.bytes),
                operations: Some(total.done),
                operations_per_second: total.per_second(),
                megabytes_per_second: total.rate(written).map(|bytes| bytes / 1e6),
                cpu_us_per_io: cpu_us,
                ..row
            });
        };
        Ok(RunRow {
            committed: Some(total.done * transactions),
            tps: total.rate(total.done * transactions),
            flushes: Some(total.done),
            wal_bytes: Some(written),
            cpu_us_per_transaction: cpu_us.map(|us| us / transactions as f64),
            ..row
        })
    }
}
