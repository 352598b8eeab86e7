//! Transfers money under every protocol and release rule while views are read, and checks that no
//! view sees part of a transfer. `cargo xtask soak views` runs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use namiki::{Database, ProtocolSpec};
use namiki_platform::disk::DelayedDisk;
use namiki_tests::tested_specs::add_unlogged;
use namiki_tests::transfers_under_views::{Seen, transfer};

/// Transfers money under every protocol and release rule while views are read, and checks that no
/// view sees part of a transfer.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of transfers, divided evenly over all protocols.
    #[arg(long, default_value_t = 10_000_000)]
    transfers: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these protocols: part of their name.
    #[arg(long, default_value = "")]
    spec: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let mut specs = add_unlogged(ProtocolSpec::all_durable());
    specs.retain(|spec| spec.to_string().contains(&arguments.spec));
    if specs.is_empty() {
        return Err(format!("no protocol has `{}` in its name", arguments.spec));
    }
    let each = arguments.transfers.div_ceil(specs.len() as u64);
    let began = Instant::now();
    let mut all = Seen::default();
    for (seed, spec) in (arguments.seed..).zip(specs) {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let builder = Database::builder()
            .spec(spec)
            // The duration of a sync has no influence on the contents of views.
            .disk(Arc::new(DelayedDisk::new(Duration::ZERO)))
            .checkpoint_log_bytes(4 << 20);
        all += transfer(builder, &dir.path().join("data"), seed, each)?;
        println!("{spec}: {all:?} so far, {} s", began.elapsed().as_secs());
    }
    println!("no view has seen a part of a transfer: {all:?}");
    Ok(())
}
