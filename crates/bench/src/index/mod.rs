//! `index`: measures indexes alone, without transactions.
//!
//! The paper's benchmark, with all its parameters. A run loads an index, warms up, and executes
//! operations that were drawn before the clock started. It then executes more with the clock around
//! each one, for the latencies, and some with every answer examined. At the end, the content of the
//! index must be a possible result of the operations.
//!
//! Paper: bwtree §5

mod check;
mod drawn_operations;
mod figure_run;
mod index_by_name;
mod measured_index;
mod memory_needed;
mod operation_mix;
mod payload_writer_id;
#[cfg(feature = "compare")]
mod peers;
#[cfg(test)]
mod planted_faults;
mod result_row;
mod run_one;
mod worker;

use std::num::NonZeroU16;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use namiki_platform::machine::{Machine, miss_ns};
use namiki_platform::machine_available_bytes;

use self::drawn_operations::Choice;
pub(crate) use self::drawn_operations::KEYS_MAX;
pub(crate) use self::figure_run::FigureRun;
use self::index_by_name::{Subject, Trees, TreesAndPeers};
use self::measured_index::NO_ORDER;
pub(crate) use self::operation_mix::Mix;
use self::operation_mix::Operation;
use self::result_row::{IndexRow, Outcome};
use self::run_one::Plan;
use crate::args::{self, Length, Switch, TimedArgs};
use crate::error::BenchError;
use crate::key_encoding::{CORE_BYTES, LooksArgs};
use crate::latency::clock_ns;
use crate::repetitions::in_turns;
use crate::result_writer::Report;

/// Default number of operations of a run.
///
/// Paper: bwtree §5.2, table 1
const OPS: u64 = 10_000_000;
/// The longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: u64 = 1 << 16;

const NOTES: &str = "\
A run loads --initial of the --keys into a new index, does operations that were drawn before the clock
started, does --latency-ops more with the clock around each, and some with every answer examined.
Rates are of the first, latencies of the second. Then all threads have ended, and what is left in it
must be what the operations can have left.

Indexes are the trees, hash, which keeps no order and so does all but scan, and a tree with +hash behind,
such as art+hash: the tree for scans and a hash table for look-ups, over the same keys. --tree all is
every tree and hash, which is left out where there are scans: its row says so (key left_out).

Operations, each on one key, chosen by Zipf's law and scattered over all keys:
  read    looks the key up
  scan    visits --scan-length entries from the key on
  write   sets the key's payload, adding the key if it is absent (the paper's upsert)
  insert  adds the key if it is absent
  update  sets the key's payload if it is present
  delete  removes the key if it is present

Keys of 8 bytes are numbers, side by side (dense) or anywhere (sparse). In longer keys those 8 bytes come
first and the rest differs too (random-head), or come last after the same bytes in all (shared-prefix).

Operations and their keys lie in memory in the order in which they come, so that they cost next to nothing
to read. Up to 1 GB of them are drawn; if there are to be more, they come again from the first on. Without
--seconds, a run is as long as the paper's: 10000000 operations.

mops are million operations a second, load_mops million keys loaded a second; of a batch each key counts.
latency_ns are of one operation, or of one batch, without what the clock takes. miss_ns is the machine's
yardstick: rates of different hours compare as rate * miss_ns / 151.

Examples:
  namiki-bench index --mix read=50,write=50 --threads 1,2
  namiki-bench index --tree all --mix read=100 --mix write=100 --skew 0,0.99 --repeat 5
  namiki-bench index --tree art,hash,art+hash --mix read=100 --mix insert=50,delete=50 --key-space sparse
  namiki-bench index --mix scan=100 --scan-length 100 --key-space dense,sparse
  namiki-bench index --mix read=100 --key-bytes 8,32,128 --key-layout random-head,shared-prefix
  namiki-bench index --mix insert=50,delete=50 --keys 2000000 --initial 1000000 --format json
  namiki-bench index --mix read=100 --batch 1,16";

const COMPARE_NOTES: &str = "\
The same as `namiki-bench index` (its help explains it), with other indexes in turn:
  scc                 scc::TreeIndex, a B+-tree
  crossbeam-skiplist  crossbeam_skiplist::SkipMap
  congee              congee::Congee, an adaptive radix tree over keys of 8 bytes
  btreemap            std's BTreeMap behind parking_lot's RwLock
All use the same allocator, and are checked in the same way. What one cannot do is left out, and its row
says why (key left_out). They are in this program if it is built with

  cargo build --profile measured -p namiki-bench --features compare

Examples:
  namiki-bench compare index --mix read=100 --threads 1,2 --repeat 5
  namiki-bench compare index --trees bwtree,congee,scc --mix read=50,write=50 --key-space sparse";

/// Arguments of `index`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct IndexArgs {
    /// Tree, hash, or a tree's name followed by +hash; several with commas or by repeating the
    /// flag; `all` names every tree and hash
    #[arg(long, value_name = "TREE,…", value_delimiter = ',', default_values_t = [Trees::default()])]
    tree: Vec<Trees>,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// Arguments of `compare index`.
#[derive(Args, Debug)]
#[command(after_help = COMPARE_NOTES)]
pub(crate) struct CompareIndexArgs {
    /// Trees, hash, a tree's name followed by +hash, and other indexes; `all` names every one
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_values_t = TreesAndPeers::defaults())]
    trees: Vec<TreesAndPeers>,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// The workload for each index.
#[derive(Args, Debug)]
pub(crate) struct WorkloadArgs {
    /// Percent of each operation: read, scan, write, insert, update, delete. May be repeated
    #[arg(long, value_name = "OP=N,…", default_value = "read=50,write=50")]
    mix: Vec<Mix>,
    /// Entries that a scan visits
    #[arg(long, value_name = "N", default_value = "100", value_parser = RangedU64ValueParser::<u64>::from(1..=u64::MAX))]
    scan_length: u64,
    /// Bytes of a key: 8, 16, 32, 64, 128 in the paper
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "8", value_parser = RangedU64ValueParser::<usize>::from(CORE_BYTES as u64..=KEY_BYTES_MAX))]
    key_bytes: Vec<usize>,
    /// Keys that operations choose from
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = RangedU64ValueParser::<u64>::from(1..=KEYS_MAX))]
    keys: u64,
    /// Number of keys loaded before the run [default: all]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::from(0..=KEYS_MAX))]
    initial: Option<u64>,
    #[command(flatten)]
    looks: LooksArgs,
    /// Skew of Zipf's law, at least 0; 0 is uniform
    #[arg(long, value_name = "S,…", value_delimiter = ',', default_value = "0.0", value_parser = args::skew)]
    skew: Vec<f64>,
    /// Reads per batch: with more than 1, keys are looked up together
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = RangedU64ValueParser::<u32>::from(1..=1 << 16))]
    batch: Vec<u32>,
    /// Whether a write returns the payload it replaces. If all writes do, the check at the end
    /// accounts for every payload
    #[arg(long, value_enum, default_value = "blind")]
    writes: Writes,
    /// The order of the load
    #[arg(long, value_enum, default_value = "random")]
    load_order: LoadOrder,
    /// Numbers of threads
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads())]
    threads: Vec<NonZeroU16>,
    /// Operations with the clock around each, after those that are timed together
    #[arg(long, value_name = "N", default_value = "1000000")]
    latency_ops: u64,
    /// Measure the cost of a cache miss first; speeds from different hours are compared by it
    #[arg(long, value_enum, default_value = "on")]
    yardstick: Switch,
    #[command(flatten)]
    timed: TimedArgs,
}

/// Whether a write returns the payload it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Writes {
    /// No: a tree may skip the look-up
    Blind,
    /// Yes
    Returning,
}

/// The order of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadOrder {
    /// No visible order
    Random,
    /// Ascending; each thread loads a contiguous range
    Sorted,
}

impl LoadOrder {
    const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sorted => "sorted",
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &IndexArgs) -> Result<(), BenchError> {
    args.check()?;
    let subjects = args.tree.iter().flat_map(Trees::subjects).copied();
    args.workload.run(&subjects.collect::<Vec<_>>())
}

/// Runs `compare index`.
pub(crate) fn compare(args: &CompareIndexArgs) -> Result<(), BenchError> {
    let subjects = args.trees.iter().flat_map(TreesAndPeers::subjects).copied();
    let subjects: Vec<Subject> = subjects.collect();
    subjects.iter().try_for_each(|subject| subject.check())?;
    args.workload.run(&subjects)
}

impl IndexArgs {
    /// Checks that every explicitly named index can be measured.
    fn check(&self) -> Result<(), BenchError> {
        let named = self.tree.iter().filter_map(|trees| match trees.subjects() {
            [one] => Some(*one),
            _ => None,
        });
        let unordered = named.into_iter().find(|subject| subject.is_unordered());
        let mut mixes = self.workload.mix.iter();
        let with_scans = mixes.find(|mix| mix.has(Operation::Scan));
        match unordered.zip(with_scans) {
            None => Ok(()),
            Some((subject, mix)) => Err(BenchError::Usage(format!(
                "--tree {subject}: {NO_ORDER}, and there are scans in --mix {mix}"
            ))),
        }
    }
}

impl WorkloadArgs {
    /// Runs the workload on each subject, interleaved.
    fn run(&self, subjects: &[Subject]) -> Result<(), BenchError> {
        let choices = self.choices()?;
        let machine = Machine::describe(&std::env::temp_dir());
        let miss_ns = match self.yardstick {
            Switch::On => Some(miss_ns().map_err(BenchError::system("measure memory"))?),
            Switch::Off => None,
        };
        let clock_ns = clock_ns();
        let mut combinations = Vec::new();
        for choice in &choices {
            combinations.extend(subjects.iter().map(|subject| (*subject, choice)));
        }
        let mut report = Report::new(self.timed.output.format);
        let outcome = in_turns(self.timed.repeat, &combinations, |combination, round| {
            let (subject, choice) = *combination;
            let plan = Plan {
                choice,
                sorted: self.load_order == LoadOrder::Sorted,
                warmup: self.warmup_length(),
                timed: self.length(),
                latency_ops: self.latency_ops(),
                clock_ns,
                pin: self.timed.pin,
            };
            let (measured, left_out) = match subject.run(&plan)? {
                Outcome::Measured(results) => (Some(results), None),
                Outcome::LeftOut(why) => (None, Some(why)),
            };
            report.row(&IndexRow {
                tree: subject.to_string(),
                mix: choice.mix.to_string(),
                key_bytes: choice.keys.bytes,
                key_space: choice.keys.space.name(),
                key_layout: choice.keys.layout.name(),
                initial: choice.initial,
                keys: choice.keys.count,
                skew: choice.skew,
                threads: choice.threads as u16,
                batch: choice.batch as u32,
                scan_length: choice.scan_length,
                load_order: self.load_order.name(),
                left_out,
                measured,
                miss_ns,
                seed: choice.seed,
                round,
                machine: &machine,
            })
        });
        report.finish()?;
        outcome
    }

    /// All combinations of the parameters that may have several values.
    fn choices(&self) -> Result<Vec<Choice>, BenchError> {
        self.check()?;
        let keys = self.looks.keys(self.keys, &self.key_bytes);
        // Starts with one default choice, which is multiplied by the values of each parameter.
        let mut choices = vec![Choice {
            keys: keys[0],
            initial: self.initial.unwrap_or(self.keys),
            mix: self.mix[0],
            skew: 0.0,
            batch: 1,
            scan_length: self.scan_length,
            returning: self.writes == Writes::Returning,
            seed: self.timed.seed,
            threads: 1,
        }];
        each(&mut choices, &self.mix, |choice, mix| choice.mix = *mix);
        each(&mut choices, &self.batch, |choice, batch| {
            choice.batch = u64::from(*batch);
        });
        each(&mut choices, &keys, |choice, keys| choice.keys = *keys);
        each(&mut choices, &self.skew, |choice, skew| choice.skew = *skew);
        each(&mut choices, &self.threads, |choice, threads| {
            choice.threads = usize::from(threads.get());
        });
        let needed = choices
            .iter()
            .map(memory_needed::bytes_needed)
            .max()
            .unwrap_or(0);
        if let Some(available) = machine_available_bytes().filter(|bytes| *bytes < needed) {
            let why = format!(
                "--keys {}: that takes at least {:.1} GB of memory, and {:.1} GB are free",
                self.keys,
                needed as f64 / 1e9,
                available as f64 / 1e9
            );
            return Err(BenchError::Usage(why));
        }
        Ok(choices)
    }

    fn check(&self) -> Result<(), BenchError> {
        if let Some(initial) = self.initial.filter(|initial| *initial > self.keys) {
            let why = format!("--initial {initial}: there are only --keys {}", self.keys);
            return Err(BenchError::Usage(why));
        }
        let most = self.batch.iter().max().filter(|batch| **batch > 1);
        let without_reads = self.mix.iter().find(|mix| !mix.has(Operation::Read));
        if let (Some(batch), Some(mix)) = (most, without_reads) {
            let why = format!("--batch {batch}: there are no reads in --mix {mix}");
            return Err(BenchError::Usage(why));
        }
        Ok(())
    }

    /// The length of the timed part; by default the paper's number of operations.
    fn length(&self) -> Length {
        match (self.timed.seconds, self.timed.ops) {
            (None, None) => Length::Operations(OPS),
            _ => self.timed.length(),
        }
    }

    /// The length of the warm-up.
    fn warmup_length(&self) -> Length {
        match self.length() {
            Length::Operations(_) => Length::Operations(0),
            Length::Time(_) => Length::Time(self.timed.warmup),
        }
    }

    /// Number of operations with the clock around each.
    fn latency_ops(&self) -> u64 {
        match self.length() {
            Length::Operations(all) => self.latency_ops.min(all),
            Length::Time(_) => self.latency_ops,
        }
    }
}

/// Replaces each choice by one copy for each value.
fn each<T>(choices: &mut Vec<Choice>, values: &[T], set: impl Fn(&mut Choice, &T)) {
    let before = std::mem::take(choices);
    for choice in before {
        choices.extend(values.iter().map(|value| {
            let mut choice = choice;
            set(&mut choice, value);
            choice
        }));
    }
}
