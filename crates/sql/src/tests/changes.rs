//! INSERT, UPDATE, DELETE, and what constrains them.

use super::harness::Fixture;
use crate::sqlstate;

#[test]
fn rows_are_inserted_changed_and_deleted() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int, b text DEFAULT 'x')");
    assert_eq!(
        client.tag("INSERT INTO t (id, a) VALUES (1, 10), (2, 20), (3, NULL)"),
        "INSERT 0 3"
    );
    assert_eq!(
        client.tag("UPDATE t SET a = a + 1, b = 'y' WHERE id = 2"),
        "UPDATE 1"
    );
    assert_eq!(
        client.tag("UPDATE t SET a = a + 1 WHERE id = 9"),
        "UPDATE 0"
    );
    assert_eq!(
        client.lines("SELECT * FROM t ORDER BY id"),
        ["1|10|x", "2|21|y", "3|-|x"]
    );
    assert_eq!(
        client.tag("UPDATE t SET id = id + 10 WHERE a IS NULL"),
        "UPDATE 1"
    );
    assert_eq!(client.tag("DELETE FROM t WHERE id IN (1, 13)"), "DELETE 2");
    assert_eq!(client.lines("SELECT id FROM t"), ["2"]);
    assert_eq!(client.tag("DELETE FROM t"), "DELETE 1");
    assert_eq!(
        client.tag("INSERT INTO t SELECT x, x * x FROM generate_series(1, 4) AS x"),
        "INSERT 0 4"
    );
    assert_eq!(client.lines("SELECT a, b FROM t WHERE id = 4"), ["16|x"]);
}

#[test]
fn constraints_are_checked_and_named() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, v numeric(10,2) CHECK (v >= 0), n text NOT NULL)");
    client.tag("INSERT INTO t VALUES (1, 1, 0, 'a')");
    let error = client
        .query("INSERT INTO t VALUES (1, 2, 0, 'a')")
        .unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::UNIQUE_VIOLATION);
    assert_eq!(
        error.message(),
        "duplicate key value violates unique constraint \"t_pkey\""
    );
    assert_eq!(error.detail(), Some("Key (id)=(1) already exists."));
    let error = client
        .query("INSERT INTO t VALUES (2, 1, 0, 'a')")
        .unwrap_err();
    assert_eq!(error.constraint(), Some("t_u_key"));
    let error = client
        .query("INSERT INTO t VALUES (2, 2, -1, 'a')")
        .unwrap_err();
    assert_eq!(
        (error.sqlstate(), error.constraint()),
        (sqlstate::CHECK_VIOLATION, Some("t_v_check"))
    );
    let error = client.query("INSERT INTO t (id) VALUES (2)").unwrap_err();
    assert_eq!(
        (error.sqlstate(), error.column()),
        (sqlstate::NOT_NULL_VIOLATION, Some("n"))
    );
    // Nulls are distinct.
    client.tag("INSERT INTO t VALUES (2, NULL, 0, 'a'), (3, NULL, 0, 'a')");
    assert_eq!(
        client.state("UPDATE t SET u = 1 WHERE id = 2"),
        sqlstate::UNIQUE_VIOLATION
    );
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["3"]);
    client.tag("DELETE FROM t WHERE u = 1");
    client.tag("UPDATE t SET u = 1 WHERE id = 2");
}

#[test]
fn returning_shows_the_rows_that_were_changed() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id serial PRIMARY KEY, a int)");
    assert_eq!(
        client.lines("INSERT INTO t (a) VALUES (5), (6) RETURNING id, a * 2"),
        ["1|10", "2|12"]
    );
    assert_eq!(
        client.lines("UPDATE t SET a = a + 1 WHERE id = 1 RETURNING a AS new, *"),
        ["6|1|6"]
    );
    assert_eq!(
        client.lines("DELETE FROM t WHERE a = 6 RETURNING id"),
        ["1", "2"]
    );
    let answer = client
        .query("INSERT INTO t (a) VALUES (1) RETURNING t.id, a + 1")
        .unwrap();
    assert_eq!(answer.columns, ["id", "?column?"]);
}

#[test]
fn on_conflict_passes_over_or_updates() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, n int DEFAULT 1)");
    client.tag("INSERT INTO t VALUES (1, 10)");
    assert_eq!(
        client.tag("INSERT INTO t VALUES (1, 11) ON CONFLICT DO NOTHING"),
        "INSERT 0 0"
    );
    assert_eq!(
        client.tag("INSERT INTO t VALUES (2, 10) ON CONFLICT (u) DO NOTHING"),
        "INSERT 0 0"
    );
    let upsert = "INSERT INTO t VALUES (1, 12, 5) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n, u = excluded.u RETURNING *";
    assert_eq!(client.lines(upsert), ["1|12|6"]);
    assert_eq!(
        client.tag(
            "INSERT INTO t VALUES (1, 12, 5) ON CONFLICT (id) DO UPDATE SET n = 0 WHERE t.n > 100"
        ),
        "INSERT 0 0"
    );
    assert_eq!(
        client.state("INSERT INTO t VALUES (8, 8), (8, 9) ON CONFLICT (id) DO UPDATE SET n = 0"),
        sqlstate::CARDINALITY_VIOLATION
    );
    assert_eq!(
        client.state("INSERT INTO t VALUES (1, 1) ON CONFLICT (n) DO NOTHING"),
        sqlstate::INVALID_COLUMN_REFERENCE
    );
}

#[test]
fn overflow_is_an_error_at_every_place() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int, s smallint, n numeric(4,1))");
    client.tag("INSERT INTO t VALUES (1, 2147483647, 32767, 999.9)");
    let out_of_range = sqlstate::NUMERIC_VALUE_OUT_OF_RANGE;
    assert_eq!(
        client.state("UPDATE t SET a = a + 1 WHERE id = 1"),
        out_of_range
    );
    assert_eq!(
        client.state("UPDATE t SET s = s + 1 WHERE id = 1"),
        out_of_range
    );
    assert_eq!(
        client.state("UPDATE t SET n = n + 1 WHERE id = 1"),
        out_of_range
    );
    assert_eq!(
        client.state("SELECT a + 1 FROM t WHERE id = 1"),
        out_of_range
    );
    assert_eq!(client.state("SELECT sum(a + 1) FROM t"), out_of_range);
    assert_eq!(client.state("SELECT 2147483647 + 1"), out_of_range);
    assert_eq!(client.state("SELECT 1 / 0"), sqlstate::DIVISION_BY_ZERO);
    assert_eq!(
        client.lines("SELECT 1.5::int, 2.5::int, (-1.5)::int"),
        ["2|3|-2"]
    );
    assert_eq!(
        client.lines("SELECT a, s, n FROM t"),
        ["2147483647|32767|999.9"]
    );
}

#[test]
fn tables_without_a_key_hold_equal_rows() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (a int, b char(3))");
    client.tag("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, 'y')");
    assert_eq!(
        client.lines("SELECT * FROM t ORDER BY a"),
        ["1|x  ", "1|x  ", "2|y  "]
    );
    assert_eq!(client.tag("UPDATE t SET a = 5 WHERE a = 1"), "UPDATE 2");
    assert_eq!(client.tag("DELETE FROM t WHERE a = 5"), "DELETE 2");
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["1"]);
}

#[test]
fn updates_from_other_tables_find_their_rows() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int)");
    client.tag("CREATE TABLE s (id int, d int)");
    client.tag("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)");
    client.tag("INSERT INTO s VALUES (1, 10), (3, 30)");
    assert_eq!(
        client.tag("UPDATE t SET a = t.a + s.d FROM s WHERE s.id = t.id"),
        "UPDATE 2"
    );
    assert_eq!(
        client.lines("SELECT a FROM t ORDER BY id"),
        ["11", "2", "33"]
    );
    assert_eq!(
        client.tag("DELETE FROM t USING s WHERE s.id = t.id AND s.d = 30"),
        "DELETE 1"
    );
    assert_eq!(
        client.tag("DELETE FROM t WHERE id IN (SELECT id FROM s)"),
        "DELETE 1"
    );
    assert_eq!(
        client.tag("UPDATE t SET a = (SELECT max(d) FROM s)"),
        "UPDATE 1"
    );
    assert_eq!(client.lines("SELECT id, a FROM t"), ["2|30"]);
}

#[test]
fn sequences_give_no_number_twice() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int)");
    for _ in 0..3 {
        client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 100) AS x");
    }
    assert_eq!(client.lines("SELECT count(DISTINCT id) FROM t"), ["300"]);
    assert_eq!(client.state("INSERT INTO t VALUES (5, 5)"), "428C9");
    client.tag("CREATE SEQUENCE s INCREMENT BY 2 START WITH 5");
    assert_eq!(client.lines("SELECT nextval('s')"), ["5"]);
    assert_eq!(client.lines("SELECT nextval('s')"), ["7"]);
    client.tag("INSERT INTO t (a) VALUES (nextval('s'))");
    assert_eq!(client.lines("SELECT max(a) FROM t WHERE a = 9"), ["9"]);
    client.tag("BEGIN");
    client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 200) AS x");
    client.tag("COMMIT");
    assert_eq!(
        client.lines("SELECT count(DISTINCT id) = count(*) FROM t"),
        ["t"]
    );
}
