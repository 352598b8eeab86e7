//! The program as its user sees it: its output, its changes, its exit status.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use namiki::files::Manifest;
use namiki::{Builder, Database, Epoch, Lsn, OpenError, ProtocolSpec, Stamp, WorkerId};
use namiki_log::{Entry, Group, Log, LogConfig, SequencerKind, StreamReader};
use namiki_platform::disk::{Disk, SyncedDisk};
use tempfile::TempDir;

use crate::program::{everything, has, refuses, works};

pub(crate) fn spec(text: &str) -> ProtocolSpec {
    text.parse().unwrap()
}

/// Makes a database with every kind of line in its dump.
pub(crate) fn fill(dir: &Path, spec: ProtocolSpec) -> Database {
    let builder = Database::builder()
        .spec(spec)
        .streams(2.try_into().unwrap())
        .log_file_bytes(1 << 20);
    fill_with(builder, dir)
}

fn fill_with(builder: Builder, dir: &Path) -> Database {
    let db = builder.open(dir).unwrap();
    let stock = db.table::<u64, i64>("stock").unwrap();
    let names = db.table::<str, str>("names").unwrap();
    for item in 0..20_u64 {
        db.transact(|tx| {
            tx.put(&stock, &item, &(item as i64 - 5))?;
            tx.put(&names, &format!("item {item}")[..], "並木")
        })
        .unwrap();
    }
    db.transact(|tx| tx.delete(&stock, &3)).unwrap();
    db
}

pub(crate) fn database(spec: ProtocolSpec) -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), spec).close().unwrap();
    let path = dir.path().to_str().unwrap().to_owned();
    (dir, path)
}

/// The first log file of the first stream that has more than one frame.
pub(crate) fn log_file(dir: &str) -> PathBuf {
    let mut files: Vec<_> = everything(&Path::new(dir).join("wal"))
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|it| it == "log"))
        .filter(|(_, (bytes, _))| bytes.windows(4).filter(|it| it == b"NLF1").count() > 2)
        .map(|(path, _)| path)
        .collect();
    files.sort();
    files.remove(0)
}

/// The offsets of the frames of a segment.
pub(crate) fn frames(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len())
        .step_by(512)
        .filter(|&at| bytes[at..].starts_with(b"NLF1"))
        .collect()
}

pub(crate) const SPECS: [&str; 6] = [
    "TT(NLR)+PWAL(auto)",
    "TT(ELR)+PWAL(1)",
    "TT(ELR)+SWAL(1)",
    "SILO(EPOCH)+PWAL(1)",
    "S2PL(NLR)+PWAL(auto)+ARIES",
    "S2PL(ELR)+PWAL(1)+ARIES",
];

/// All commands except those that start other programs.
const COMMANDS: [&str; 13] = [
    "demo",
    "check",
    "dump-log",
    "tables",
    "get",
    "scan",
    "put",
    "remove",
    "export",
    "import",
    "load",
    "query",
    "completions",
];

#[test]
fn help_teaches_with_examples() {
    let all = works(&["--help"]);
    assert!(
        all.contains("Examples:\n  namiki ") && !all.contains("demo-victim"),
        "{all}"
    );
    for command in COMMANDS {
        has(&all, &format!("\n  {command} "));
        let help = works(&[command, "--help"]);
        has(&help, &format!("\n  namiki {command} "));
    }
}

#[test]
fn a_wrong_command_line_names_what_is_wrong_with_it() {
    for (arguments, named) in [
        (&["frobnicate"][..], "frobnicate"),
        (&["demo", "--spec", "TT(XLR)+PWAL(1)"], "TT(XLR)+PWAL(1)"),
        (&["demo", "--spec", "TT(NLR)+NOLOG"], "without a log"),
        (&["demo", "--accounts", "1"], "1 is not in 2..=4294967296"),
        (&["demo", "--threads", "0"], "threads"),
        (&["demo", "--accounts", "-5"], "'-5' for '--accounts"),
        (
            &["demo", "--accounts", "x"],
            "invalid value 'x' for '--accounts",
        ),
        (&["demo", "--seconds", "0"], "0 is not in 1..=86400"),
        (&["demo", "--threads", "65535"], "65535 is not in 1..=256"),
        (
            &["demo", "--spec", "TT(NLR)+PWAL(4294967296)"],
            "from 1 to 4294967295",
        ),
        (
            &["dump-log", "d", "--stream", "65536"],
            "65536 is not in 0..=65535",
        ),
        (
            &["dump-log", "d", "--generation", "0"],
            "0 is not in 1..=4294967295",
        ),
        (&["dump-log", "d", "--limit", "-1"], "'-1' for '--limit"),
        (&["dump-log", "d", "--changes", "x"], "'x' for '--changes"),
        (&["dump-log"], "<DIR>"),
    ] {
        let said = refuses(2, arguments);
        assert!(said.contains(named), "{arguments:?}: {said}");
    }
}

#[test]
fn the_demo_kills_recovers_and_finds_everything() {
    let dir = tempfile::tempdir().unwrap();
    for (name, spec) in ["a", "b"]
        .into_iter()
        .zip(["TT(NLR)+PWAL(auto)", "TT(ELR)+PWAL(16)"])
    {
        let place = dir.path().join(name);
        let place = place.to_str().unwrap();
        let small = ["--accounts", "2000", "--seconds", "1", "--spec", spec];
        let told = works(&[&["demo", "--dir", place], &small[..]].concat());
        for fact in [
            "killed     with SIGKILL",
            "acknowledged are there",
            "conserved: 2,000,000 in 2,000 accounts",
            "every account holds exactly",
        ] {
            assert!(told.contains(fact), "{fact} not in:\n{told}");
        }
        assert!(!told.contains("paid       0 "), "{told}");
        let checked = works(&["check", place]);
        has(&checked, "closed in order");
        has(&checked, "sound: ");
        let again = refuses(1, &["demo", "--dir", place]);
        has(&again, "is not empty");
    }
}

#[test]
fn a_demo_that_cannot_begin_says_why_once() {
    let said = refuses(
        1,
        &["demo", "--dir", "/proc/namiki-demo", "--accounts", "2"],
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    has(&said, "/proc/namiki-demo");
    // A file stands in the way of the directory.
    let said = refuses(1, &["demo", "--dir", "/dev/null/demo"]);
    has(&said, "/dev/null/demo: Not a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_namiki"))
        .args(["demo", "--accounts", "2"])
        .env("TMPDIR", "/proc/absent")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    has(&said, "/proc/absent; --dir or TMPDIR");
    // The second process fails: only this one reports it.
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("place");
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_namiki"))
        .args(["demo", "--accounts", "2", "--dir"])
        .arg(&place)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    has(&said, "ended by itself");
}

#[test]
fn a_demo_in_a_temporary_folder_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_namiki"))
        .args([
            "demo",
            "--accounts",
            "2",
            "--seconds",
            "1",
            "--threads",
            "3",
        ])
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn check_finds_a_good_directory_good_and_changes_nothing() {
    for text in SPECS {
        let (dir, path) = database(spec(text));
        // A second generation, and the lock file gone, as in a copy.
        let reopened = Database::open(dir.path()).unwrap();
        reopened.close().unwrap();
        fs::remove_file(dir.path().join("LOCK")).unwrap();
        let before = everything(dir.path());
        let said = works(&["check", &path]);
        assert!(said.contains("21 commits and 41 changes"), "{text}: {said}");
        has(&said, "table \"names\": string to string");
        works(&["dump-log", &path]);
        assert!(
            everything(dir.path()) == before,
            "{text}: something was changed"
        );
    }
}

#[test]
fn check_takes_a_torn_tail_for_what_it_is() {
    for text in SPECS {
        let (dir, path) = database(spec(text));
        // As after a crash: no seal, and a partially written last frame.
        let copy = tempfile::tempdir().unwrap();
        let crashed = copy.path().join("crashed");
        let db = fill(&crashed, spec(text));
        copy_tree(&crashed, &dir.path().join("crashed"));
        drop(db);
        drop(path);
        let crashed = dir.path().join("crashed");
        let path = crashed.to_str().unwrap();
        let torn = log_file(path);
        let mut bytes = fs::read(&torn).unwrap();
        let last = *frames(&bytes).last().unwrap();
        bytes[last + 80] ^= 1;
        fs::write(&torn, bytes).unwrap();
        let before = everything(&crashed);
        let said = works(&["check", path]);
        assert!(said.contains("torn"), "{text}: {said}");
        assert!(said.contains("not closed in order"), "{text}: {said}");
        assert!(
            everything(&crashed) == before,
            "{text}: something was changed"
        );
        let dumped = works(&["dump-log", path]);
        has(&dumped, "torn");
    }
}

/// Paper: pwal §5.7 (one device for all logs)
#[test]
fn a_shared_device_is_checked_and_dumped_as_files_are() {
    for text in ["TT(NLR)+PWAL(auto)", "TT(ELR)+PWAL(1)"] {
        let dir = tempfile::tempdir().unwrap();
        let (data, device) = (dir.path().join("data"), dir.path().join("device"));
        for _ in 0..2 {
            let builder = Database::builder()
                .spec(spec(text))
                .streams(2.try_into().unwrap())
                .shared_device(&device, 1 << 20);
            fill_with(builder, &data).close().unwrap();
        }
        let path = data.to_str().unwrap();
        let before = everything(dir.path());
        let said = works(&["check", path]);
        assert!(said.contains("42 commits and 82 changes"), "{text}: {said}");
        let json = works(&["dump-log", path, "--format", "json"]);
        assert_eq!(json.matches("\"kind\":\"commit\"").count(), 42, "{text}");
        let dump = works(&["dump-log", path, "--generation", "2"]);
        has(&dump, "put stock[7] = 2");
        has(&dump, "delete stock[3]\n");
        assert!(
            everything(dir.path()) == before,
            "{text}: something was changed"
        );

        let sound = fs::read(&device).unwrap();
        let at = *frames(&sound).last().unwrap();
        let mut bytes = sound.clone();
        bytes[at + 75] ^= 4;
        fs::write(&device, bytes).unwrap();
        for command in ["check", "dump-log"] {
            let said = refuses(1, &[command, path]);
            let device = device.to_str().unwrap();
            assert!(
                said.contains(device) && said.contains("damaged at byte"),
                "{text}: {said}"
            );
        }
        fs::remove_file(&device).unwrap();
        for command in ["check", "dump-log"] {
            let said = refuses(1, &[command, path]);
            has(&said, "device is missing from the log");
        }
    }
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Writes the only stream of a database again with the log's own writer, so that every checksum holds, after `change`
/// has changed what it holds: stamps and payloads, in the order of their log sequence numbers.
fn rewrite(dir: &Path, change: impl FnOnce(&mut Vec<(Stamp, Vec<u8>)>)) {
    let disk: Arc<dyn Disk> = Arc::new(SyncedDisk::new());
    let manifest = Manifest::read(&*disk, dir).unwrap().unwrap();
    let (identity, info) = (manifest.identity(), manifest.generations.last().unwrap());
    let (wal, worker) = (dir.join("wal"), WorkerId(0));
    let stream = StreamReader::open(Arc::clone(&disk), &wal, identity, info, worker);
    let (mut stream, mut records) = (stream.unwrap(), Vec::new());
    while let Some(frame) = stream.next_frame().unwrap() {
        records.extend(frame.records().map(|it| (it.stamp, it.payload.to_vec())));
    }
    change(&mut records);
    fs::remove_dir_all(wal.join("0000")).unwrap();
    let config = LogConfig {
        streams: NonZeroU16::MIN,
        placement: info.placement.clone(),
        first_lsn: info.first_lsn,
        sequencer: SequencerKind::FetchAdd,
        group: Group::Auto,
        group_wait_max: Duration::MAX,
        ..LogConfig::new(identity, info.generation)
    };
    let log = Log::<()>::create(disk, &wal, config).unwrap();
    for (stamp, payload) in records {
        let fill = |into: &mut [u8], _| into.copy_from_slice(&payload);
        let stream = log.stream(worker);
        let appended = stream.append(Entry::Part, stamp, Epoch(1), payload.len(), fill, |()| {});
        let _ = appended.unwrap();
    }
    log.close().unwrap();
}

/// Paper: pwal §5.3: each operation names the one before it that is to be undone next.
#[test]
fn check_names_an_operation_that_does_not_follow() {
    // The operations have the numbers from 1 on: BEGIN, UPDATE, UPDATE, UPDATE, END; BEGIN, UPDATE, UPDATE, CLR, END.
    let at = |number: usize| number - 1;
    // One is replaced by another; then this one is named, and why.
    let replace: [(usize, usize, u64, &str); 4] = [
        // An update is replaced by a second beginning.
        (3, 1, 4, "and the one before it is"),
        // The rest of a transaction without its beginning.
        (6, 5, 6, "has not begun"),
        // An update is repeated.
        (4, 3, 4, "it follows"),
        // A compensation of an operation that never happened.
        (8, 9, 8, "to be undone next"),
    ];
    for text in SPECS.iter().filter(|text| text.contains("ARIES")) {
        let (live, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let builder = || {
            Database::builder()
                .spec(spec(text))
                .streams(NonZeroU16::MIN)
        };
        let db = builder().log_file_bytes(1 << 20).open(live.path()).unwrap();
        let stock = db.table::<u64, i64>("stock").unwrap();
        db.transact(|tx| (1..4).try_for_each(|item| tx.put(&stock, &item, &1)))
            .unwrap();
        db.transact(|tx| {
            tx.put(&stock, &4, &1)?;
            let savepoint = tx.savepoint();
            tx.put(&stock, &5, &1)?;
            tx.rollback_to(&savepoint)
        })
        .unwrap();
        let copy = |name: &str| {
            let dir = copies.path().join(name);
            copy_tree(live.path(), &dir);
            dir
        };
        let sound = copy("sound");
        rewrite(&sound, |records| assert_eq!(records.len(), 10));
        let said = works(&["check", sound.to_str().unwrap()]);
        has(&said, "sound");
        for (place, other, named, why) in replace {
            let broken = copy(&format!("{place} is {other}"));
            rewrite(&broken, |records| {
                records[at(place)] = records[at(other)].clone();
            });
            let said = refuses(1, &["check", broken.to_str().unwrap()]);
            let told = format!("the operation with {} does not follow", Lsn(named));
            assert!(said.contains(&told) && said.contains(why), "{text}: {said}");
            let refused = builder().open(&broken).unwrap_err();
            assert!(
                matches!(refused, OpenError::BrokenTransaction { lsn, .. } if lsn == Lsn(named)),
                "{text}: {refused:?}"
            );
        }
    }
}

#[test]
fn check_refuses_a_manifest_that_is_older_than_the_log() {
    let (dir, path) = database(spec("TT(NLR)+PWAL(1)"));
    let manifest = dir.path().join("MANIFEST");
    let old = fs::read(&manifest).unwrap();
    let db = Database::open(dir.path()).unwrap();
    let table = db.table::<u64, u64>("newer").unwrap();
    db.transact(|tx| tx.put(&table, &1, &1)).unwrap();
    drop(db);
    works(&["check", &path]);
    fs::write(&manifest, old).unwrap();
    let said = refuses(1, &["check", &path]);
    has(&said, "000002-00000001.log");
    has(&said, "older than the log");
}

#[test]
fn a_directory_without_a_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let none = |path: &str| {
        for command in ["check", "dump-log"] {
            let said = refuses(1, &[command, path]);
            has(&said, "holds no database: it is empty");
        }
    };
    none(path);
    for left in [
        "LOCK",
        "MANIFEST.tmp",
        "direct-io-probe-123",
        "device-profile-0",
    ] {
        fs::write(dir.path().join(left), "").unwrap();
        none(path);
    }
    fs::write(dir.path().join("holiday.jpg"), "").unwrap();
    for command in ["check", "dump-log"] {
        let said = refuses(1, &[command, path]);
        has(&said, "holds files but no database");
        // The message for a reading command does not suggest a new directory.
        has(&said, "name the directory of a database");
    }
}

#[test]
fn missing_directories_files_and_databases_in_use_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let used = dir.path().join("used");
    let db = fill(&used, ProtocolSpec::DEFAULT);
    for command in ["check", "dump-log"] {
        let said = refuses(1, &[command, nowhere.to_str().unwrap()]);
        assert!(said.contains(nowhere.to_str().unwrap()), "{said}");
        has(&said, "does not exist; name the");
        let said = refuses(1, &[command, file.to_str().unwrap()]);
        has(&said, "is not a directory");
        let said = refuses(1, &[command, used.to_str().unwrap()]);
        has(&said, "is in use");
    }
    db.close().unwrap();
    works(&["check", used.to_str().unwrap()]);
}

#[test]
fn a_dump_shows_every_change_as_text_and_as_json() {
    for text in SPECS.iter().filter(|text| !text.contains("ARIES")) {
        let (_dir, path) = database(spec(text));
        let dump = works(&["dump-log", &path]);
        // The changes of a commit have no order among themselves.
        for change in ["put stock[7] = 2", "put names[\"item 7\"] = \"並木\""] {
            has(&dump, change);
        }
        has(&dump, "delete stock[3]\n");

        let json = works(&["dump-log", &path, "--format", "json"]);
        assert_eq!(json.lines().count(), dump.lines().count());
        let lines: Vec<serde_json::Value> = json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let kind = |kind: &'static str| lines.iter().filter(move |line| line["kind"] == kind);
        assert_eq!(kind("commit").count(), 21, "{text}");
        assert_eq!(
            kind("frame")
                .map(|line| line["commits"].as_u64().unwrap())
                .sum::<u64>(),
            21
        );
        assert!(kind("commit").all(|line| line["stamp"].as_u64() > Some(0)));
        assert!(kind("commit").all(|line| line["counts"] == true));
        let changes: Vec<_> = kind("commit")
            .flat_map(|line| line["changes"].as_array().unwrap())
            .collect();
        assert_eq!(changes.len(), 41);
        let deleted = changes
            .iter()
            .find(|change| change["op"] == "delete")
            .unwrap();
        assert_eq!((&deleted["key"], deleted.get("value")), (&"3".into(), None));
        assert_eq!(deleted["key_hex"], "0000000000000003");
    }
}

#[test]
fn a_dump_shows_every_operation_as_text_and_as_json() {
    for text in SPECS.iter().filter(|text| text.contains("ARIES")) {
        let (_dir, path) = database(spec(text));
        let dump = works(&["dump-log", &path]);
        for change in [
            ": stock[7] = 2, was nothing",
            ": names[\"item 7\"] = \"並木\", was nothing",
            ": stock[3] = nothing, was -2\n",
        ] {
            assert!(dump.contains(change), "{change}: {dump}");
        }
        let json = works(&["dump-log", &path, "--format", "json"]);
        assert_eq!(json.lines().count(), dump.lines().count());
        let lines: Vec<serde_json::Value> = json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let sum = |of: &str| -> u64 {
            let frames = lines.iter().filter(|line| line["kind"] == "frame");
            frames.filter_map(|line| line[of].as_u64()).sum()
        };
        // 21 beginnings and ends, and 41 changes.
        assert_eq!((sum("operations"), sum("commits")), (83, 0), "{text}");
        let op = |op: &'static str| lines.iter().filter(move |line| line["op"] == op);
        assert_eq!((op("begin").count(), op("end").count()), (21, 21));
        assert!(op("end").all(|line| line["stamp"].as_u64() > Some(0)));
        assert_eq!(op("update").count(), 41);
        let deleted = op("update")
            .find(|line| line.get("after").is_none())
            .unwrap();
        assert_eq!(
            (&deleted["key"], &deleted["before"]),
            (&"3".into(), &"-2".into())
        );
        assert_eq!(deleted["key_hex"], "0000000000000003");
    }
}

#[test]
fn a_dump_can_be_narrowed_down() {
    let (dir, path) = database(ProtocolSpec::DEFAULT);
    Database::open(dir.path()).unwrap().close().unwrap();
    let all = works(&["dump-log", &path]);
    let limited = works(&["dump-log", &path, "--limit", "5"]);
    assert_eq!(limited.lines().count(), 5);
    assert!(all.starts_with(&limited));
    assert_eq!(works(&["dump-log", &path, "--limit", "0"]), "");
    let first = works(&["dump-log", &path, "--generation", "1"]);
    let streams: Vec<_> = ["0", "1"]
        .map(|stream| works(&["dump-log", &path, "--generation", "1", "--stream", stream]))
        .into();
    assert_eq!(first, streams.concat());
    assert!(all.starts_with(&first) && all.len() > first.len());
    let brief = works(&["dump-log", &path, "--changes", "1"]);
    assert_eq!(brief.lines().count(), all.lines().count());
    assert_eq!(brief.matches(" … and 1 more\n").count(), 20, "{brief}");
    assert!(refuses(2, &["dump-log", &path, "--generation", "7"]).contains("generation 7"));
    assert!(refuses(2, &["dump-log", &path, "--stream", "700"]).contains("stream 700"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let table = db.table::<u64, [u8; 1000]>("t").unwrap();
    for batch in 0..50_u64 {
        db.transact(|tx| (0..50).try_for_each(|n| tx.put(&table, &(50 * batch + n), &[7; 1000])))
            .unwrap();
    }
    db.close().unwrap();
    // More than a pipe's capacity, so that the writer encounters the closed pipe.
    let mut dump = Command::new(env!("CARGO_BIN_EXE_namiki"))
        .arg("dump-log")
        .arg(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(dump.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    drop(reader);
    let output = dump.wait_with_output().unwrap();
    assert!(line.starts_with("frame 1 of "), "{line}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn ctrl_c_ends_the_demo_and_cleans_up() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Command::new(env!("CARGO_BIN_EXE_namiki"))
        .args(["demo", "--accounts", "2000", "--seconds", "600"])
        .env("TMPDIR", dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut demo = demo;
    // The first line comes when the handler is in place.
    let mut told = BufReader::new(demo.stdout.take().unwrap());
    told.read_line(&mut String::new()).unwrap();
    let sent = Command::new("kill")
        .args(["-INT", &demo.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("interrupted"),
        "{output:?}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_version_says_the_commit_and_the_format() {
    let said = works(&["--version"]);
    assert!(
        said.starts_with(concat!("namiki ", env!("CARGO_PKG_VERSION"), " (")),
        "{said}"
    );
    let format = format!("on-disk format {})", namiki::files::FORMAT);
    assert!(said.trim_end().ends_with(&format), "{said}");
}

#[test]
fn each_shell_gets_a_script_that_names_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = works(&["completions", shell]);
        for command in ["check", "dump-log", "restore", "completions"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    refuses(2, &["completions", "tcsh"]);
}
