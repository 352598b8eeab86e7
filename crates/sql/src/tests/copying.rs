//! COPY in both directions.

use super::harness::Fixture;
use crate::sqlstate;

#[test]
fn rows_come_back_through_copy() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a text, b numeric(5,1))");
    let data = "1\ttab\\tinside\t1.5\n2\t\\N\t\\N\n3\t\t-0.1\n";
    assert_eq!(
        client
            .copy_in("COPY t FROM STDIN", data.as_bytes(), 5)
            .unwrap(),
        "COPY 3"
    );
    assert_eq!(client.copy_out("COPY t TO STDOUT").unwrap(), data);
    let csv = client
        .copy_out("COPY (SELECT id, a FROM t ORDER BY id DESC) TO STDOUT (FORMAT csv, HEADER)");
    assert_eq!(csv.unwrap(), "id,a\n3,\"\"\n2,\n1,tab\tinside\n");
    let error = client
        .copy_in("COPY t FROM STDIN", b"9\tx\n", 100)
        .unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::BAD_COPY_FILE_FORMAT);
    let error = client
        .copy_in("COPY t (id) FROM STDIN", b"8\n1\n", 100)
        .unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::UNIQUE_VIOLATION);
    let error = client
        .copy_in("COPY t (id) FROM STDIN", b"x\n", 100)
        .unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::INVALID_TEXT_REPRESENTATION);
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["3"]);
}

#[test]
fn a_bulk_load_is_rolled_back_with_its_table() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int)");
    client.tag("CREATE INDEX ON t (a)");
    client.tag("INSERT INTO t VALUES (1, 1)");
    client.tag("BEGIN");
    client.tag("TRUNCATE t");
    let lines: String = (0..20_000)
        .map(|id| format!("{id}\t{}\n", id % 7))
        .collect();
    assert_eq!(
        client
            .copy_in("COPY t FROM STDIN", lines.as_bytes(), 10_000)
            .unwrap(),
        "COPY 20000"
    );
    assert_eq!(client.lines("SELECT count(*) FROM t WHERE a = 3"), ["2857"]);
    client.tag("ROLLBACK");
    assert_eq!(client.lines("SELECT * FROM t"), ["1|1"]);
    client.tag("BEGIN");
    client.tag("TRUNCATE t");
    client
        .copy_in("COPY t FROM STDIN WITH (FREEZE)", lines.as_bytes(), 65_536)
        .unwrap();
    client.tag("COMMIT");
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["20000"]);
    assert_eq!(
        client.lines("SELECT id FROM t WHERE a = 6 ORDER BY id LIMIT 1"),
        ["6"]
    );
    assert_eq!(
        client
            .copy_in("COPY t FROM STDIN WITH (FREEZE)", b"", 1)
            .unwrap_err()
            .sqlstate(),
        "55000"
    );
}

/// A batch is written while the next one is read.
#[test]
fn an_error_in_any_batch_ends_the_load() {
    let rows = |changed: usize, line: &str| -> String {
        let row = |at| match at {
            at if at == changed => line.to_owned(),
            at => format!("{at}\n"),
        };
        (0..30_000).map(row).collect()
    };
    let duplicate = sqlstate::UNIQUE_VIOLATION;
    let no_number = sqlstate::INVALID_TEXT_REPRESENTATION;
    for (changed, line, state) in [
        (3, "2\n", duplicate),
        (9_000, "2\n", duplicate),
        (29_999, "2\n", duplicate),
        (8_193, "x\n", no_number),
        (29_999, "x", no_number),
    ] {
        let fixture = Fixture::new();
        let mut client = fixture.client();
        client.tag("BEGIN");
        client.tag("CREATE TABLE t (id int PRIMARY KEY)");
        let lines = rows(changed, line);
        let copied = client.copy_in("COPY t FROM STDIN", lines.as_bytes(), 10_000);
        assert_eq!(copied.unwrap_err().sqlstate(), state, "{changed} {line}");
        client.tag("ROLLBACK");
        assert_eq!(client.state("SELECT * FROM t"), sqlstate::UNDEFINED_TABLE);
    }
    for (changed, line, is_unique) in [(29_999, "2\n", false), (29_999, "30000\n", true)] {
        let fixture = Fixture::new();
        let mut client = fixture.client();
        client.tag("BEGIN");
        client.tag("CREATE TABLE t (id int)");
        let lines = rows(changed, line);
        client
            .copy_in("COPY t FROM STDIN", lines.as_bytes(), 10_000)
            .unwrap();
        client.tag("COMMIT");
        let added = client.query("ALTER TABLE t ADD PRIMARY KEY (id)");
        assert_eq!(added.is_ok(), is_unique);
        assert_eq!(client.lines("SELECT count(*) FROM t"), ["30000"]);
    }
}

#[test]
fn copy_out_follows_changes_of_the_table() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int)");
    client.tag("INSERT INTO t VALUES (1, 1)");
    let copy = "COPY t TO STDOUT";
    assert_eq!(client.copy_out(copy).unwrap(), "1\t1\n");
    client.tag("CREATE INDEX ON t (a)");
    assert_eq!(client.copy_out(copy).unwrap(), "1\t1\n");
    client.tag("TRUNCATE t");
    assert_eq!(client.copy_out(copy).unwrap(), "");
    client.tag("DROP TABLE t");
    client.tag("CREATE TABLE t (a int, b text)");
    client.tag("INSERT INTO t VALUES (5, 'x')");
    assert_eq!(client.copy_out(copy).unwrap(), "5\tx\n");
}

#[test]
fn defaults_that_take_numbers_are_copied() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE SEQUENCE s");
    client.tag("CREATE TABLE t (id bigint PRIMARY KEY DEFAULT nextval('s') + 100, a int)");
    let lines: String = (0..1000).map(|a| format!("{a}\n")).collect();
    client
        .copy_in("COPY t (a) FROM STDIN", lines.as_bytes(), 100)
        .unwrap();
    assert_eq!(
        client.lines("SELECT count(*), min(id) FROM t"),
        ["1000|101"]
    );
}
