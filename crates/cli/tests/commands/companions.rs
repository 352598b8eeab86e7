//! `namiki serve`, `namiki bench`, `namiki node` and `namiki cluster` start separate programs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::program::has;

/// The commands, with the arguments that they put before the user's.
const COMPANIONS: [(&str, &str, &str); 4] = [
    ("serve", "namiki-server", ""),
    ("bench", "namiki-bench", ""),
    ("cluster", "namiki-cluster", ""),
    ("node", "namiki-cluster", "node "),
];

/// A program that prints its arguments.
const ECHO: &str = "#!/bin/sh\necho \"$@\"; exit 7\n";

/// A folder with this program, and with a file that is to be found as the other one.
fn folder_with(companion: Option<(&str, &Path)>) -> TempDir {
    // On the file system of the build, so that the program can be hard-linked instead of copied.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_namiki"), dir.path().join("namiki")).unwrap();
    if let Some((name, program)) = companion {
        symlink(program, dir.path().join(name)).unwrap();
    }
    dir
}

fn run(dir: &TempDir, on_path: &Path, command: &str, arguments: &[&str]) -> Output {
    Command::new(dir.path().join("namiki"))
        .arg(command)
        .args(arguments)
        .env("PATH", on_path)
        .output()
        .unwrap()
}

/// A script, in a folder of its own.
fn script(text: &str) -> (TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("script");
    fs::write(&path, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).unwrap();
    (dir, path)
}

#[test]
fn commands_become_the_program_beside_or_on_path() {
    let (_kept, echo) = script(ECHO);
    for (command, program, before) in COMPANIONS {
        let (alone, beside) = (folder_with(None), folder_with(Some((program, &echo))));
        let other = folder_with(Some((program, Path::new("/bin/false"))));
        for (dir, on_path) in [(&beside, &other), (&alone, &beside)] {
            let output = run(dir, on_path.path(), command, &["txn", "--help", "-5"]);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(7), "{errors}");
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(said, format!("{before}txn --help -5\n"));
        }
    }
}

#[test]
fn missing_programs_are_named_and_where_they_were_looked_for() {
    let (alone, empty) = (folder_with(None), tempfile::tempdir().unwrap());
    for (command, program, _) in COMPANIONS {
        let output = run(&alone, empty.path(), command, &["--help"]);
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8(output.stderr).unwrap();
        for path in [alone.path(), empty.path()] {
            assert!(errors.contains(path.to_str().unwrap()), "{errors}");
        }
        has(&errors, program);
        has(&errors, "build it with cargo build --");
        let help = Command::new(alone.path().join("namiki"))
            .arg("--help")
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&help.stdout).contains(command));
    }
}
