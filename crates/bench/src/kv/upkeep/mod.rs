//! `compare upkeep`: compares the resources of stores over time: the delay until a store can be
//! read after its process was killed, its space after many updates, and the duration of a scan of
//! all records with concurrent writers.

mod killed_writer;
mod reopening;
mod scan_beside_writers;
mod space;

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use ::namiki::{IndexKind, ProtocolSpec};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use namiki_platform::machine::Machine;
use serde::Serialize;

pub(crate) use self::killed_writer::{KilledWriterArgs, write_until_killed};
use super::namiki::NamikiSetting;
use super::store::{Setting, Store};
use super::stores::{Chosen, StoreName};
use crate::args::{self, OutputArgs};
use crate::error::BenchError;
use crate::repetitions::in_turns;
use crate::result_writer::{Cell, Report, Row};
use crate::run_folder::Place;

/// Updates per transaction where transactions are not measured themselves.
const BATCH: u64 = 100;

const NOTES: &str = "\
Measures, each on one table of --records records of --value-bytes bytes:
  reopen  a process updates random records, 100 in a durable transaction, until --kill-after updates are durable, and is killed
          (SIGKILL); seconds are from the beginning of the opening to the first record read, with nothing of the files in
          memory (cold) and again with what the first opening has left (warm)
  space   --updates updates of random records, 100 in a transaction; files_mb is what the store's folder has at the end, and
          closed_mb once it is closed
  scan    one thread reads all records in one state, again and again, beside --threads threads with durable updates of one
          record each; seconds are of one scan (median), tps of the writers beside, and tps_alone without the scans

Every run is checked: after the kill every record holds what the durable transactions left, and perhaps what the one that
was under way did, whole; after the updates, the last of them; a scan finds every record.

Examples:
  namiki-bench compare upkeep --stores namiki,redb,fjall,lmdb,sqlite --measure reopen
  namiki-bench compare upkeep --stores namiki,rocksdb --measure space,scan --threads 16";

/// Arguments of `compare upkeep`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct CompareUpkeepArgs {
    /// Stores; several with commas
    #[arg(
        long,
        value_enum,
        value_name = "STORE,…",
        value_delimiter = ',',
        default_value = "namiki,redb,fjall,lmdb,sqlite"
    )]
    stores: Vec<StoreName>,
    /// Measurements; several with commas
    #[arg(
        long,
        value_enum,
        value_name = "M,…",
        value_delimiter = ',',
        default_value = "reopen,space,scan"
    )]
    measure: Vec<Measure>,
    /// Records in the table
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 31))]
    records: u64,
    /// Bytes of each value
    #[arg(long, value_name = "N", default_value = "100", value_parser = RangedU64ValueParser::<u16>::from(8..=2040))]
    value_bytes: u16,
    /// Durable updates before the process is killed
    #[arg(long, value_name = "N", default_value = "500000", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 40))]
    kill_after: u64,
    /// Updates before the space is measured
    #[arg(long, value_name = "N", default_value = "10000000", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 40))]
    updates: u64,
    /// Threads that write during the scan
    #[arg(long, value_name = "N", default_value = "16", value_parser = args::threads())]
    threads: NonZeroU16,
    /// Duration of the repeated scans
    #[arg(long, value_name = "S", default_value = "10", value_parser = args::some_seconds)]
    seconds: std::time::Duration,
    /// Runs of each combination, interleaved
    #[arg(long, default_value = "1", value_name = "N", value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64))]
    repeat: u32,
    /// Seed that makes the updates repeatable
    #[arg(long, default_value = "42", value_name = "N")]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
    /// Folder in which each run creates a subfolder, removed at its end [default: the system's
    /// temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measure {
    /// Opening after a kill.
    Reopen,
    /// Space after many updates.
    Space,
    /// A scan of all records with concurrent writers.
    Scan,
}

/// The results. Values that a measurement does not provide are absent.
#[derive(Clone, Debug, Default, Serialize)]
struct Outcome {
    #[serde(skip_serializing_if = "Option::is_none")]
    cold_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warm_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scan_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tps_alone: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_bytes: Option<u64>,
}

/// A result. The keys are a stable contract.
#[derive(Clone, Debug, Serialize)]
struct UpkeepRow<'a> {
    store: &'static str,
    measure: String,
    #[serde(flatten)]
    outcome: Outcome,
    records: u64,
    value_bytes: u16,
    durability: String,
    round: u32,
    machine: &'a Machine,
}

impl Row for UpkeepRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        let outcome = &self.outcome;
        vec![
            ("store", Cell::key(self.store)),
            ("measure", Cell::key(&self.measure)),
            ("cold s", Cell::measure(outcome.cold_seconds)),
            ("warm s", Cell::measure(outcome.warm_seconds)),
            ("scan s", Cell::measure(outcome.scan_seconds)),
            ("tps", Cell::measure(outcome.tps)),
            ("tps alone", Cell::measure(outcome.tps_alone)),
            ("files MB", Cell::megabytes(outcome.file_bytes)),
            ("closed MB", Cell::megabytes(outcome.closed_bytes)),
            ("durability", Cell::key(&self.durability)),
        ]
    }
}

/// One run of one store.
struct UpkeepRun<'a> {
    args: &'a CompareUpkeepArgs,
    store: StoreName,
    dir: &'a Path,
}

/// Runs the command.
pub(crate) fn run(args: &CompareUpkeepArgs) -> Result<(), BenchError> {
    for store in &args.stores {
        store.check_built()?;
        if *store == StoreName::Floor {
            let why = "floor has no index: there is nothing of it to open or to scan";
            return Err(BenchError::Usage(why.to_owned()));
        }
    }
    let place = Place::new(args.dir.as_deref())?;
    let machine = Machine::describe(place.path());
    place.note_memory(&machine);
    let mut combinations = Vec::new();
    for &measure in &args.measure {
        combinations.extend(args.stores.iter().map(|&store| (store, measure)));
    }
    let mut report = Report::new(args.output.format);
    let outcome = in_turns(args.repeat, &combinations, |&(store, measure), round| {
        let dir = place.scratch()?;
        let run = UpkeepRun {
            args,
            store,
            dir: dir.path(),
        };
        let (outcome, durability) = match measure {
            Measure::Reopen => run.reopen()?,
            Measure::Space => run.space()?,
            Measure::Scan => run.scan()?,
        };
        report.row(&UpkeepRow {
            store: store.name(),
            measure: format!("{measure:?}").to_lowercase(),
            outcome,
            records: args.records,
            value_bytes: args.value_bytes,
            durability,
            round,
            machine: &machine,
        })
    });
    report.finish()?;
    outcome
}

impl<'a> UpkeepRun<'a> {
    fn setting(&self, durable: bool) -> Setting<'a> {
        Setting {
            dir: self.dir,
            durable,
            records: self.args.records,
            value_bytes: self.args.value_bytes,
        }
    }

    fn open(&self, durable: bool) -> Result<Box<dyn Store>, BenchError> {
        open(self.store, &self.setting(durable))
    }

    fn loaded(&self, durable: bool) -> Result<Box<dyn Store>, BenchError> {
        let store = self.open(durable)?;
        store.load(&self.setting(durable))?;
        Ok(store)
    }
}

/// Opens a store as its users would: Namiki with its defaults.
fn open(store: StoreName, setting: &Setting<'_>) -> Result<Box<dyn Store>, BenchError> {
    let chosen = match store {
        StoreName::Namiki => Chosen::Namiki(NamikiSetting {
            spec: ProtocolSpec::DEFAULT,
            index: IndexKind::default(),
            streams: None,
        }),
        other => Chosen::Other(other),
    };
    chosen.open(setting)
}
