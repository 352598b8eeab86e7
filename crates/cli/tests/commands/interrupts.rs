//! Ctrl-C ends a command at once, with status 130, also while its output is not read or its input
//! not written.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use namiki::Database;

/// Capacity of a pipe.
const PIPE_BYTES: usize = 64 << 10;

/// A command with a full pipe as its standard output, and the unread end of the pipe.
fn blocked(arguments: &[&str]) -> (Child, std::io::PipeReader) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'.'; PIPE_BYTES]).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_namiki"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (child, reader)
}

/// Waits until the program handles Ctrl-C and blocks in a call that waits for descriptors.
fn wait_until_blocked(child: &mut Child) {
    let process = Path::new("/proc").join(child.id().to_string());
    let begun = Instant::now();
    let read = |name: &str| fs::read_to_string(process.join(name)).unwrap_or_default();
    loop {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before");
        let status = read("status");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        // SIGINT is 2; poll is 7, ppoll 271 or 73.
        let notes_it = caught.is_some_and(|mask| mask >> 1 & 1 == 1);
        let call = read("syscall");
        let waits = ["7 ", "271 ", "73 "]
            .iter()
            .any(|number| call.starts_with(number));
        if notes_it && waits {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "it does not wait: {call:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn interrupt(child: &mut Child) -> ExitStatus {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("Ctrl-C does not end it");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn ctrl_c_ends_what_waits_for_its_reader() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let (db, plan, copy) = (path("db"), path("plan.json"), path("copy"));
    let database = Database::open(&db).unwrap();
    let table = database.table::<u64, str>("texts").unwrap();
    for first in (0..4_000).step_by(500) {
        let rows = first..first + 500;
        let put = database.transact(|tx| {
            rows.clone()
                .try_for_each(|key| tx.put(&table, &key, "some text"))
        });
        put.unwrap();
    }
    database.close().unwrap();
    fs::write(&plan, r#"{"scan": {"table": "texts"}}"#).unwrap();
    let commands: [&[&str]; 13] = [
        &["query", &db, &plan],
        &["query", &db, &plan, "--format", "json", "--threads", "2"],
        &["query", &db, &plan, "--explain"],
        &["query", &db, &plan, "--analyze"],
        &["scan", &db, "texts"],
        &["scan", &db, "texts", "--count"],
        &["get", &db, "texts", "7"],
        &["export", &db, "texts"],
        &["export", &db, "texts", "--format", "csv"],
        &["tables", &db],
        &["check", &db],
        &["dump-log", &db],
        &["backup", &db, &copy],
    ];
    for arguments in commands {
        let (mut child, _unread) = blocked(arguments);
        wait_until_blocked(&mut child);
        let status = interrupt(&mut child);
        assert_eq!(status.code(), Some(130), "{arguments:?}");
    }
}

/// Standard input that is open and empty, in the middle of the rows or before the header, and FIFOs that have no writer.
#[test]
fn ctrl_c_ends_what_waits_for_its_input() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).to_str().unwrap().to_owned();
    let (db, fifo) = (path("db"), path("fifo"));
    Database::open(&db).unwrap().close().unwrap();
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let csv = "key:u64,value:string\n1,one\n";
    let json = "{\"namiki\":1,\"table\":\"t\",\"key\":\"u64\",\"value\":\"u64\"}\n{\"key\":1,";
    let commands: [(&[&str], &str); 7] = [
        (&["import", &db, "a", "-"], ""),
        (&["import", &db, "b", "-"], json),
        (&["import", &db, "c", "-", "--format", "csv"], ""),
        (&["import", &db, "d", "-", "--format", "csv"], csv),
        (&["import", &db, "e", &fifo], ""),
        (&["query", &db, "-"], "{\"scan\":"),
        (&["query", &db, &fifo], ""),
    ];
    for (arguments, text) in commands {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_namiki"))
            .args(arguments)
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until_blocked(&mut child);
        let status = interrupt(&mut child);
        assert_eq!(status.code(), Some(130), "{arguments:?}");
    }
    // The rows before it exist, and the database is sound.
    let db = Database::open(&db).unwrap();
    let table = db.table::<u64, str>("d").unwrap();
    let found = db.transact(|tx| tx.get(&table, &1)).unwrap();
    assert_eq!(found.as_deref(), Some("one"));
}

/// A closed output pipe does not count as an interrupt.
#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("db");
    let database = Database::open(&dir).unwrap();
    let table = database.table::<u64, u64>("numbers").unwrap();
    database
        .transact(|tx| (0..2_000).try_for_each(|key| tx.put(&table, &key, &key)))
        .unwrap();
    database.close().unwrap();
    let db = dir.to_str().unwrap();
    let commands: [&[&str]; 3] = [
        &["scan", db, "numbers"],
        &["export", db, "numbers"],
        &["export", db, "numbers", "--format", "csv"],
    ];
    for arguments in commands {
        let (mut child, unread) = blocked(arguments);
        wait_until_blocked(&mut child);
        drop(unread);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{arguments:?}");
    }
}
