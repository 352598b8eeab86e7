//! `compare`: Namiki beside others, doing the same in the same run.

use clap::{Args, Subcommand};

use crate::error::BenchError;
use crate::index::{self, CompareIndexArgs};
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
}

/// Runs the command.
pub(crate) fn run(args: &CompareArgs) -> Result<(), BenchError> {
    match &args.what {
        What::Index(args) => index::compare(args),
        What::Kv(args) => kv::run(args),
    }
}
