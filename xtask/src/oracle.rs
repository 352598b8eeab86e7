//! Compares random query plans with DuckDB, an oracle that shares no code with the engine.
//!
//! `pip` installs DuckDB from PyPI into a virtual environment inside the target folder; nothing
//! else on the machine changes. The plans and the comparison are a test of `namiki-exec`
//! (`tests/queries/sql_oracle/`).

use std::path::Path;
use std::process::Command;

use crate::long_runs::{number_flag, run_counting_tests, without_flag};
use crate::python::python_with;

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
    let python = match python_with(root, "duckdb", &[DUCKDB], "duckdb")? {
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
