//! The program `namiki-server`.

mod arguments;
mod failure;
mod password;
mod run;

use std::process::ExitCode;

use namiki_terminal::{completions, finish, read_arguments};

use self::arguments::{Arguments, Command};
use self::failure::{Failure, usage};

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    finish("namiki-server", command(read_arguments()), Failure::ending)
}

fn command(arguments: Arguments) -> Result<(), Failure> {
    let Arguments {
        command,
        dir,
        server,
    } = arguments;
    match command {
        Some(Command::Completions(arguments)) => Ok(completions::run::<Arguments>(&arguments)?),
        Some(Command::Password(arguments)) => password::run(&needed(dir)?, &arguments),
        None => run::run(&needed(dir)?, &server),
    }
}

/// The data directory.
fn needed(dir: Option<std::path::PathBuf>) -> Result<std::path::PathBuf, Failure> {
    dir.ok_or_else(|| {
        usage(
            "--dir is missing: it names the directory of the database, which is created if it does not exist; try \
             namiki-server --dir data",
        )
    })
}
