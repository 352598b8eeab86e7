//! The end of a server, and its next start.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::messages::{query, startup};
use crate::raw_client::{Answer, RawClient};
use crate::running::{Home, Running};

#[test]
fn sessions_are_told_and_data_stays() {
    for signal in ["TERM", "INT"] {
        let (home, mut server) = Running::new();
        let mut client = RawClient::connect(&server);
        client.run("CREATE TABLE t (id int PRIMARY KEY)");
        client.run("INSERT INTO t VALUES (1)");
        let mut in_block = RawClient::connect(&server);
        in_block.run("BEGIN; INSERT INTO t VALUES (2)");
        server.signal(signal);
        for client in [&mut client, &mut in_block] {
            assert_eq!(Answer::of(&client.rest()).sqlstate(), "57P01");
        }
        assert!(server.wait().success());
        assert!(!server.socket().exists());
        let again = home.start(&[]);
        let mut client = RawClient::connect(&again);
        assert_eq!(client.run("SELECT id FROM t"), ["1"]);
    }
}

#[test]
fn a_statement_finishes_before_the_server_ends() {
    let (_home, mut server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE t (id int PRIMARY KEY)");
    let rows: Vec<String> = (0..1500).map(|id| format!("({id})")).collect();
    client.run(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    // Some seconds at most.
    let text = "SELECT count(*) FROM t a, t b WHERE a.id + b.id < 0";
    client.send(&query(text));
    thread::sleep(Duration::from_millis(20));
    server.signal("TERM");
    let messages = client.rest();
    let answer = Answer::of(&messages);
    assert_eq!(answer.rows, [[Some("0".to_owned())]]);
    assert_eq!(answer.sqlstate(), "57P01");
    assert!(server.wait().success());
}

#[test]
fn endless_statements_are_cancelled_at_the_end() {
    let (_home, mut server) = Running::with(&["--stop-timeout", "1s"]);
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE t (id int PRIMARY KEY)");
    let rows: Vec<String> = (0..2000).map(|id| format!("({id})")).collect();
    client.run(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    client.send(&query(
        "SELECT count(*) FROM t a, t b, t c, t d WHERE a.id + b.id + c.id + d.id < 0",
    ));
    thread::sleep(Duration::from_millis(200));
    let before = Instant::now();
    server.signal("TERM");
    let answer = Answer::of(&client.rest());
    assert_eq!(answer.sqlstate(), "57014");
    assert!(answer.kinds.ends_with('E'), "{}", answer.kinds);
    assert!(server.wait().success());
    assert!(before.elapsed() < Duration::from_secs(20));
}

/// Neither silent ones, nor those that wait for a password to be typed.
#[test]
fn clients_without_a_login_delay_no_stop() {
    let (_home, mut server) = Running::new();
    let mut silent = RawClient::silent_tcp(&server);
    let mut half = RawClient::silent_tcp(&server);
    half.send(&startup(0, &[("user", &server.role)]));
    assert_eq!(half.message().unwrap().kind, b'R');
    let before = Instant::now();
    server.signal("TERM");
    assert!(server.wait().success());
    let time = before.elapsed();
    assert!(time < Duration::from_secs(5), "{time:?}");
    for client in [&mut silent, &mut half] {
        assert_eq!(Answer::of(&client.rest()).sqlstate(), "57P01");
    }
}

/// A first start that fails does not use the password up.
#[test]
fn the_password_is_shown_by_the_first_start_that_succeeds() {
    let (_home, other) = Running::new();
    let address = format!("127.0.0.1:{}", other.port);
    let home = Home::new();
    let output = Command::new(env!("CARGO_BIN_EXE_namiki-server"))
        .args(["--listen", &address, "--http", "none", "--dir"])
        .arg(home.data())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("password"));
    let server = home.start(&[]);
    assert!(server.password.is_some());
    let mode = fs::metadata(home.data()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "the directory is private");
}

#[test]
fn a_second_server_names_the_directory_in_use() {
    let (home, _server) = Running::new();
    let output = Command::new(env!("CARGO_BIN_EXE_namiki-server"))
        .args(["--listen", "127.0.0.1:0", "--http", "none", "--dir"])
        .arg(home.data())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    let data = home.data();
    assert!(errors.contains(data.to_str().unwrap()), "{errors}");
}

#[test]
fn an_address_in_use_is_named_with_a_remedy() {
    let (_home, server) = Running::new();
    let address = format!("127.0.0.1:{}", server.port);
    let other = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_namiki-server"))
        .args(["--listen", &address, "--http", "none", "--dir"])
        .arg(other.path().join("data"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains(&address) && errors.contains("--listen"),
        "{errors}"
    );
}

#[test]
fn a_new_password_replaces_the_first() {
    let (home, server) = Running::new();
    let output = Command::new(env!("CARGO_BIN_EXE_namiki-server"))
        .args(["password", "--dir"])
        .arg(home.data())
        .output()
        .unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let first = server.password.clone().unwrap();
    assert!(
        said.starts_with(&format!("role {}, new password: ", server.role)),
        "{said}"
    );
    assert!(!said.contains(&first));
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_namiki-server"))
        .args(["password", "--dir"])
        .arg(empty.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
}
