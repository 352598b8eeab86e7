//! Transactions that meet: serialized, or refused with 40001.

use std::thread;

use crate::messages::{bind, execute, flush, parse, sync};
use crate::raw_client::RawClient;
use crate::running::{Home, Running};

fn with_accounts() -> (Home, Running) {
    let (home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)");
    client.run("INSERT INTO account VALUES (1, 100), (2, 100)");
    (home, server)
}

/// Runs statements of two sessions in this order. Returns the SQLSTATEs of their commits.
fn interleave(server: &Running, steps: &[(usize, &str)]) -> [String; 2] {
    let mut clients = [RawClient::connect(server), RawClient::connect(server)];
    for client in &mut clients {
        client.run("BEGIN");
    }
    let mut failures = [String::new(), String::new()];
    for (at, text) in steps {
        if failures[*at].is_empty() {
            failures[*at] = clients[*at].query(text).sqlstate().to_owned();
        }
    }
    for (at, client) in clients.iter_mut().enumerate() {
        let ended = client.query("COMMIT");
        if failures[at].is_empty() {
            failures[at] = ended.sqlstate().to_owned();
        }
    }
    failures
}

/// At most one of two transactions may fail, and only by a serialization failure.
fn one_fails(failures: &[String; 2]) {
    let failed: Vec<_> = failures.iter().filter(|it| !it.is_empty()).collect();
    assert_eq!(failed, ["40001"], "{failures:?}");
}

#[test]
fn no_update_is_lost() {
    let (_home, server) = with_accounts();
    let failures = interleave(
        &server,
        &[
            (0, "SELECT balance FROM account WHERE id = 1"),
            (1, "SELECT balance FROM account WHERE id = 1"),
            (0, "UPDATE account SET balance = 110 WHERE id = 1"),
            (1, "UPDATE account SET balance = 120 WHERE id = 1"),
        ],
    );
    one_fails(&failures);
}

#[test]
fn write_skew_is_refused() {
    let (_home, server) = with_accounts();
    let failures = interleave(
        &server,
        &[
            (0, "SELECT sum(balance) FROM account"),
            (1, "SELECT sum(balance) FROM account"),
            (0, "UPDATE account SET balance = -90 WHERE id = 1"),
            (1, "UPDATE account SET balance = -90 WHERE id = 2"),
        ],
    );
    one_fails(&failures);
}

#[test]
fn phantoms_are_refused() {
    let (_home, server) = with_accounts();
    let failures = interleave(
        &server,
        &[
            (0, "SELECT count(*) FROM account WHERE id > 5"),
            (1, "SELECT count(*) FROM account WHERE id > 5"),
            (0, "INSERT INTO account VALUES (6, 1)"),
            (1, "INSERT INTO account VALUES (7, 1)"),
        ],
    );
    // Both may fail: each has changed the range that the other has read.
    let mut failed = failures.iter().filter(|it| !it.is_empty()).peekable();
    assert!(failed.peek().is_some() && failed.all(|it| it == "40001"));
}

/// A transaction that sees one half of another's change does not commit, nor sees the other half.
#[test]
fn read_skew_is_refused() {
    let (_home, server) = with_accounts();
    let mut reader = RawClient::connect(&server);
    let mut writer = RawClient::connect(&server);
    reader.run("BEGIN");
    assert_eq!(
        reader.run("SELECT balance FROM account WHERE id = 1"),
        ["100"]
    );
    let change = "UPDATE account SET balance = 50 WHERE id = 1; UPDATE account SET balance = 150 WHERE id = 2";
    writer.run(change);
    let second = reader.query("SELECT balance FROM account WHERE id = 2");
    let ended = reader.query("COMMIT");
    match second.sqlstate() {
        "40001" => {}
        "" => {
            // Either it read the old balance, or it cannot commit.
            let is_old = second.lines() == ["100"];
            assert!(is_old || ended.sqlstate() == "40001");
        }
        other => panic!("{other}"),
    }
}

/// Conflicts of statements outside of blocks never reach the client: the server repeats them.
#[test]
fn batches_are_repeated_by_the_server() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 100;
    let (_home, server) = with_accounts();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let mut client = RawClient::connect(server);
                for _ in 0..ROUNDS {
                    let answer = if number % 2 == 0 {
                        // A multi-statement message that reads before it writes.
                        client.query(
                            "SELECT balance FROM account WHERE id = 1; \
                             UPDATE account SET balance = (SELECT balance FROM account WHERE id = 1) + 1 WHERE id = 1",
                        )
                    } else {
                        // A batch of two statements, with a statement that is prepared in it.
                        client.ask(&[
                            parse("named", "SELECT balance FROM account WHERE id = $1"),
                            bind("", "named", &[Some("1")]),
                            execute("", 0),
                            parse("", "UPDATE account SET balance = balance + 1 WHERE id = 1 AND balance > $1"),
                            bind("", "", &[Some("0")]),
                            execute("", 0),
                            crate::messages::close(b'S', "named"),
                            sync(),
                        ])
                    };
                    assert_eq!(answer.error, None);
                }
            });
        }
    });
    let mut client = RawClient::connect(&server);
    let expected = 100 + CLIENTS * ROUNDS;
    let balance = client.run("SELECT balance FROM account WHERE id = 1");
    assert_eq!(balance, [expected.to_string()]);
}

/// Statements without Sync are part of the transaction of a query that follows, and are lost with it or kept with it.
#[test]
fn a_query_after_unsynced_statements_is_not_repeated_alone() {
    let (_home, server) = with_accounts();
    let mut first = RawClient::connect(&server);
    let mut second = RawClient::connect(&server);
    let unsynced = [
        parse("", "SELECT balance FROM account WHERE id = 1"),
        bind("", "", &[]),
        execute("", 0),
        parse("", "INSERT INTO account VALUES (3, 0)"),
        bind("", "", &[]),
        execute("", 0),
        flush(),
    ];
    first.send(&unsynced.concat());
    assert_eq!(first.until(b'C').len(), 4);
    assert_eq!(first.until(b'C').len(), 3);
    second.run("UPDATE account SET balance = 5 WHERE id = 1");
    let answer = first.query("UPDATE account SET balance = 7 WHERE id = 2");
    assert_eq!((answer.sqlstate(), answer.status), ("40001", 'I'));
    let rows = second.run("SELECT id, balance FROM account ORDER BY id");
    assert_eq!(rows, ["1|5", "2|100"]);
}
