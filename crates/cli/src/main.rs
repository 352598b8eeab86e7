//! `namiki`: the command-line program of the database.
//!
//! | file | contents |
//! |---|---|
//! | `demo/` | the demonstration: load, pay, kill, recover, compare with an outside witness |
//! | `backup/` | backs a database up, and restores it |
//! | `check.rs` | verifies a directory without changing it |
//! | `tables/` | lists, reads and writes tables without the program that made them |
//! | `transfer/` | exports tables to files and imports them |
//! | `typed/` | keys and values by the names of their types: what `tables/`, `transfer/` and `dump_log.rs` show |
//! | `opening.rs` | opens a database, and shows the progress of its recovery |
//! | `load/` | fills a database with a known data set: TPC-H |
//! | `check_segments.rs` | the part of `check` for segments |
//! | `dump_log.rs` | prints a log, decoded |
//! | `query/` | runs a plan over tables, in segments and in memory |
//! | `read_only_directory.rs` | read-only access to a directory, for `check` and `dump-log` |
//! | `companion.rs` | starts `namiki-server`, `namiki-bench` and `namiki-cluster` |
//!
//! Exit status: 0 on success, 1 if something failed or was found wrong, 2 if the command line is
//! invalid, 130 after Ctrl-C (except for `serve`, `node` and `cluster status --watch`, for which Ctrl-C
//! is the normal end).

mod backup;
mod check;
mod check_runs;
mod check_segments;
mod companion;
mod demo;
mod dump_log;
mod failure;
mod input;
mod load;
mod lsn_set;
mod opening;
mod progress;
mod query;
mod read_only_directory;
mod tables;
mod transfer;
mod typed;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};

use namiki::files::FORMAT;
use namiki_terminal::{completions, finish, read_arguments, version};

use crate::companion::{BENCH, CLUSTER, CompanionArguments, SERVER};
use crate::failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static VERSION: LazyLock<String> =
    LazyLock::new(|| version(&format!("reads on-disk format {FORMAT}")));

const EXAMPLES: &str = "\
Examples:
  namiki demo                              see it work: a million accounts, killed and recovered
  namiki demo --dir /data/demo             the same, and keep the database
  namiki check /data/demo                  verify every checksum in this directory
  namiki dump-log /data/demo --limit 20    print the log
  namiki tables /data/demo                 list the tables
  namiki scan /data/demo accounts          print the rows of a table (get, put, remove: one row)
  namiki export /data/demo --all /backup   write all tables as JSON lines; import reads them back
  namiki backup /data/demo /backup/demo    make a copy that is a database; repeat it to copy only changes
  namiki load tpch --dir /data/tpch        fill a database with the tables of TPC-H
  namiki query /data/tpch paper            run the paper's query over them
  namiki serve --dir /data/shop            serve PostgreSQL clients: psql, pgbench, psycopg, SQLAlchemy
  namiki bench txn --workload u10          measure the speed on this machine
  namiki cluster start --nodes 5           start a replicated database: five nodes on this machine
  namiki node --config node.toml           run a node of a real cluster

Every command has its own help: namiki demo --help";

const COMPLETIONS: &str = "\
Examples:
  namiki completions bash > ~/.local/share/bash-completion/completions/namiki
  namiki completions zsh > ~/.zfunc/_namiki        with ~/.zfunc in fpath, before compinit
  namiki completions fish > ~/.config/fish/completions/namiki.fish

namiki-cluster completions does the same for that program.";

/// Namiki, a transactional database with parallel write-ahead logs.
#[derive(Parser)]
#[command(name = "namiki", version = VERSION.as_str(), after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load accounts, run payments, kill the database in mid-flight, recover it, and check that
    /// nothing is missing
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
    /// Back a closed database up into a directory, incrementally if it has a backup already
    Backup(backup::BackupArguments),
    /// Restore a backup into a new directory
    Restore(backup::RestoreArguments),
    /// Fill a database with a known data set, such as TPC-H
    Load(load::LoadArguments),
    /// Run a query over tables
    Query(query::QueryArguments),
    /// Serve a database to PostgreSQL clients until it is stopped: starts the program namiki-server
    Serve(CompanionArguments),
    /// Measure: starts the program namiki-bench, from the folder of this program or from PATH
    Bench(CompanionArguments),
    /// Run a node of a cluster until it is stopped: starts the program namiki-cluster
    Node(CompanionArguments),
    /// Start, watch, break and stop a cluster on this machine: starts the program namiki-cluster
    Cluster(CompanionArguments),
    /// Print the script with which a shell completes commands and flags
    #[command(after_help = COMPLETIONS)]
    Completions(completions::CompletionsArguments),
    /// The part of `demo` that is killed.
    #[command(name = demo::VICTIM_COMMAND, hide = true)]
    DemoVictim(demo::VictimArguments),
}

fn main() -> ExitCode {
    let arguments: Arguments = read_arguments();
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
        Command::Serve(arguments) => SERVER.run(&[], &arguments),
        Command::Bench(arguments) => BENCH.run(&[], &arguments),
        Command::Node(arguments) => CLUSTER.run(&["node"], &arguments),
        Command::Cluster(arguments) => CLUSTER.run(&[], &arguments),
        Command::Completions(arguments) => {
            completions::run::<Arguments>(&arguments).map_err(Into::into)
        }
        Command::DemoVictim(arguments) => demo::run_victim(&arguments),
    };
    finish("namiki", done, Failure::ending)
}
