//! Sequences that a transaction makes, restarts or drops.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::harness::{Client, Fixture};
use crate::sqlstate;

#[test]
fn a_block_uses_the_sequence_that_it_has_made() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE m (id serial PRIMARY KEY, a int); INSERT INTO m (a) VALUES (5)");
    assert_eq!(client.lines("SELECT * FROM m"), ["1|5"]);
    client.tag("BEGIN");
    client.tag("CREATE TABLE t (id serial PRIMARY KEY, a int)");
    client.tag("CREATE SEQUENCE s START WITH 10");
    assert_eq!(client.lines("SELECT nextval('s')"), ["10"]);
    assert_eq!(
        client.lines("SELECT max(nextval('s')) FROM generate_series(1, 3)"),
        ["13"]
    );
    client
        .copy_in("COPY t (a) FROM STDIN", b"1\n2\n", 100)
        .unwrap();
    client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 100) AS x");
    client.tag("INSERT INTO t (a) VALUES (1), (2)");
    client.tag("COMMIT");
    let mut other = fixture.client();
    other.tag("INSERT INTO t (a) VALUES (3)");
    let counts = "SELECT count(*), count(DISTINCT id) FROM t";
    assert_eq!(other.lines(counts), ["105|105"]);
    drop((client, other));
    let fixture = fixture.reopened();
    let mut client = fixture.client();
    client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 100) AS x");
    assert_eq!(client.lines(counts), ["205|205"]);
    assert_eq!(client.lines("SELECT nextval('s') > 13"), ["t"]);
}

#[test]
fn numbers_stay_given_behind_a_savepoint() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("BEGIN");
    client.tag("CREATE TABLE t (id serial PRIMARY KEY, a int)");
    client.tag("SAVEPOINT s");
    assert_eq!(
        client.lines("INSERT INTO t (a) VALUES (1) RETURNING id"),
        ["1"]
    );
    client.tag("ROLLBACK TO s");
    assert_eq!(
        client.lines("INSERT INTO t (a) VALUES (1) RETURNING id"),
        ["2"]
    );
    client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 200) AS x");
    client.tag("COMMIT");
    client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 200) AS x");
    assert_eq!(
        client.lines("SELECT count(*), count(DISTINCT id) FROM t"),
        ["401|401"]
    );
    client.tag("BEGIN");
    client.tag("CREATE TABLE never (id serial)");
    client.tag("INSERT INTO never DEFAULT VALUES");
    client.tag("ROLLBACK");
    client.tag("CREATE TABLE never (id serial)");
    assert_eq!(
        client.lines("INSERT INTO never DEFAULT VALUES RETURNING id"),
        ["1"]
    );
}

#[test]
fn a_restarted_sequence_begins_in_its_block() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id serial PRIMARY KEY, a int)");
    let insert = "INSERT INTO t (a) VALUES (1) RETURNING id";
    assert_eq!(client.lines(insert), ["1"]);
    client.tag("BEGIN");
    client.tag("TRUNCATE t RESTART IDENTITY");
    assert_eq!(client.lines(insert), ["1"]);
    client.tag("ROLLBACK");
    assert_eq!(client.lines(insert), ["2"]);
    client.tag("BEGIN");
    client.tag("TRUNCATE t RESTART IDENTITY");
    assert_eq!(client.lines(insert), ["1"]);
    client.tag("COMMIT");
    client.tag("INSERT INTO t (a) SELECT x FROM generate_series(1, 200) AS x");
    assert_eq!(client.lines("SELECT count(DISTINCT id) FROM t"), ["201"]);
    client.tag("TRUNCATE t RESTART IDENTITY");
    assert_eq!(client.lines(insert), ["1"]);
    assert_eq!(client.lines("SELECT nextval('t_id_seq')"), ["2"]);
}

#[test]
fn kept_plans_find_the_sequence_of_today() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let next = "SELECT nextval('s')";
    let from_a_table = "SELECT nextval('s') FROM t";
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    client.tag("INSERT INTO t VALUES (1)");
    client.tag("CREATE SEQUENCE s");
    assert_eq!(client.lines(next), ["1"]);
    assert_eq!(client.lines(from_a_table), ["2"]);
    client.tag("DROP SEQUENCE s");
    assert_eq!(client.state(next), sqlstate::UNDEFINED_TABLE);
    client.tag("CREATE SEQUENCE s");
    assert_eq!(client.lines(next), ["1"]);
    assert_eq!(client.lines(from_a_table), ["2"]);
    client.tag("DROP SEQUENCE s");
    client.tag("BEGIN");
    client.tag("CREATE SEQUENCE s");
    assert_eq!(client.lines(next), ["1"]);
    assert_eq!(client.lines(from_a_table), ["2"]);
    client.tag("ROLLBACK");
    client.tag("CREATE SEQUENCE s");
    assert_eq!(client.lines(from_a_table), ["1"]);
    assert_eq!(client.lines(next), ["2"]);
}

#[test]
fn a_sequence_that_a_default_uses_is_kept() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE SEQUENCE s");
    client.tag("CREATE TABLE t (id bigint DEFAULT nextval('s'), n serial)");
    for name in ["s", "t_n_seq"] {
        assert_eq!(
            client.state(&format!("DROP SEQUENCE {name}")),
            sqlstate::DEPENDENT_OBJECTS_STILL_EXIST
        );
    }
    client.tag("INSERT INTO t DEFAULT VALUES");
    // The statement runs again for the second sequence: numbers may be left out.
    assert_eq!(client.lines("SELECT id > 0, n FROM t"), ["t|1"]);
    client.tag("ALTER TABLE t ALTER COLUMN id DROP DEFAULT");
    client.tag("ALTER TABLE t ALTER COLUMN n DROP DEFAULT");
    client.tag("DROP SEQUENCE s, t_n_seq");
    client.tag("INSERT INTO t VALUES (2, 2)");
}

/// Each attempt of such a statement asks for another number.
#[test]
fn a_setting_that_changes_each_time_ends() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for statement in [
        "SELECT setval('s', nextval('s'))",
        "SELECT setval('s', g) FROM generate_series(1, 1100) AS g",
    ] {
        client.tag("BEGIN");
        client.tag("CREATE SEQUENCE s");
        let Err(refused) = client.query(statement) else {
            panic!("{statement} ends");
        };
        assert_eq!(refused.sqlstate(), sqlstate::PROGRAM_LIMIT_EXCEEDED);
        client.tag("ROLLBACK");
    }
    client.tag("BEGIN");
    client.tag("CREATE SEQUENCE s");
    assert_eq!(
        client.lines("SELECT max(setval('s', g)) FROM generate_series(1, 30) AS g"),
        ["30"]
    );
    client.tag("COMMIT");
    assert_eq!(client.lines("SELECT nextval('s')"), ["31"]);
}

/// Numbers that are reserved while another session sets the sequence are given up.
#[test]
fn no_number_is_given_twice_beside_settings() {
    let fixture = Fixture::new();
    fixture.client().tag("CREATE SEQUENCE s");
    let given = Mutex::new(HashSet::new());
    let next = |client: &mut Client| {
        let next: i64 = client.lines("SELECT nextval('s')")[0].parse().unwrap();
        assert!(given.lock().insert(next), "{next} is given twice");
        next
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = fixture.client();
            for number in (1..200).map(|round| round * 100_000) {
                client.lines(&format!("SELECT setval('s', {number})"));
                let next = next(&mut client);
                assert!(next > number, "{next} follows {number}");
            }
            is_over.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            let mut client = fixture.client();
            while !is_over.load(Ordering::Relaxed) {
                next(&mut client);
            }
        });
    });
}
