//! Helpers that run the program and inspect its files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

pub(crate) fn namiki(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namiki"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Standard output of a run that must succeed.
pub(crate) fn works(arguments: &[&str]) -> String {
    let output = namiki(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error, one sentence, of a run that must end with `status`.
pub(crate) fn refuses(status: i32, arguments: &[&str]) -> String {
    let output = namiki(arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        output.status.code(),
        Some(status),
        "{arguments:?}: {errors}"
    );
    errors
}

/// The output of a command on a directory, including errors; it must end with this status.
pub(crate) fn said(status: i32, command: &str, dir: &Path) -> String {
    let output = namiki(&[command, dir.to_str().unwrap()]);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(status), "{text}");
    text
}

/// Fails unless the text has this part.
#[track_caller]
pub(crate) fn has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in: {text}");
}

/// Every file below `dir` with its contents and the time of its last change.
pub(crate) fn everything(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(
                path.clone(),
                (Vec::new(), path.metadata().unwrap().modified().unwrap()),
            );
            found.extend(everything(&path));
        } else {
            let modified = path.metadata().unwrap().modified().unwrap();
            found.insert(path.clone(), (fs::read(&path).unwrap(), modified));
        }
    }
    found
}
