//! COPY FROM STDIN and TO STDOUT.

use crate::messages::{bind, copy_data, copy_done, copy_fail, execute, flush, parse, query, sync};
use crate::raw_client::{Answer, RawClient};
use crate::running::{Home, Running};

fn with_table() -> (Home, Running, RawClient) {
    let (home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE t (id int PRIMARY KEY, name text)");
    (home, server, client)
}

/// Begins a COPY by the simple protocol.
fn begin(client: &mut RawClient) {
    client.send(&query("COPY t FROM STDIN"));
    assert_eq!(client.message().unwrap().kind, b'G');
}

#[test]
fn rows_are_copied_in_and_out() {
    let (_home, _server, mut client) = with_table();
    begin(&mut client);
    // Messages may end within a row.
    let rows = "1\tone\n2\t\\N\n3\ttab\\there\n";
    for piece in rows.as_bytes().chunks(5) {
        client.send(&copy_data(piece));
    }
    client.send(&[flush(), sync()].concat());
    let answer = client.ask(&[copy_done()]);
    assert_eq!(
        (answer.tags, answer.status),
        (vec!["COPY 3".to_owned()], 'I')
    );
    let counted = client.run("SELECT count(*), count(name) FROM t");
    assert_eq!(counted, ["3|2"]);
    client.send(&query("COPY t TO STDOUT"));
    let messages = client.until(b'Z');
    let lines = messages.iter().filter(|it| it.kind == b'd');
    let copied: Vec<u8> = lines.flat_map(|it| it.body.clone()).collect();
    assert_eq!(String::from_utf8(copied).unwrap(), rows);
    let answer = Answer::of(&messages);
    assert_eq!(
        (answer.kinds.as_str(), &answer.tags[0][..]),
        ("HdddcCZ", "COPY 3")
    );
}

#[test]
fn a_copy_that_fails_leaves_no_row() {
    let (_home, _server, mut client) = with_table();
    begin(&mut client);
    let answer = client.ask(&[copy_data(b"1\tone\n"), copy_fail("changed my mind")]);
    assert_eq!(answer.sqlstate(), "57014");
    begin(&mut client);
    let answer = client.ask(&[
        copy_data(b"1\tone\nx\ttwo\n"),
        copy_data(b"3\tc\n"),
        copy_done(),
    ]);
    assert_eq!(answer.sqlstate(), "22P02");
    begin(&mut client);
    let answer = client.ask(&[copy_data(b"1\tone\n1\ttwo\n"), copy_done()]);
    assert_eq!(answer.sqlstate(), "23505");
    begin(&mut client);
    let answer = client.ask(&[copy_data(b"1\t\xff\n"), copy_done()]);
    assert_eq!(answer.sqlstate(), "22021");
    assert_eq!(client.run("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn rows_are_copied_by_the_extended_protocol() {
    let (_home, _server, mut client) = with_table();
    client.send(
        &[
            parse("", "COPY t FROM STDIN"),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ]
        .concat(),
    );
    client.until(b'G');
    let answer = client.ask(&[copy_data(b"1\tone\n"), copy_done(), sync()]);
    assert_eq!(answer.tags, ["COPY 1"]);
    client.send(
        &[
            parse("", "COPY t FROM STDIN"),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ]
        .concat(),
    );
    client.until(b'G');
    let answer = client.ask(&[copy_data(b"bad\n"), copy_done(), sync()]);
    assert!(!answer.sqlstate().is_empty());
    assert_eq!(client.run("SELECT count(*) FROM t"), ["1"]);
}

#[test]
fn a_copy_without_its_client_leaves_no_row() {
    let (_home, server, mut client) = with_table();
    let mut other = RawClient::connect(&server);
    begin(&mut other);
    other.send(&copy_data(b"1\tone\n"));
    drop(other);
    assert_eq!(client.run("SELECT count(*) FROM t"), ["0"]);
    client.run("INSERT INTO t VALUES (1, 'mine')");
}

#[test]
fn other_messages_end_a_copy_and_the_session() {
    let (_home, server, mut client) = with_table();
    let mut other = RawClient::connect(&server);
    begin(&mut other);
    other.send(&query("SELECT 1"));
    assert_eq!(Answer::of(&other.rest()).sqlstate(), "08P01");
    assert_eq!(client.run("SELECT 1"), ["1"]);
}
