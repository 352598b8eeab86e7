//! The command `completions`: prints the script with which a shell completes a program's commands
//! and flags.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{CommandFailure, print};

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for a shell that completes the commands of the program `P`.
///
/// # Errors
/// If it cannot be written.
pub fn run<P: CommandFactory>(arguments: &CompletionsArguments) -> Result<(), CommandFailure> {
    let mut program = P::command();
    let (name, mut script) = (program.get_name().to_owned(), Vec::new());
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}
