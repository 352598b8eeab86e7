//! `namiki bench …`: the measurements, which are a program of their own, `namiki-bench`.
//!
//! This process becomes that one, so its output, exit status and signals are the user's own.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::failure::Failure;

const PROGRAM: &str = "namiki-bench";

/// Everything behind `bench` is for the other program, `--help` included.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct BenchArguments {
    /// What namiki-bench is told; `namiki bench --help` lists what it knows
    #[arg(
        value_name = "ARGUMENTS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

/// Runs the command. It returns only if there is nothing to run.
pub(crate) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    let beside = env::current_exe()
        .ok()
        .and_then(|program| Some(program.parent()?.to_owned()));
    let on_path = env::var_os("PATH").unwrap_or_default();
    // An empty one would be wherever we are.
    let on_path_folders = env::split_paths(&on_path).filter(|folder| folder.is_absolute());
    let folders = beside.iter().cloned().chain(on_path_folders);
    let Some(program) = find(folders) else {
        return Err(Failure::NoBench { beside, on_path });
    };
    let source = Command::new(&program).args(&arguments.arguments).exec();
    Err(Failure::Device {
        doing: "start",
        path: program,
        source,
    })
}

/// The first program of the name in these folders.
fn find(folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders
        .map(|folder| folder.join(PROGRAM))
        .find(|path| can_run(path))
}

fn can_run(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
