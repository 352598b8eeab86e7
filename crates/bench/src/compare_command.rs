//! `compare`: Namiki beside others, doing the same in the same run.

use clap::{Args, Subcommand};

use crate::error::BenchError;
use crate::index::{self, CompareIndexArgs};
use crate::kv::upkeep::{self, CompareUpkeepArgs, KilledWriterArgs};
use crate::kv::{self, CompareKvArgs};

/// What `compare` compares.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Our trees and other indexes: the same operations, in turns.
    Index(CompareIndexArgs),
    /// Namiki and other stores: the same transactions, in turns.
    Kv(CompareKvArgs),
    /// Namiki and other stores: reopening after a kill, room after many updates, a full scan beside writers.
    Upkeep(CompareUpkeepArgs),
    /// What `upkeep` kills: updates records of a store until then, and says how many transactions were durable.
    #[command(hide = true)]
    KilledWriter(KilledWriterArgs),
}

/// Runs the command.
pub(crate) fn run(args: &CompareArgs) -> Result<(), BenchError> {
    match &args.what {
        What::Index(args) => index::compare(args),
        What::Kv(args) => kv::run(args),
        What::Upkeep(args) => upkeep::run(args),
        What::KilledWriter(args) => upkeep::write_until_killed(args),
    }
}
