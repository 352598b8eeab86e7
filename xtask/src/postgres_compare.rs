//! Compares SQL with PostgreSQL 15: its answers to the files of sqllogictest, and to random statements.
//!
//! A private PostgreSQL and a server of this repository run at once. A Python program (`postgres_compare/`) first checks
//! that PostgreSQL gives the answers that `crates/server/tests/sqllogic` expects, then makes tables, rows and statements
//! from a seed, sends them to both, and compares rows, types, tags, and classes of errors. What may differ is in
//! `allowed.py`, and explained in `docs/sql.md`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::long_runs::{build_folder, number_flag, without_flag};
use crate::pgbench::{Peer, namiki, postgresql};
use crate::python::{python_with, said};

const PACKAGE: &str = "psycopg[binary]>=3.2,<4";
/// Where Debian has PostgreSQL 15.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
const PORT: u16 = 5444;

/// The flag that tolerates a machine without PostgreSQL 15, or without psycopg.
const UNLESS_UNREACHABLE: &str = "--unless-unreachable";

/// Starts both servers, and compares.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), String> {
    let statements = number_flag(args, "--statements")?.unwrap_or(10_000);
    let seed = number_flag(args, "--seed")?.unwrap_or(1);
    let differences = number_flag(args, "--differences")?.unwrap_or(1);
    let known = ["--statements", "--seed", "--differences"].into_iter();
    let left = known.fold(args.to_vec(), |left, flag| without_flag(&left, flag));
    let (optional, left): (Vec<_>, Vec<_>) =
        left.iter().partition(|arg| *arg == UNLESS_UNREACHABLE);
    if let Some(arg) = left.first() {
        return Err(format!("`postgres-compare` does not know `{arg}`"));
    }
    let programs = Path::new(PROGRAMS);
    let missing = if programs.join("postgres").is_file() {
        match python_with(root, "postgres-compare", &[PACKAGE], "psycopg")? {
            Ok(python) => return compare(root, &python, [statements, seed, differences]),
            Err(why) => why,
        }
    } else {
        format!("there is no PostgreSQL 15 in {PROGRAMS} (Debian 12: apt-get install postgresql)")
    };
    if optional.is_empty() {
        return Err(missing);
    }
    println!("postgres-compare: left out: {missing}");
    Ok(())
}

fn compare(root: &Path, python: &Path, numbers: [u64; 3]) -> Result<(), String> {
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--profile", "server", "-p", "namiki-server"])
        .current_dir(root);
    said(&mut build)?;
    let folder = build_folder(root, "postgres-compare-data");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make a folder: {error}"))?;
    let theirs = postgresql("PostgreSQL 15", Path::new(PROGRAMS), PORT)?;
    let ours = namiki(&build_folder(root, "server"), &folder)?;
    let address = |peer: &Peer| {
        let (socket, port) = (peer.socket_folder.display(), peer.port);
        format!("host={socket} port={port} user=namiki dbname=namiki")
    };
    let mut program = Command::new(python);
    program
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(root.join("xtask/src/postgres_compare/compare.py"))
        .args([address(&theirs), address(&ours)])
        .args(numbers.map(|number| number.to_string()))
        .arg(root.join("crates/server/tests/sqllogic"));
    let status = program
        .status()
        .map_err(|error| format!("cannot run Python: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the answers differ".to_owned())
    }
}
