//! `namiki-bench cluster` as its user sees it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namiki-bench"))
        .arg("cluster")
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    for (arguments, word) in [
        (vec!["--fault", "kill-leader"], "kill-leader:5s"),
        (vec!["--fault", "kill-leader:0.1s"], "a second apart"),
        (vec!["--rate", "0"], "commands per second"),
        (vec!["--nodes", "3,5", "--dir", dir], "one number of nodes"),
    ] {
        let output = bench(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}
