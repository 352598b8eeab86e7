//! `namiki-bench`: measures Namiki and runs the experiments of its papers.
//!
//! Each command has its module. Shared modules are `args` (flags), `device_choice` (the disk;
//! `interruptible_disk` for the start of its log), `run_folder` (the folder), `key_encoding` (the
//! shapes of keys), `latency`, `worker_threads`, `run_stages`, `repetitions`, `page_cache` (the
//! cached part of files), `result_writer` (the one writer of results) and `interrupt` (Ctrl-C).
//! Commands do not use each other, with these exceptions: `log` and `query` measure the bare device
//! as `device` does; `compare_command` runs the workloads of `index` and, in `kv`, of `txn` on
//! other systems; `figure` runs its points by `txn`, `device` and `query`.

mod args;
mod cluster;
mod compare_command;
mod device;
mod device_choice;
mod error;
mod figure;
mod index;
mod interrupt;
mod interruptible_disk;
mod key_encoding;
mod kv;
mod latency;
mod log;
mod memory;
mod page_cache;
mod query;
mod recover;
mod repetitions;
mod restart;
mod result_writer;
mod run_folder;
mod run_stages;
mod sustain;
mod txn;
mod worker_threads;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Namiki and runs the experiments of its papers.
#[derive(Parser)]
#[command(name = "namiki-bench", version, after_help = EXAMPLES)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Every run checks its own work: exit status 1 means that a run or its check failed, 2 that the
command line makes no sense, 130 that Ctrl-C ended it (rows up to then are printed).

Examples:
  namiki-bench txn --workload u10 --spec 'TT(NLR)+PWAL(1)' --spec 'TT(ELR)+PWAL(16)' --repeat 5
  namiki-bench txn --workload u1,r10 --spec NOLOG --threads 1,2 --format json
  namiki-bench index --tree all --mix read=50,write=50 --threads 1,2 --repeat 5
  namiki-bench device --bytes 512,8192 --writers 1,2,4 --mode direct
  namiki-bench log --streams 1,4,16 --layout parallel --group 16
  namiki-bench recover --log-mb 256 --threads 1,2
  namiki-bench sustain --dir /data --log-gb 50
  namiki-bench restart --records 1000000 --updates 500000 --repeat 3
  namiki-bench query --dir /data/tpch --tasks 1,16,64,256 --threads 1,2
  namiki-bench cluster --nodes 5 --workers 1,2,4 --fault kill-leader:5s
  namiki-bench compare kv --stores namiki,floor --workload u1 --threads 1,16 --repeat 5
  namiki-bench figure tictoc-pwal 7 --out figures
  namiki-bench report --out figures --repeat 5";

#[derive(Subcommand)]
enum Command {
    /// Transactions per second, aborts and latency of a protocol under a workload.
    Txn(txn::TxnArgs),
    /// Operations per second and latencies of the trees: the benchmark of the Bw-tree's paper.
    Index(index::IndexArgs),
    /// Namiki and other systems under the same workload in the same run.
    Compare(compare_command::CompareArgs),
    /// The rate of the log alone, without concurrency control, and that of its device.
    Log(log::LogArgs),
    /// The speed of recovery, with the result checked against the writes.
    Recover(recover::RecoverArgs),
    /// A long run of updates under checkpoints: disk space and memory of the database, a line each
    /// minute.
    Sustain(sustain::SustainArgs),
    /// The time from a restart to the first read, to the first write, and until all tables are
    /// loaded.
    Restart(restart::RestartArgs),
    /// Memory per row, and whether a queue's memory grows over time.
    Memory(memory::MemoryArgs),
    /// Queries over tables on disk, and the limit of their device.
    Query(query::QueryArgs),
    /// A replicated cluster of processes: transfers per second, failovers, and a check for lost
    /// acknowledged writes.
    Cluster(cluster::ClusterArgs),
    /// The rates of the device: the limit for everything durable.
    Device(device::DeviceArgs),
    /// An experiment of a paper: its figure, and which of the paper's claims hold here.
    Figure(figure::FigureArgs),
    /// The figures of `figure --list`, and one page over them.
    Report(figure::ReportArgs),
    /// How many points of a report lie where an earlier one expected them.
    Agreement(figure::AgreementArgs),
}

impl Program {
    /// Parses the command line. In it, `--ops -5` is a bad number and not an unknown flag `-5`.
    fn read() -> Self {
        fn with_negative_numbers(command: clap::Command) -> clap::Command {
            let command = command.mut_args(|flag| {
                let takes_values = flag.get_action().takes_values();
                flag.allow_negative_numbers(takes_values)
            });
            command.mut_subcommands(with_negative_numbers)
        }
        let command = with_negative_numbers(Self::command());
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

fn main() -> ExitCode {
    let program = Program::read();
    let result = interrupt::install().and_then(|()| match program.command {
        Command::Txn(args) => txn::run(&args),
        Command::Index(args) => index::run(&args),
        Command::Compare(args) => compare_command::run(&args),
        Command::Log(args) => log::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Sustain(args) => sustain::run(&args),
        Command::Restart(args) => restart::run(&args),
        Command::Memory(args) => memory::run(&args),
        Command::Query(args) => query::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Device(args) => device::run(&args),
        Command::Figure(args) => figure::run(&args),
        Command::Report(args) => figure::report(&args),
        Command::Agreement(args) => figure::agreement(&args),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_reader_gone() {
                eprintln!("error: {}", error.with_causes());
            }
            ExitCode::from(error.exit_status())
        }
    }
}
