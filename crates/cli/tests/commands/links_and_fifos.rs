//! Commands that inspect a directory report an entry that should be a file but is not, and do not
//! block on it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use namiki::Database;

/// Exit status and standard error of a run that must terminate.
fn run(command: &str, dir: &Path) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_namiki"))
        .arg(command)
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = child.stderr.take().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let text = std::io::read_to_string(&mut errors).unwrap();
        drop(sender.send(text));
    });
    let Ok(text) = receiver.recv_timeout(Duration::from_secs(60)) else {
        child.kill().unwrap();
        panic!("namiki {command} does not come to an end");
    };
    (child.wait().unwrap().code(), text)
}

fn first_file(dir: &Path) -> PathBuf {
    let entries = fs::read_dir(dir.join("wal/0000")).unwrap();
    entries.map(|entry| entry.unwrap().path()).min().unwrap()
}

#[test]
fn check_and_dump_name_non_files_and_follow_links() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("db");
    let db = Database::builder()
        .streams(1.try_into().unwrap())
        .log_file_bytes(1 << 20)
        .open(&dir)
        .unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    db.transact(|tx| tx.put(&table, &1, &1)).unwrap();
    db.close().unwrap();

    for path in [first_file(&dir), dir.join("MANIFEST"), dir.join("LOCK")] {
        let moved = temporary.path().join("moved");
        fs::rename(&path, &moved).unwrap();
        for kind in ["a FIFO", "a directory", "a link that leads to no file"] {
            match kind {
                "a FIFO" => {
                    let made = Command::new("mkfifo").arg(&path).status().unwrap();
                    assert!(made.success());
                }
                "a directory" => fs::create_dir(&path).unwrap(),
                _ => symlink("nothing-is-here", &path).unwrap(),
            }
            for command in ["check", "dump-log"] {
                let (status, said) = run(command, &dir);
                assert_eq!(status, Some(1), "{said}");
                let name = path.to_str().unwrap();
                let told = [name, kind, "put the file back"];
                assert!(told.iter().all(|it| said.contains(it)), "{said}");
            }
            match kind {
                "a directory" => fs::remove_dir(&path).unwrap(),
                _ => fs::remove_file(&path).unwrap(),
            }
        }
        symlink(&moved, &path).unwrap();
        for command in ["check", "dump-log"] {
            assert_eq!(run(command, &dir), (Some(0), String::new()), "{path:?}");
        }
        fs::remove_file(&path).unwrap();
        fs::rename(&moved, &path).unwrap();
    }
}
