//! Kills processes that pay, and cuts the power under them, and looks whether anything
//! acknowledged is lost.
//!
//! `namiki-kill [ROUNDS [SEED]]` kills; `namiki-kill power [ROUNDS [SEED]]` cuts the power, for which
//! it needs root.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

use std::process::ExitCode;

use namiki_tests::kill::{Cut, Opening, PowerCut, Witness, Witnessed, pay};

/// After so many rounds, a database has grown enough.
const ROUNDS_PER_DIRECTORY: u64 = 30;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.first().map(String::as_str) {
        Some("pay") => pay(&Opening::parse(&arguments[1..])?),
        Some("power") => rounds(&arguments[1..], true),
        _ => rounds(arguments, false),
    }
}

fn rounds(arguments: &[String], power: bool) -> Result<(), String> {
    let number = |at: usize, default: u64| match arguments.get(at) {
        Some(text) => text
            .parse()
            .map_err(|_| format!("{text:?} is not a number")),
        None => Ok(default),
    };
    let (rounds, seed) = (number(0, 1000)?, number(1, 1)?);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut all = Witnessed::default();
    for directory in 0..rounds.div_ceil(ROUNDS_PER_DIRECTORY) {
        let seed = seed.wrapping_mul(1000) + directory;
        let of_this = ROUNDS_PER_DIRECTORY.min(rounds - directory * ROUNDS_PER_DIRECTORY);
        let disk = power.then(PowerCut::new).transpose()?;
        let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
        let place = disk.as_ref().map_or(temporary.path(), PowerCut::path);
        let mut witness = Witness::new(&program, &place.join("data"), seed);
        for round in 0..of_this {
            let told = |why| format!("seed {seed}, round {round}: {why}");
            match &disk {
                Some(disk) => {
                    witness.round(Cut::Power(disk)).map_err(told)?;
                    disk.restore().map_err(told)?;
                }
                None => witness.round(Cut::Kill).map_err(told)?,
            }
            // Not always: a child that opens a database which nobody has opened since the last
            // kill can be killed while it recovers.
            if round % 2 == 1 || round + 1 == of_this {
                witness.check().map_err(told)?;
            }
        }
        let seen = witness.witnessed();
        all.rounds += seen.rounds;
        all.acknowledged += seen.acknowledged;
        all.in_flight += seen.in_flight;
        all.checked += seen.checked;
        println!("seed {seed}: {all:?}, nothing lost");
    }
    Ok(())
}
