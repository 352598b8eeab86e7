//! `compare kv`: Namiki and other embeddable key-value stores.
//!
//! The stores execute the same transactions on the same keys, interleaved, each in its own folder
//! on the same disk. After a run, the store is compared with the commits that its threads know of
//! ([`verify`]), as in `txn`. The values read during the run and the store's content after
//! reopening are checked, too.
//!
//! Each store has a file, and [`store`] defines the interface. A store's configuration is described
//! in its file, and in two columns of every row.

#[cfg(feature = "compare")]
mod batched;
#[cfg(feature = "compare-more")]
mod canopydb;
#[cfg(feature = "compare")]
mod fjall;
#[cfg(feature = "compare")]
mod key_bytes;
#[cfg(feature = "compare")]
mod lmdb;
mod log_only_baseline;
mod long_run;
mod namiki;
#[cfg(feature = "compare")]
mod one_writer;
#[cfg(test)]
mod planted_faults;
#[cfg(feature = "compare")]
mod redb;
mod result_row;
#[cfg(feature = "compare-rocksdb")]
mod rocksdb;
mod run_one;
#[cfg(feature = "compare")]
mod sqlite;
mod store;
mod stores;
#[cfg(feature = "compare-more")]
mod surrealkv;
pub(crate) mod upkeep;
mod verify;
mod worker;
mod workload;

use std::num::NonZeroU16;
use std::path::PathBuf;

use ::namiki::{IndexKind, LockRelease, Logging, ProtocolSpec};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use namiki_platform::machine::Machine;

use self::long_run::{LongRunArgs, Watch};
use self::namiki::NamikiSetting;
use self::result_row::KvRow;
use self::run_one::Plan;
use self::stores::{Chosen, StoreName};
use self::workload::KvWorkload;
use crate::args::{self, Switch, TimedArgs};
use crate::error::BenchError;
use crate::repetitions::in_turns;
use crate::result_writer::Report;
use crate::run_folder::Place;
use crate::run_stages::quotient;
use crate::txn::record_payload::VALUE_BYTES_MIN;
use crate::txn::workload::{Choice, HotKeys, RECORDS_MAX};

/// The longest value that fits into Namiki's records.
const VALUE_BYTES_MAX: u16 = 2040;

const NOTES: &str = "\
Workloads, on one table of --records records of --value-bytes bytes each:
  u1 u10   1 or 10 blind updates of random records
  r10      10 reads
  u5r5     5 random records, each read and then updated to what follows from what was read
  scan100  a scan of 100 records from a random key on
Each transaction is one of the store's, as isolated as it can (column isolation), and with --durable on
it returns when the device has it (column durability). With --durable off it is still atomic, and
nothing waits for the device.

Stores: namiki and floor are always there. floor is a log on one preallocated file with group commit and
no index: the least that a durable commit of many threads can cost; with one thread, a lone durable writer.
It writes over what is old, and what it has forgotten is not checked.
floor takes part in u1 and u10 alone. redb, fjall, lmdb and sqlite are built with --features compare.

redb, lmdb, sqlite and canopydb have one write transaction at a time. In redb-batched and the others' like it a
thread gathers the write transactions of all callers, executes them in one write transaction with one
commit, and then answers the callers; reads do not pass through it. A transaction that fails is rolled back
alone.

surrealkv (snapshot isolation, WAL preallocated), canopydb and canopydb-batched are built with
--features compare-more.

RocksDB's are rocksdb (batches), rocksdb-pipelined (the same with pipelined writes), rocksdb-pessimistic
(TransactionDB) and rocksdb-optimistic (OptimisticTransactionDB); the first two have no part in u5r5. They
are built with --features compare-rocksdb, which takes many minutes and needs a C++ compiler and libclang
(Debian: g++ and libclang-dev). With CXXFLAGS='-msse4.2 -mpclmul' set, its checksums are as fast as others'.

Namiki runs with its defaults but for --spec, --index and --streams. It is asked for the 10 records of r10
and the 5 of u5r5 at once, as RocksDB is for those of r10; the others have no call for that. All stores have
room in memory for all records of the default run.

Every run is checked: a record that was updated blindly holds the last write of one of those threads that
wrote it, what was counted up is there to the last one, and what was read is what had been written. With
--verify-recovery each record holds the same when the store is closed and opened again.

A long run (--minutes) goes through Namiki's checkpoints and the rivals' flushes and compactions. It prints a row
for each interval (--every-seconds), also into a file (--csv), and then one for the run. A stall is a time in which no
thread commits; a slow second has less than a tenth of the commits of the median second. Write amplification is
the bytes written to the device of the folder (by all processes, so leave it to this one) for each byte of keys
and values that was updated, space amplification the bytes of the store's folder for each byte of keys and values
in the table.

Latencies are those of all transactions that wait for the device, and of one in 13 of the others. rss_bytes
is the memory of the whole process, mapped files and what earlier runs left to its allocator included.

Examples:
  namiki-bench compare kv --stores namiki,floor,redb,fjall,lmdb --workload u1 --threads 1,16 --repeat 5
  namiki-bench compare kv --stores namiki,lmdb --workload r10,scan100 --threads 2
  namiki-bench compare kv --stores namiki --workload u1 --threads 16 --skew 0,0.99 --format json
  namiki-bench compare kv --stores namiki,redb-batched,fjall --workload u1 --threads 16 --minutes 10 --csv rates.csv";

/// Arguments of `compare kv`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct CompareKvArgs {
    /// Stores; several with commas
    #[arg(
        long,
        value_enum,
        value_name = "STORE,…",
        value_delimiter = ',',
        default_value = "namiki,floor,redb,redb-batched,fjall,lmdb,lmdb-batched,sqlite,sqlite-batched"
    )]
    stores: Vec<StoreName>,
    /// Workloads; several with commas
    #[arg(
        long,
        value_enum,
        value_name = "W,…",
        value_delimiter = ',',
        required = true
    )]
    workload: Vec<KvWorkload>,
    /// Whether a commit waits until it is durable; both with a comma
    #[arg(
        long,
        value_enum,
        value_name = "on|off,…",
        value_delimiter = ',',
        default_value = "on"
    )]
    durable: Vec<Switch>,
    /// Numbers of threads
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads())]
    threads: Vec<NonZeroU16>,
    /// Protocol of Namiki; may be repeated [default: the engine's; NOLOG where nothing is durable]
    #[arg(long, value_name = "SPEC", value_parser = args::spec)]
    spec: Vec<ProtocolSpec>,
    /// Index of Namiki's table; several with commas
    #[arg(long, value_name = "INDEX,…", value_delimiter = ',', default_values_t = [IndexKind::default()])]
    index: Vec<IndexKind>,
    /// Log streams of Namiki; several with commas [default: the engine's]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = args::threads())]
    streams: Vec<NonZeroU16>,
    /// Records in the table
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = RangedU64ValueParser::<u64>::from(1..=RECORDS_MAX))]
    records: u64,
    /// Bytes of each value
    #[arg(long, value_name = "N", default_value = "100", value_parser = RangedU64ValueParser::<u16>::from(VALUE_BYTES_MIN as u64..=VALUE_BYTES_MAX as u64))]
    value_bytes: u16,
    /// Skews of Zipf's law; 0 is uniform
    #[arg(long, value_name = "S,…", value_delimiter = ',', default_value = "0", value_parser = args::skew)]
    skew: Vec<f64>,
    /// Location of the keys that a skew makes popular: scattered over the table, or its first keys
    #[arg(long, value_enum, value_name = "WHERE", default_value = "scattered")]
    hot_keys: HotKeys,
    /// Reopen each store after its run, and check its content
    #[arg(long)]
    verify_recovery: bool,
    /// Folder in which each run creates a subfolder, removed at its end [default: the system's
    /// temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    long: LongRunArgs,
    #[command(flatten)]
    timed: TimedArgs,
}

/// One combination of the requested parameters.
#[derive(Clone, Copy, Debug)]
struct Combination {
    store: Chosen,
    workload: KvWorkload,
    durable: Switch,
    threads: NonZeroU16,
    skew: f64,
}

impl Combination {
    /// The flag's name for its durability.
    fn durable_name(&self) -> &'static str {
        match self.durable {
            Switch::On => "on",
            Switch::Off => "off",
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &CompareKvArgs) -> Result<(), BenchError> {
    args.check()?;
    let combinations = args.combinations()?;
    let place = Place::new(args.dir.as_deref())?;
    let machine = Machine::describe(place.path());
    place.note_memory(&machine);
    if args.long.minutes.is_some() {
        return long_run::run(args, &place, &machine, &combinations);
    }
    let mut report = Report::new(args.timed.output.format);
    let outcome = in_turns(args.timed.repeat, &combinations, |combination, round| {
        let row = args.run_one(*combination, &place, &machine, round, None)?;
        report.row(&row)
    });
    report.finish()?;
    outcome
}

impl CompareKvArgs {
    fn check(&self) -> Result<(), BenchError> {
        for store in &self.stores {
            store.check_built()?;
        }
        let off = self.durable.contains(&Switch::Off);
        if self.verify_recovery && off {
            return Err(BenchError::Usage(
                "--verify-recovery: with --durable off nothing has to be there".to_owned(),
            ));
        }
        if let Some(index) = self.index.iter().find(|index| !index.is_ordered())
            && self.workload.contains(&KvWorkload::Scan100)
        {
            return Err(BenchError::Usage(format!(
                "--workload scan100: --index {index} has no order"
            )));
        }
        let unlogged = self.spec.iter().find(|spec| spec.logging == Logging::None);
        match unlogged.filter(|_| self.durable.contains(&Switch::On)) {
            None => Ok(()),
            Some(spec) => Err(BenchError::Usage(format!(
                "--spec {spec} logs nothing; --durable off measures it"
            ))),
        }
    }

    /// All combinations of the parameters that may have several values, except those that a store
    /// does not support.
    fn combinations(&self) -> Result<Vec<Combination>, BenchError> {
        let mut all = Vec::new();
        for &workload in &self.workload {
            for &durable in &self.durable {
                let stores = self.chosen(workload, durable == Switch::On);
                for &threads in &self.threads {
                    for &skew in &self.skew {
                        all.extend(stores.iter().map(|store| Combination {
                            store: *store,
                            workload,
                            durable,
                            threads,
                            skew,
                        }));
                    }
                }
            }
        }
        if all.is_empty() {
            Err(BenchError::Usage(
                "none of the --stores takes part in any --workload".to_owned(),
            ))
        } else {
            Ok(all)
        }
    }

    fn chosen(&self, workload: KvWorkload, durable: bool) -> Vec<Chosen> {
        let mut chosen = Vec::new();
        for &store in &self.stores {
            if let Some(why) = store.left_out(workload, durable) {
                let (store, workload) = (store.name(), workload.name());
                eprintln!("{store} has no part in {workload}: {why}");
            } else if store == StoreName::Namiki {
                chosen.extend(self.namiki(durable));
            } else {
                chosen.push(Chosen::Other(store));
            }
        }
        chosen
    }

    /// Namiki with each of its configurations.
    fn namiki(&self, durable: bool) -> Vec<Chosen> {
        let streams: Vec<_> = if self.streams.is_empty() {
            vec![None]
        } else {
            self.streams.iter().copied().map(Some).collect()
        };
        let mut chosen = Vec::new();
        for &index in &self.index {
            for spec in self.specs(durable) {
                chosen.extend(streams.iter().map(|&streams| {
                    Chosen::Namiki(NamikiSetting {
                        spec,
                        index,
                        streams,
                    })
                }));
            }
        }
        chosen
    }

    fn specs(&self, durable: bool) -> Vec<ProtocolSpec> {
        if !self.spec.is_empty() {
            return self.spec.clone();
        }
        vec![if durable {
            ProtocolSpec::DEFAULT
        } else {
            ProtocolSpec {
                release: LockRelease::Normal,
                logging: Logging::None,
                ..ProtocolSpec::DEFAULT
            }
        }]
    }

    fn run_one<'a>(
        &self,
        combination: Combination,
        place: &Place,
        machine: &'a Machine,
        round: u32,
        watch: Option<&Watch<'_>>,
    ) -> Result<KvRow<'a>, BenchError> {
        let Combination {
            store,
            workload,
            threads,
            skew,
            ..
        } = combination;
        let timed = TimedArgs {
            seconds: self.long.minutes.or(self.timed.seconds),
            ..self.timed.clone()
        };
        let plan = Plan {
            workload,
            durable: combination.durable == Switch::On,
            threads: threads.get(),
            choice: Choice {
                records: self.records,
                skew,
                hot_keys: self.hot_keys,
                seed: self.timed.seed,
            },
            value_bytes: self.value_bytes,
            verify_recovery: self.verify_recovery,
            timed: &timed,
            watch,
        };
        let scratch = place.scratch()?;
        let name = store.store().name();
        let measured = plan.run(name, scratch.path(), &|setting| store.open(setting))?;
        let total = measured.total;
        let namiki = store.namiki();
        Ok(KvRow {
            store: name,
            spec: namiki.map(|it| it.spec.to_string()),
            index: namiki.map(|it| it.index.to_string()),
            streams: namiki.and_then(|it| it.streams).map(NonZeroU16::get),
            workload: workload.name(),
            durable: combination.durable_name(),
            threads: threads.get(),
            records: self.records,
            value_bytes: self.value_bytes,
            skew,
            seconds: total.seconds,
            committed: total.done,
            aborted: total.aborted,
            tps: total.per_second(),
            abort_rate: quotient(total.aborted as f64, (total.done + total.aborted) as f64),
            latency_us: total.latencies.summary(),
            rss_bytes: measured.rss_bytes,
            cpu_us_per_transaction: total.per_operation(measured.cpu_ns as f64 / 1e3),
            isolation: measured.promises.isolation,
            durability: measured.promises.durability,
            seed: self.timed.seed,
            round,
            machine,
        })
    }
}
