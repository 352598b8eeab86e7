//! Determines the commit that the program is built from, for `--version`: sets `NAMIKI_COMMIT`,
//! which is empty if the commit is unknown.
//!
//! In a package, cargo has recorded the commit. Otherwise git is asked, provided that this very
//! file is under its control: a package inside another repository does not belong to that
//! repository's commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = of_package().or_else(of_git).unwrap_or_default();
    println!("cargo::rustc-env=NAMIKI_COMMIT={commit}");
}

/// The commit from which cargo has made the package.
fn of_package() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).and_then(short)
}

/// The commit of the working copy. Each new one appends a line to the log of its head.
fn of_git() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = git(&["rev-parse", "HEAD"])?;
    for file in ["logs/HEAD", "HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    short(&commit)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The first twelve digits of a commit's name.
fn short(commit: &str) -> Option<String> {
    let is_name = commit.len() >= 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| commit[..12].to_owned())
}
