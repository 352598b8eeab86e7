//! Runs the program and examines its output.

use std::process::{Command, Output};

use serde_json::Value;

/// The machine's keys in every row.
pub(crate) const MACHINE: &str = "machine.cores machine.cpu machine.disk";

/// Runs with these arguments, separated by spaces.
pub(crate) fn run(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namiki-bench"))
        .args(args.split_whitespace())
        .output()
        .expect("the program starts")
}

/// Runs with JSON output; every line must be a row.
pub(crate) fn rows(args: &str) -> Vec<Value> {
    let output = run(&format!("{args} --format json"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args}: {errors}");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let rows = text.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>()
        .expect("each line is an object")
}

pub(crate) fn found<'a>(row: &'a Value, key: &str) -> &'a Value {
    key.split('.').fold(row, |value, part| &value[part])
}

/// The row has all keys of these lists, which are separated by spaces.
pub(crate) fn assert_keys(row: &Value, keys: &[&str]) {
    for key in keys.iter().flat_map(|list| list.split_whitespace()) {
        assert!(!found(row, key).is_null(), "{key} is missing in {row}");
    }
}

/// Checks for an ordinary error with this status that names `word`.
pub(crate) fn refused(args: &str, status: i32, word: &str) {
    let output = run(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args}: {errors}");
    assert!(errors.contains(word), "{args}: {errors}");
    assert!(!errors.contains("panicked"), "{args}: {errors}");
    assert!(output.stdout.is_empty(), "{args}");
}
