//! Savepoints: what ROLLBACK TO takes back, and statements that run again inside a block.

use super::harness::Fixture;
use crate::{EngineOptions, sqlstate};

fn filled(fixture: &Fixture) {
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int)");
    client.tag("CREATE INDEX t_a ON t (a)");
    client.tag("CREATE TABLE keyless (a int NOT NULL)");
    client.tag("INSERT INTO t SELECT x, x FROM generate_series(1, 100) AS x");
    client.tag("INSERT INTO keyless SELECT x FROM generate_series(1, 100) AS x");
}

fn check_filled(fixture: &Fixture, after: &str) {
    let mut client = fixture.client();
    for text in [
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM keyless",
        "SELECT sum(id) + 93 FROM t WHERE a = 7",
    ] {
        assert_eq!(client.lines(text), ["100"], "{after}: {text}");
    }
}

#[test]
fn changes_of_tables_are_taken_back() {
    for change in [
        "TRUNCATE t",
        "TRUNCATE keyless",
        "DROP TABLE t",
        "DROP TABLE keyless",
        "DROP INDEX t_a",
        "ALTER TABLE t ADD COLUMN b int DEFAULT 1",
        "ALTER TABLE keyless ADD PRIMARY KEY (a)",
    ] {
        let fixture = Fixture::new();
        filled(&fixture);
        let tables = fixture.engine.database().tables().len();
        let mut client = fixture.client();
        client.tag("BEGIN");
        client.tag("SAVEPOINT s");
        client.tag(change);
        client.tag("ROLLBACK TO s");
        client.tag("CREATE TABLE other (id int)");
        client.tag("COMMIT");
        client.tag("INSERT INTO other VALUES (1)");
        drop(client);
        fixture.wait_for_pool();
        check_filled(&fixture, change);
        // What was made since the savepoint is gone.
        assert_eq!(
            fixture.engine.database().tables().len(),
            tables + 1,
            "{change}"
        );
        let fixture = fixture.reopened();
        check_filled(&fixture, change);
        assert_eq!(fixture.client().lines("SELECT * FROM other"), ["1"]);
    }
}

#[test]
fn earlier_changes_stay_behind_a_savepoint() {
    let fixture = Fixture::new();
    filled(&fixture);
    let mut client = fixture.client();
    client.tag("BEGIN");
    client.tag("TRUNCATE t");
    client.tag("SAVEPOINT s");
    client.tag("DROP TABLE t");
    client.tag("ROLLBACK TO s");
    client.tag("INSERT INTO t VALUES (1, 1)");
    client.tag("COMMIT");
    assert_eq!(client.lines("SELECT * FROM t"), ["1|1"]);
    drop(client);
    fixture.wait_for_pool();
    let tables = fixture.engine.database().tables().len();
    let fixture = fixture.reopened();
    assert_eq!(fixture.client().lines("SELECT * FROM t"), ["1|1"]);
    assert_eq!(fixture.engine.database().tables().len(), tables);
}

#[test]
fn copied_rows_go_with_the_savepoint() {
    let fixture = Fixture::new();
    filled(&fixture);
    let lines: String = (0..20_000).map(|id| format!("{id}\t1\n")).collect();
    let mut client = fixture.client();
    client.tag("BEGIN");
    client.tag("TRUNCATE t");
    client.tag("SAVEPOINT s");
    client
        .copy_in("COPY t FROM STDIN", b"1\t1\n2\t2\n", 100)
        .unwrap();
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["2"]);
    client.tag("ROLLBACK TO s");
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["0"]);
    let broken = format!("{lines}x\t1\n");
    assert!(
        client
            .copy_in("COPY t FROM STDIN", broken.as_bytes(), 65_536)
            .is_err()
    );
    client.tag("ROLLBACK TO s");
    client.tag("COMMIT");
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["0"]);
    // A table that is younger than the savepoint goes as a whole.
    client.tag("BEGIN");
    client.tag("SAVEPOINT s");
    client.tag("TRUNCATE t");
    assert!(
        client
            .copy_in("COPY t FROM STDIN", broken.as_bytes(), 65_536)
            .is_err()
    );
    client.tag("ROLLBACK TO s");
    client.tag("TRUNCATE t");
    client
        .copy_in("COPY t FROM STDIN", lines.as_bytes(), 65_536)
        .unwrap();
    client.tag("RELEASE s");
    client.tag("COMMIT");
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["20000"]);
    assert_eq!(
        client.lines("SELECT count(*) FROM t WHERE a = 1"),
        ["20000"]
    );
}

#[test]
fn a_table_that_was_used_is_copied_into() {
    let fixture = Fixture::new();
    filled(&fixture);
    let mut client = fixture.client();
    for (use_it, expected) in [
        ("SELECT count(*) FROM t", "3"),
        ("SELECT * FROM t WHERE id = 2", "3"),
        ("UPDATE t SET a = 1 WHERE id = 1", "3"),
        ("INSERT INTO t VALUES (9, 9) ON CONFLICT DO NOTHING", "4"),
        ("CREATE INDEX t_b ON t (a, id)", "3"),
    ] {
        client.tag("BEGIN");
        client.tag("TRUNCATE t");
        client.query(use_it).unwrap();
        client
            .copy_in("COPY t FROM STDIN", b"1\t1\n2\t2\n", 100)
            .unwrap();
        client.copy_in("COPY t FROM STDIN", b"3\t3\n", 100).unwrap();
        client.tag("COMMIT");
        assert_eq!(
            client.lines("SELECT count(*) FROM t"),
            [expected],
            "{use_it}"
        );
    }
    client.tag("BEGIN");
    client.tag("TRUNCATE t");
    client.tag("INSERT INTO t VALUES (1, 1)");
    let error = client
        .copy_in("COPY t FROM STDIN", b"1\t2\n", 100)
        .unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::UNIQUE_VIOLATION);
    client.tag("ROLLBACK");
}

#[test]
fn a_statement_that_needs_numbers_counts_once() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE SEQUENCE s");
    client.tag("CREATE TABLE t (id bigint PRIMARY KEY DEFAULT nextval('s'), a int)");
    client.tag("CREATE TABLE u (id int PRIMARY KEY, b int, c int, n bigint)");
    client.tag("CREATE INDEX ON u (b)");
    client.tag("INSERT INTO u SELECT x, 1, 0, 0 FROM generate_series(1, 200) AS x");
    let values: Vec<String> = (0..100).map(|a| format!("({a})")).collect();
    let values = values.join(", ");
    client.tag("BEGIN");
    assert_eq!(
        client.tag(&format!("INSERT INTO t (a) VALUES {values}")),
        "INSERT 0 100"
    );
    assert_eq!(
        client.tag(&format!(
            "INSERT INTO t (id, a) SELECT nextval('s') + 1000, x FROM (VALUES {values}) AS v(x)"
        )),
        "INSERT 0 100"
    );
    assert_eq!(
        client.tag("UPDATE u SET c = c + 1, n = nextval('s') WHERE b = 1"),
        "UPDATE 200"
    );
    client.tag("COMMIT");
    assert_eq!(
        client.lines("SELECT count(*), count(DISTINCT id) FROM t"),
        ["200|200"]
    );
    assert_eq!(
        client.lines("SELECT min(c), max(c), count(DISTINCT n) FROM u"),
        ["1|1|200"]
    );
}

#[test]
fn an_unused_table_is_indexed_outside_of_its_block() {
    let fixture = Fixture::with(EngineOptions {
        scan_rows_max: 1000,
        ..EngineOptions::default()
    });
    let lines: String = (0..5000).map(|id| format!("{id}\t{}\n", id % 5)).collect();
    let mut client = fixture.client();
    client.tag("BEGIN");
    client.tag("CREATE TABLE t (id int NOT NULL, a int)");
    client
        .copy_in("COPY t FROM STDIN", lines.as_bytes(), 10_000)
        .unwrap();
    client.tag("ALTER TABLE t ADD PRIMARY KEY (id)");
    client.tag("CREATE INDEX ON t (a)");
    client.tag("SAVEPOINT s");
    assert_eq!(
        client.state("CREATE UNIQUE INDEX ON t (a)"),
        sqlstate::UNIQUE_VIOLATION
    );
    client.tag("ROLLBACK TO s");
    client.tag("COMMIT");
    assert_eq!(client.lines("SELECT a FROM t WHERE id = 4999"), ["4"]);
    assert_eq!(client.lines("SELECT count(*) FROM t WHERE a = 3"), ["1000"]);
    // One that was used is read through the transaction.
    client.tag("BEGIN");
    client.tag("CREATE TABLE u (id int, a int)");
    client
        .copy_in("COPY u FROM STDIN", lines.as_bytes(), 10_000)
        .unwrap();
    client.tag("INSERT INTO u VALUES (-1, -1)");
    assert_eq!(
        client.state("CREATE INDEX ON u (a)"),
        sqlstate::OUT_OF_MEMORY
    );
    client.tag("ROLLBACK");
}
