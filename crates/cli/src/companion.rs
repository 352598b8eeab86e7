//! `namiki serve …`, `namiki bench …`, `namiki node …`, `namiki cluster …`: separate programs, which a
//! database alone does not need and which take long to build.
//!
//! This process execs the other program, so its output, exit status and signals reach the user
//! directly.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::failure::{Failure, device};

/// A program in the same folder as this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Companion {
    /// Its file name.
    pub(crate) program: &'static str,
    /// Its purpose.
    pub(crate) purpose: &'static str,
    /// The command that builds it into the folder of this program.
    pub(crate) build: &'static str,
}

/// The server of SQL.
pub(crate) const SERVER: Companion = Companion {
    program: "namiki-server",
    purpose: "the program that serves PostgreSQL clients",
    // A profile of its own: its dependencies take long to optimise.
    build: "cargo build --profile server -p namiki-server -p namiki-cli",
};

/// The measurements.
pub(crate) const BENCH: Companion = Companion {
    program: "namiki-bench",
    purpose: "the program that measures",
    build: "cargo build --release -p namiki-bench",
};

/// Nodes, and clusters on this machine.
pub(crate) const CLUSTER: Companion = Companion {
    program: "namiki-cluster",
    purpose: "the program of nodes and clusters",
    build: "cargo build --release -p namiki-cluster-cli",
};

/// All arguments after the command are for the other program, including `--help`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct CompanionArguments {
    /// Arguments of the other program; --help lists them
    #[arg(
        value_name = "ARGUMENTS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

impl Companion {
    /// Replaces this process by the program, with `first` and then the user's arguments. Returns
    /// only if the program cannot be started.
    pub(crate) fn run(self, first: &[&str], arguments: &CompanionArguments) -> Result<(), Failure> {
        let Self {
            program,
            purpose,
            build,
        } = self;
        let beside = env::current_exe()
            .ok()
            .and_then(|program| Some(program.parent()?.to_owned()));
        let on_path = env::var_os("PATH").unwrap_or_default();
        // An empty entry would be the working directory.
        let on_path_folders = env::split_paths(&on_path).filter(|folder| folder.is_absolute());
        let mut folders = beside.iter().cloned().chain(on_path_folders);
        let found =
            folders.find_map(|folder| Some(folder.join(program)).filter(|path| can_run(path)));
        let Some(found) = found else {
            return Err(Failure::NoCompanion {
                program,
                purpose,
                build,
                beside,
                on_path,
            });
        };
        let mut command = Command::new(&found);
        let source = command.args(first).args(&arguments.arguments).exec();
        Err(device("start", &found)(source))
    }
}

fn can_run(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
