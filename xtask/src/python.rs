//! Python with packages from PyPI, in a virtual environment inside the target folder. Nothing else on the
//! machine changes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::long_runs::{build_folder, shown};

/// A Python interpreter with these packages, in an environment of this name. `modules` are imported to
/// find out whether they are there. The inner error is the reason why pip could not get them.
pub(crate) fn python_with(
    root: &Path,
    environment: &str,
    packages: &[&str],
    modules: &str,
) -> Result<Result<PathBuf, String>, String> {
    let folder = build_folder(root, environment);
    let python = folder.join("bin").join("python");
    let imports = |python: &Path| {
        let mut command = Command::new(python);
        command
            .args(["-c", &format!("import {modules}")])
            .output()
            .is_ok_and(|it| it.status.success())
    };
    if imports(&python) {
        return Ok(Ok(python));
    }
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(&folder);
    said(&mut venv)
        .map_err(|why| format!("{why}\nneeds Python 3 with `venv` (Debian: python3-venv)"))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet"]);
    pip.arg("--disable-pip-version-check").args(packages);
    if let Err(why) = said(&mut pip) {
        let packages = packages.join(", ");
        return Ok(Err(format!("pip cannot install {packages}: {why}")));
    }
    if imports(&python) {
        Ok(Ok(python))
    } else {
        Err(format!("{modules} was installed, and cannot be imported"))
    }
}

/// Runs a command. The error is its output, if it fails.
pub(crate) fn said(command: &mut Command) -> Result<(), String> {
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
