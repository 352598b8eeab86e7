//! `index`: the trees alone, without transactions.
//!
//! The paper's benchmark, with all its parameters. A run loads a tree, warms up, does operations that
//! were drawn before the clock started, does some more with the clock around each for the latencies,
//! and some whose every answer is examined; and at the end, what is left in the tree must be what the
//! operations can have left.
//!
//! Paper: bwtree §5

mod done;
mod keys;
mod measured;
mod mix;
mod operations;
mod payload;
mod row;
mod worker;

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use namiki_index::{KeyKind, Statistics, Tree, TreeKind};
use namiki_platform::arguments::whole;
use namiki_platform::probe::{Machine, miss_ns};

use self::done::{Done, History};
use self::keys::{CORE_BYTES, KeyLayout, KeySpace, Keys};
use self::measured::Measured;
use self::mix::{Mix, Operation};
use self::operations::{Choice, KEYS_MAX, Operations};
use self::row::{IndexRow, Results};
use self::worker::{How, Worker};
use crate::args::{self, Length, TimedArgs};
use crate::error::BenchError;
use crate::report::Report;
use crate::run::{in_turns, quotient, share, through_stages};

/// Operations of a run, if nobody says how many or how long.
///
/// Paper: bwtree §5.2, table 1
const OPS: u64 = 10_000_000;
/// The longest key, in bytes.
const KEY_BYTES_MAX: u64 = 1 << 16;

/// What `index` measures.
#[derive(Args, Debug)]
pub(crate) struct IndexArgs {
    /// Tree; several with commas or by repeating the flag, all with `all`
    #[arg(long, value_name = "TREE,…", value_delimiter = ',', default_values_t = [TreeChoice::One(TreeKind::default())])]
    tree: Vec<TreeChoice>,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// One tree or all there are.
#[derive(Clone, Copy, Debug)]
enum TreeChoice {
    All,
    One(TreeKind),
}

impl FromStr for TreeChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "all" {
            return Ok(Self::All);
        }
        let kind = name.parse::<TreeKind>().map_err(|error| error.to_string());
        kind.map(Self::One)
    }
}

impl fmt::Display for TreeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.pad("all"),
            Self::One(kind) => kind.fmt(f),
        }
    }
}

impl TreeChoice {
    /// The trees it stands for.
    fn kinds(&self) -> &[TreeKind] {
        match self {
            Self::All => TreeKind::ALL,
            Self::One(kind) => std::slice::from_ref(kind),
        }
    }
}

/// What is done to each.
#[derive(Args, Debug)]
pub(crate) struct WorkloadArgs {
    /// Percent of each operation: read, scan, write, insert, update, delete. May be repeated
    #[arg(long, value_name = "OP=N,…", default_value = "read=50,write=50")]
    mix: Vec<Mix>,
    /// Entries that a scan visits
    #[arg(long, value_name = "N", default_value = "100", value_parser = whole::<u64>(1..=u64::MAX))]
    scan_length: u64,
    /// Bytes of a key: 8, 16, 32, 64, 128 in the paper
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "8", value_parser = whole::<usize>(CORE_BYTES as u64..=KEY_BYTES_MAX))]
    key_bytes: Vec<usize>,
    /// Keys that operations choose from
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = whole::<u64>(1..=KEYS_MAX))]
    keys: u64,
    /// How many of them are loaded before [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=KEYS_MAX))]
    initial: Option<u64>,
    /// Where the keys lie among all there could be
    #[arg(
        long,
        value_enum,
        value_name = "SPACE,…",
        value_delimiter = ',',
        default_value = "dense"
    )]
    key_space: Vec<KeySpace>,
    /// Where keys of more than 8 bytes differ
    #[arg(
        long,
        value_enum,
        value_name = "LAYOUT,…",
        value_delimiter = ',',
        default_value = "random-head"
    )]
    key_layout: Vec<KeyLayout>,
    /// Skew of Zipf's law, any from 0 on; 0 is uniform
    #[arg(long, value_name = "S,…", value_delimiter = ',', default_value = "0.0", value_parser = args::skew)]
    skew: Vec<f64>,
    /// Reads at a time: more than 1 are looked up together
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = whole::<u32>(1..=1 << 16))]
    batch: Vec<u32>,
    /// The order in which keys are loaded
    #[arg(long, value_enum, default_value = "random")]
    load_order: LoadOrder,
    /// Numbers of threads
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads)]
    threads: Vec<NonZeroU16>,
    #[command(flatten)]
    timed: TimedArgs,
}

/// The order in which keys are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadOrder {
    /// None that can be seen
    Random,
    /// Ascending; each thread a stretch of its own
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

/// One combination of what was asked for.
#[derive(Clone, Copy, Debug)]
struct Combination {
    tree: TreeKind,
    choice: Choice,
}

/// The stages of a run.
const LOAD: usize = 0;
const WARMUP: usize = 1;
const TIMED: usize = 2;

/// Runs the command.
pub(crate) fn run(args: &IndexArgs) -> Result<(), BenchError> {
    let workload = &args.workload;
    let machine = Machine::describe(&std::env::temp_dir());
    let miss_ns = miss_ns().map_err(BenchError::system("measure memory"))?;
    let mut combinations = Vec::new();
    for choice in workload.choices()? {
        let trees = args.tree.iter().flat_map(TreeChoice::kinds);
        combinations.extend(trees.map(|&tree| Combination { tree, choice }));
    }
    let mut report = Report::new(workload.timed.output.format);
    let outcome = in_turns(
        workload.timed.repeat,
        &combinations,
        |combination, round| {
            let Combination { tree, choice } = combination;
            let keys = match choice.keys.bytes {
                CORE_BYTES => KeyKind::Fixed8,
                _ => KeyKind::Variable,
            };
            let what = tree.to_string();
            let results = workload.run_one(&Tree::new(*tree, keys), choice, &what)?;
            report.row(&IndexRow {
                tree: what,
                mix: choice.mix.to_string(),
                key_bytes: choice.keys.bytes,
                key_space: choice.keys.space.name(),
                key_layout: choice.keys.layout.name(),
                initial: choice.initial,
                keys: choice.keys.count,
                skew: choice.skew,
                threads: choice.threads as u16,
                batch: choice.batch as u32,
                scan_length: workload.scan_length,
                load_order: workload.load_order.name(),
                left_out: None,
                measured: Some(results),
                miss_ns: Some(miss_ns),
                seed: choice.seed,
                round,
                machine: &machine,
            })
        },
    );
    report.finish()?;
    outcome
}

impl WorkloadArgs {
    /// Every combination of what may be given more than once.
    fn choices(&self) -> Result<Vec<Choice>, BenchError> {
        let initial = self.initial.unwrap_or(self.keys);
        if initial > self.keys {
            return Err(BenchError::Usage(format!(
                "--initial {initial}: there are only --keys {}",
                self.keys
            )));
        }
        let mut choices = Vec::new();
        for &mix in &self.mix {
            for &batch in &self.batch {
                if batch > 1 && !mix.has(Operation::Read) {
                    return Err(BenchError::Usage(format!(
                        "--batch {batch}: there are no reads in --mix {mix}"
                    )));
                }
                for &bytes in &self.key_bytes {
                    for &space in &self.key_space {
                        for &layout in &self.key_layout {
                            for &skew in &self.skew {
                                for threads in &self.threads {
                                    choices.push(Choice {
                                        keys: Keys {
                                            count: self.keys,
                                            bytes,
                                            space,
                                            layout,
                                        },
                                        initial,
                                        mix,
                                        skew,
                                        batch: batch.into(),
                                        seed: self.timed.seed,
                                        threads: threads.get().into(),
                                    });
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(choices)
    }

    /// The length of the timed part: the paper's number of operations, if nobody says.
    fn length(&self) -> Length {
        match (self.timed.seconds, self.timed.ops) {
            (None, None) => Length::Operations(OPS),
            _ => self.timed.length(),
        }
    }

    /// The length of the part before.
    fn warmup_length(&self) -> Length {
        match self.length() {
            Length::Operations(_) => Length::Operations(0),
            Length::Time(_) => Length::Time(self.timed.warmup),
        }
    }

    fn run_one<I: Measured>(
        &self,
        index: &I,
        choice: &Choice,
        what: &str,
    ) -> Result<Results, BenchError> {
        let how = How {
            batch: choice.batch as usize,
            scan_length: self.scan_length,
            returning: false,
        };
        let loading = format!("{what}, loading");
        let lengths = [
            (Length::Operations(choice.initial), &*loading),
            (self.warmup_length(), what),
            (self.length(), what),
        ];
        let through = through_stages(
            choice.threads,
            self.timed.pin,
            &lengths,
            |thread| {
                let wanted = match self.length() {
                    Length::Operations(all) => Some(share(all, thread, choice.threads)),
                    Length::Time(_) => None,
                };
                let sorted = self.load_order == LoadOrder::Sorted;
                let drawn = choice.drawn(wanted);
                Ok(Worker {
                    index,
                    how,
                    load: Some(Operations::load(choice, thread, sorted)),
                    history: History {
                        operations: Operations::draw(choice, thread, drawn),
                        done: Done::new(thread),
                    },
                })
            },
            |worker, stage, length, stages| {
                let most = match length {
                    Length::Operations(all) => {
                        share(all, worker.history.done.thread, choice.threads)
                    }
                    Length::Time(_) => u64::MAX,
                };
                match stage {
                    LOAD => worker.load(stages),
                    _ => worker.run(most, stages),
                }
            },
            |stage| {
                Ok((
                    (stage == LOAD).then(|| index.memory_bytes()).flatten(),
                    (stage == TIMED).then(|| index.statistics()).flatten(),
                ))
            },
        )?;
        let [load, _, timed] = &through.totals[..] else {
            return Err(BenchError::Interrupted);
        };
        let loaded: Option<u64> = through.looks[LOAD].0;
        let stats: Option<Statistics> = through.looks[TIMED].1;
        let keys = choice.initial as f64;
        Ok(Results {
            ops: timed.done,
            seconds: timed.seconds,
            mops: timed.per_second().map(|rate| rate / 1e6),
            load_mops: load.per_second().map(|rate| rate / 1e6),
            latency_ns: None,
            bytes_per_key: loaded.and_then(|bytes| quotient(bytes as f64, keys)),
            stats,
        })
    }
}
