//! The limit of the device, measured over the files that a query reads, in the same minute. The
//! query's reads per second and its processor time per read are compared with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use namiki_platform::disk::PAGE_BYTES;

use super::tpch_directory::TpchDirectory;
use crate::args::TimedArgs;
use crate::device::{AsyncReads, ReadFiles};
use crate::error::BenchError;

/// Default duration of each measurement.
const SECONDS: Duration = Duration::from_millis(500);
/// Size of a scan's reads, and number of them in flight per thread.
const EXTENT_BYTES: u32 = 256 << 10;
const EXTENTS_IN_FLIGHT: usize = 8;
/// The warm-up is this fraction of a measurement.
const WARMUP_PARTS: u32 = 5;

/// The files for random reads, and the parameters of the measurement.
pub(crate) struct DeviceLimit<'a> {
    pub(crate) directory: &'a TpchDirectory,
    pub(crate) files: Vec<PathBuf>,
    /// Seconds, warm-up and seed.
    pub(crate) timed: &'a TimedArgs,
    /// Whether the reads go through emulated drives. They then use the disk's own queue, because
    /// nothing else knows these drives.
    pub(crate) is_emulated: bool,
}

/// The shape of a query's reads, as a bare loop issues them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) threads: usize,
    /// Reads in flight per thread.
    pub(crate) depth: usize,
    /// Approximate number of completions per turn.
    pub(crate) batch: u16,
    /// Page frames that each thread reads into.
    pub(crate) frames: usize,
}

/// The measured limits; a limit that was not measured is absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limit {
    /// The most reads per second.
    pub(crate) iops: Option<f64>,
    /// The reads per second with one read at a time.
    pub(crate) iops_depth1: Option<f64>,
    /// Processor time per read of a bare io_uring loop, in microseconds.
    pub(crate) cpu_us_per_io_bare: Option<f64>,
    /// Completions per turn of that loop.
    pub(crate) per_turn_bare: Option<f64>,
    /// Bytes per second of reads in extents.
    pub(crate) bytes_per_second: Option<f64>,
}

struct Measured {
    iops: Option<f64>,
    cpu_us_per_io: Option<f64>,
    per_turn: Option<f64>,
}

impl DeviceLimit<'_> {
    /// Measures the limits.
    pub(crate) fn measure(&self, shape: Shape) -> Result<Limit, BenchError> {
        let disk = &*self.directory.disk;
        let files = Arc::new(ReadFiles::open(
            disk,
            self.files.iter().cloned(),
            PAGE_BYTES as u32,
        )?);
        let at_once = Shape { batch: 1, ..shape };
        let one = Shape {
            threads: 1,
            depth: 1,
            ..at_once
        };
        let one = self.reads(&files, one)?;
        if self.is_emulated {
            let many = self.reads(&files, at_once)?;
            return Ok(Limit {
                iops: many.iops,
                iops_depth1: one.iops,
                ..Limit::default()
            });
        }
        let bare = self.reads(&files, shape)?;
        let mut iops = bare.iops;
        if shape.batch > 1 {
            // A loop that waits for many completions may let the device run idle.
            let eager = self.reads(&files, at_once)?.iops;
            iops = [iops, eager].into_iter().flatten().reduce(f64::max);
        }
        Ok(Limit {
            iops,
            iops_depth1: one.iops,
            cpu_us_per_io_bare: bare.cpu_us_per_io,
            per_turn_bare: bare.per_turn,
            ..Limit::default()
        })
    }

    /// The most bytes per second of reads in extents: the limit of a scan.
    pub(crate) fn bytes_per_second(&self, threads: usize) -> Result<Option<f64>, BenchError> {
        let files = Arc::new(ReadFiles::open(
            &*self.directory.disk,
            self.files.iter().cloned(),
            EXTENT_BYTES,
        )?);
        if files.len_bytes() == 0 {
            return Ok(None);
        }
        let shape = Shape {
            threads,
            depth: EXTENTS_IN_FLIGHT,
            batch: 1,
            frames: 2 * EXTENTS_IN_FLIGHT,
        };
        let measured = self.reads_of(&files, shape, EXTENT_BYTES)?;
        Ok(measured.iops.map(|reads| reads * f64::from(EXTENT_BYTES)))
    }

    fn reads(&self, files: &Arc<ReadFiles>, shape: Shape) -> Result<Measured, BenchError> {
        self.reads_of(files, shape, PAGE_BYTES as u32)
    }

    fn reads_of(
        &self,
        files: &Arc<ReadFiles>,
        shape: Shape,
        bytes: u32,
    ) -> Result<Measured, BenchError> {
        let all = shape.threads * shape.depth;
        let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        let reads = AsyncReads {
            bytes,
            depth: small(all),
            readers: small(shape.threads),
            batch: shape.batch.min(small(shape.depth)),
            buffers: shape.frames,
            timed: false,
            work_us: 0,
            bare: !self.is_emulated,
        };
        let seconds = self.timed.seconds.unwrap_or(SECONDS);
        let timed = TimedArgs {
            seconds: self.timed.ops.is_none().then_some(seconds),
            warmup: self.timed.warmup.min(seconds / WARMUP_PARTS),
            ..self.timed.clone()
        };
        let probed = reads.run(&self.directory.disk, files, &timed)?;
        let (total, turns) = (probed.total, probed.turns as f64);
        Ok(Measured {
            iops: total.per_second(),
            cpu_us_per_io: total.per_operation(probed.cpu_ns as f64 / 1e3),
            per_turn: (turns > 0.0).then(|| total.done as f64 / turns),
        })
    }
}
