//! The long forms of the suites, and the processes that the suites start; `cargo xtask` runs them.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

mod crash;
mod fixture;
mod kill;
mod sim;
mod views;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs the suites for as long as requested.
#[derive(Parser)]
#[command(name = "namiki-harness")]
struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    Crash(crash::Arguments),
    Fixture(fixture::Arguments),
    Kill(kill::Arguments),
    Sim(sim::Arguments),
    Views(views::Arguments),
}

fn main() -> ExitCode {
    let done = match &Arguments::parse().suite {
        Suite::Crash(arguments) => crash::run(arguments),
        Suite::Fixture(arguments) => fixture::run(arguments),
        Suite::Kill(arguments) => kill::run(arguments),
        Suite::Sim(arguments) => sim::run(arguments),
        Suite::Views(arguments) => views::run(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
