//! Kills processes that make payments, or cuts the power under them, and checks that nothing
//! acknowledged is lost. `cargo xtask kill` runs it.

use clap::{Args, Subcommand};
use namiki_tests::kill::{Cut, Opening, PowerCut, Witness, Witnessed, pay};

/// After this number of rounds a database has grown enough.
const ROUNDS_PER_DIRECTORY: u64 = 30;

/// Kills processes that make payments, or cuts the power under them, and checks that nothing
/// acknowledged is lost.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of processes to kill.
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cut the power of an ext4 file system in a file under the processes; needs root.
    #[arg(long)]
    power: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// The process that is killed.
    #[command(hide = true)]
    Pay {
        /// The arguments that `Opening` produces.
        opening: Vec<String>,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.role {
        Some(Role::Pay { opening }) => Opening::parse(opening).and_then(|opening| pay(&opening)),
        None => rounds(arguments),
    }
}

fn rounds(arguments: &Arguments) -> Result<(), String> {
    let &Arguments {
        rounds,
        seed,
        power,
        ..
    } = arguments;
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
            // Not always: a child can be killed while it recovers only if its database has not been
            // opened since the last kill.
            if round % 2 == 1 || round + 1 == of_this {
                witness.check().map_err(told)?;
            }
        }
        all += witness.witnessed();
        println!("seed {seed}: {all:?}, nothing lost");
    }
    Ok(())
}
