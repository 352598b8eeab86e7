//! Says from which commit the program is built, for `--version`: in `NAMIKI_COMMIT`, which is empty where nothing says.
//!
//! Of a package, cargo has written it down. Else git says, if it is there and has this very file: a package that lies within
//! another repository is not of that one's commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = of_package().or_else(of_git).unwrap_or_default();
    println!("cargo::rustc-env=NAMIKI_COMMIT={commit}");
}

/// The commit that cargo has made a package of.
fn of_package() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).and_then(short)
}

/// The commit of the working copy. Each new one writes a line into the log of its head.
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
