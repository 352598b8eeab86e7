//! `namiki completions`: what a shell needs to complete commands and flags.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  namiki completions bash > ~/.local/share/bash-completion/completions/namiki
  namiki completions zsh > ~/.zfunc/_namiki        with ~/.zfunc in fpath, before compinit
  namiki completions fish > ~/.config/fish/completions/namiki.fish";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for a shell that completes the commands of `P`.
pub(crate) fn run<P: CommandFactory>(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut P::command(), "namiki", &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script)
        .and_then(|()| out.flush())
        .map_err(Failure::output)
}
