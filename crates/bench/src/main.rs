//! `namiki-bench`: measures Namiki and runs the experiments of its papers.
//!
//! One module per command; what they share is in `args` (flags), `device_choice` (which disk;
//! `interruptible_disk`, how its log is started), `run_folder` (which folder), `key_encoding` (what keys look like),
//! `latency`, `worker_threads`, `run_stages`, `repetitions`, `page_cache` (what of files is in memory), `result_writer` (the
//! one writer of results) and `interrupt` (Ctrl-C). No command uses another, save
//! that `log` and `query` measure the bare device as `device` does, `compare_command` has others do what `index` does, or in `kv`
//! what `txn` does, and `figure` has its points run by `txn`, `device` and
//! `query`.

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
    /// Namiki beside others, doing the same in the same run.
    Compare(compare_command::CompareArgs),
    /// What the log alone can take, without concurrency control, beside what its device can.
    Log(log::LogArgs),
    /// How fast a log is recovered, checked against what was written.
    Recover(recover::RecoverArgs),
    /// Updates for a long time under checkpoints: what files and memory the database takes, a line each minute.
    Sustain(sustain::SustainArgs),
    /// How long after a restart the first read and the first write come, and all tables are loaded.
    Restart(restart::RestartArgs),
    /// What rows take in memory, and whether a queue takes more the longer it runs.
    Memory(memory::MemoryArgs),
    /// Queries over tables on disk, beside what their device can do at best.
    Query(query::QueryArgs),
    /// A replicated cluster of processes: transfers per second, failovers, and whether anything acknowledged is lost.
    Cluster(cluster::ClusterArgs),
    /// What the device can take: the limit everything durable is measured against.
    Device(device::DeviceArgs),
    /// An experiment of a paper: its figure, and which of the paper's claims hold here.
    Figure(figure::FigureArgs),
    /// The figures that `figure --list` names, and one page over them.
    Report(figure::ReportArgs),
}

impl Program {
    /// What the command line says. There, `--ops -5` is a bad number, and no unknown flag `-5`.
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
