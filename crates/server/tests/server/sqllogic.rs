//! Files of sqllogictest (`tests/sqllogic/`), over the wire.
//!
//! The format is that of the crate `sqllogictest`, of which these records are read: `statement ok`,
//! `statement count N`, `statement error SQLSTATE`, `query TYPES [rowsort]`, `skipif`, `onlyif`, `connection`.
//! `cargo xtask postgres-compare` runs the same files against PostgreSQL.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::messages::query;
use crate::raw_client::{Answer, Message, RawClient};
use crate::running::Running;

/// The name of this server in `skipif` and `onlyif`.
const ENGINE: &str = "namiki";

#[derive(Debug, Default)]
struct Record {
    line: usize,
    /// `statement ok`, `query IT`, …
    expected: String,
    is_sorted: bool,
    text: String,
    rows: Vec<String>,
    connection: String,
}

/// The records of a file that are for this server.
fn records(text: &str) -> Vec<Record> {
    let mut lines = text.lines().enumerate().peekable();
    let mut records = Vec::new();
    let (mut is_for_us, mut connection) = (true, String::new());
    while let Some((at, line)) = lines.next() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => continue,
            _ if line.starts_with('#') => continue,
            ["skipif", engine] => is_for_us &= engine != ENGINE,
            ["onlyif", engine] => is_for_us &= engine == ENGINE,
            ["connection", name] => name.clone_into(&mut connection),
            ["statement", ..] | ["query", _] | ["query", _, "rowsort"] => {
                let mut record = Record {
                    line: at + 1,
                    is_sorted: words.len() == 3 && words[2] == "rowsort",
                    connection: std::mem::take(&mut connection),
                    ..Record::default()
                };
                let words = &words[..words.len() - usize::from(record.is_sorted)];
                record.expected = words.join(" ");
                let mut is_answer = false;
                while let Some((_, line)) = lines.next_if(|(_, it)| !it.trim().is_empty()) {
                    if is_answer {
                        record.rows.push(line.to_owned());
                    } else if line == "----" {
                        is_answer = true;
                    } else {
                        record.text.push_str(line);
                        record.text.push('\n');
                    }
                }
                if std::mem::replace(&mut is_for_us, true) {
                    records.push(record);
                }
            }
            _ => panic!("line {}: no record begins with this: {line}", at + 1),
        }
    }
    records
}

/// The letter of a type, by its OID.
fn letter(oid: u32) -> char {
    match oid {
        16 => 'B',
        20 | 21 | 23 | 26 => 'I',
        18 | 19 | 25 | 1042 | 1043 => 'T',
        700 | 701 | 1700 => 'R',
        1082 => 'D',
        1114 | 1184 => 'P',
        _ => '?',
    }
}

/// The letters of a row description.
fn letters(body: &[u8]) -> String {
    let (_, mut rest) = body.split_at(2);
    let mut letters = String::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let (field, after) = rest[end + 1..].split_at(18);
        letters.push(letter(u32::from_be_bytes(field[6..10].try_into().unwrap())));
        rest = after;
    }
    letters
}

/// A value as a file shows it.
fn shown(value: Option<&String>) -> String {
    let Some(value) = value else {
        return "NULL".to_owned();
    };
    let words: Vec<&str> = value.split_whitespace().collect();
    if words.is_empty() {
        "(empty)".to_owned()
    } else {
        words.join(" ")
    }
}

/// What a record says of this answer, and its rows.
fn said(messages: &[Message]) -> (String, Vec<String>) {
    let answer = Answer::of(messages);
    if answer.error.is_some() {
        return (format!("statement error {}", answer.sqlstate()), Vec::new());
    }
    if let Some(description) = messages.iter().find(|it| it.kind == b'T') {
        let line = |row: &Vec<Option<String>>| {
            let values: Vec<String> = row.iter().map(|it| shown(it.as_ref())).collect();
            values.join(" ")
        };
        let types = letters(&description.body);
        let rows = answer.rows.iter().map(line).collect();
        return (format!("query {types}"), rows);
    }
    let tag = answer.tags.first().map(String::as_str).unwrap_or_default();
    let words: Vec<&str> = tag.split(' ').collect();
    match words[..] {
        ["INSERT" | "UPDATE" | "DELETE", .., count] => {
            (format!("statement count {count}"), Vec::new())
        }
        _ => ("statement ok".to_owned(), Vec::new()),
    }
}

/// Runs a file on a new server. Returns how many records ran, and what differs.
fn run(text: &str) -> (usize, Vec<String>) {
    let (_home, server) = Running::new();
    let mut clients = BTreeMap::new();
    let mut failures = Vec::new();
    let records = records(text);
    for record in &records {
        let client = clients
            .entry(&record.connection)
            .or_insert_with(|| RawClient::connect(&server));
        client.send(&query(&record.text));
        let messages = client.until(b'Z');
        let (kind, mut rows) = said(&messages);
        let words = |row: &String| row.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut expected: Vec<String> = record.rows.iter().map(words).collect();
        if record.is_sorted {
            rows.sort();
            expected.sort();
        }
        let is_ok = record.expected == "statement ok"
            && kind.starts_with("statement")
            && !kind.starts_with("statement error");
        if is_ok || (kind == record.expected && rows == expected) {
            continue;
        }
        let mut failure = format!("line {}: {}", record.line, record.text);
        writeln!(failure, "  expected {} {expected:#?}", record.expected).unwrap();
        let message = Answer::of(&messages).error.unwrap_or_default().1;
        writeln!(failure, "  answered {kind} {rows:#?} {message}").unwrap();
        failures.push(failure);
    }
    (records.len(), failures)
}

#[test]
fn all_sqllogic_files_have_the_expected_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sqllogic");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    files.sort();
    let (mut count, mut failures) = (0, String::new());
    for file in files {
        let (ran, of_file) = run(&fs::read_to_string(&file).unwrap());
        count += ran;
        for failure in of_file {
            writeln!(failures, "{}, {failure}", file.display()).unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(count > 1000, "{count} records");
}

#[test]
fn a_wrong_expectation_fails_a_sqllogic_file() {
    for wrong in [
        "query I\nSELECT 1\n----\n2\n",
        "query T\nSELECT 1\n----\n1\n",
        "statement ok\nSELECT nosuch\n",
        "statement error 42P01\nSELECT nosuch\n",
        "query I\nSELECT * FROM generate_series(1, 2)\n----\n2\n1\n",
    ] {
        assert_eq!(run(wrong).1.len(), 1, "{wrong}");
    }
    let right = "skipif namiki\nquery I\nSELECT 1\n----\n2\n\nquery I\nSELECT 1\n----\n1\n";
    assert_eq!(run(right), (1, Vec::new()));
}
