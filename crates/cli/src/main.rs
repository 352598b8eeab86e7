//! `namiki`: the command around the database.
//!
//! | file | what it is |
//! |---|---|
//! | `demo/` | the demonstration: load, pay, kill, recover, compare with an outside witness |
//! | `backup/` | backs a database up, and restores it |
//! | `check.rs` | verifies a directory without changing it |
//! | `tables/` | lists, reads and writes tables without the program that made them |
//! | `transfer/` | exports tables to files and imports them |
//! | `typed/` | keys and values by the names of their types: what `tables/`, `transfer/` and `dump_log.rs` show |
//! | `interrupt.rs`, `output.rs` | Ctrl-C, and standard output, which it must not find waiting for ever |
//! | `opening.rs` | opens a database, and says how far its recovery is |
//! | `load/` | fills a database with a known data set: TPC-H |
//! | `check_image.rs` | the segments' part of it |
//! | `dump_log.rs` | prints a log, decoded |
//! | `query/` | runs a plan over tables, in segments and in memory |
//! | `read_only_directory.rs` | what both of these look through |
//! | `bench.rs` | starts `namiki-bench` |
//! | `completions.rs` | what a shell needs to complete commands |
//! | `version.rs` | which release and which build this is |
//! | `node/` | a node of a cluster |
//! | `cluster/` | a cluster on this machine: start, look, break, stop |
//!
//! Exit status: 0 if all is well, 1 if something failed or was found wrong, 2 if the command line
//! makes no sense, 130 after Ctrl-C (but for `node` and `cluster status --watch`, which end so).

mod backup;
mod bench;
mod check;
mod check_image;
mod check_runs;
mod cluster;
mod completions;
mod demo;
mod dump_log;
mod failure;
mod input;
mod interrupt;
mod load;
mod lsn_set;
mod node;
mod number_format;
mod opening;
mod output;
mod progress;
mod query;
mod read_only_directory;
mod tables;
mod time_of_day;
mod transfer;
mod typed;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  namiki demo                              see it work: a million accounts, killed and recovered
  namiki demo --dir /data/demo             the same, and keep the database
  namiki check /data/demo                  is everything in this directory as it was written?
  namiki dump-log /data/demo --limit 20    what is in its log?
  namiki tables /data/demo                 which tables does it have?
  namiki scan /data/demo accounts          what is in a table? (get, put, remove: one row)
  namiki export /data/demo --all /backup   all of it as JSON lines; import reads them back
  namiki backup /data/demo /backup/demo    a copy that is a database; again, and only what has changed is copied
  namiki load tpch --dir /data/tpch        fill a database with the tables of TPC-H
  namiki query /data/tpch paper            run the paper's query over them
  namiki bench txn --workload u10          how fast is it here?
  namiki cluster start --nodes 5           a replicated database: five nodes on this machine
  namiki node --config node.toml           a node of a real cluster

Every command explains itself: namiki demo --help";

/// Namiki, a transactional database with parallel write-ahead logs.
#[derive(Parser)]
#[command(name = "namiki", version = version::text(), after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load accounts, run payments, kill the database in mid-flight, recover it, and look whether
    /// anything is missing
    Demo(demo::DemoArguments),
    /// Verify a database directory without changing anything in it
    Check(check::CheckArguments),
    /// Print the frames and commits of a database's log, one a line
    DumpLog(dump_log::DumpLogArguments),
    /// List a database's tables, with the types of their keys and values
    Tables(tables::TablesArguments),
    /// Print the value of a key
    Get(tables::GetArguments),
    /// Print the rows of a table, all or some
    Scan(tables::ScanArguments),
    /// Write the value of a key
    Put(tables::PutArguments),
    /// Remove a key
    Remove(tables::RemoveArguments),
    /// Write a table to a file, or all tables to a folder
    Export(transfer::ExportArguments),
    /// Read tables from files that `export` has written
    Import(transfer::ImportArguments),
    /// Back a closed database up into a directory, incrementally if there is a backup
    Backup(backup::BackupArguments),
    /// Restore a backup into a new directory
    Restore(backup::RestoreArguments),
    /// Fill a database with a known data set, such as TPC-H
    Load(load::LoadArguments),
    /// Run a query over tables
    Query(query::QueryArguments),
    /// Measure: starts the program namiki-bench, which is beside this one or on PATH
    Bench(bench::BenchArguments),
    /// Run a node of a cluster, until it is told to stop
    Node(node::NodeArguments),
    /// Start, watch, break and stop a cluster on this machine
    Cluster(cluster::ClusterArguments),
    /// Print the script with which a shell completes commands and flags
    Completions(completions::CompletionsArguments),
    /// The part of `demo` that is killed.
    #[command(name = demo::VICTIM_COMMAND, hide = true)]
    DemoVictim(demo::VictimArguments),
}

impl Arguments {
    /// What the command line says. There, `--limit -5` is a bad number, and no unknown flag `-5`.
    fn read() -> Self {
        let command = with_negative_numbers(Self::command());
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

/// The command and all below it.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|flag| {
        let takes_values = flag.get_action().takes_values();
        flag.allow_negative_numbers(takes_values)
    });
    command.mut_subcommands(with_negative_numbers)
}

fn main() -> ExitCode {
    let arguments = Arguments::read();
    let done = match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::DumpLog(arguments) => dump_log::run(&arguments),
        Command::Tables(arguments) => tables::run_tables(&arguments),
        Command::Get(arguments) => tables::run_get(&arguments),
        Command::Scan(arguments) => tables::run_scan(&arguments),
        Command::Put(arguments) => tables::run_put(&arguments),
        Command::Remove(arguments) => tables::run_remove(&arguments),
        Command::Export(arguments) => transfer::run_export(&arguments),
        Command::Import(arguments) => transfer::run_import(&arguments),
        Command::Backup(arguments) => backup::run_backup(&arguments),
        Command::Restore(arguments) => backup::run_restore(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Query(arguments) => query::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Node(arguments) => node::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Completions(arguments) => completions::run::<Arguments>(&arguments),
        Command::DemoVictim(arguments) => demo::run_victim(&arguments),
    };
    let done = match done {
        Ok(()) if interrupt::is_unexpected() => Err(Failure::InterruptedAtTheEnd),
        // The reader has gone by the same Ctrl-C.
        Err(Failure::OutputClosed) if interrupt::is_unexpected() => Err(Failure::Interrupted),
        other => other,
    };
    match done {
        // The reader of our output has read enough: `namiki dump-log DIR | head`.
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("namiki: {}", failure.sentence());
            ExitCode::from(failure.exit_status())
        }
    }
}
