//! Compares random query plans with DuckDB, an oracle that shares no code with the engine.
//!
//! `pip` installs DuckDB from PyPI into a virtual environment inside the target folder; nothing
//! else on the machine changes. The plans and the comparison are a test of `namiki-exec`
//! (`tests/queries/sql_oracle/`).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::long_runs::{build_folder, number_flag, run_counting_tests, shown, without_flag};

/// Any release of this major version.
const DUCKDB: &str = "duckdb>=2,<3";

const TEST: &str = "random_plans_have_the_answer_of_duckdb";

/// The flag that tolerates an unavailable oracle.
const UNLESS_UNREACHABLE: &str = "--unless-unreachable";

/// Installs DuckDB if it is missing, and compares.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), String> {
    let plans = number_flag(args, "--plans")?.unwrap_or(3_000);
    let seed = number_flag(args, "--seed")?.unwrap_or(0);
    let known = ["--plans", "--seed"].into_iter();
    let left = known.fold(args.to_vec(), |left, flag| without_flag(&left, flag));
    let (optional, left): (Vec<_>, Vec<_>) =
        left.iter().partition(|arg| *arg == UNLESS_UNREACHABLE);
    if let Some(arg) = left.first() {
        return Err(format!("`oracle` does not know `{arg}`"));
    }
    let python = match python_with_duckdb(root)? {
        Ok(python) => python,
        Err(why) if optional.is_empty() => return Err(why),
        Err(why) => {
            println!("oracle: left out: {why}");
            return Ok(());
        }
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        // Not selected by package, which would rebuild everything with other features.
        .args(["test", "--test", "queries"])
        .arg("--")
        .args(["--nocapture", TEST])
        .env("NAMIKI_DUCKDB_PYTHON", python)
        .env("NAMIKI_ORACLE_PLANS", plans.to_string())
        .env("NAMIKI_ORACLE_SEED", seed.to_string())
        .current_dir(root);
    match run_counting_tests(cargo)? {
        0 => Err(format!("no test is called `{TEST}`")),
        _ => Ok(()),
    }
}

/// A Python interpreter with DuckDB; the inner error is the reason why pip could not get it.
fn python_with_duckdb(root: &Path) -> Result<Result<PathBuf, String>, String> {
    let folder = build_folder(root, "duckdb");
    let python = folder.join("bin").join("python");
    let imports = |python: &Path| {
        let mut command = Command::new(python);
        command
            .args(["-c", "import duckdb"])
            .output()
            .is_ok_and(|it| it.status.success())
    };
    if imports(&python) {
        return Ok(Ok(python));
    }
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(&folder);
    said(&mut venv).map_err(|why| {
        format!("{why}\noracle: needs Python 3 with `venv` (Debian: python3-venv)")
    })?;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        DUCKDB,
    ]);
    if let Err(why) = said(&mut pip) {
        return Ok(Err(format!("pip cannot install DuckDB: {why}")));
    }
    if imports(&python) {
        Ok(Ok(python))
    } else {
        Err("DuckDB was installed, and cannot be imported".to_owned())
    }
}

/// Runs a command. The error is its output, if it fails.
fn said(command: &mut Command) -> Result<(), String> {
    let text = shown(command);
    println!("$ {text}");
    let output = command
        .output()
        .map_err(|error| format!("cannot run `{text}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{text}` failed: {}", errors.trim()))
}
