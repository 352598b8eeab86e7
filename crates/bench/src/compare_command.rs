//! `compare`: Namiki and other systems under the same workload in the same run.

use clap::{Args, Subcommand};

use crate::error::BenchError;
use crate::index::{self, CompareIndexArgs};
use crate::kv::upkeep::{self, CompareUpkeepArgs, KilledWriterArgs};
use crate::kv::{self, CompareKvArgs};

/// The subjects of `compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Our trees and other indexes: the same operations, interleaved.
    Index(CompareIndexArgs),
    /// Namiki and other stores: the same transactions, interleaved.
    Kv(CompareKvArgs),
    /// Namiki and other stores: reopening after a kill, space after many updates, a full scan with
    /// concurrent writers.
    Upkeep(CompareUpkeepArgs),
    /// The process that `upkeep` kills: updates records of a store and reports the number of
    /// durable transactions.
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
