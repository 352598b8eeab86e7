//! `cluster`: transfers on a replicated cluster of real processes, with faults, and a witness for
//! acknowledged commands.
//!
//! | file | content |
//! |---|---|
//! | `shape.rs`, `local_cluster.rs` | the cluster, started and harmed through `namiki-cluster` |
//! | `workload.rs`, `load.rs` | the commands, and the accounts |
//! | `clients.rs`, `run.rs` | the clients, and the run |
//! | `faults.rs`, `fault_context.rs`, `rolling_restart.rs`, `away.rs` | the injected faults |
//! | `harmed_directory.rs`, `payload_frames.rs` | what they do to directories |
//! | `slow_disk.rs`, `small_disk.rs`, `full_disk.rs`, `namespaces.rs` | and to disks and links |
//! | `gaps.rs` | gaps between acknowledgements |
//! | `registers.rs`, `register_client.rs` | the workload `register` |
//! | `history/` | its history, and the check for strict serializability |
//! | `witness.rs` | the required content of the tables |
//! | `cpu_use.rs`, `footprint.rs`, `image_times.rs` | processor time, memory, disk space and images of the nodes |
//! | `start_times.rs` | what a node answers when after a start |
//! | `applier.rs` | the applier alone, without a cluster |
//! | `figure_run.rs` | a run as a point of a figure |
//!
//! Paper: raft-pwal §4

mod applier;
mod away;
mod clients;
mod cpu_use;
mod fault_context;
mod faults;
mod figure_run;
mod footprint;
mod full_disk;
mod gaps;
mod harmed_directory;
mod history;
mod history_check;
mod image_times;
mod load;
mod local_cluster;
mod namespaces;
mod payload_frames;
mod register_client;
mod registers;
mod result_row;
mod rolling_restart;
mod run;
mod shape;
mod slow_disk;
mod small_disk;
mod start_times;
mod system_program;
mod witness;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use namiki_cluster::config::NodeConfig;
use namiki_cluster::transport::City;
use namiki_platform::machine::Machine;

use self::applier::{ApplierRun, Installs, OpenViews};
use self::faults::{Fault, Kind};
pub(crate) use self::figure_run::FigureRun;
use self::local_cluster::LocalCluster;
use self::run::Run;
use self::shape::Shape;
use self::workload::{PlanSizes, Workload};
use crate::args::{self, OutputArgs};
use crate::error::BenchError;
use crate::interrupt;
use crate::repetitions::in_turns;
use crate::result_writer::Report;
use crate::run_folder::Place;

/// Commands that a client of `rows` sends together, unless told otherwise.
const ROWS_BATCH: u32 = 100;
/// Commands of a group for the applier alone, unless told otherwise: the paper's.
const APPLIER_GROUP_SIZE: u32 = 10_000;
/// The node in Tokyo, the paper's leader: from other cities, the distances to a majority differ.
const TOKYO: u64 = 1;

const NOTES: &str = "\
Starts a cluster of processes on this machine, opens accounts, lets clients move money, and at the end reads every
balance from the leader: each acknowledged transfer must be there, once; the sum must be what it was; and all nodes must
hold the same. Exit status 1 if not.

Workloads:
  transfer   the paper's: groups of transfers between accounts that no other group in flight uses
  payment    payers and payees by Zipf's law (--skew) among --accounts, or among few pairs (--hot-pairs)
  single     one row is written in each request, each client its own: many clients, a --batch of 1
  rows       --rows rows of --row-bytes bytes are written, and a tenth of the commands delete; each client its own
  register   --registers rows, each written only by commands that name what it and up to two others hold, in groups of up
             to four; of the operations, --reads only read. All are recorded, with the clients' times, and checked: they
             must be strictly serializable, and with --history FILE they are kept for other checkers

A client sends --batch commands at once (the paper's TxGrp), and the log takes up to --group-size as one entry (LogGrp), of
one client or of many. Each client has --pipeline groups in flight, and each worker --groups-in-flight. With --rate, commands are sent at a pace whether or not
earlier ones are answered (as far as the pipeline goes), and waited for from their time on.

Faults happen every so often while the clients work, and are mended half-way to the next one:
  kill-leader:5s    SIGKILL, and a restart; kill-follower:5s a random other node's
  stop-leader:5s    SIGSTOP, and SIGCONT; stop-follower:5s
  cut-leader:5s     its links are cut, and heal; cut-follower:5s
  break-leader:5s   any of these, by chance, to the leader; mixed:5s to any node
  drop-leader:5s    what the leader sends, or what is sent to it, or both, is dropped: with --namespaces
  lose-follower:60s SIGKILL of a random other node, whose directory is removed; a replacement takes its place
  kill-and-lose:60s kill-leader or lose-follower, by chance
  damage:30s        SIGKILL of a random node, bytes in its directory are damaged (payloads, image, or Raft's log), and a restart:
                    it must heal
  damage-everywhere:30s  SIGKILL of all nodes; on each of them, other payloads are damaged, so that every payload is whole on some
                    node; a start of all: they must heal from one another. frames_damaged counts. Payloads of the last 64 frames
                    of a stream stay whole: damage there cannot be told from a torn write
  put-back:30s      SIGKILL of a random node, an earlier copy takes the place of its directory, and a restart: it must catch up
  grow:30s          a node is added, and removed later
  everything:30s    any of these by chance: kill, stop, cut, lose, damage, put-back, grow. It needs no root, so slow-disk and
                    full-disk are not in it: run them by themselves
  restart-all:5s    SIGKILL of all nodes at once, and a start of all
  rolling-restart:2s  what operators do to change a setting: SIGTERM and a start of one node after the other, each when the one
                    before is whole, the leader last; a round begins every 2 s, or when the one before has ended. rolling_rounds
                    counts. With --rate 200, footprint_mib says whether restarts alone make anything grow
  away:60s          SIGKILL of a random follower, which comes back after 60 s, or when the run ends; again and again. absences has
                    what it missed and how long it took to come back, see below
  slow-disk:5s      the leader's disk takes 20 writes in a second (control groups; needs root)
  full-disk:20s     the last node, which has a small disk of its own, has no room left. It must say that it waits for room, and
                    answer; the others must serve. Then there is room, and it must catch up. waits_for_room counts, unless
                    the run is over before (a mounted file; needs root)

What else a row says (--format json has all of it):
  failover_ms       from the last acknowledgement before a fault to the first after it
  footprint_mib     what the largest node took on the disk and in memory, in each third of the run: what grows from the second
                    to the last will grow on
  directory_ratio   the largest directory without the log's limit, over the bytes of keys and values that are there; the largest
                    value, outside_transfers and in_transfers (while a node copies an image of another one; headings disk/rows
                    and in transfer). 0 if it is within the limit: give --max-log, and rows for some time
  leader_image_seconds, tps_during_images_ratio
                    how long the leader has written images of its tables, and the commands per second in that time over those
                    while no node wrote one; by /metrics, which new clusters have
  absences          of the fault away: commands that the leader has applied in the meantime, seconds; from the start of the
                    process on: votes_ms, stale_read_ms and strong_read_ms, until it follows and answers such reads,
                    has_log_ms, until it follows and its disk has the entries that were committed when it first answered, and
                    back_ms, until it has applied them; image_copy_ms, from the begin of copying another node's image until it takes the place of the
                    tables, by the node's own log, and log_to_copy_ratio and back_to_copy_ratio. Without the last three, the log was
                    enough: give a smaller --max-log. The table has the absence with the most commands

--applier measures the installation of groups alone, in this process, without a cluster: --group-size commands (10000), each of
which changes two 8-byte rows among --accounts, for --seconds. apply is the way of a follower, which looks up every key; locks is
that of the leader: us per group. Each is measured without a view, with one for the whole run, and with views that are opened
anew after every 20 groups.

With --dir, the cluster is in that folder (namiki cluster start --dir), which is kept; one that runs already runs on.

Examples:
  namiki-bench cluster --nodes 5 --workers 1,2,4 --group-size 5000,10000 --seconds 10
  namiki-bench cluster --nodes 5 --wan japan --clients 16
  namiki-bench cluster --nodes 3 --fault kill-leader:5s --seconds 60
  namiki-bench cluster --nodes 5 --workload register --fault mixed:3s --seconds 30 --history run.jsonl
  namiki-bench cluster --nodes 3 --workload single --clients 1000 --pipeline 1
  namiki-bench cluster --workload rows --max-log 1024 --rate 200 --fault rolling-restart:2s --seconds 600
  namiki-bench cluster --workload rows --max-log 256 --fault away:60s --seconds 180
  namiki-bench cluster --applier --accounts 1000000 --repeat 5";

/// Arguments of `cluster`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub(crate) struct ClusterArgs {
    /// Numbers of nodes [default: 3; for this and the flags below, an existing cluster in --dir has
    /// its own]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = RangedU64ValueParser::<u16>::from(1..=9))]
    nodes: Vec<u16>,
    /// Numbers of workers of a node, each with its own log [default: 2]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = RangedU64ValueParser::<u16>::from(1..=64))]
    workers: Vec<u16>,
    /// Maximal number of commands in a group of the log [default: 5000]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = RangedU64ValueParser::<u32>::from(1..=100_000))]
    group_size: Vec<u32>,
    /// Commands that a client sends together [default: as --group-size; 1 with `single`, 100 with `rows`]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::from(1..=100_000))]
    batch: Option<u32>,
    /// Emulated distances between nodes [default: none]
    #[arg(long, value_enum, value_delimiter = ',')]
    wan: Vec<Wan>,
    /// Encrypt and authenticate all connections
    #[arg(long)]
    tls: bool,
    /// The clients' workload
    #[arg(long, value_enum, default_value = "transfer")]
    workload: Workload,
    /// Clients, each with its own session and connection
    #[arg(long, value_name = "N", default_value = "4", value_parser = RangedU64ValueParser::<u32>::from(1..=100_000))]
    clients: u32,
    /// Groups in flight of a client. Those of a worker are set by --groups-in-flight
    #[arg(long, value_name = "N", default_value = "2", value_parser = RangedU64ValueParser::<u32>::from(1..=1024))]
    pipeline: u32,
    /// Commands per second of all clients together [default: as fast as they are answered]
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// Accounts of `payment`
    #[arg(long, value_name = "N", default_value = "100000", value_parser = RangedU64ValueParser::<u64>::from(2..=1 << 31))]
    accounts: u64,
    /// Skew of Zipf's law of `payment`; 0 is uniform
    #[arg(long, value_name = "S", default_value = "0.0", value_parser = args::skew)]
    skew: f64,
    /// Let `payment` use only this many pairs of accounts
    #[arg(long, value_name = "N", default_value = "0", value_parser = RangedU64ValueParser::<u64>::from(0..=1 << 30))]
    hot_pairs: u64,
    /// Rows of `register`
    #[arg(long, value_name = "N", default_value = "32", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 20))]
    registers: u64,
    /// Rows of `rows`
    #[arg(long, value_name = "N", default_value = "100000", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 31))]
    rows: u64,
    /// Length of each, in bytes
    #[arg(long, value_name = "N", default_value = "1000", value_parser = RangedU64ValueParser::<u64>::from(8..=1 << 19))]
    row_bytes: u64,
    /// Fraction of the operations of `register` that only read
    #[arg(long, value_name = "SHARE", default_value = "0.3", value_parser = share)]
    reads: f64,
    /// Write the requests and answers of the clients of `register` to this file, as lines of JSON
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Give each node its own network namespace. Needs root, and the program `ip`
    #[arg(long)]
    namespaces: bool,
    /// Fault and its period: none, kill-leader:5s, stop-leader:5s, cut-leader:5s, and more: see
    /// below
    #[arg(long, value_name = "FAULT", default_value = "none")]
    fault: Fault,
    /// Time for which a follower waits for a leader, in milliseconds [default: 300]
    #[arg(long, value_name = "MS", value_parser = RangedU64ValueParser::<u64>::from(50..=60_000))]
    election_timeout_ms: Option<u64>,
    /// Maximal time for which a command waits for its group to fill, in microseconds [default:
    /// 1000]
    #[arg(long, value_name = "US", value_parser = RangedU64ValueParser::<u64>::from(0..=1_000_000))]
    group_wait_us: Option<u64>,
    /// Groups of a worker in flight to a majority at the same time. With 1, each waits for the one
    /// before, as in the paper [default: 64]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64))]
    groups_in_flight: Option<u32>,
    /// Size limit for the logs of a node, in MiB [default: 65536]
    #[arg(long, value_name = "MIB", value_parser = RangedU64ValueParser::<u64>::from(1..=1 << 24))]
    max_log: Option<u64>,
    /// Length of the timed part, in seconds
    #[arg(long, value_name = "S", default_value = "10", value_parser = args::some_seconds)]
    seconds: Duration,
    /// Seconds to run before the clock starts
    #[arg(long, value_name = "S", default_value = "1", value_parser = args::seconds)]
    warmup: Duration,
    /// Runs of each combination, interleaved; each is one row
    #[arg(long, value_name = "N", default_value = "1", value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64))]
    repeat: u32,
    /// Seed that makes the operations repeatable
    #[arg(long, value_name = "N", default_value = "42")]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
    /// Measure the applier alone, without a cluster: see below
    #[arg(long, conflicts_with_all = ["dir", "nodes", "fault", "workload", "namespaces", "history", "rate"])]
    applier: bool,
    /// Folder of the cluster, which is kept [default: a fresh one, removed at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Emulated distances, by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wan {
    /// None.
    None,
    /// Tokyo, Nagoya, Osaka, Fukuoka, Sapporo.
    Japan,
    /// The same distances, by followers that sleep while they handle a payload: the paper's way to
    /// emulate.
    JapanInHandler,
}

impl Wan {
    fn of(config: &NodeConfig) -> Self {
        match (config.emulate_cities, config.delay_in_handler) {
            (false, _) => Self::None,
            (true, false) => Self::Japan,
            (true, true) => Self::JapanInHandler,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Japan => "japan",
            Self::JapanInHandler => "japan-in-handler",
        }
    }

    /// The required leader at the start of the clients, if it matters: the node in Tokyo, as in the
    /// paper.
    fn leader(self) -> Option<u64> {
        (self != Self::None).then_some(TOKYO)
    }

    /// The round trip from Tokyo to the city that completes a majority, in milliseconds.
    fn floor_ms(self, nodes: u16) -> f64 {
        if self == Self::None {
            return 0.0;
        }
        let others = City::ALL.iter().cycle().take(usize::from(nodes));
        let mut round_trips: Vec<Duration> =
            others.map(|city| 2 * City::Tokyo.delay_to(*city)).collect();
        round_trips.sort_unstable();
        // The leader itself is the first of the majority.
        round_trips[usize::from(nodes) / 2].as_secs_f64() * 1e3
    }
}

/// The given values, or the default without any.
fn or_default<'a, T>(given: &'a [T], default: &'a T) -> &'a [T] {
    if given.is_empty() {
        std::slice::from_ref(default)
    } else {
        given
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number")?;
    if !(rate > 0.0 && rate <= 1e9) {
        return Err("not a number of commands per second".to_owned());
    }
    Ok(rate)
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "not a number")?;
    if !(0.0..=1.0).contains(&share) {
        return Err("not a share from 0 to 1".to_owned());
    }
    Ok(share)
}

/// Runs the command.
pub(crate) fn run(args: &ClusterArgs) -> Result<(), BenchError> {
    if args.applier {
        return args.measure_applier();
    }
    let place = Place::new(args.dir.as_deref())?;
    let machine = Machine::describe(place.path());
    place.note_memory(&machine);
    let default = match &args.dir {
        Some(dir) => LocalCluster::shape(dir)?.unwrap_or_default(),
        None => Shape::default(),
    };
    let shapes = args.shapes(&default);
    if args.dir.is_some() && shapes.len() > 1 {
        return Err(BenchError::Usage(
            "a folder has one cluster: with --dir, name one number of nodes, workers and commands of a group".to_owned(),
        ));
    }
    if args.history.is_some()
        && (args.workload != Workload::Register || shapes.len() > 1 || args.repeat > 1)
    {
        return Err(BenchError::Usage(
            "--history keeps one run of --workload register: the other workloads do not say what they have seen".to_owned(),
        ));
    }
    if args.dir.is_some() && args.fault.kind == Kind::FullDisk {
        return Err(BenchError::Usage(
            "full-disk is for a new cluster, which it gives a disk of its own: leave --dir out"
                .to_owned(),
        ));
    }
    if args.fault.kind == Kind::DropLeader && !args.namespaces {
        return Err(BenchError::Usage(
            "drop-leader drops messages between network namespaces: add --namespaces".to_owned(),
        ));
    }
    if args.namespaces && (args.dir.is_some() || args.wan.iter().any(|wan| *wan != Wan::None)) {
        return Err(BenchError::Usage(
            "--namespaces makes a new cluster, without distances: leave --dir and --wan out"
                .to_owned(),
        ));
    }
    let mut report = Report::new(args.output.format);
    let outcome = in_turns(args.repeat, &shapes, |shape, round| {
        let run = args.one_run(shape, &machine, round);
        let dir = place.for_run()?;
        let row = run.run(dir.path())?;
        report.row(&row)?;
        match row.complaint() {
            None => interrupt::check(),
            Some(complaint) => Err(BenchError::Check(complaint)),
        }
    });
    report.finish()?;
    outcome
}

impl ClusterArgs {
    /// Measures the applier alone.
    fn measure_applier(&self) -> Result<(), BenchError> {
        let machine = Machine::describe(&std::env::temp_dir());
        let mut runs = Vec::new();
        for &group_size in or_default(&self.group_size, &APPLIER_GROUP_SIZE) {
            let run = ApplierRun {
                installs: Installs::Apply,
                views: OpenViews::None,
                group_size,
                accounts: self.accounts,
                length: self.seconds,
                seed: self.seed,
                round: 1,
            };
            runs.extend(run.combinations());
        }
        let mut report = Report::new(self.output.format);
        let outcome = in_turns(self.repeat, &runs, |run, round| {
            let row = ApplierRun { round, ..*run }.run(&machine)?;
            report.row(&row)
        });
        report.finish()?;
        outcome
    }

    /// All combinations of the requested parameters. Others are taken from `default`.
    fn shapes(&self, default: &Shape) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for &wan in or_default(&self.wan, &default.wan) {
            for &nodes in or_default(&self.nodes, &default.nodes) {
                for &workers in or_default(&self.workers, &default.workers) {
                    for &group_size in or_default(&self.group_size, &default.group_size) {
                        shapes.push(Shape {
                            nodes,
                            workers,
                            group_size,
                            group_wait_us: self.group_wait_us.unwrap_or(default.group_wait_us),
                            groups_in_flight: self
                                .groups_in_flight
                                .unwrap_or(default.groups_in_flight),
                            wan,
                            tls: self.tls || default.tls,
                            election_timeout_ms: self
                                .election_timeout_ms
                                .unwrap_or(default.election_timeout_ms),
                            max_log_mib: self.max_log.unwrap_or(default.max_log_mib),
                            namespaces: self.namespaces,
                        });
                    }
                }
            }
        }
        shapes
    }

    fn one_run<'a>(&'a self, shape: &Shape, machine: &'a Machine, round: u32) -> Run<'a> {
        let Shape {
            nodes,
            group_size,
            wan,
            ..
        } = *shape;
        Run {
            shape: shape.clone(),
            workload: self.workload,
            sizes: PlanSizes {
                clients: self.clients,
                pipeline: self.pipeline,
                batch: self.batch.unwrap_or(match self.workload {
                    Workload::Transfer | Workload::Payment | Workload::Register => group_size,
                    Workload::Single => 1,
                    Workload::Rows => ROWS_BATCH,
                }),
                pairs: self.accounts / 2,
                skew: self.skew,
                hot_pairs: self.hot_pairs,
                registers: self.registers,
                rows: self.rows,
                row_bytes: usize::try_from(self.row_bytes).unwrap_or(usize::MAX),
                seed: self.seed,
            },
            reads: self.reads,
            history: self.history.as_deref(),
            fault: self.fault,
            rate: self.rate,
            warmup: self.warmup,
            length: self.seconds,
            floor_ms: wan.floor_ms(nodes),
            leader: wan.leader(),
            machine,
            round,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paper: raft-pwal §4.2
    #[test]
    fn a_commit_waits_for_the_city_that_completes_a_majority() {
        let floors = [1, 3, 5].map(|nodes| Wan::Japan.floor_ms(nodes));
        assert_eq!(floors, [0.0, 8.0, 15.0]);
        assert_eq!(Wan::None.floor_ms(5), 0.0);
    }
}
