//! Tests of SQL and of the server, with real clients: psql and pgbench of PostgreSQL, psycopg and SQLAlchemy.
//!
//! PostgreSQL's programs come from the system's packages, the Python packages from PyPI, in a virtual
//! environment inside the target folder. The tests are those of `namiki-sql` and `namiki-server`
//! (`tests/server/`).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::long_runs::{number_flag, run_counting_tests, without_flag};
use crate::python::{python_with, said};

/// Any releases of these major versions.
const PACKAGES: [&str; 2] = ["psycopg[binary]>=3.2,<4", "SQLAlchemy>=2,<3"];
/// The package with psql and pgbench, on Debian.
const DEBIAN_PACKAGE: &str = "postgresql";
/// Where Debian has them.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";

/// The flag that tolerates unavailable clients.
const UNLESS_UNREACHABLE: &str = "--unless-unreachable";

/// Installs the clients that are missing, and runs the tests.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), String> {
    let kills = number_flag(args, "--kills")?.unwrap_or(100);
    let left = without_flag(args, "--kills");
    let (optional, left): (Vec<_>, Vec<_>) =
        left.iter().partition(|arg| *arg == UNLESS_UNREACHABLE);
    if let Some(arg) = left.first() {
        return Err(format!("`clients` does not know `{arg}`"));
    }
    let python = python_with(root, "clients", &PACKAGES, "psycopg, sqlalchemy")?;
    let missing: Vec<String> = [programs().err(), python.as_ref().err().cloned()]
        .into_iter()
        .flatten()
        .collect();
    let are_required = missing.is_empty();
    if !are_required {
        let missing = missing.join("; ");
        if optional.is_empty() {
            return Err(missing);
        }
        println!("clients: left out: {missing}");
    }
    test(root, python.ok().as_deref(), are_required, kills)
}

/// Runs the tests; those of clients that are missing say so and pass, unless all are required.
fn test(root: &Path, python: Option<&Path>, are_required: bool, kills: u64) -> Result<(), String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["test", "--profile", "server"])
        .args(["-p", "namiki-sql", "-p", "namiki-server"])
        .args(["--lib", "--bins", "--test", "server"])
        .env("NAMIKI_KILL_ROUNDS", kills.to_string())
        .current_dir(root);
    if let Some(python) = python {
        cargo.env("NAMIKI_CLIENTS_PYTHON", python);
    }
    if are_required {
        cargo.env("NAMIKI_REQUIRE_CLIENTS", "1");
    }
    match run_counting_tests(cargo)? {
        0 => Err("no test of the server ran".to_owned()),
        _ => Ok(()),
    }
}

/// Installs psql and pgbench if they are missing.
fn programs() -> Result<(), String> {
    if is_there() {
        return Ok(());
    }
    let mut update = Command::new("apt-get");
    update.args(["update", "--quiet"]);
    let mut install = Command::new("apt-get");
    install.args([
        "install",
        "--yes",
        "--no-install-recommends",
        DEBIAN_PACKAGE,
    ]);
    let installed = said(&mut update).and_then(|()| said(&mut install));
    installed.map_err(|why| {
        format!("psql and pgbench are missing, and cannot be installed: {why}; install PostgreSQL 15 or later")
    })?;
    if is_there() {
        Ok(())
    } else {
        Err("PostgreSQL was installed, and its psql and pgbench are not found".to_owned())
    }
}

/// Whether both programs are on the PATH, or where Debian has them.
fn is_there() -> bool {
    let versions = std::fs::read_dir(DEBIAN_FOLDER);
    let versions = versions.into_iter().flatten().flatten();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = versions
        .map(|it| it.path().join("bin"))
        .chain(std::env::split_paths(&path))
        .collect();
    ["psql", "pgbench"]
        .iter()
        .all(|name| folders.iter().any(|folder| folder.join(name).is_file()))
}
