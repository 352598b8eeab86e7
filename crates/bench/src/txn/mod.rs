//! `txn`: transactions under a protocol.
//!
//! The clock starts after records have been loaded, keys drawn and threads warmed up. After a run,
//! the database is compared with the commits that its threads know of ([`verify`]).
//!
//! Paper: tictoc-pwal §4

mod async_worker;
mod batches;
mod beside;
mod body;
pub(crate) mod expected_sums;
mod figure_point;
pub(crate) mod last_writes;
pub(crate) mod load;
mod lock_waits;
mod precomputed_keys;
pub(crate) mod record_payload;
mod result_row;
#[cfg(test)]
mod serial_test_history;
mod table_sizes;
pub(crate) mod thread_commits;
mod verify;
mod worker;
pub(crate) mod workload;

use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use namiki::{
    Builder, ConflictCounters, Counters, Database, Epoch, Error, Group, IndexKind, LockCounters,
    LogCounters, LogError, Logging, OpenError, ProtocolSpec, WorkerId,
};
use namiki_platform::clock::process_cpu_ns;
use namiki_platform::machine::{Machine, resident_bytes};

use self::batches::{BatchArgs, Batches};
use self::beside::{BesideArgs, BesideRow};
use self::body::{Body, Payments, ReadUpdates, Reads, ReadsThenUpdates, Updates, YcsbOperation};
pub(crate) use self::figure_point::{Point, Setup};
use self::load::Load;
use self::lock_waits::{LockWaits, Waiting};
use self::precomputed_keys::{Cores, Drawn, Numbers, Strings};
use self::record_payload::VALUE_BYTES_MIN;
pub(crate) use self::result_row::TxnRow;
use self::table_sizes::Sizes;
use self::thread_commits::Done;
use self::verify::{Expected, check_count};
use self::worker::Worker;
pub(crate) use self::workload::Workload;
use self::workload::{Choice, HotKeys, RECORDS_MAX, Records, Ring, ring_transactions};
use crate::args::{self, GroupWait, RecordBytes, Sequencer, TimedArgs};
use crate::device_choice::{DeviceChoice, MORE_ROOM, ReadyDisk};
use crate::error::BenchError;
use crate::interrupt;
use crate::key_encoding::{CORE_BYTES, KeySpace, Keys, LooksArgs};
use crate::repetitions::in_turns;
use crate::result_writer::Report;
use crate::run_folder::{Place, RunPlace};
use crate::run_stages::{Total, quotient, staged};

/// A worker checks for the end of the run after this many consecutive conflicts.
const ATTEMPTS: NonZeroU32 = NonZeroU32::new(256).expect("not 0");
/// Upper bound for the queue of commits that wait for their group.
const OUTSTANDING_MAX: u32 = 64 << 10;
/// Sampling interval for transactions in memory, where reading the clock each time would cost too
/// much. Coprime to the usual lengths of pipelines, so that transactions at every position are
/// timed: the first of a pipeline prefetches for all.
const SAMPLE_EVERY_IN_MEMORY: u32 = 61;
/// Sampling interval where a group of commits shares the wait for a device. Coprime to the usual
/// sizes of groups, so that commits at every position of a group are timed.
const SAMPLE_EVERY_IN_GROUPS: u32 = 7;
/// Transactions prefetched ahead by a thread that has received a whole batch.
const PIPELINE_IN_BATCHES: u16 = 16;
/// Initial bytes of log files, of all streams together.
const LOG_FILES_BYTES: u64 = 256 << 20;
const LOG_FILE_BYTES_MIN: u64 = 1 << 20;
const LOG_FILE_BYTES_MAX: u64 = 16 << 20;
/// The longest key. The keys of all threads are created before the clock starts.
const KEY_BYTES_MAX: u64 = 1024;
/// Memory for the keys; longer keys repeat after fewer transactions.
const KEYS_BYTES: u64 = 1 << 30;
/// The longest value that fits into a record.
const VALUE_BYTES_MAX: u16 = 2040;

const NOTES: &str = "\
Workloads, all over one table of --records records chosen by Zipf's law:
  u1 u10        1 or 10 blind updates of random records
  r10           10 reads
  u5r5          5 random records, each read and then updated
  r5u5          5 reads, then 5 blind updates of other random records: under S2PL, locks of both kinds
  ycsb-a -b -c  one operation a transaction: a read, or in 50 %, 5 %, 0 % of them a blind update
  payment       an amount moves between two accounts, unless it would overdraw the first

Protocols: TT, SILO or S2PL, each with (NLR), (ELR) or (EPOCH), and +PWAL(n), +PWAL(auto), +SWAL(n) or +NOLOG; S2PL
also logs operations, with +ARIES behind: for example TT(NLR)+PWAL(1), SILO(ELR)+PWAL(16), TT(EPOCH)+PWAL(auto),
TT(ELR)+SWAL(16), S2PL(NLR)+PWAL(16)+ARIES. With +ARIES(reads), transactions that only read log their begin and end, too,
and are durable when the end is.

Keys of 8 bytes are the numbers of the records, side by side (dense), or numbers anywhere (sparse). In
longer keys those 8 bytes come first and the rest differs too (random-head), or come last after the same
bytes in all (shared-prefix). Whatever they look like, they are made before the clock starts: for all transactions
with --ops, as far as 256 MiB go (67 million keys), else for a million keys of each thread; then they come again.

A thread does not wait for its commit to be durable: it queues it and goes on, as in the paper, and
commits count when they are acknowledged. --outstanding 1 waits for each. With --await, a thread drives tasks that await
theirs, like the executor of an asynchronous runtime: each commits, awaits the acknowledgement and commits again. To see
what awaiting costs beside waiting, run one thread with one task, and one with 16 beside 16 threads:
  --outstanding 1 --streams 1 --threads 1,16 --await 0,1,16 --repeat 15

With --batch, transactions arrive in batches, as from the clients of a server, and a batch is answered when all of it is
durable; latencies are those of batches, from arrival to answer. A thread has --in-flight of them, and receives the next
when it has answered one; or batches arrive at --rate, and what waits for the thread is part of the latency:
  --workload payment --batch 8000 --spec 'S2PL(ELR)+PWAL(4000)' --threads 1,2
  --workload payment --batch 8000 --spec 'S2PL(ELR)+PWAL(4000)' --threads 2 --rate 400000

Otherwise latencies are those of all transactions where each waits for a device of its own; where groups wait,
of one in 7; in memory and on emulated devices, of one in 61.

In JSON, await is the number of tasks of each thread (0: none, it waits itself), and streams that of the log.

In JSON, rows of S2PL say how its transactions waited for locks: wait_policy, lock_waits (for a lock that another
one had), lock_wounds (waiters aborted for an older transaction), lock_promotions (waiters that came first after a long wait),
lock_held_back (transactions that waited for a permit before their first lock), all counted over the run, and lock_wait_us_max, the longest wait since the database was opened.

failed_locks, in JSON, counts the rounds in which a commit did not get all its locks; most are tried again and get them.
abort_rate is of transactions that had to run again; paper_abort_rate takes each failed round for an abort, too, as the
algorithms of tictoc-pwal do. Where reads are locked there are no rounds: see the waits above.

epochs, in JSON, are those that were closed during the run, under every protocol.

rss_bytes is the memory of the whole process, the keys and what earlier runs left to its allocator included; to
compare it, run one combination at a time. table_bytes is the table's own.

Every run is checked: a record that was updated blindly holds the last write of one of those threads that
wrote it, and what was counted or paid is there to the last account. With --verify-recovery, every record
holds after a recovery what it held before.

Examples:
  namiki-bench txn --workload u1 --spec NOLOG --threads 1,2
  namiki-bench txn --workload u10 --spec 'TT(NLR)+PWAL(1)' --spec 'TT(ELR)+PWAL(16)' \\
      --device nvm:50ns --threads 2 --repeat 5
  namiki-bench txn --workload u1,r10 --spec NOLOG --index art,blink,hash --key-space dense,sparse
  namiki-bench txn --workload payment --skew 0.9 --verify-recovery --format json";

/// Arguments of `txn`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct TxnArgs {
    /// u1, u10, r10, u5r5, r5u5, ycsb-a, ycsb-b, ycsb-c, payment; several with commas
    #[arg(long, value_name = "W", value_delimiter = ',', required = true)]
    workload: Vec<Workload>,
    /// Protocol; may be repeated
    #[arg(long, value_name = "SPEC", value_parser = args::spec, default_values_t = [ProtocolSpec::DEFAULT])]
    spec: Vec<ProtocolSpec>,
    /// Index of the table: a tree, hash, or a tree's name followed by +hash; several with commas
    #[arg(long, value_name = "INDEX,…", value_delimiter = ',', default_values_t = [IndexKind::default()])]
    index: Vec<IndexKind>,
    #[command(flatten)]
    device: DeviceChoice,
    /// Numbers of threads, each with its own session and log stream
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = args::threads())]
    threads: Vec<NonZeroU16>,
    /// Records in the table
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = RangedU64ValueParser::<u64>::from(1..=RECORDS_MAX))]
    records: u64,
    /// Bytes of a key
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "8", value_parser = RangedU64ValueParser::<usize>::from(CORE_BYTES as u64..=KEY_BYTES_MAX))]
    key_bytes: Vec<usize>,
    #[command(flatten)]
    looks: LooksArgs,
    /// Bytes of each value
    #[arg(long, value_name = "N", default_value = "8", value_parser = RangedU64ValueParser::<u16>::from(VALUE_BYTES_MIN as u64..=VALUE_BYTES_MAX as u64))]
    value_bytes: u16,
    /// Skew of Zipf's law; 0 is uniform
    #[arg(long, value_name = "S", default_value = "0.0", value_parser = args::skew)]
    skew: f64,
    /// Location of the keys that a skew makes popular: the first keys of the table, adjacent, as in
    /// the papers' testbed, or scattered over it. Without --skew it makes no difference
    #[arg(long, value_enum, value_name = "WHERE", default_value = "adjacent")]
    hot_keys: HotKeys,
    /// Log records: compact, or BEGIN, UPDATEs and END of this many bytes each (the papers' 512)
    #[arg(long, value_name = "compact|BYTES", default_value = "compact")]
    record_format: RecordBytes,
    /// Method of drawing log sequence numbers
    #[arg(long, value_enum, default_value = "fetch-add")]
    sequencer: Sequencer,
    /// Wait policy of S2PL for a lock that another transaction holds: wait, where an older
    /// transaction wounds a younger one that waits, too (wound-wait); or abort immediately
    /// (no-wait). With --skew or few --records, the difference shows the benefit of waiting. The
    /// other protocols ignore this flag
    #[arg(long, value_enum, value_name = "POLICY", default_value = "wound-wait")]
    wait_policy: Waiting,
    /// Maximal time for which a commit waits for its group, in microseconds, or none
    #[arg(long, value_name = "US|none", default_value = "1000")]
    group_wait_us: GroupWait,
    /// Minimal length of an epoch while transactions end, in microseconds [default: the engine's,
    /// 1000]. Under (EPOCH) commits are acknowledged epoch by epoch, and a waiter for one closes it
    /// early
    #[arg(long, value_name = "US", value_parser = RangedU64ValueParser::<u64>::from(1..=u64::MAX))]
    epoch_us: Option<u64>,
    /// Maximal number of commits of a thread that wait for their group [default: 65536; 1 with
    /// PWAL(auto), where waiters form the groups]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64))]
    outstanding: Option<u32>,
    /// Tasks of each thread that await their commits; with 0, the thread itself waits. Several with
    /// commas run interleaved
    #[arg(long = "await", value_name = "N,…", value_delimiter = ',', default_value = "0", value_parser = RangedU64ValueParser::<u16>::from(0..=1024))]
    tasks: Vec<u16>,
    /// Log streams [default: one for each thread]
    #[arg(long, value_name = "N", value_parser = args::threads())]
    streams: Option<NonZeroU16>,
    /// Transactions that a thread receives before it runs the first of them, as a server may: it
    /// prefetches the records of all of them. With 1, it knows only the current one [default: 1;
    /// with --batch, 16]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u16>::from(1..=1024))]
    pipeline: Option<u16>,
    #[command(flatten)]
    batches: BatchArgs,
    #[command(flatten)]
    beside: BesideArgs,
    /// Reopen the database after each run and check the recovered records
    #[arg(long)]
    verify_recovery: bool,
    /// Folder for the database; it is kept, and a database in it is recovered and continued
    /// [default: a fresh one for each run in the system's temporary folder, for nvm in /dev/shm,
    /// removed at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    timed: TimedArgs,
}

/// One combination of the requested parameters.
#[derive(Clone, Copy, Debug)]
struct Combination {
    workload: Workload,
    spec: ProtocolSpec,
    threads: NonZeroU16,
    /// Tasks of each thread; 0: the thread itself waits.
    tasks: u16,
    keys: Keys,
    index: IndexKind,
}

/// Runs the command.
pub(crate) fn run(args: &TxnArgs) -> Result<(), BenchError> {
    args.check()?;
    let place = Place::for_device(args.dir.as_deref(), &args.device.device)?;
    let machine = Machine::describe(place.path());
    let combinations = args.combinations();
    let mut report = Report::new(args.timed.output.format);
    let outcome = in_turns(args.timed.repeat, &combinations, |combination, round| {
        report.row(&args.run_at(*combination, &place, &machine, round)?)
    });
    report.finish()?;
    outcome
}

impl TxnArgs {
    /// All combinations of the parameters that may have several values.
    fn combinations(&self) -> Vec<Combination> {
        let mut all = Vec::new();
        for &workload in &self.workload {
            for &threads in &self.threads {
                for keys in self.looks.keys(self.records, &self.key_bytes) {
                    for &index in &self.index {
                        for &spec in &self.spec {
                            all.extend(self.tasks.iter().map(|&tasks| Combination {
                                workload,
                                spec,
                                threads,
                                tasks,
                                keys,
                                index,
                            }));
                        }
                    }
                }
            }
        }
        all
    }

    fn check(&self) -> Result<(), BenchError> {
        for workload in &self.workload {
            if self.records < workload.records_min() {
                return Err(BenchError::Usage(format!(
                    "--workload {workload} needs at least {} records",
                    workload.records_min()
                )));
            }
        }
        if self.dir.is_some() && !self.device.device.keeps() {
            return Err(BenchError::Usage(format!(
                "--dir: --device {} keeps nothing that a later run could continue",
                self.device.device
            )));
        }
        if self.verify_recovery {
            if !self.device.device.keeps() {
                return Err(BenchError::Usage(format!(
                    "--verify-recovery: --device {} keeps nothing that could be recovered",
                    self.device.device
                )));
            }
            if let Some(spec) = self.spec.iter().find(|spec| spec.logging == Logging::None) {
                return Err(BenchError::Usage(format!(
                    "--verify-recovery: --spec {spec} logs nothing that could be recovered"
                )));
            }
        }
        Ok(())
    }

    /// Adds the responsible flag to a failure that another command line would avoid.
    fn advise(&self, error: BenchError) -> BenchError {
        let advice = match &error {
            BenchError::Open(OpenError::StartLog {
                source: LogError::InvalidConfig { .. } | LogError::DeviceTooSmall { .. },
                ..
            })
            | BenchError::Transaction(Error::DiskFull(LogError::RegionFull { .. })) => {
                format!("{MORE_ROOM} --threads")
            }
            // Each region is too short for a log buffer.
            BenchError::Open(OpenError::Settings(why)) if why.starts_with("region_bytes") => {
                format!("{MORE_ROOM} --threads")
            }
            BenchError::Transaction(Error::TransactionTooLarge { .. }) => {
                "lower --record-format".to_owned()
            }
            _ => return error,
        };
        BenchError::Usage(format!("{}; {advice}", error.with_causes()))
    }

    /// One run in its own folder and on its own disk, loaded before and checked after.
    fn run_at<'a>(
        &self,
        combination: Combination,
        place: &Place,
        machine: &'a Machine,
        round: u32,
    ) -> Result<TxnRow<'a>, BenchError> {
        let place = place.for_run()?;
        let streams = self.streams(combination).get();
        let disk = self.device.open(place.path(), streams, place.is_fresh())?;
        self.run_one(combination, &place, &disk, machine, round)
            .map_err(|error| self.advise(disk.disk.explain(error)))
    }

    fn run_one<'a>(
        &self,
        combination: Combination,
        place: &RunPlace,
        disk: &ReadyDisk,
        machine: &'a Machine,
        round: u32,
    ) -> Result<TxnRow<'a>, BenchError> {
        match (combination.keys.bytes, combination.keys.space) {
            (CORE_BYTES, KeySpace::Dense) => {
                self.run_with::<Numbers>(combination, place, disk, machine, round)
            }
            (CORE_BYTES, KeySpace::Sparse) => {
                self.run_with::<Cores>(combination, place, disk, machine, round)
            }
            _ => self.run_with::<Strings>(combination, place, disk, machine, round),
        }
    }

    fn run_with<'a, D: Drawn>(
        &self,
        combination: Combination,
        place: &RunPlace,
        disk: &ReadyDisk,
        machine: &'a Machine,
        round: u32,
    ) -> Result<TxnRow<'a>, BenchError> {
        let Combination {
            workload,
            keys,
            index,
            ..
        } = combination;
        let builder = self.builder(combination, disk);
        let db = builder.clone().open(place.path())?;
        if !place.is_fresh() {
            let sizes = Sizes {
                records: self.records,
                value_bytes: self.value_bytes,
            };
            sizes.check(&db, &workload.table(&keys))?;
        }
        let table = self.table::<D>(&db, combination)?;
        let load = Load {
            workload,
            keys,
            value_bytes: self.value_bytes,
            record_format: self.record_format.0,
        };
        let baseline = load.run(&db, &table, place.is_fresh())?;
        let measured = self.measure_workload::<D>(Loaded {
            combination,
            disk,
            db: &db,
            table: &table,
            next_number: baseline.next_number(),
        })?;
        let expected = Expected {
            workload,
            keys,
            value_bytes: self.value_bytes,
            index,
            baseline: &baseline,
            threads: &measured.threads,
        };
        let found = expected.check(&db, &table)?;
        db.close()?;
        if self.verify_recovery && !interrupt::asked() {
            drop((db, table));
            match builder.open(place.path()) {
                // The measured results still have to be printed.
                Err(OpenError::Interrupted) => eprintln!("the recovery was not verified"),
                opened => {
                    let db = opened?;
                    let table = self.table::<D>(&db, combination)?;
                    expected.check_recovered(&db, &table, &found)?;
                    db.close()?;
                }
            }
        }
        Ok(self.row(combination, disk, measured, machine, round))
    }

    fn row<'a>(
        &self,
        combination: Combination,
        disk: &ReadyDisk,
        measured: Measured,
        machine: &'a Machine,
        round: u32,
    ) -> TxnRow<'a> {
        let Combination {
            workload,
            spec,
            threads,
            tasks,
            keys,
            index,
        } = combination;
        let Measured {
            beside,
            total,
            before,
            after,
            ..
        } = measured;
        let waits = LockWaits::between(spec, self.wait_policy, &before.locks, &after.locks);
        let failed_locks = after.failed_locks - before.failed_locks;
        let logs = spec.logging != Logging::None;
        let counts = logs && self.sequencer == Sequencer::Cas;
        let batches = self.batches.batches();
        TxnRow {
            workload: workload.to_string(),
            spec: spec.to_string(),
            index: index.to_string(),
            device: self.device.device.to_string(),
            threads: threads.get(),
            tasks,
            streams: self.streams(combination).get(),
            records: self.records,
            value_bytes: self.value_bytes,
            skew: self.skew,
            hot_keys: self.hot_keys.name(),
            pipeline: self.pipeline(),
            batch: batches.map(|batches| batches.size),
            in_flight: batches.and_then(Batches::in_flight),
            rate: batches.and_then(Batches::rate),
            beside,
            key_bytes: keys.bytes,
            key_space: keys.space.name(),
            key_layout: keys.layout.name(),
            seconds: total.seconds,
            committed: total.done,
            aborted: total.aborted,
            met_locks: met_locks(&after.conflicts) - met_locks(&before.conflicts),
            met_changes: met_changes(&after.conflicts) - met_changes(&before.conflicts),
            failed_locks,
            waits,
            tps: total.per_second(),
            refused: (workload == Workload::Payment).then(|| after.read_only - before.read_only),
            abort_rate: quotient(total.aborted as f64, (total.done + total.aborted) as f64),
            paper_abort_rate: paper_abort_rate(
                total.done,
                total.aborted,
                failed_locks,
                after.conflicts.write_locked - before.conflicts.write_locked,
            ),
            latency_us: total.latencies.summary(),
            flushes: logs.then(|| after.log.flushes - before.log.flushes),
            submitted: logs.then(|| after.log.submitted - before.log.submitted),
            wal_bytes: logs.then(|| after.log.frame_bytes - before.log.frame_bytes),
            epochs: after.epoch.0 - before.epoch.0,
            cas_misses: counts.then(|| after.log.cas_misses - before.log.cas_misses),
            rss_bytes: after.rss_bytes,
            table_bytes: after.table_bytes,
            cpu_us_per_transaction: total
                .per_operation((after.cpu_ns - before.cpu_ns) as f64 / 1e3),
            pause_ns: disk.pause_ns,
            record_bytes: self.record_format,
            sequencer: self.sequencer.name(),
            seed: self.timed.seed,
            round,
            machine,
        }
    }

    fn streams(&self, combination: Combination) -> NonZeroU16 {
        self.streams.unwrap_or(combination.threads)
    }

    fn builder(&self, combination: Combination, disk: &ReadyDisk) -> Builder {
        let builder = Database::builder()
            .spec(combination.spec)
            .index(combination.index)
            .streams(self.streams(combination))
            .group_wait_max(self.group_wait_us.0)
            .record_format(self.record_format.0)
            .sequencer(self.sequencer.kind())
            .log_file_bytes(log_file_bytes(self.streams(combination)))
            .interrupt(interrupt::flag())
            .wait_policy(self.wait_policy.policy())
            .attempts_max(ATTEMPTS);
        let builder = match self.epoch_us {
            Some(length) => builder.epoch_length(Duration::from_micros(length)),
            None => builder,
        };
        disk.apply(builder)
    }

    fn table<D: Drawn>(
        &self,
        db: &Database,
        combination: Combination,
    ) -> Result<Records<D::Key>, BenchError> {
        let name = combination.workload.table(&combination.keys);
        Ok(db.table_with_room(&name, usize::from(self.value_bytes))?)
    }

    fn pipeline(&self) -> u16 {
        let default = match self.batches.batches() {
            Some(_) => PIPELINE_IN_BATCHES,
            None => 1,
        };
        self.pipeline.unwrap_or(default)
    }

    fn outstanding_max(&self, spec: ProtocolSpec) -> usize {
        let default = match spec.logging {
            Logging::None => return 0,
            Logging::Log {
                group: Group::Auto, ..
            } => 1,
            Logging::Log { .. } => OUTSTANDING_MAX,
        };
        self.outstanding.unwrap_or(default) as usize
    }

    /// The sampling interval: one in this many transactions is timed.
    fn sample_every(&self, spec: ProtocolSpec) -> u32 {
        match spec.logging {
            Logging::Log { .. } if !self.device.device.is_slow() => SAMPLE_EVERY_IN_MEMORY,
            Logging::Log {
                group: Group::Count(n),
                ..
            } if n.get() > 1 && self.outstanding_max(spec) > 1 => SAMPLE_EVERY_IN_GROUPS,
            Logging::Log { .. } => 1,
            Logging::None => SAMPLE_EVERY_IN_MEMORY,
        }
    }

    fn measure_workload<D: Drawn>(&self, loaded: Loaded<'_, D>) -> Result<Measured, BenchError> {
        let value_bytes = self.value_bytes;
        match loaded.combination.workload {
            Workload::Update(_) => self.measure(loaded, Updates { value_bytes }),
            Workload::Read(_) => self.measure(loaded, Reads),
            Workload::ReadUpdate(_) => self.measure(loaded, ReadUpdates),
            Workload::ReadsThenUpdates(reads) => {
                let body = ReadsThenUpdates { reads, value_bytes };
                self.measure(loaded, body)
            }
            Workload::Ycsb(_) => self.measure(loaded, YcsbOperation { value_bytes }),
            Workload::Payment => self.measure(loaded, Payments),
        }
    }

    /// Runs the threads through the warm-up and the timed stage.
    fn measure<D: Drawn, B: Body + Sync>(
        &self,
        loaded: Loaded<'_, D>,
        body: B,
    ) -> Result<Measured, BenchError> {
        let Loaded {
            combination,
            disk,
            db,
            table,
            ..
        } = loaded;
        let counted = |counters: Counters| counters.committed + counters.read_only;
        let before = counted(db.counters());
        let run = || {
            staged(
                usize::from(combination.threads.get()),
                &self.timed,
                &format!("{} {}", combination.workload, combination.spec),
                |thread| self.worker(&loaded, thread),
                |worker, length, stages| match (self.batches.batches(), combination.tasks) {
                    (Some(batches), _) => worker.stage_in_batches(body, batches, length, stages),
                    (None, 0) => worker.stage(body, length, stages),
                    (None, tasks) => worker.stage_awaiting(body, tasks, length, stages),
                },
                || {
                    disk.disk.started();
                    Look::now(db, table)
                },
            )
        };
        let (run, beside) = self.beside.run(db, run)?;
        let threads: Vec<Done> = run.workers.into_iter().map(|worker| worker.done).collect();
        let committed: u64 = threads.iter().map(Done::committed).sum();
        let besides = beside.map_or(0, |beside| beside.commits());
        check_count(counted(db.counters()) - before, committed + besides)?;
        Ok(Measured {
            beside,
            total: run.total,
            before: run.before,
            after: run.after,
            threads,
        })
    }

    fn worker<'a, D: Drawn>(
        &self,
        loaded: &Loaded<'a, D>,
        thread: usize,
    ) -> Result<Worker<'a, D>, BenchError> {
        // Drawing the keys of many threads takes a while.
        interrupt::check()?;
        let combination = loaded.combination;
        let threads = combination.threads.get().into();
        let choice = Choice {
            records: self.records,
            skew: self.skew,
            hot_keys: self.hot_keys,
            seed: self.timed.seed,
        };
        let workload = combination.workload;
        let bytes = (combination.keys.bytes * workload.keys() * threads) as u64;
        let transactions = ring_transactions(workload, threads, self.timed.ops);
        let ring = Ring::new(
            workload,
            choice,
            thread,
            transactions.min(KEYS_BYTES / bytes),
        );
        Ok(Worker {
            threads,
            db: loaded.db,
            // The number of threads comes from a u16.
            session: loaded.db.session_on(WorkerId(thread as u16))?,
            records: loaded.table,
            drawn: D::new(&ring, &combination.keys),
            done: Done::new(workload, thread, ring, loaded.next_number),
            outstanding_max: self.outstanding_max(combination.spec),
            pipeline: self.pipeline().into(),
            sample_every: self.sample_every(combination.spec),
        })
    }
}

/// The length of a log file. Each stream's file is filled with zeros at the start, so the total for
/// which the start can wait is divided among the streams.
fn log_file_bytes(streams: NonZeroU16) -> u64 {
    let share = LOG_FILES_BYTES / u64::from(streams.get());
    let whole = share / LOG_FILE_BYTES_MIN * LOG_FILE_BYTES_MIN;
    whole.clamp(LOG_FILE_BYTES_MIN, LOG_FILE_BYTES_MAX)
}

/// The counters read before and after the timed stage.
struct Look {
    log: LogCounters,
    read_only: u64,
    conflicts: ConflictCounters,
    failed_locks: u64,
    locks: LockCounters,
    epoch: Epoch,
    cpu_ns: u64,
    rss_bytes: u64,
    table_bytes: u64,
}

impl Look {
    fn now<K: ?Sized>(db: &Database, table: &Records<K>) -> Result<Self, BenchError> {
        let counters = db.counters();
        Ok(Self {
            log: counters.log,
            read_only: counters.read_only,
            conflicts: counters.conflicts_by_kind,
            failed_locks: counters.failed_locks,
            locks: counters.locks,
            epoch: counters.epoch,
            cpu_ns: process_cpu_ns().map_err(BenchError::system("ask for processor time"))?,
            rss_bytes: resident_bytes().map_err(BenchError::system("ask for memory in use"))?,
            table_bytes: table.memory_bytes() as u64,
        })
    }
}

fn met_locks(conflicts: &ConflictCounters) -> u64 {
    conflicts.write_locked + conflicts.read_locked + conflicts.wounded
}

/// The abort rate in the papers' terms: each failed round of locking is an abort and an attempt of
/// its own. The last failed round of a commit that gave up is already counted as its abort
/// (`write_locked`).
fn paper_abort_rate(
    committed: u64,
    aborted: u64,
    failed_locks: u64,
    write_locked: u64,
) -> Option<f64> {
    let aborts = aborted + failed_locks.saturating_sub(write_locked);
    quotient(aborts as f64, (committed + aborts) as f64)
}

fn met_changes(conflicts: &ConflictCounters) -> u64 {
    conflicts.read_changed + conflicts.phantom
}

/// A database that is ready for a run.
struct Loaded<'a, D: Drawn> {
    combination: Combination,
    disk: &'a ReadyDisk,
    db: &'a Database,
    table: &'a Records<D::Key>,
    /// The first transaction number of each thread.
    next_number: u64,
}

/// The results of a run.
struct Measured {
    beside: Option<BesideRow>,
    total: Total,
    before: Look,
    after: Look,
    /// The transactions of each thread, warm-up included.
    threads: Vec<Done>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_says_of_how_many_transactions_latencies_are() {
        for every in [SAMPLE_EVERY_IN_GROUPS, SAMPLE_EVERY_IN_MEMORY] {
            let said =
                [",", ";", "."].map(|end| NOTES.contains(&format!("of one in {every}{end}")));
            assert!(said.contains(&true), "one in {every}");
        }
    }

    #[test]
    fn each_failed_lock_is_one_abort_of_the_papers() {
        assert_eq!(paper_abort_rate(0, 0, 0, 0), None);
        assert_eq!(paper_abort_rate(100, 0, 0, 0), Some(0.0));
        assert_eq!(paper_abort_rate(50, 50, 0, 0), Some(0.5));
        // Retried with success.
        assert_eq!(paper_abort_rate(60, 0, 40, 0), Some(0.4));
        // Two gave up after 17 rounds each.
        assert_eq!(paper_abort_rate(66, 2, 34, 2), Some(0.34));
        // Under locked reads, rounds are not counted.
        assert_eq!(paper_abort_rate(50, 50, 0, 50), Some(0.5));
    }

    #[test]
    fn log_files_share_what_one_can_wait_for() {
        for (streams, mib) in [(1, 16), (16, 16), (17, 15), (100, 2), (256, 1), (1024, 1)] {
            let streams = NonZeroU16::new(streams).unwrap();
            assert_eq!(log_file_bytes(streams), mib << 20, "{streams}");
        }
    }
}
