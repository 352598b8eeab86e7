//! `restart`: measures the time from the start of an opening until the first row is read, the first
//! row is written, and all tables are loaded.
//!
//! Every row is then compared with its expected value.

mod directories;

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use namiki::{Database, Logging, ProtocolSpec};
use namiki_platform::clock::Stopwatch;
use namiki_platform::machine::{Machine, resident_bytes};
use serde::Serialize;

use self::directories::{Contents, Ending, TABLE, copy_into, value_of};
use crate::args::{self, OutputArgs};
use crate::error::BenchError;
use crate::interrupt;
use crate::page_cache::{drop_cached, read_into_cache};
use crate::repetitions::in_turns;
use crate::result_writer::{Cell, Report, Row};
use crate::run_folder::Place;

const NOTES: &str = "\
A process of its own fills a table with keys of 8 bytes and values of 100, takes a checkpoint, and ends:
  closed  it closes the database
  killed  it makes the updates, and is killed with SIGKILL when all are acknowledged
Then a copy of the directory is opened, with its pages dropped from memory (cold) or read into it (warm; direct reads pass
the page cache by). All times are from the beginning of the opening: until it returned, until one row was read by a view and
one written by a transaction, and until all tables were loaded. In the end, all rows are compared with what was written.

Examples:
  namiki-bench restart --records 1000000 --updates 500000 --repeat 3
  namiki-bench restart --ending killed --cache cold --threads 1,2 --format json";

/// Arguments of `restart`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct RestartArgs {
    /// Records of the table
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 31))]
    records: u64,
    /// Updates of random records between the checkpoint and the kill
    #[arg(long, value_name = "N", default_value = "500000", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 31))]
    updates: u64,
    /// Protocol
    #[arg(long, value_name = "SPEC", value_parser = args::spec, default_value_t = ProtocolSpec::DEFAULT)]
    spec: ProtocolSpec,
    /// End of the previous process; several with commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "closed,killed"
    )]
    ending: Vec<Ending>,
    /// Whether the files are cached in memory; several with commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cold,warm")]
    cache: Vec<Cache>,
    /// Numbers of threads that recover and load
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "2", value_parser = args::threads())]
    threads: Vec<NonZeroU16>,
    /// Restarts of each combination, interleaved; each is one row
    #[arg(long, default_value = "1", value_name = "N", value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64))]
    repeat: u32,
    /// Seed that makes the updates repeatable
    #[arg(long, default_value = "42", value_name = "N")]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
    /// Folder on the disk to restart from. The directories are created in subfolders, which are
    /// removed at the end; nothing else there is touched [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Fill a database in this directory, and wait to be killed
    #[arg(long, value_name = "DIR", hide = true)]
    fill: Option<PathBuf>,
}

/// Whether the files are cached before the opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cache {
    /// None of their pages are cached.
    Cold,
    /// All pages that fit are cached.
    Warm,
}

impl Cache {
    fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// One combination of the requested parameters.
struct Combination<'a> {
    ending: Ending,
    made: &'a Path,
    cache: Cache,
    threads: NonZeroU16,
}

/// A result. The keys are a stable contract.
#[derive(Clone, Debug, Serialize)]
struct RestartRow<'a> {
    spec: String,
    ending: &'static str,
    cache: &'static str,
    threads: u16,
    records: u64,
    updates: u64,
    open_ms: f64,
    first_read_ms: f64,
    first_write_ms: f64,
    loaded_ms: f64,
    log_bytes: u64,
    image_bytes: u64,
    replayed: u64,
    rss_bytes: u64,
    rows_equal: bool,
    round: u32,
    machine: &'a Machine,
}

impl Row for RestartRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        vec![
            ("ending", Cell::key(self.ending)),
            ("cache", Cell::key(self.cache)),
            ("threads", Cell::key(self.threads)),
            ("open ms", Cell::measure(self.open_ms)),
            ("first read ms", Cell::measure(self.first_read_ms)),
            ("first write ms", Cell::measure(self.first_write_ms)),
            ("loaded ms", Cell::measure(self.loaded_ms)),
            ("replayed", Cell::count(self.replayed)),
            (
                "equal",
                Cell::key(if self.rows_equal { "yes" } else { "NO" }),
            ),
        ]
    }
}

/// Runs the command.
pub(crate) fn run(args: &RestartArgs) -> Result<(), BenchError> {
    if args.spec.logging == Logging::None {
        let why = format!(
            "--spec {} keeps nothing that could be opened again",
            args.spec
        );
        return Err(BenchError::Usage(why));
    }
    if let Some(dir) = &args.fill {
        return args.contents(args.ending[0]).fill(dir);
    }
    let place = Place::new(args.dir.as_deref())?;
    let machine = Machine::describe(place.path());
    let mut made = Vec::new();
    for &ending in &args.ending {
        let scratch = place.scratch()?;
        args.contents(ending).make(scratch.path())?;
        made.push((ending, scratch));
    }
    let mut combinations = Vec::new();
    for (ending, scratch) in &made {
        for &cache in &args.cache {
            combinations.extend(args.threads.iter().map(|&threads| Combination {
                ending: *ending,
                made: scratch.path(),
                cache,
                threads,
            }));
        }
    }
    let mut report = Report::new(args.output.format);
    let outcome = in_turns(args.repeat, &combinations, |combination, round| {
        let row = args.run_one(combination, &place, &machine, round)?;
        report.row(&row)?;
        if row.rows_equal {
            return Ok(());
        }
        Err(BenchError::Check(format!(
            "the rows of a database that was {} are not what was written",
            row.ending
        )))
    });
    report.finish()?;
    outcome
}

impl RestartArgs {
    fn contents(&self, ending: Ending) -> Contents {
        Contents {
            spec: self.spec,
            records: self.records,
            updates: self.updates,
            seed: self.seed,
            ending,
        }
    }

    fn run_one<'a>(
        &self,
        combination: &Combination<'_>,
        place: &Place,
        machine: &'a Machine,
        round: u32,
    ) -> Result<RestartRow<'a>, BenchError> {
        let contents = self.contents(combination.ending);
        let versions = contents.versions();
        let copy = place.scratch()?;
        let dir = copy.path().join("data");
        copy_into(combination.made, &dir)?;
        drop_cached(&dir)?;
        if combination.cache == Cache::Warm {
            read_into_cache(&dir)?;
        }
        let builder = Database::builder()
            .spec(self.spec)
            .recovery_threads(combination.threads)
            .checkpoint_at_close(None)
            .interrupt(interrupt::flag())
            .create(false);
        let key = self.records / 2;
        let watch = Stopwatch::start();
        let ms = || watch.elapsed_s() * 1e3;
        let db = builder.open(&dir)?;
        let open_ms = ms();
        let table = db.table::<u64, [u8]>(TABLE)?;
        let found = db.read(|view| view.get(&table, &key))?;
        let first_read_ms = ms();
        // The key follows those of the compared rows.
        db.transact(|tx| tx.put(&table, &self.records, &[0; 100]))?;
        let first_write_ms = ms();
        db.wait_until_loaded()?;
        let loaded_ms = ms();
        let mut rows_equal = found.as_deref() == Some(&value_of(key, versions[key as usize])[..]);
        let view = db.view()?;
        let mut expected = (0..).zip(&versions);
        for row in view.range(&table, ..self.records) {
            let (key, value) = row?;
            let is_expected = |(number, version): (u64, &u64)| {
                number == key && *value == value_of(number, *version)
            };
            rows_equal &= expected.next().is_some_and(is_expected);
        }
        rows_equal &= expected.next().is_none();
        drop(view);
        let report = db.recovery();
        let row = RestartRow {
            spec: self.spec.to_string(),
            ending: combination.ending.name(),
            cache: combination.cache.name(),
            threads: combination.threads.get(),
            records: self.records,
            updates: self.updates,
            open_ms,
            first_read_ms,
            first_write_ms,
            loaded_ms,
            log_bytes: report.bytes,
            image_bytes: report.image_bytes,
            replayed: report.replayed,
            rss_bytes: resident_bytes().map_err(BenchError::system("ask for memory in use"))?,
            rows_equal,
            round,
            machine,
        };
        db.close()?;
        Ok(row)
    }
}
