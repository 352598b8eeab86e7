//! `memory`: memory per row, and whether a queue's memory grows over time.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use namiki::{Database, ProtocolSpec, Table};
use namiki_platform::machine::resident_bytes;
use serde::{Deserialize, Serialize};

use crate::args::{self, OutputArgs};
use crate::error::BenchError;
use crate::interrupt;
use crate::result_writer::{Cell, Report, Row};
use crate::run_folder::Place;

/// Rows of the queue at any time.
const QUEUE_ROWS: u64 = 10;
/// Rows after which the queue's memory is taken as the baseline.
const SETTLED: u64 = 100_000;
const VALUE_BYTES: usize = 100;
const KEY_BYTES: usize = 8;

const NOTES: &str = "\
Each is measured in a process of its own, so that what one has given back is not counted for the other. The queue has ten
rows; each transaction inserts a row at its end and deletes the one at its head, and waits for no acknowledgement.
growth_mb is beyond what the process had when 100,000 had gone through it.

Examples:
  namiki-bench memory
  namiki-bench memory --pops 1000000 --spec 'SILO(NLR)+PWAL(16)'";

/// Arguments of `memory`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct MemoryArgs {
    /// Protocols; several with commas
    #[arg(long, value_name = "SPEC,…", value_delimiter = ',', default_value = "TT(EPOCH)+PWAL(16)", value_parser = args::spec)]
    spec: Vec<ProtocolSpec>,
    /// Rows with keys of 8 bytes and values of 100 bytes
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = RangedU64ValueParser::<u64>::from(1..=u64::from(u32::MAX)))]
    rows: u64,
    /// Number of rows that pass through the queue
    #[arg(long, value_name = "N", default_value = "10000000", value_parser = RangedU64ValueParser::<u64>::from(SETTLED..=u64::MAX))]
    pops: u64,
    /// Runs one of the measurements in this process and prints it as JSON: the work of the child
    /// processes
    #[arg(long, hide = true, value_name = "WHAT")]
    measure: Option<Measured>,
    /// Folder for the databases, which are removed at the end [default: the system's temporary
    /// folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// The workload of a measuring process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Measured {
    Rows,
    Queue,
}

impl Measured {
    fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Queue => "queue",
        }
    }
}

/// A result. The keys are a stable contract.
#[derive(Debug, Serialize, Deserialize)]
struct MemoryRow {
    what: Measured,
    spec: String,
    ops: u64,
    seconds: f64,
    rss_bytes: u64,
    /// Queue only: growth over the memory after 100,000 rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    growth_bytes: Option<i64>,
    /// Rows only: bytes of memory for each byte of keys and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_payload_byte: Option<f64>,
}

impl Row for MemoryRow {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        vec![
            ("what", Cell::key(self.what.name())),
            ("spec", Cell::key(&self.spec)),
            ("ops", Cell::key(self.ops)),
            ("seconds", Cell::measure(self.seconds)),
            ("rss_mb", Cell::megabytes(self.rss_bytes)),
            (
                "growth_mb",
                Cell::measure(self.growth_bytes.map(|bytes| bytes as f64 / 1e6)),
            ),
            ("x_payload", Cell::measure(self.bytes_per_payload_byte)),
        ]
    }
}

/// Runs `memory`.
pub(crate) fn run(args: &MemoryArgs) -> Result<(), BenchError> {
    if let Some(what) = args.measure {
        return measure(args, what);
    }
    let place = Place::fresh_in(args.dir.as_deref())?;
    let mut report = Report::new(args.output.format);
    for (number, spec) in args.spec.iter().enumerate() {
        for what in [Measured::Rows, Measured::Queue] {
            let dir = place.path().join(format!("{}-{number}", what.name()));
            report.row(&in_another_process(args, what, *spec, &dir)?)?;
        }
    }
    report.finish()
}

fn in_another_process(
    args: &MemoryArgs,
    what: Measured,
    spec: ProtocolSpec,
    dir: &Path,
) -> Result<MemoryRow, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::system("name this program"))?;
    let mut command = Command::new(&program);
    command.args(["memory", "--measure", what.name()]);
    command.args(["--spec", &spec.to_string()]);
    command.args(["--rows", &args.rows.to_string()]);
    command.args(["--pops", &args.pops.to_string()]);
    command.arg("--dir").arg(dir);
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let ended = command
        .output()
        .map_err(BenchError::file("run", &program))?;
    interrupt::check()?;
    if !ended.status.success() {
        return Err(BenchError::Check(format!(
            "the process that measures the {} ended with {}",
            what.name(),
            ended.status
        )));
    }
    serde_json::from_slice(&ended.stdout).map_err(|error| {
        BenchError::Check(format!(
            "the process that measures the {} printed no result: {error}",
            what.name()
        ))
    })
}

/// The work of the child process.
fn measure(args: &MemoryArgs, what: Measured) -> Result<(), BenchError> {
    let (Some(dir), [spec]) = (&args.dir, args.spec.as_slice()) else {
        return Err(BenchError::Check(
            "--measure takes one --spec and a --dir".to_owned(),
        ));
    };
    let db = Database::builder()
        .spec(*spec)
        .open(dir)
        .map_err(BenchError::Open)?;
    let row = match what {
        Measured::Rows => rows(&db, *spec, args.rows)?,
        Measured::Queue => queue(&db, *spec, args.pops)?,
    };
    let text = serde_json::to_string(&row);
    let text = text.map_err(|error| BenchError::Check(error.to_string()))?;
    writeln!(std::io::stdout(), "{text}").map_err(BenchError::Output)
}

fn resident() -> Result<u64, BenchError> {
    resident_bytes().map_err(BenchError::system("ask for memory in use"))
}

fn rows(db: &Database, spec: ProtocolSpec, rows: u64) -> Result<MemoryRow, BenchError> {
    let began = Instant::now();
    let before = resident()?;
    let table: Table<u64, [u8; VALUE_BYTES]> = db.table("rows")?;
    let mut session = db.session()?;
    for key in 0..rows {
        if key % 4096 == 0 {
            interrupt::check()?;
        }
        // Keys in scrambled order.
        let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        session.transact_async(|tx| tx.put(&table, &key, &[7; VALUE_BYTES]))?;
    }
    session.flush()?;
    let rss_bytes = resident()?;
    let payload = rows * (KEY_BYTES + VALUE_BYTES) as u64;
    Ok(MemoryRow {
        what: Measured::Rows,
        spec: spec.to_string(),
        ops: rows,
        seconds: began.elapsed().as_secs_f64(),
        rss_bytes,
        growth_bytes: None,
        bytes_per_payload_byte: Some(rss_bytes.saturating_sub(before) as f64 / payload as f64),
    })
}

fn queue(db: &Database, spec: ProtocolSpec, pops: u64) -> Result<MemoryRow, BenchError> {
    let began = Instant::now();
    let table: Table<u64, u64> = db.table("queue")?;
    let mut session = db.session()?;
    let mut settled = 0;
    for n in 0..QUEUE_ROWS {
        session.transact_async(|tx| tx.put(&table, &n, &n))?;
    }
    for n in 0..pops {
        if n % 4096 == 0 {
            interrupt::check()?;
        }
        if n == SETTLED {
            settled = resident()?;
        }
        let (found, _) = session.transact_async(|tx| {
            tx.insert(&table, &(n + QUEUE_ROWS), &n)?;
            tx.pop_first(&table)
        })?;
        if found.is_none_or(|(key, _)| key != n) {
            return Err(BenchError::Check(format!(
                "row {n} of the queue is not its first"
            )));
        }
    }
    let rss_bytes = resident()?;
    Ok(MemoryRow {
        what: Measured::Queue,
        spec: spec.to_string(),
        ops: pops,
        seconds: began.elapsed().as_secs_f64(),
        rss_bytes,
        growth_bytes: Some(rss_bytes as i64 - settled as i64),
        bytes_per_payload_byte: None,
    })
}
