//! Runs the system's programs that faults need.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::error::BenchError;

/// Runs a program. Its error names the feature that needs it.
pub(super) fn run_program<A: AsRef<OsStr>>(
    what_for: &str,
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<(), BenchError> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(BenchError::file("run", program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    Err(BenchError::Cluster(format!(
        "{what_for} needs root: {program}: {said}"
    )))
}
