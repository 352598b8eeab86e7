//! Writes a directory like the one in `tests/fixtures` with the current program.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use namiki_tests::fixture_contents::{LIVES, live};

/// Writes a database directory in a few lives, some of which end without closing it.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The directory, which must not exist yet.
    dir: PathBuf,
    /// Only this life: the program runs itself with this argument.
    #[arg(long, hide = true)]
    life: Option<usize>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    match arguments.life {
        Some(life) => live(&arguments.dir, life),
        None => lives(arguments),
    }
}

fn lives(arguments: &Arguments) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    if arguments.dir.exists() {
        return Err(format!("{} is there already", arguments.dir.display()));
    }
    let program = std::env::current_exe().map_err(told)?;
    for (life, (spec, _, closed)) in LIVES.iter().enumerate() {
        let mut child = Command::new(&program);
        child
            .arg("fixture")
            .arg(&arguments.dir)
            .args(["--life", &life.to_string()]);
        let status = child.status().map_err(told)?;
        let aborted = status.code().is_none();
        if status.success() != *closed || aborted == *closed {
            return Err(format!("life {life}, {spec}: {status}"));
        }
    }
    Ok(())
}
