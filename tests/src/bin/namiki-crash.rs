//! Runs transactions on a simulated disk and crashes them everywhere; what `cargo xtask crash` runs.
#![expect(clippy::print_stdout, reason = "a command-line program")]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use namiki_tests::crash::{Depth, Kind, Sweep, combinations, round};

/// Crashes runs of transactions at every event, with every kind of loss, and checks what recovers.
#[derive(Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many rounds, each with another seed: every protocol, every layout, every kind of run.
    #[arg(long, default_value_t = 1)]
    rounds: u64,
    /// Transactions of a run.
    #[arg(long, default_value_t = 60)]
    transactions: u64,
    /// Random subsets of what was pending, at each event.
    #[arg(long, default_value_t = Depth::LONG.subsets)]
    subsets: u64,
    /// The probability to go on after a recovery and crash again.
    #[arg(long, default_value_t = Depth::LONG.second)]
    second: f64,
    /// The same for such an image.
    #[arg(long, default_value_t = Depth::LONG.third)]
    third: f64,
    /// Only these protocols: part of their name.
    #[arg(long, default_value = "")]
    spec: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let depth = Depth {
        subsets: arguments.subsets,
        second: arguments.second,
        third: arguments.third,
        ..Depth::LONG
    };
    let began = Instant::now();
    // Odd, so that what goes by the parity of a run's number meets the other layout in the next round.
    let turns = combinations().len() as u64 | 1;
    let mut all = Sweep::default();
    for seed in arguments.seed..arguments.seed + arguments.rounds {
        for (number, combination) in (0..).zip(combinations()) {
            let (spec, shared) = combination;
            if !spec.to_string().contains(&arguments.spec) {
                continue;
            }
            for kind in Kind::ALL {
                let depth = match kind {
                    // Not much of such a run is unlike the others.
                    Kind::FullDisk => Depth {
                        events: depth.events * 0.1,
                        ..depth
                    },
                    _ => depth,
                };
                let of_run = seed.wrapping_mul(turns) + number;
                match round(kind, combination, of_run, arguments.transactions, depth) {
                    Ok(swept) => all += swept,
                    Err(wrong) => {
                        println!("seed {seed}: {wrong}");
                        return ExitCode::FAILURE;
                    }
                }
            }
            let layout = if shared { "one device" } else { "files" };
            println!(
                "seed {seed}, {spec}, {layout}: {} images so far, {} of them second crashes, {} third ones, {} s",
                all.images,
                all.second,
                all.third,
                began.elapsed().as_secs()
            );
        }
    }
    for ((index, keys), images) in &all.by_index {
        println!("{images:9} images of {index}, {keys:?} keys");
    }
    println!("nothing lost, nothing partial: {all:?}");
    ExitCode::SUCCESS
}
