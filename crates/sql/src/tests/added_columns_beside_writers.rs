//! Columns that are added while others write, and increments of rows of old versions.

use std::sync::atomic::{AtomicBool, Ordering};

use super::harness::Fixture;
use crate::sqlstate;

/// A counter that was added to a filled table.
fn with_counter(fixture: &Fixture) {
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, name text)");
    client
        .tag("INSERT INTO t SELECT x, 'a long name of row ' || x FROM generate_series(0, 9) AS x");
    client.tag("ALTER TABLE t ADD COLUMN n bigint DEFAULT 100");
    client.tag(
        "ALTER TABLE t ADD COLUMN d numeric(8,2) DEFAULT 0.5, ADD COLUMN note text DEFAULT 'note'",
    );
}

#[test]
fn increments_upgrade_rows_of_old_versions() {
    let fixture = Fixture::new();
    with_counter(&fixture);
    let mut client = fixture.client();
    assert_eq!(
        client.tag("UPDATE t SET n = n + 5 WHERE id = 1"),
        "UPDATE 1"
    );
    assert_eq!(
        client.tag("UPDATE t SET n = n - 1, d = d + 1.25 WHERE id = 1"),
        "UPDATE 1"
    );
    client.tag("BEGIN");
    client.tag("UPDATE t SET d = d + 2 WHERE id = 2");
    assert_eq!(
        client.lines("SELECT * FROM t WHERE id = 2"),
        ["2|a long name of row 2|100|2.50|note"]
    );
    client.tag("UPDATE t SET n = n + 1 WHERE id = 2");
    client.tag("COMMIT");
    // Two changes that wait for the commit, and other columns between them.
    client.tag("BEGIN");
    client.tag("UPDATE t SET n = n + 1 WHERE id = 3");
    client.tag("ALTER TABLE t ADD COLUMN e int DEFAULT 10");
    client.tag("UPDATE t SET e = e + 1 WHERE id = 3");
    client.tag("COMMIT");
    assert_eq!(
        client.lines("SELECT * FROM t WHERE id < 4 ORDER BY id"),
        [
            "0|a long name of row 0|100|0.50|note|10",
            "1|a long name of row 1|104|1.75|note|10",
            "2|a long name of row 2|101|2.50|note|10",
            "3|a long name of row 3|101|0.50|note|11"
        ]
    );
    client.tag("UPDATE t SET n = 9223372036854775807 WHERE id = 5");
    assert_eq!(
        client.state("UPDATE t SET n = n + 1 WHERE id = 5"),
        sqlstate::NUMERIC_VALUE_OUT_OF_RANGE
    );
    drop(client);
    let fixture = fixture.reopened();
    let mut client = fixture.client();
    assert_eq!(
        client.lines("SELECT n, d, e FROM t WHERE id = 1"),
        ["104|1.75|10"]
    );
}

#[test]
fn increments_of_an_added_column_never_conflict() {
    let fixture = Fixture::new();
    with_counter(&fixture);
    let (mut one, mut other) = (fixture.client(), fixture.client());
    one.tag("BEGIN");
    one.tag("UPDATE t SET n = n + 1 WHERE id = 7");
    other.tag("BEGIN");
    other.tag("UPDATE t SET n = n + 10 WHERE id = 7");
    other.tag("COMMIT");
    one.tag("COMMIT");
    assert_eq!(
        one.lines("SELECT n, note FROM t WHERE id = 7"),
        ["111|note"]
    );
}

#[test]
fn a_transaction_that_saw_other_columns_conflicts() {
    let fixture = Fixture::new();
    with_counter(&fixture);
    let (mut client, mut other) = (fixture.client(), fixture.client());
    for change in [
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "INSERT INTO t VALUES (77)",
        "SELECT n FROM t WHERE id = 1",
    ] {
        client.tag("BEGIN");
        client.query(change).unwrap();
        client.tag("UPDATE t SET name = 'x' WHERE id = 2");
        other.tag(&format!(
            "ALTER TABLE t ADD COLUMN c{} int DEFAULT 3",
            change.len()
        ));
        // The row of the late change has a version that its program does not know.
        other.tag("UPDATE t SET name = name || '.' WHERE id = 1");
        assert_eq!(
            client.state("COMMIT"),
            sqlstate::SERIALIZATION_FAILURE,
            "{change}"
        );
    }
    assert_eq!(client.lines("SELECT n FROM t WHERE id = 1"), ["100"]);
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["10"]);
}

#[test]
fn columns_are_added_and_dropped_beside_writers() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, n bigint NOT NULL, name text)");
    client.tag("INSERT INTO t SELECT x, 0, 'row ' || x FROM generate_series(0, 19) AS x");
    let stop = AtomicBool::new(false);
    let written: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (stop, fixture) = (&stop, &fixture);
                scope.spawn(move || {
                    let mut client = fixture.client();
                    let (mut added, mut inserted) = (0, 0);
                    while !stop.load(Ordering::Relaxed) {
                        let id = (added + writer) % 20;
                        client.tag(&format!("UPDATE t SET n = n + 1 WHERE id = {id}"));
                        client.tag(&format!("UPDATE t SET name = 'row {id}' WHERE id = {id}"));
                        added += 1;
                        if added % 5 == 0 {
                            let id = 1_000_000 * (writer + 1) + added;
                            client.tag(&format!(
                                "INSERT INTO t (id, n, name) VALUES ({id}, 0, 'row {id}')"
                            ));
                            inserted += 1;
                        }
                    }
                    (added, inserted)
                })
            })
            .collect();
        for number in 0..20 {
            client.tag(&format!(
                "ALTER TABLE t ADD COLUMN c{number} int DEFAULT {number}"
            ));
            if number % 3 == 2 {
                client.tag(&format!("ALTER TABLE t DROP COLUMN c{}", number - 1));
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    let added: u64 = written.iter().map(|it| it.0).sum();
    let inserted: u64 = written.iter().map(|it| it.1).sum();
    assert!(added > 0);
    assert_eq!(
        client.lines("SELECT sum(n), count(*) FROM t"),
        [format!("{added}|{}", 20 + inserted)]
    );
    assert_eq!(
        client.lines(
            "SELECT count(*) FROM t WHERE name <> 'row ' || id OR c0 <> 0 OR c19 <> 19 OR c5 <> 5"
        ),
        ["0"]
    );
    assert_eq!(client.state("SELECT c4 FROM t"), sqlstate::UNDEFINED_COLUMN);
}
