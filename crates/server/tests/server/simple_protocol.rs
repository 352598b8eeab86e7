//! The simple protocol.

use crate::messages::{frame, query};
use crate::raw_client::RawClient;
use crate::running::Running;

#[test]
fn statements_of_a_message_are_one_transaction() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE t (id int PRIMARY KEY)");
    let answer =
        client.query("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); SELECT count(*) FROM t");
    assert_eq!(answer.tags, ["INSERT 0 1", "INSERT 0 1", "SELECT 1"]);
    assert_eq!(answer.lines(), ["2"]);
    let answer = client
        .query("INSERT INTO t VALUES (3); INSERT INTO t VALUES (1); INSERT INTO t VALUES (4)");
    assert_eq!(answer.tags, ["INSERT 0 1"]);
    assert_eq!(answer.sqlstate(), "23505");
    assert_eq!(answer.status, 'I');
    assert_eq!(client.run("SELECT count(*) FROM t"), ["2"]);
}

#[test]
fn empty_messages_are_answered() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    for text in ["", " ", ";", "-- nothing", "/* nothing */ ; "] {
        assert_eq!(client.query(text).kinds, "IZ", "{text:?}");
    }
}

#[test]
fn a_failed_block_waits_for_its_end() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE t (id int PRIMARY KEY)");
    assert_eq!(client.query("BEGIN").status, 'T');
    assert_eq!(client.query("INSERT INTO t VALUES (1)").status, 'T');
    let failed = client.query("SELECT no_such_column FROM t");
    assert_eq!((failed.sqlstate(), failed.status), ("42703", 'E'));
    assert_eq!(client.query("SELECT 1").sqlstate(), "25P02");
    let ended = client.query("COMMIT");
    assert_eq!(
        (ended.tags, ended.status),
        (vec!["ROLLBACK".to_owned()], 'I')
    );
    assert_eq!(client.run("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn bytes_that_are_no_utf8_are_refused() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.send(&frame(b'Q', b"SELECT '\xff'\0"));
    let answer = client.answer();
    assert_eq!(answer.sqlstate(), "22021");
    assert_eq!(client.run("SELECT 1"), ["1"]);
}

#[test]
fn pipelined_queries_are_answered_in_order() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    let messages: Vec<u8> = (0..500)
        .flat_map(|number| query(&format!("SELECT {number}")))
        .collect();
    client.send(&messages);
    for number in 0..500 {
        assert_eq!(client.answer().lines(), [number.to_string()]);
    }
}

#[test]
fn reported_settings_are_sent_when_they_change() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    let answer = client.query("SET application_name = 'a test'");
    assert_eq!(answer.kinds, "CSZ");
    assert_eq!(client.run("SHOW application_name"), ["a test"]);
}

#[test]
fn function_calls_are_refused() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.send(&frame(b'F', &[0; 12]));
    assert_eq!(client.answer().sqlstate(), "0A000");
    assert_eq!(client.run("SELECT 1"), ["1"]);
}
