//! Cancel requests, and limits of time.

use std::thread;
use std::time::{Duration, Instant};

use crate::messages::{packet, query};
use crate::raw_client::{Answer, RawClient};
use crate::running::{Home, Running};

const CANCEL_REQUEST: [u8; 4] = 80_877_102_i32.to_be_bytes();

/// It would take hours.
const ENDLESS: &str = "SELECT count(*) FROM t a, t b, t c, t d WHERE a.id + b.id + c.id + d.id < 0";

fn with_rows() -> (Home, Running, RawClient) {
    let (home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE t (id int PRIMARY KEY)");
    let rows: Vec<String> = (0..2000).map(|id| format!("({id})")).collect();
    client.run(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    (home, server, client)
}

fn cancel(server: &Running, number: i32, secret: &[u8]) {
    let mut client = RawClient::silent(server);
    let body = [&CANCEL_REQUEST[..], &number.to_be_bytes(), secret].concat();
    client.send(&packet(&body));
    assert_eq!(client.rest(), []);
}

#[test]
fn the_statement_that_runs_is_cancelled() {
    let (_home, server, mut client) = with_rows();
    let (number, secret) = client.key.clone();
    // A request between statements cancels none that follows.
    cancel(&server, number, &secret);
    assert_eq!(client.run("SELECT 1"), ["1"]);
    client.send(&query(ENDLESS));
    thread::sleep(Duration::from_millis(300));
    let mut wrong = secret.clone();
    wrong[0] ^= 1;
    cancel(&server, number, &wrong);
    cancel(&server, number + 1, &secret);
    let before = Instant::now();
    cancel(&server, number, &secret);
    let answer = client.answer();
    assert_eq!((answer.sqlstate(), answer.status), ("57014", 'I'));
    assert!(before.elapsed() < Duration::from_secs(10));
    assert_eq!(client.run("SELECT count(*) FROM t"), ["2000"]);
}

#[test]
fn a_cancelled_block_fails() {
    let (_home, server, mut client) = with_rows();
    let (number, secret) = client.key.clone();
    client.run("BEGIN");
    client.run("INSERT INTO t VALUES (5000)");
    client.send(&query(ENDLESS));
    thread::sleep(Duration::from_millis(300));
    cancel(&server, number, &secret);
    let answer = client.answer();
    assert_eq!((answer.sqlstate(), answer.status), ("57014", 'E'));
    client.run("ROLLBACK");
    assert_eq!(client.run("SELECT count(*) FROM t WHERE id = 5000"), ["0"]);
}

/// Statements of clients that have gone do not keep the threads of others.
#[test]
fn statements_end_with_their_clients() {
    let (_home, server, mut client) = with_rows();
    for _ in 0..80 {
        let mut other = RawClient::connect(&server);
        other.send(&query(ENDLESS));
    }
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = client.query("SELECT count(*) FROM t a, t b WHERE a.id = b.id");
        if answer.error.is_none() {
            assert_eq!(answer.lines(), ["2000"]);
            break;
        }
        assert!(Instant::now() < until, "{:?}", answer.error);
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn statements_and_idle_blocks_have_their_time() {
    let (_home, server, mut client) = with_rows();
    client.run("SET statement_timeout = '300ms'");
    let answer = client.query(ENDLESS);
    let message = "canceling statement due to statement timeout".to_owned();
    assert_eq!(answer.error, Some(("57014".to_owned(), message)));
    assert_eq!(answer.status, 'I');
    client.run("SET statement_timeout = 0");
    client.run("SET idle_in_transaction_session_timeout = '300ms'");
    // Only within a block.
    thread::sleep(Duration::from_millis(600));
    client.run("BEGIN");
    client.run("INSERT INTO t VALUES (5000)");
    let before = Instant::now();
    let messages = client.rest();
    assert_eq!(Answer::of(&messages).sqlstate(), "25P03");
    assert!(before.elapsed() >= Duration::from_millis(250));
    let mut other = RawClient::connect(&server);
    assert_eq!(other.run("SELECT count(*) FROM t"), ["2000"]);
}

/// Changes of many rows do not keep the thread of their session.
#[test]
fn a_long_change_keeps_no_other_session_waiting() {
    let (_home, server) = Running::with(&["--threads", "1"]);
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE big (id int PRIMARY KEY, a int)");
    client.run("INSERT INTO big SELECT x, x FROM generate_series(1, 300000) AS x");
    let mut other = RawClient::connect(&server);
    other.run("SELECT 1");
    client.send(&query("UPDATE big SET a = a + 1"));
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(1) {
        let before = Instant::now();
        assert_eq!(other.run("SELECT id FROM big WHERE id = 7"), ["7"]);
        slowest = slowest.max(before.elapsed());
    }
    assert_eq!(client.answer().tags, ["UPDATE 300000"]);
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
}
