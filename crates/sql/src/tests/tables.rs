//! CREATE, DROP, ALTER and TRUNCATE.

use super::harness::Fixture;
use crate::sqlstate;

#[test]
fn tables_are_made_and_dropped() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    assert_eq!(
        client.tag("CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL)"),
        "CREATE TABLE"
    );
    assert_eq!(
        client.state("CREATE TABLE t (id int)"),
        sqlstate::DUPLICATE_TABLE
    );
    assert_eq!(
        client.tag("CREATE TABLE IF NOT EXISTS t (id int)"),
        "CREATE TABLE"
    );
    assert_eq!(client.connection.take_notices().len(), 1);
    assert_eq!(client.tag("INSERT INTO t VALUES (1, 'a')"), "INSERT 0 1");
    assert_eq!(client.tag("DROP TABLE t"), "DROP TABLE");
    assert_eq!(client.state("SELECT * FROM t"), sqlstate::UNDEFINED_TABLE);
    assert_eq!(client.state("DROP TABLE t"), sqlstate::UNDEFINED_TABLE);
    assert_eq!(client.tag("DROP TABLE IF EXISTS t, u"), "DROP TABLE");
    client.tag("CREATE TABLE t (other text)");
    assert_eq!(client.lines("SELECT * FROM t"), [""; 0]);
}

#[test]
fn a_table_is_made_in_a_transaction_or_not_at_all() {
    let fixture = Fixture::new();
    let (mut client, mut other) = (fixture.client(), fixture.client());
    client.tag("BEGIN");
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    client.tag("INSERT INTO t VALUES (1)");
    assert_eq!(client.lines("SELECT id FROM t"), ["1"]);
    assert_eq!(other.state("SELECT id FROM t"), sqlstate::UNDEFINED_TABLE);
    client.tag("ROLLBACK");
    assert_eq!(client.state("SELECT id FROM t"), sqlstate::UNDEFINED_TABLE);
    client.tag("BEGIN");
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    client.tag("CREATE INDEX ON t (id)");
    client.tag("COMMIT");
    other.tag("INSERT INTO t VALUES (2)");
    assert_eq!(client.lines("SELECT id FROM t"), ["2"]);
}

#[test]
fn truncate_empties_tables_and_rolls_back() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE a (id int PRIMARY KEY, v int UNIQUE)");
    client.tag("CREATE TABLE b (id int)");
    client.tag("INSERT INTO a VALUES (1, 10), (2, 20)");
    client.tag("INSERT INTO b VALUES (1)");
    client.tag("BEGIN");
    client.tag("TRUNCATE a, b");
    assert_eq!(client.lines("SELECT count(*) FROM a"), ["0"]);
    client.tag("INSERT INTO a VALUES (7, 10)");
    client.tag("ROLLBACK");
    assert_eq!(client.lines("SELECT count(*) FROM a"), ["2"]);
    assert_eq!(client.tag("TRUNCATE TABLE a, b"), "TRUNCATE TABLE");
    assert_eq!(
        client.lines("SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b)"),
        ["0"]
    );
    client.tag("INSERT INTO a VALUES (3, 10)");
}

#[test]
fn a_primary_key_is_added_to_a_filled_table() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int NOT NULL, v text)");
    for id in 0..50 {
        client.tag(&format!("INSERT INTO t VALUES ({id}, 'v{id}')"));
    }
    client.tag("CREATE INDEX ON t (v)");
    client.tag("ALTER TABLE t ADD PRIMARY KEY (id)");
    assert_eq!(client.lines("SELECT v FROM t WHERE id = 49"), ["v49"]);
    assert_eq!(client.lines("SELECT id FROM t WHERE v = 'v7'"), ["7"]);
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["50"]);
    assert_eq!(
        client.state("INSERT INTO t VALUES (7, 'x')"),
        sqlstate::UNIQUE_VIOLATION
    );
    client.tag("CREATE TABLE twice (id int)");
    client.tag("INSERT INTO twice VALUES (1), (1)");
    assert_eq!(
        client.state("ALTER TABLE twice ADD PRIMARY KEY (id)"),
        sqlstate::UNIQUE_VIOLATION
    );
    // The marker is gone.
    assert_eq!(client.tag("INSERT INTO twice VALUES (2)"), "INSERT 0 1");
}

#[test]
fn columns_and_constraints_are_added_and_renamed() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int)");
    client.tag("INSERT INTO t VALUES (1, 5), (2, NULL)");
    client.tag("ALTER TABLE t ADD COLUMN b text DEFAULT 'new'");
    assert_eq!(
        client.lines("SELECT * FROM t ORDER BY id"),
        ["1|5|new", "2|-|new"]
    );
    assert_eq!(
        client.state("ALTER TABLE t ALTER COLUMN a SET NOT NULL"),
        sqlstate::NOT_NULL_VIOLATION
    );
    client.tag("UPDATE t SET a = 0 WHERE a IS NULL");
    client.tag("ALTER TABLE t ALTER COLUMN a SET NOT NULL");
    assert_eq!(
        client.state("INSERT INTO t VALUES (3, NULL)"),
        sqlstate::NOT_NULL_VIOLATION
    );
    client.tag("ALTER TABLE t ADD CONSTRAINT positive CHECK (a >= 0)");
    assert_eq!(
        client.state("UPDATE t SET a = -1 WHERE id = 1"),
        sqlstate::CHECK_VIOLATION
    );
    client.tag("ALTER TABLE t DROP CONSTRAINT positive");
    client.tag("ALTER TABLE t RENAME COLUMN b TO c");
    client.tag("ALTER TABLE t RENAME TO u");
    assert_eq!(client.lines("SELECT c FROM u WHERE id = 1"), ["new"]);
    client.tag("ALTER TABLE u ADD UNIQUE (a)");
    assert_eq!(
        client.state("INSERT INTO u VALUES (3, 5)"),
        sqlstate::UNIQUE_VIOLATION
    );
}

#[test]
fn what_there_is_not_is_refused_by_name() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    for text in [
        "CREATE TABLE u (id int REFERENCES t)",
        "CREATE TABLE u (id int, FOREIGN KEY (id) REFERENCES t (id))",
        "CREATE TEMPORARY TABLE u (id int)",
        "CREATE VIEW v AS SELECT 1",
        "SELECT * FROM t FOR UPDATE",
        "CREATE INDEX ON t (id) WHERE id > 0",
        "CREATE TABLE u (a point)",
        "LISTEN x",
        "PREPARE p AS SELECT 1",
    ] {
        assert_eq!(
            client.state(text),
            sqlstate::FEATURE_NOT_SUPPORTED,
            "{text}"
        );
    }
}

#[test]
fn tables_are_made_of_queries() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a varchar(5), n numeric(6,2))");
    client.tag("INSERT INTO t VALUES (1, 'x', 1.5), (2, NULL, 2.25)");
    assert_eq!(
        client.tag("CREATE TABLE u AS SELECT id, a, n * 2 AS twice, id > 1 FROM t"),
        "SELECT 2"
    );
    assert_eq!(
        client.lines("SELECT id, a, twice, \"?column?\" FROM u ORDER BY id"),
        ["1|x|3.00|f", "2|-|4.50|t"]
    );
    client.tag("INSERT INTO u (id) VALUES (1)");
    assert_eq!(
        client.tag(
            "CREATE TABLE v AS SELECT x AS one, 'text' AS two FROM generate_series(1, 20000) AS x"
        ),
        "SELECT 20000"
    );
    assert_eq!(
        client.lines("SELECT count(DISTINCT one), max(two) FROM v"),
        ["20000|text"]
    );
    client.tag("BEGIN");
    assert_eq!(
        client.tag("SELECT * INTO w FROM t WHERE id = 2"),
        "SELECT 1"
    );
    assert_eq!(client.lines("SELECT id FROM w"), ["2"]);
    client.tag("ROLLBACK");
    assert_eq!(client.state("SELECT id FROM w"), sqlstate::UNDEFINED_TABLE);
    client.tag("CREATE TABLE IF NOT EXISTS u AS SELECT 1 AS id");
    assert_eq!(client.lines("SELECT count(*) FROM u"), ["3"]);
    assert_eq!(
        client.state("CREATE TABLE u AS SELECT 1 AS id"),
        sqlstate::DUPLICATE_TABLE
    );
    assert_eq!(
        client.state("CREATE TABLE x AS SELECT 1 / (id - 1) FROM t"),
        sqlstate::DIVISION_BY_ZERO
    );
    assert_eq!(client.state("SELECT * FROM x"), sqlstate::UNDEFINED_TABLE);
}
