//! Transaction blocks, conflicts, and statements that are repeated.

use super::harness::Fixture;
use crate::{TransactionStatus, sqlstate};

fn accounts(fixture: &Fixture) {
    let mut client = fixture.client();
    client.tag("CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)");
    client.tag("INSERT INTO account VALUES (1, 100), (2, 100)");
}

#[test]
fn a_failed_block_accepts_only_its_end() {
    let fixture = Fixture::new();
    accounts(&fixture);
    let mut client = fixture.client();
    client.tag("BEGIN");
    assert_eq!(client.connection.status(), TransactionStatus::InBlock);
    client.tag("UPDATE account SET balance = 0");
    assert_eq!(
        client.state("SELECT * FROM nothing"),
        sqlstate::UNDEFINED_TABLE
    );
    assert_eq!(client.connection.status(), TransactionStatus::Failed);
    assert_eq!(client.state("SELECT 1"), sqlstate::IN_FAILED_TRANSACTION);
    assert_eq!(client.tag("COMMIT"), "ROLLBACK");
    assert_eq!(client.connection.status(), TransactionStatus::Idle);
    assert_eq!(client.lines("SELECT sum(balance) FROM account"), ["200"]);
    assert_eq!(client.tag("COMMIT"), "COMMIT");
    assert_eq!(
        client.connection.take_notices()[0].sqlstate,
        sqlstate::NO_ACTIVE_TRANSACTION
    );
}

#[test]
fn a_block_reads_its_own_changes() {
    let fixture = Fixture::new();
    accounts(&fixture);
    let (mut client, mut other) = (fixture.client(), fixture.client());
    client.tag("BEGIN");
    client.tag("UPDATE account SET balance = balance + 5 WHERE id = 1");
    assert_eq!(
        client.lines("SELECT balance FROM account WHERE id = 1"),
        ["105"]
    );
    client.tag("INSERT INTO account VALUES (3, 7)");
    assert_eq!(
        client.lines("SELECT sum(balance), count(*) FROM account"),
        ["212|3"]
    );
    assert_eq!(other.lines("SELECT sum(balance) FROM account"), ["200"]);
    client.tag("COMMIT");
    assert_eq!(other.lines("SELECT sum(balance) FROM account"), ["212"]);
}

#[test]
fn write_skew_ends_one_of_two_with_40001() {
    let fixture = Fixture::new();
    accounts(&fixture);
    let (mut a, mut b) = (fixture.client(), fixture.client());
    a.tag("BEGIN");
    b.tag("BEGIN");
    assert_eq!(a.lines("SELECT sum(balance) FROM account"), ["200"]);
    assert_eq!(b.lines("SELECT sum(balance) FROM account"), ["200"]);
    a.tag("UPDATE account SET balance = -50 WHERE id = 1");
    b.tag("UPDATE account SET balance = -50 WHERE id = 2");
    a.tag("COMMIT");
    let error = b.query("COMMIT").unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::SERIALIZATION_FAILURE);
    assert!(error.hint().is_some());
    assert_eq!(b.connection.status(), TransactionStatus::Idle);
    assert_eq!(a.lines("SELECT sum(balance) FROM account"), ["50"]);
}

#[test]
fn a_lost_update_and_a_phantom_are_conflicts() {
    let fixture = Fixture::new();
    accounts(&fixture);
    let (mut a, mut b) = (fixture.client(), fixture.client());
    a.tag("BEGIN");
    assert_eq!(a.lines("SELECT balance FROM account WHERE id = 1"), ["100"]);
    b.tag("UPDATE account SET balance = 1 WHERE id = 1");
    let lost = a
        .query("UPDATE account SET balance = 101 WHERE id = 1")
        .and_then(|_| a.query("COMMIT"));
    assert_eq!(
        lost.unwrap_err().sqlstate(),
        sqlstate::SERIALIZATION_FAILURE
    );
    a.query("ROLLBACK").unwrap();
    a.tag("BEGIN");
    assert_eq!(a.lines("SELECT count(*) FROM account WHERE id > 1"), ["1"]);
    b.tag("INSERT INTO account VALUES (9, 9)");
    let phantom = a
        .query("UPDATE account SET balance = 0 WHERE id = 1")
        .and_then(|_| a.query("COMMIT"));
    assert_eq!(
        phantom.unwrap_err().sqlstate(),
        sqlstate::SERIALIZATION_FAILURE
    );
}

#[test]
fn increments_of_one_row_never_conflict() {
    let fixture = Fixture::new();
    accounts(&fixture);
    let (mut a, mut b) = (fixture.client(), fixture.client());
    a.tag("BEGIN");
    b.tag("BEGIN");
    a.tag("UPDATE account SET balance = balance + 1 WHERE id = 1");
    b.tag("UPDATE account SET balance = balance - 3 WHERE id = 1");
    a.tag("COMMIT");
    b.tag("COMMIT");
    assert_eq!(a.lines("SELECT balance FROM account WHERE id = 1"), ["98"]);
}

#[test]
fn messages_of_several_statements_commit_together() {
    let fixture = Fixture::new();
    accounts(&fixture);
    let mut client = fixture.client();
    client
        .query("INSERT INTO account VALUES (3, 3); INSERT INTO account VALUES (4, 4)")
        .unwrap();
    let failed =
        client.query("INSERT INTO account VALUES (5, 5); INSERT INTO account VALUES (1, 1)");
    assert_eq!(failed.unwrap_err().sqlstate(), sqlstate::UNIQUE_VIOLATION);
    assert_eq!(client.lines("SELECT count(*) FROM account"), ["4"]);
    client
        .query("BEGIN; DELETE FROM account; ROLLBACK")
        .unwrap();
    assert_eq!(client.lines("SELECT count(*) FROM account"), ["4"]);
}

#[test]
fn savepoints_take_a_part_back() {
    let fixture = Fixture::new();
    accounts(&fixture);
    let mut client = fixture.client();
    client.tag("BEGIN");
    client.tag("INSERT INTO account VALUES (3, 3)");
    client.tag("SAVEPOINT s");
    client.tag("INSERT INTO account VALUES (4, 4)");
    assert_eq!(
        client.state("INSERT INTO account VALUES (1, 1)"),
        sqlstate::UNIQUE_VIOLATION
    );
    client.tag("ROLLBACK TO s");
    client.tag("INSERT INTO account VALUES (5, 5)");
    client.tag("RELEASE s");
    client.tag("COMMIT");
    assert_eq!(
        client.lines("SELECT id FROM account ORDER BY id"),
        ["1", "2", "3", "5"]
    );
}

#[test]
fn concurrent_changes_of_many_clients_add_up() {
    let fixture = Fixture::new();
    accounts(&fixture);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = fixture.client();
                for at in 0..50 {
                    let (from, to) = if at % 2 == 0 { (1, 2) } else { (2, 1) };
                    // Reads and writes in one statement: repeated on a conflict.
                    let text = format!(
                        "UPDATE account SET balance = (CASE id WHEN {from} THEN balance - 1 ELSE balance + 1 END) \
                         WHERE id IN ({from}, {to})"
                    );
                    assert_eq!(client.tag(&text), "UPDATE 2");
                }
            });
        }
    });
    assert_eq!(
        fixture.client().lines("SELECT sum(balance) FROM account"),
        ["200"]
    );
}

#[test]
fn a_change_of_the_table_ends_transactions_that_used_it() {
    let fixture = Fixture::new();
    accounts(&fixture);
    let (mut a, mut b) = (fixture.client(), fixture.client());
    a.tag("BEGIN");
    a.tag("UPDATE account SET balance = 5 WHERE id = 1");
    b.tag("CREATE INDEX ON account (balance)");
    assert_eq!(
        a.query("COMMIT").unwrap_err().sqlstate(),
        sqlstate::SERIALIZATION_FAILURE
    );
    a.tag("UPDATE account SET balance = 5 WHERE id = 1");
    assert_eq!(b.lines("SELECT id FROM account WHERE balance = 5"), ["1"]);
}

#[test]
fn read_only_blocks_change_nothing() {
    let fixture = Fixture::new();
    accounts(&fixture);
    let mut client = fixture.client();
    client.tag("BEGIN READ ONLY");
    assert_eq!(client.lines("SELECT count(*) FROM account"), ["2"]);
    assert_eq!(
        client.state("DELETE FROM account"),
        sqlstate::READ_ONLY_TRANSACTION
    );
    client.tag("ROLLBACK");
    client.tag("DELETE FROM account");
}

#[test]
fn lists_of_keys_conflict_only_with_their_rows() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int, b int)");
    client.tag("CREATE INDEX t_a ON t (a)");
    client.tag("INSERT INTO t SELECT x, x % 50, 0 FROM generate_series(1, 500) AS x");
    let mut other = fixture.client();
    for (own, others) in [
        (
            "UPDATE t SET b = b + 1 WHERE id IN (1, 3, 5, 1, 7)",
            "UPDATE t SET b = b + 1 WHERE id IN (2, 4)",
        ),
        (
            "SELECT count(*) FROM (SELECT b FROM t WHERE id IN (1, 3)) x",
            "UPDATE t SET b = b + 1 WHERE id = 2 OR id = 4",
        ),
        (
            "SELECT b FROM t WHERE id IN (1, 3)",
            "DELETE FROM t WHERE id IN (100, 102)",
        ),
        (
            "UPDATE t SET b = 9 WHERE a IN (10, 11)",
            "UPDATE t SET b = 8 WHERE a IN (20, 21, 22, 23)",
        ),
        (
            "SELECT id FROM t ORDER BY id LIMIT 3",
            "UPDATE t SET b = 7 WHERE id = 400",
        ),
    ] {
        client.tag("BEGIN");
        client.query(own).unwrap();
        // Also a change, so that its reads are checked at its end.
        client.tag("UPDATE t SET b = b + 1 WHERE id = 300");
        other.query(others).unwrap();
        assert_eq!(client.tag("COMMIT"), "COMMIT", "{own}; {others}");
    }
    client.tag("BEGIN");
    client.lines("SELECT b FROM t WHERE id IN (1, 3)");
    client.tag("UPDATE t SET b = b + 1 WHERE id = 300");
    other.tag("UPDATE t SET b = b + 1 WHERE id IN (3, 4)");
    assert_eq!(client.state("COMMIT"), sqlstate::SERIALIZATION_FAILURE);
}
