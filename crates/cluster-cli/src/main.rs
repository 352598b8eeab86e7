//! `namiki-cluster`: runs a node of a cluster, and clusters on this machine for trials.
//! `namiki node` and `namiki cluster` start it. It is a separate program, as a database alone needs
//! none of its dependencies.
//!
//! | file | contents |
//! |---|---|
//! | `node/` | a node, in the foreground |
//! | `cluster_command.rs` | the commands for a cluster |
//! | `chosen_cluster.rs` | the cluster that a command is for |
//! | `local/` | a cluster on this machine: start, break, stop |
//! | `sessions.rs` | the sessions of clients |
//! | `status/` | the state of a cluster, here or elsewhere |
//! | `members/` | members that join, leave, move, and replace lost ones |
//! | `backup.rs` | a copy of a node's tables |
//! | `certificates.rs` | certificates for any cluster |
//! | `verify.rs` | whether its nodes have the same rows |
//! | `failure.rs` | failures of commands |

mod backup;
mod certificates;
mod chosen_cluster;
mod cluster_command;
mod failure;
mod local;
mod members;
mod node;
mod sessions;
mod status;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};
use namiki_terminal::{completions, finish, read_arguments, version};

use crate::cluster_command::ClusterCommand;
use crate::failure::{Failure, usage};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static VERSION: LazyLock<String> = LazyLock::new(|| version(""));

/// A database replicated under Raft: its nodes, and clusters on this machine.
#[derive(Parser)]
#[command(name = "namiki-cluster", version = VERSION.as_str(), after_help = cluster_command::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// The folder of the cluster on this machine [default: namiki-cluster]
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Run a node of a cluster until it is stopped
    Node(node::NodeArguments),
    #[command(flatten)]
    Cluster(ClusterCommand),
    /// Print the script with which a shell completes commands and flags
    Completions(completions::CompletionsArguments),
}

fn main() -> ExitCode {
    finish("namiki-cluster", run(read_arguments()), Failure::ending)
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { command, dir } = arguments;
    match command {
        Command::Node(_) if dir.is_some() => Err(usage(
            "a node takes no --dir: its directory is in its configuration, which --config names",
        )),
        Command::Node(arguments) => node::run(&arguments),
        Command::Cluster(command) => {
            let dir = dir.unwrap_or_else(|| PathBuf::from(cluster_command::DEFAULT_DIR));
            cluster_command::run(&command, &dir)
        }
        Command::Completions(arguments) => Ok(completions::run::<Arguments>(&arguments)?),
    }
}
