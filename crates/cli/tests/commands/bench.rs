//! `namiki bench` starts the program `namiki-bench`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with this program, and with what is to be found as `namiki-bench`.
fn folder_with(bench: Option<&str>) -> TempDir {
    // Where the program was built, so that it can be linked and need not be copied.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_namiki"), dir.path().join("namiki")).unwrap();
    if let Some(program) = bench {
        symlink(program, dir.path().join("namiki-bench")).unwrap();
    }
    dir
}

fn bench(dir: &TempDir, on_path: &Path, arguments: &[&str]) -> Output {
    Command::new(dir.path().join("namiki"))
        .arg("bench")
        .args(arguments)
        .env("PATH", on_path)
        .output()
        .unwrap()
}

#[test]
fn bench_becomes_the_program_beside_it_or_on_the_path() {
    let say = ["-c", "echo \"$@\"; exit 7", "sh", "txn", "--help", "-5"];
    let (alone, shell) = (folder_with(None), folder_with(Some("/bin/sh")));
    let other = folder_with(Some("/bin/false"));
    for (dir, on_path) in [(&shell, &other), (&alone, &shell)] {
        let output = bench(dir, on_path.path(), &say);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{errors}");
        assert_eq!(output.stdout, b"txn --help -5\n");
    }
}

#[test]
fn bench_says_where_it_looked() {
    let (alone, empty) = (folder_with(None), tempfile::tempdir().unwrap());
    let output = bench(&alone, empty.path(), &["--help"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    for path in [alone.path(), empty.path()] {
        assert!(errors.contains(path.to_str().unwrap()), "{errors}");
    }
    assert!(errors.contains("namiki-bench"), "{errors}");
    let help = Command::new(alone.path().join("namiki"))
        .arg("--help")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&help.stdout).contains("bench"));
}
