//! ADD COLUMN and DROP COLUMN: rows of many versions, on every way to them.

use super::harness::{Client, Fixture};
use crate::sqlstate;

/// The number of the table's core table: another one after a rewrite.
fn storage_of(fixture: &Fixture, table: &str) -> u64 {
    let shared = &fixture.engine.shared;
    let view = fixture.engine.database().view().unwrap();
    let mut reader = crate::storage::Reader::View(&view);
    let relations = shared.catalogue.relations(&mut reader).unwrap();
    let found = relations.iter().find(|it| it.row.name == table);
    found.unwrap().row.storage
}

/// A table whose rows were written under four versions: `a` was there first, `gone` was dropped, `b` and `c` were added.
fn of_many_versions(client: &mut Client, key: &str) {
    client.tag(&format!(
        "CREATE TABLE t (id int{key}, a text, gone numeric(6,2))"
    ));
    client.tag("INSERT INTO t VALUES (1, 'one', 1.5)");
    client.tag("ALTER TABLE t ADD COLUMN b int NOT NULL DEFAULT 7");
    client.tag("INSERT INTO t VALUES (2, 'two', 2.5, 20)");
    client.tag("ALTER TABLE t DROP COLUMN gone");
    client.tag("INSERT INTO t VALUES (3, 'three', 30)");
    client.tag("ALTER TABLE t ADD COLUMN c text DEFAULT 'new', ADD d bigint");
    client.tag("INSERT INTO t VALUES (4, 'four', 40, 'own', 4)");
}

const ROWS: [&str; 4] = [
    "1|one|7|new|-",
    "2|two|20|new|-",
    "3|three|30|new|-",
    "4|four|40|own|4",
];

#[test]
fn columns_are_added_without_rewriting_rows() {
    for key in [" PRIMARY KEY", ""] {
        let fixture = Fixture::new();
        let mut client = fixture.client();
        client.tag(&format!("CREATE TABLE t (id int{key}, a text)"));
        let storage = storage_of(&fixture, "t");
        client.tag("INSERT INTO t VALUES (1, 'one')");
        client.tag("ALTER TABLE t ADD COLUMN b int DEFAULT 5");
        client.tag("ALTER TABLE t DROP COLUMN a");
        client.tag("ALTER TABLE t ALTER COLUMN b TYPE bigint");
        client.tag("ALTER TABLE t ADD COLUMN at timestamptz DEFAULT now()");
        assert_eq!(storage_of(&fixture, "t"), storage);
        assert_eq!(client.lines("SELECT id, b, at <= now() FROM t"), ["1|5|t"]);
        client.tag("ALTER TABLE t ADD COLUMN r float8 DEFAULT random()");
        assert_ne!(storage_of(&fixture, "t"), storage);
    }
}

#[test]
fn rows_of_many_versions_are_read_on_every_way() {
    for key in [" PRIMARY KEY", ""] {
        let fixture = Fixture::new();
        let mut client = fixture.client();
        of_many_versions(&mut client, key);
        // By a plan, by programs, within a transaction, and as lines.
        assert_eq!(client.lines("SELECT * FROM t ORDER BY id"), ROWS);
        for (at, row) in ROWS.iter().enumerate() {
            let id = at + 1;
            assert_eq!(
                client.lines(&format!("SELECT * FROM t WHERE id = {id}")),
                [*row]
            );
        }
        client.tag("BEGIN");
        assert_eq!(client.lines("SELECT * FROM t ORDER BY id"), ROWS);
        client.tag("COMMIT");
        let copied = client
            .copy_out("COPY (SELECT * FROM t ORDER BY id) TO STDOUT")
            .unwrap();
        let expected = ROWS.join("\n").replace('|', "\t").replace("\t-", "\t\\N");
        assert_eq!(copied.trim_end(), expected);
        assert_eq!(
            client.lines("SELECT id FROM t WHERE c = 'new' AND b > 7 ORDER BY id"),
            ["2", "3"]
        );
        assert_eq!(
            client.state("SELECT gone FROM t"),
            sqlstate::UNDEFINED_COLUMN
        );
        let prepared = client.prepared("SELECT c, b FROM t WHERE id = $1", &[], &[Some("1")]);
        assert_eq!(prepared.unwrap().lines(), ["new|7"]);
    }
}

#[test]
fn rows_of_many_versions_survive_an_opening() {
    for key in [" PRIMARY KEY", ""] {
        let fixture = Fixture::new();
        let mut client = fixture.client();
        of_many_versions(&mut client, key);
        drop(client);
        let fixture = fixture.reopened();
        let mut client = fixture.client();
        assert_eq!(client.lines("SELECT * FROM t ORDER BY id"), ROWS);
        client.tag("ALTER TABLE t ADD COLUMN e int DEFAULT 1");
        client.tag("INSERT INTO t (id) VALUES (5)");
        assert_eq!(
            client.lines("SELECT * FROM t WHERE id IN (3, 5) ORDER BY id"),
            ["3|three|30|new|-|1", "5|-|7|new|-|1"]
        );
    }
}

#[test]
fn rows_of_old_versions_are_changed() {
    for key in [" PRIMARY KEY", ""] {
        let fixture = Fixture::new();
        let mut client = fixture.client();
        of_many_versions(&mut client, key);
        assert_eq!(
            client.tag("UPDATE t SET a = 'one!' WHERE id = 1"),
            "UPDATE 1"
        );
        assert_eq!(client.tag("UPDATE t SET d = b WHERE c = 'new'"), "UPDATE 3");
        client.tag("CREATE TABLE s (id int, n int)");
        client.tag("INSERT INTO s VALUES (2, 200)");
        assert_eq!(
            client.tag("UPDATE t SET b = s.n FROM s WHERE s.id = t.id"),
            "UPDATE 1"
        );
        assert_eq!(
            client.lines("DELETE FROM t WHERE id = 3 RETURNING *"),
            ["3|three|30|new|30"]
        );
        assert_eq!(
            client.lines("SELECT * FROM t ORDER BY id"),
            ["1|one!|7|new|7", "2|two|200|new|20", "4|four|40|own|4"]
        );
    }
}

#[test]
fn conflicts_meet_rows_of_old_versions() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    of_many_versions(&mut client, " PRIMARY KEY");
    client.tag("ALTER TABLE t ADD UNIQUE (b)");
    assert_eq!(
        client.tag("INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING"),
        "INSERT 0 0"
    );
    assert_eq!(
        client.tag("INSERT INTO t (id, b) VALUES (9, 30) ON CONFLICT DO NOTHING"),
        "INSERT 0 0"
    );
    let upsert = "INSERT INTO t VALUES (2, 'x', 21) ON CONFLICT (id) DO UPDATE SET d = t.b + excluded.b, a = t.c \
                  RETURNING a, b, c, d";
    assert_eq!(client.lines(upsert), ["new|20|new|41"]);
    assert_eq!(
        client.state("INSERT INTO t (id) VALUES (8)"),
        sqlstate::UNIQUE_VIOLATION
    );
}

#[test]
fn indexes_are_made_on_added_columns() {
    for key in [" PRIMARY KEY", ""] {
        let fixture = Fixture::new();
        let mut client = fixture.client();
        of_many_versions(&mut client, key);
        client.tag("CREATE INDEX ON t (c)");
        client.tag("CREATE UNIQUE INDEX ON t (b)");
        assert!(client.lines("EXPLAIN SELECT id FROM t WHERE c = 'new'")[0].contains("t_c_idx"));
        let mut found = client.lines("SELECT id FROM t WHERE c = 'new'");
        found.sort();
        assert_eq!(found, ["1", "2", "3"]);
        client.tag("UPDATE t SET c = 'other' WHERE id = 2");
        client.tag("DELETE FROM t WHERE id = 1");
        assert_eq!(client.lines("SELECT id FROM t WHERE c = 'new'"), ["3"]);
        assert_eq!(client.lines("SELECT a FROM t WHERE b = 20"), ["two"]);
        // The entry of the deleted row is gone.
        client.tag("INSERT INTO t (id, b) VALUES (5, 7)");
        assert_eq!(
            client.state("INSERT INTO t (id, b) VALUES (6, 7)"),
            sqlstate::UNIQUE_VIOLATION
        );
        // Dropping the column drops the index.
        client.tag("ALTER TABLE t DROP COLUMN b");
        assert_eq!(
            client.state("DROP INDEX t_b_idx"),
            sqlstate::UNDEFINED_OBJECT
        );
        assert_eq!(client.lines("SELECT id FROM t WHERE c = 'other'"), ["2"]);
    }
}

#[test]
fn the_sixty_fifth_version_rewrites_the_rows() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    let storage = storage_of(&fixture, "t");
    for number in 1..=70 {
        client.tag(&format!("INSERT INTO t (id) VALUES ({number})"));
        let of = ["int", "text"][number % 2];
        client.tag(&format!(
            "ALTER TABLE t ADD COLUMN c{number} {of} DEFAULT '{number}'"
        ));
        // Version 0 is that of the table as it was made.
        assert_eq!(
            storage_of(&fixture, "t") == storage,
            number < 64,
            "{number}"
        );
    }
    client.tag("INSERT INTO t (id) VALUES (71)");
    let columns: Vec<String> = (1..=70).map(|number| number.to_string()).collect();
    let expected = columns.join("|");
    let rows = client.lines("SELECT * FROM t ORDER BY id");
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(*row, format!("{}|{expected}", at + 1));
    }
    assert_eq!(rows.len(), 71);
    assert_eq!(
        client.tag("UPDATE t SET c70 = c70 + c2 WHERE id = 66"),
        "UPDATE 1"
    );
    assert_eq!(
        client.lines("SELECT c1, c70 FROM t WHERE id = 66"),
        ["1|72"]
    );
}

#[test]
fn versions_of_rolled_back_commands_are_given_away() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    client.tag("INSERT INTO t VALUES (1)");
    client.tag("BEGIN");
    client.tag("ALTER TABLE t ADD COLUMN a int DEFAULT 1");
    client.tag("INSERT INTO t VALUES (2, 2)");
    assert_eq!(client.lines("SELECT * FROM t ORDER BY id"), ["1|1", "2|2"]);
    client.tag("ROLLBACK");
    client.tag("ALTER TABLE t ADD COLUMN a text DEFAULT 'x'");
    client.tag("INSERT INTO t VALUES (3, 'y')");
    assert_eq!(client.lines("SELECT * FROM t ORDER BY id"), ["1|x", "3|y"]);
    let shared = &fixture.engine.shared;
    let open = shared.storage.open(storage_of(&fixture, "t")).unwrap();
    let versions = fixture
        .engine
        .database()
        .schema_versions(&open.table)
        .unwrap();
    assert_eq!(versions.len(), 3);
}

#[test]
fn a_missing_value_is_refused_where_there_are_rows() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    client.tag("ALTER TABLE t ADD COLUMN a int NOT NULL");
    client.tag("INSERT INTO t VALUES (1, 5)");
    let refused = client
        .query("ALTER TABLE t ADD COLUMN b int NOT NULL")
        .unwrap_err();
    assert_eq!(refused.sqlstate(), sqlstate::NOT_NULL_VIOLATION);
    assert_eq!(
        refused.message(),
        "column \"b\" of relation \"t\" contains null values"
    );
    client.tag("BEGIN");
    assert_eq!(
        client.state("ALTER TABLE t ADD COLUMN b int NOT NULL"),
        sqlstate::NOT_NULL_VIOLATION
    );
    client.tag("ROLLBACK");
    assert_eq!(
        client.state("ALTER TABLE t ADD COLUMN b int DEFAULT 0 CHECK (b > 0)"),
        sqlstate::CHECK_VIOLATION
    );
    assert_eq!(
        client.state("ALTER TABLE t ADD COLUMN b int DEFAULT 'x'"),
        "22P02"
    );
    client.tag("ALTER TABLE t ADD COLUMN b int NOT NULL DEFAULT 1 CHECK (b > 0) UNIQUE");
    assert_eq!(client.lines("SELECT * FROM t"), ["1|5|1"]);
    assert_eq!(
        client.state("INSERT INTO t VALUES (2, 5, 1)"),
        sqlstate::UNIQUE_VIOLATION
    );
}

#[test]
fn rows_get_numbers_and_values_of_their_own() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (a int)");
    client.tag("INSERT INTO t SELECT x FROM generate_series(1, 100) AS x");
    client.tag("CREATE SEQUENCE s START WITH 50");
    client.tag("ALTER TABLE t ADD COLUMN id serial, ADD COLUMN r float8 DEFAULT random(), ADD n int DEFAULT nextval('s')");
    client.tag("INSERT INTO t (a) VALUES (101)");
    assert_eq!(
        client.lines("SELECT count(DISTINCT id), min(id), max(id), count(DISTINCT r) > 90, count(DISTINCT n), min(n) FROM t"),
        ["101|1|101|t|101|50"]
    );
    client.tag("BEGIN");
    client.tag("ALTER TABLE t ADD COLUMN m bigint GENERATED ALWAYS AS IDENTITY, ADD k int DEFAULT nextval('s')");
    client.tag("INSERT INTO t (a) VALUES (102)");
    client.tag("COMMIT");
    assert_eq!(
        client.lines("SELECT count(DISTINCT m), count(DISTINCT k) FROM t"),
        ["102|102"]
    );
    client.tag("ALTER TABLE t DROP COLUMN id");
    assert_eq!(
        client.state("SELECT nextval('t_id_seq')"),
        sqlstate::UNDEFINED_TABLE
    );
    client.tag("INSERT INTO t (a) VALUES (103)");
    assert_eq!(
        client.lines("SELECT count(DISTINCT m), max(m) FROM t"),
        ["103|103"]
    );
}
