//! Cancel requests.

use std::thread;
use std::time::{Duration, Instant};

use crate::messages::{packet, query};
use crate::raw_client::RawClient;
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
