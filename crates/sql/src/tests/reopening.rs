//! Contents after the database was closed, or has crashed.

use super::harness::Fixture;
use crate::storage::Reader;
use crate::{Engine, EngineOptions, sqlstate};

#[test]
fn tables_rows_and_sequences_survive() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id serial PRIMARY KEY, a int UNIQUE)");
    client.tag("CREATE TABLE keyless (a int)");
    client.tag("INSERT INTO t (a) VALUES (1), (2)");
    client.tag("INSERT INTO keyless VALUES (1), (2)");
    client.tag("BEGIN");
    client.tag("CREATE TABLE never (id int)");
    drop(client);
    let fixture = fixture.reopened();
    let mut client = fixture.client();
    assert_eq!(client.lines("SELECT * FROM t ORDER BY id"), ["1|1", "2|2"]);
    assert_eq!(
        client.state("SELECT * FROM never"),
        sqlstate::UNDEFINED_TABLE
    );
    assert_eq!(
        client.state("INSERT INTO t (a) VALUES (2)"),
        sqlstate::UNIQUE_VIOLATION
    );
    client.tag("INSERT INTO t (a) VALUES (3)");
    assert_eq!(client.lines("SELECT count(*), min(id) FROM t"), ["3|1"]);
    client.tag("INSERT INTO keyless VALUES (3)");
    assert_eq!(client.lines("SELECT count(*) FROM keyless"), ["3"]);
}

#[test]
fn core_tables_that_nothing_names_are_dropped() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    let before = fixture.engine.database().tables().len();
    // As a transaction leaves it that did not commit before a crash.
    let number = fixture.engine.shared.catalogue.numbers.next().unwrap();
    fixture
        .engine
        .shared
        .storage
        .create(number, false, 8, None)
        .unwrap();
    drop(client);
    assert_eq!(fixture.engine.database().tables().len(), before + 1);
    let fixture = fixture.reopened();
    assert_eq!(fixture.engine.database().tables().len(), before);
}

#[test]
fn a_table_without_its_rows_is_named() {
    for (storages, expected) in [
        (0..1, "the database has lost the rows of table \"kept\" ("),
        (
            1..2,
            "the database has lost the entries of index \"kept_a\" on table \"kept\" (",
        ),
    ] {
        let fixture = Fixture::new();
        let mut client = fixture.client();
        client.tag("CREATE TABLE other (a int)");
        client.tag("CREATE TABLE kept (id int PRIMARY KEY, a int)");
        client.tag("CREATE INDEX kept_a ON kept (a)");
        drop(client);
        let db = fixture.engine.database().clone();
        let view = db.view().unwrap();
        let catalogue = &fixture.engine.shared.catalogue;
        let relations = catalogue.relations(&mut Reader::View(&view)).unwrap();
        let kept = relations.iter().find(|it| it.row.name == "kept").unwrap();
        let numbers: Vec<u64> = kept.row.storages().collect();
        drop(view);
        for number in &numbers[storages] {
            fixture.engine.shared.storage.remove(*number).unwrap();
        }
        let error = Engine::open(db, EngineOptions::default()).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate::DATA_CORRUPTED);
        assert!(error.message().starts_with(expected), "{error}");
        assert!(
            error.message().contains("restore it from a backup"),
            "{error}"
        );
    }
}
