//! ALTER TABLE's other clauses: names, defaults, constraints and types.

use super::harness::Fixture;
use crate::sqlstate;

#[test]
fn constraints_are_named_as_in_postgresql() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag(
        "CREATE TABLE t (id int PRIMARY KEY, c int CHECK (c > 0) CHECK (c < 90), d int UNIQUE, CHECK (c < d), \
         CHECK (d <> c), CHECK (t.d > 1), UNIQUE (c, d), CONSTRAINT mine CHECK (id > 0))",
    );
    client.tag("CREATE INDEX ON t (c)");
    client.tag("CREATE INDEX ON t (c)");
    client.tag("CREATE UNIQUE INDEX ON t (c, d)");
    assert_eq!(
        client.lines("SELECT conname FROM pg_constraint ORDER BY conname"),
        [
            "mine",
            "t_c_check",
            "t_c_check1",
            "t_c_d_key",
            "t_check",
            "t_check1",
            "t_d_check",
            "t_d_key",
            "t_pkey"
        ]
    );
    assert_eq!(
        client.lines("SELECT relname FROM pg_class WHERE relname LIKE 't%idx%' ORDER BY relname"),
        ["t_c_d_idx", "t_c_idx", "t_c_idx1"]
    );
    let violated = client.query("INSERT INTO t VALUES (1, -1, 5)").unwrap_err();
    assert_eq!(violated.constraint(), Some("t_c_check"));
    // A name that another table's index has.
    client.tag("CREATE TABLE u (x int)");
    client.tag("CREATE INDEX u_x_key ON u (x)");
    client.tag("ALTER TABLE u ADD UNIQUE (x)");
    client.tag("ALTER TABLE u DROP CONSTRAINT u_x_key1");
    assert_eq!(
        client.state("ALTER TABLE u ADD CONSTRAINT u_x_key UNIQUE (x)"),
        sqlstate::DUPLICATE_TABLE
    );
    assert_eq!(
        client.state("ALTER TABLE t ADD CONSTRAINT mine CHECK (id > 1)"),
        sqlstate::DUPLICATE_OBJECT
    );
}

#[test]
fn checks_follow_renamed_columns_and_tables() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int CHECK (t.a > 0 AND a < 10))");
    client.tag("ALTER TABLE t RENAME COLUMN a TO \"order\"");
    client.tag("ALTER TABLE t RENAME TO u");
    client.tag("INSERT INTO u VALUES (1, 5)");
    assert_eq!(
        client.state("INSERT INTO u VALUES (2, 50)"),
        sqlstate::CHECK_VIOLATION
    );
    client.tag("ALTER TABLE u RENAME CONSTRAINT t_a_check TO small");
    let violated = client.query("UPDATE u SET \"order\" = 0").unwrap_err();
    assert_eq!(violated.constraint(), Some("small"));
    client.tag("ALTER TABLE u RENAME CONSTRAINT t_pkey TO u_pkey");
    let violated = client.query("INSERT INTO u VALUES (1, 6)").unwrap_err();
    assert_eq!(violated.constraint(), Some("u_pkey"));
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    client.tag("ALTER TABLE u DROP COLUMN \"order\"");
    client.tag("INSERT INTO u VALUES (2)");
    assert_eq!(
        client.state("ALTER TABLE u RENAME TO t"),
        sqlstate::DUPLICATE_TABLE
    );
}

#[test]
fn defaults_are_set_and_dropped() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS IDENTITY)");
    client.tag("ALTER TABLE t ALTER COLUMN a SET DEFAULT 4");
    client.tag("INSERT INTO t (id) VALUES (1)");
    client.tag("ALTER TABLE t ALTER a DROP DEFAULT, ALTER a SET NOT NULL");
    assert_eq!(
        client.state("INSERT INTO t (id) VALUES (2)"),
        sqlstate::NOT_NULL_VIOLATION
    );
    client.tag("ALTER TABLE t ALTER a DROP NOT NULL");
    client.tag("INSERT INTO t (id) VALUES (2)");
    assert_eq!(
        client.lines("SELECT * FROM t ORDER BY id"),
        ["1|4|1", "2|-|3"]
    );
    assert_eq!(
        client.state("ALTER TABLE t ALTER COLUMN a SET NOT NULL"),
        sqlstate::NOT_NULL_VIOLATION
    );
    assert_eq!(
        client.state("ALTER TABLE t ALTER a SET DEFAULT 'x'"),
        "22P02"
    );
    assert_eq!(
        client.state("ALTER TABLE t ALTER b DROP NOT NULL"),
        sqlstate::SYNTAX_ERROR
    );
    assert_eq!(
        client.state("ALTER TABLE t ALTER id DROP NOT NULL"),
        sqlstate::INVALID_TABLE_DEFINITION
    );
    assert_eq!(
        client.state("ALTER TABLE t ALTER missing SET NOT NULL"),
        sqlstate::UNDEFINED_COLUMN
    );
}

#[test]
fn keys_are_dropped_and_added_again() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int, b text)");
    client.tag("INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y')");
    client.tag("CREATE INDEX ON t (a)");
    client.tag("ALTER TABLE t DROP CONSTRAINT t_pkey");
    client.tag("INSERT INTO t VALUES (1, 11, 'z')");
    assert_eq!(
        client.state("INSERT INTO t VALUES (NULL)"),
        sqlstate::NOT_NULL_VIOLATION
    );
    assert_eq!(client.lines("SELECT b FROM t WHERE a = 11"), ["z"]);
    client.tag("ALTER TABLE t DROP COLUMN id, ADD COLUMN c int DEFAULT 3, ADD PRIMARY KEY (a)");
    assert_eq!(
        client.lines("SELECT * FROM t ORDER BY a"),
        ["10|x|3", "11|z|3", "20|y|3"]
    );
    assert!(client.lines("EXPLAIN SELECT b FROM t WHERE a = 10")[0].contains("by primary key"));
    // A column of the key takes the key with it.
    client.tag("ALTER TABLE t DROP COLUMN a");
    assert_eq!(
        client.lines("SELECT * FROM t ORDER BY b"),
        ["x|3", "y|3", "z|3"]
    );
    client.tag("ALTER TABLE t DROP CONSTRAINT IF EXISTS t_pkey");
    assert_eq!(
        client.state("ALTER TABLE t DROP CONSTRAINT t_pkey"),
        sqlstate::UNDEFINED_OBJECT
    );
    client.tag("ALTER TABLE t DROP COLUMN IF EXISTS a, DROP COLUMN c");
    assert_eq!(
        client.state("ALTER TABLE t DROP COLUMN b"),
        sqlstate::FEATURE_NOT_SUPPORTED
    );
}

#[test]
fn columns_get_other_types() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .tag("CREATE TABLE t (id int PRIMARY KEY, a int DEFAULT 1, b varchar(3), c numeric(6,2))");
    client.tag("INSERT INTO t VALUES (1, 70000, 'abc', 1.55)");
    client.tag("CREATE INDEX ON t (c)");
    client.tag(
        "ALTER TABLE t ALTER a TYPE bigint, ALTER b TYPE text, ALTER COLUMN c SET DATA TYPE int",
    );
    client.tag("INSERT INTO t (id, a, b) VALUES (2, 5000000000, 'abcdef')");
    assert_eq!(
        client.lines("SELECT id, a, b, c FROM t ORDER BY id"),
        ["1|70000|abc|2", "2|5000000000|abcdef|-"]
    );
    assert_eq!(client.lines("SELECT id FROM t WHERE c = 2"), ["1"]);
    assert_eq!(
        client.state("ALTER TABLE t ALTER a TYPE int"),
        sqlstate::NUMERIC_VALUE_OUT_OF_RANGE
    );
    client.tag("ALTER TABLE t ALTER id TYPE text");
    assert_eq!(client.lines("SELECT b FROM t WHERE id = '2'"), ["abcdef"]);
    for text in [
        "ALTER TABLE t ALTER b TYPE int",
        "ALTER TABLE t ALTER b TYPE int USING b::int",
        "ALTER TABLE t ALTER c ADD GENERATED ALWAYS AS IDENTITY",
        "ALTER TABLE t DISABLE TRIGGER ALL",
    ] {
        assert_eq!(
            client.state(text),
            sqlstate::FEATURE_NOT_SUPPORTED,
            "{text}"
        );
    }
}

#[test]
fn a_session_knows_the_numbers_it_was_given() {
    let fixture = Fixture::new();
    let (mut client, mut other) = (fixture.client(), fixture.client());
    client.tag("CREATE TABLE t (id serial PRIMARY KEY, a int)");
    client.tag("CREATE SEQUENCE s START WITH 20");
    assert_eq!(
        client.state("SELECT lastval()"),
        sqlstate::OBJECT_NOT_IN_STATE
    );
    assert_eq!(
        client.state("SELECT currval('s')"),
        sqlstate::OBJECT_NOT_IN_STATE
    );
    client.tag("INSERT INTO t (a) VALUES (1), (2)");
    assert_eq!(
        client.lines("SELECT currval('t_id_seq'), lastval()"),
        ["2|2"]
    );
    assert_eq!(client.lines("SELECT nextval('s')"), ["20"]);
    assert_eq!(
        client.lines("SELECT currval('t_id_seq'), currval('s'), lastval()"),
        ["2|20|20"]
    );
    assert_eq!(
        other.state("SELECT lastval()"),
        sqlstate::OBJECT_NOT_IN_STATE
    );
    other.tag("INSERT INTO t (a) VALUES (nextval('s'))");
    assert_eq!(
        other.lines("SELECT currval('t_id_seq') > 2, currval('s')"),
        ["t|21"]
    );
    assert_eq!(client.lines("SELECT currval('s')"), ["20"]);
    assert_eq!(client.lines("SELECT setval('s', 90)"), ["90"]);
    assert_eq!(client.lines("SELECT currval('s'), lastval()"), ["90|90"]);
    assert_eq!(client.lines("SELECT nextval('s')"), ["91"]);
    client.copy_in("COPY t (a) FROM STDIN", b"7\n", 10).unwrap();
    client.tag("UPDATE t SET a = currval('t_id_seq') WHERE a = 7");
    assert_eq!(
        client.lines("SELECT a = id FROM t WHERE a > 3 AND a < 20"),
        ["t"]
    );
}

#[test]
fn a_new_sequence_gives_numbers_before_the_commit() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("BEGIN");
    client.tag("CREATE TABLE t (id serial PRIMARY KEY, a int)");
    client.tag("CREATE SEQUENCE s START WITH 7");
    client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 300) AS x");
    assert_eq!(client.lines("SELECT nextval('s')"), ["7"]);
    client.tag("SAVEPOINT p");
    client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 300) AS x");
    client.tag("ROLLBACK TO SAVEPOINT p");
    client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 500) AS x");
    client.copy_in("COPY t (a) FROM STDIN", b"7\n", 10).unwrap();
    client.tag("COMMIT");
    client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 500) AS x");
    assert_eq!(client.lines("SELECT count(DISTINCT id) FROM t"), ["1301"]);
    assert_eq!(client.lines("SELECT nextval('s') > 7"), ["t"]);
    client.tag("BEGIN");
    client.tag("CREATE SEQUENCE gone");
    assert_eq!(client.lines("SELECT nextval('gone')"), ["1"]);
    client.tag("ROLLBACK");
    assert_eq!(
        client.state("SELECT nextval('gone')"),
        sqlstate::UNDEFINED_TABLE
    );
}
