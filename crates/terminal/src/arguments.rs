//! Parsing of the command line.

use clap::Parser;

/// Parses the command line, and ends the program if it is invalid. `--limit -5` is reported as a
/// bad number, not as an unknown flag `-5`.
#[must_use]
pub fn read_arguments<P: Parser>() -> P {
    let command = with_negative_numbers(P::command());
    P::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}

/// The command and all below it.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|flag| {
        let takes_values = flag.get_action().takes_values();
        flag.allow_negative_numbers(takes_values)
    });
    command.mut_subcommands(with_negative_numbers)
}
