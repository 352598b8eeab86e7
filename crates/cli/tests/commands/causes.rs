//! Every failure names its subject and its cause, each once, in the user's terms.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::fs;

use namiki::Database;

use crate::program::namiki;

/// The message of the command; fails if it repeats a part.
fn said_once(arguments: &[&str]) -> String {
    let output = namiki(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        matches!(output.status.code(), Some(1 | 2)),
        "{arguments:?}: {text}"
    );
    let sentence = text
        .trim()
        .strip_prefix("namiki: ")
        .unwrap_or(&text)
        .to_owned();
    let mut parts = HashSet::new();
    for part in sentence.split(": ") {
        // A path or a name may occur twice.
        let is_a_sentence = part.trim().contains(' ');
        assert!(
            !is_a_sentence || parts.insert(part.trim()),
            "{part:?} is there twice: {text}"
        );
    }
    for word in ["untagged", "NamedFile", "Error {", "Err("] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    text
}

#[test]
fn failures_say_each_cause_once() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let db = path("db");
    let database = Database::open(&db).unwrap();
    let table = database.table::<u64, u64>("t").unwrap();
    database.transact(|tx| tx.put(&table, &1, &1)).unwrap();
    database.close().unwrap();

    let plan = path("plan.json");
    let deep = "{\"not\":".repeat(500);
    for (text, says) in [
        ("{", "the name of an entry is expected"),
        (deep.as_str(), "levels"),
        (
            r#"{"scan": {"table": "t", "table": "u"}}"#,
            "two entries `table`",
        ),
        (
            r#"{"project": {"input": {"scan": {"table": "t"}}, "columns": [7]}}"#,
            "an entry of columns",
        ),
        (
            r#"{"sort": {"input": {"scan": {"table": "t"}}, "by": [{"descending": {"no": 1}}]}}"#,
            "no operator `no`",
        ),
        (r#"{"scan": {"table": "none"}}"#, "no table \"none\""),
        (
            r#"{"find": {"table": "t", "filter": {"=": ["x", 1]}}}"#,
            "no column `x`",
        ),
        (
            r#"{"find": {"table": "t", "filter": {"=": ["key", {"text": "a"}]}}}"#,
            "do not go together",
        ),
        (
            r#"{"scan": {"table": "t", "range": {"equal": [1, 2]}}}"#,
            "the range of `t`",
        ),
        (
            r#"{"scan": {"table": "t", "range": {"equal": [{"text": "a"}]}}}"#,
            "the range of `t`",
        ),
        (
            r#"{"index_scan": {"table": "t", "index": "i"}}"#,
            "no index `i`",
        ),
        (
            r#"{"project": {"input": {"scan": {"table": "t"}}, "columns": [{"as": "a", "of": {"*": ["key", 18446744073709551615, 2]}}]}}"#,
            "does not fit",
        ),
    ] {
        fs::write(&plan, text).unwrap();
        let text = said_once(&["query", &db, &plan]);
        assert!(text.contains(says), "{says}: {text}");
    }
    for arguments in [
        &["query", &db, "no-such-plan"][..],
        &["query", "no-such-directory", "paper"],
        &["query", &plan, "paper"],
        &["check", &plan],
        &["get", &db, "t", "x"],
        &["get", &db, "none", "1"],
        &["scan", &db, "t", "--from", "y"],
        &["import", &db, "t", "no-such-file"],
        &["import", &db, "t", &plan],
        &["import", &db, "--all", &plan],
        &["export", &db, "t", "--output", "/no-such-folder/file"],
        &["backup", &db, &plan],
        &["restore", &db, &db],
        &["restore", &plan, &path("restored")],
    ] {
        said_once(arguments);
    }
}
