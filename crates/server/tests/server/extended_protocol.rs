//! The extended protocol.

use crate::messages::{bind, close, describe, execute, flush, frame, parse, query, sync};
use crate::raw_client::RawClient;
use crate::running::{Home, Running};

/// A server with a table of ten rows, and a client.
fn with_rows() -> (Home, Running, RawClient) {
    let (home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE t (id int PRIMARY KEY, name text)");
    for id in 1..=10 {
        client.run(&format!("INSERT INTO t VALUES ({id}, 'n{id}')"));
    }
    (home, server, client)
}

#[test]
fn statements_are_prepared_described_and_run() {
    let (_home, _server, mut client) = with_rows();
    let answer = client.ask(&[
        parse("s", "SELECT name FROM t WHERE id = $1"),
        describe(b'S', "s"),
        bind("", "s", &[Some("3")]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(answer.kinds, "1tT2TDCZ");
    assert_eq!(answer.lines(), ["n3"]);
    assert_eq!(answer.tags, ["SELECT 1"]);
    let again = client.ask(&[bind("", "s", &[Some("11")]), execute("", 0), sync()]);
    assert_eq!(
        (again.kinds.as_str(), &again.tags[0][..]),
        ("2CZ", "SELECT 0")
    );
    let change = client.ask(&[
        parse("", "UPDATE t SET name = $2 WHERE id = $1"),
        describe(b'S', ""),
        bind("", "", &[Some("3"), None]),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(change.kinds, "1tn2CZ");
    assert_eq!(change.tags, ["UPDATE 1"]);
    assert_eq!(client.run("SELECT name FROM t WHERE id = 3"), ["NULL"]);
}

#[test]
fn row_limits_suspend_portals() {
    let (_home, _server, mut client) = with_rows();
    let answer = client.ask(&[
        parse("", "SELECT id FROM t ORDER BY id"),
        bind("p", "", &[]),
        execute("p", 4),
        execute("p", 4),
        execute("p", 4),
        sync(),
    ]);
    assert_eq!(answer.kinds, "12DDDDsDDDDsDDCZ");
    let ids: Vec<String> = (1..=10).map(|id| id.to_string()).collect();
    assert_eq!(answer.lines(), ids);
    // The transaction has ended, and its portal with it.
    let gone = client.ask(&[execute("p", 4), sync()]);
    assert_eq!(gone.sqlstate(), "34000");
    // In a block, it stays.
    client.run("BEGIN");
    let first = client.ask(&[
        parse("", "SELECT id FROM t ORDER BY id"),
        bind("p", "", &[]),
        execute("p", 9),
        sync(),
    ]);
    assert_eq!(first.rows.len(), 9);
    let rest = client.ask(&[execute("p", 0), sync()]);
    assert_eq!(
        (rest.lines(), rest.kinds.as_str()),
        (vec!["10".to_owned()], "DCZ")
    );
    client.run("COMMIT");
}

#[test]
fn messages_after_an_error_are_skipped_until_sync() {
    let (_home, _server, mut client) = with_rows();
    let answer = client.ask(&[
        parse("", "INSERT INTO t VALUES ($1, 'new')"),
        bind("", "", &[Some("11")]),
        execute("", 0),
        bind("", "", &[Some("1")]),
        execute("", 0),
        bind("", "", &[Some("12")]),
        execute("", 0),
        query("INSERT INTO t VALUES (13, 'skipped')"),
        sync(),
    ]);
    assert_eq!(answer.kinds, "12C2EZ");
    assert_eq!(answer.sqlstate(), "23505");
    // All statements up to Sync are one transaction.
    assert_eq!(client.run("SELECT count(*) FROM t"), ["10"]);
}

/// Portions of a portal are counted right where they are longer than the server's buffer.
#[test]
fn row_limits_hold_for_long_rows() {
    let (_home, _server, mut client) = with_rows();
    client.run("CREATE TABLE long (id int PRIMARY KEY, filler text)");
    client.run("INSERT INTO long SELECT x, repeat('x', 1000) FROM generate_series(1, 1000) AS x");
    let (select, bound) = (
        parse("", "SELECT id, filler FROM long ORDER BY id"),
        bind("p", "", &[]),
    );
    let mut messages = vec![select.clone(), bound.clone()];
    messages.extend(vec![execute("p", 200); 5]);
    messages.push(sync());
    // In one batch, and in a block.
    let mut answers = vec![client.ask(&messages)];
    client.run("BEGIN");
    client.ask(&[select, bound, sync()]);
    answers.extend((0..5).map(|_| client.ask(&[execute("p", 200), sync()])));
    client.run("COMMIT");
    let kinds: String = answers.iter().map(|it| it.kinds.as_str()).collect();
    let portions: Vec<usize> = kinds
        .split(['s', 'C'])
        .map(|it| it.matches('D').count())
        .filter(|rows| *rows > 0)
        .collect();
    assert_eq!(portions, [200; 10]);
    let ids: Vec<String> = answers
        .iter()
        .flat_map(|it| &it.rows)
        .map(|row| row[0].clone().unwrap())
        .collect();
    let expected: Vec<String> = (1..=1000)
        .chain(1..=1000)
        .map(|id| id.to_string())
        .collect();
    assert_eq!(ids, expected);
}

#[test]
fn long_application_names_are_cut() {
    let (_home, _server, mut client) = with_rows();
    let name = "n".repeat(31 << 10);
    let set = client.query(&format!("SET application_name = '{name}'"));
    assert_eq!((set.error, set.kinds.as_str()), (None, "CSZ"));
    assert_eq!(client.run("SHOW application_name"), ["n".repeat(63)]);
    let inserted = client.query("INSERT INTO t VALUES (100, 'n100')");
    assert_eq!(inserted.error, None);
    let refused = client.query(&format!("SET a.b = '{}'", "n".repeat(1 << 20)));
    assert_eq!(refused.sqlstate(), "54000");
}

#[test]
fn names_are_checked() {
    let (_home, _server, mut client) = with_rows();
    for (messages, sqlstate) in [
        (vec![bind("", "none", &[])], "26000"),
        (vec![bind("", "", &[])], "26000"),
        (vec![describe(b'S', "none")], "26000"),
        (vec![describe(b'P', "none")], "34000"),
        (vec![execute("none", 0)], "34000"),
        (
            vec![parse("twice", "SELECT 1"), parse("twice", "SELECT 1")],
            "42P05",
        ),
        (
            vec![
                parse("", "SELECT 1"),
                bind("p", "", &[]),
                bind("p", "", &[]),
            ],
            "42P03",
        ),
        (
            vec![parse("", "SELECT $1::int"), bind("", "", &[])],
            "08P01",
        ),
        (vec![parse("", "SELECT"), parse("", "SELEC 1")], "42601"),
    ] {
        let answer = client.ask(&[messages.concat(), sync()]);
        assert_eq!(answer.sqlstate(), sqlstate);
    }
    let closed = client.ask(&[
        parse("s", "SELECT 1"),
        close(b'S', "s"),
        close(b'S', "none"),
        close(b'P', "none"),
        bind("", "s", &[]),
        sync(),
    ]);
    assert_eq!(closed.kinds, "1333EZ");
    assert_eq!(closed.sqlstate(), "26000");
}

#[test]
fn flush_sends_what_there_is() {
    let (_home, _server, mut client) = with_rows();
    client.send(&[parse("", "SELECT 7"), flush()].concat());
    assert_eq!(client.message().unwrap().kind, b'1');
    client.send(&[bind("", "", &[]), execute("", 0), flush()].concat());
    let messages = client.until(b'C');
    assert_eq!(messages.len(), 3);
    assert_eq!(client.ask(&[sync()]).kinds, "Z");
}

#[test]
fn pipelined_batches_are_answered_in_order() {
    let (_home, _server, mut client) = with_rows();
    client.ask(&[parse("s", "SELECT name FROM t WHERE id = $1"), sync()]);
    let mut messages = Vec::new();
    for round in 0..1000 {
        let id = (round % 10 + 1).to_string();
        messages.extend(bind("", "s", &[Some(&id)]));
        messages.extend(execute("", 0));
        messages.extend(sync());
    }
    client.send(&messages);
    for round in 0..1000 {
        let answer = client.answer();
        assert_eq!(answer.lines(), [format!("n{}", round % 10 + 1)]);
    }
}

#[test]
fn malformed_messages_fail_their_batch_alone() {
    let (_home, _server, mut client) = with_rows();
    for (kind, body) in [
        (b'P', &b"no end"[..]),
        (b'B', b"\0\0\0\x01"),
        (b'B', b"\0\0\0\x01\0\x07\0\0\0\0"),
        (b'D', b"Xname\0"),
        (b'C', b""),
        (b'E', b"\0\0"),
        (b'P', b"\0SELECT '\xc3\x28'\0\0\0"),
    ] {
        let answer = client.ask(&[frame(kind, body), query("SELECT 1"), sync()]);
        let expected = if body.contains(&0xc3) {
            "22021"
        } else {
            "08P01"
        };
        assert_eq!(answer.sqlstate(), expected, "{body:?}");
        assert_eq!(answer.kinds, "EZ");
    }
    assert_eq!(client.run("SELECT 1"), ["1"]);
}

#[test]
fn deallocated_statements_are_gone() {
    let (_home, _server, mut client) = with_rows();
    for (text, left) in [
        ("DEALLOCATE a", "b"),
        ("DEALLOCATE ALL", ""),
        ("DISCARD ALL", ""),
    ] {
        client.ask(&[parse("a", "SELECT 1"), sync()]);
        if left.is_empty() {
            client.ask(&[parse("b", "SELECT 2"), sync()]);
        } else {
            client.ask(&[close(b'S', "b"), parse("b", "SELECT 2"), sync()]);
        }
        let answer = client.query(text);
        assert_eq!(answer.error, None, "{text}");
        for name in ["a", "b"] {
            let bound = client.ask(&[bind("", name, &[]), sync()]);
            assert_eq!(bound.error.is_none(), name == left, "{text}, {name}");
        }
    }
}
