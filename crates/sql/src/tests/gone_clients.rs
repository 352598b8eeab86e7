//! Clients that go away while a statement waits, and what may be told before it is durable.

use std::sync::mpsc;
use std::time::Duration;

use super::harness::Fixture;
use crate::{EngineOptions, sqlstate};

/// A commit waits here for a moment: the log's own thread flushes a little later than a server does.
fn slow_to_flush() -> Fixture {
    Fixture::with(EngineOptions {
        flushed_by_caller: true,
        ..EngineOptions::default()
    })
}

#[test]
fn a_commit_without_its_client_keeps_its_tables() {
    let fixture = slow_to_flush();
    let mut has_waited = false;
    for round in 0..20 {
        let mut client = fixture.client();
        client.tag("BEGIN");
        client.tag(&format!("CREATE TABLE t{round} (id int PRIMARY KEY)"));
        client.tag(&format!("INSERT INTO t{round} VALUES (1)"));
        has_waited |= client.begin_and_go("COMMIT");
        let mut alone = fixture.client();
        alone.tag(&format!("CREATE TABLE a{round} (a int)"));
        alone.tag(&format!("INSERT INTO a{round} VALUES (1), (2)"));
        let mut client = fixture.client();
        client.tag("BEGIN");
        client.tag(&format!("TRUNCATE a{round}"));
        client.tag(&format!("INSERT INTO a{round} VALUES (3)"));
        has_waited |= client.begin_and_go("COMMIT");
    }
    assert!(has_waited);
    fixture.wait_for_pool();
    let check = |fixture: &Fixture| {
        let mut client = fixture.client();
        for round in 0..20 {
            assert_eq!(client.lines(&format!("SELECT id FROM t{round}")), ["1"]);
            assert_eq!(client.lines(&format!("SELECT a FROM a{round}")), ["3"]);
        }
        drop(client);
        fixture.engine.database().tables().len()
    };
    let tables = check(&fixture);
    let fixture = fixture.reopened();
    assert_eq!(check(&fixture), tables, "what is not named was dropped");
}

#[test]
fn a_client_that_goes_leaves_no_marker() {
    for build in ["CREATE INDEX ON t (a)", "ALTER TABLE t ADD PRIMARY KEY (a)"] {
        let fixture = Fixture::new();
        let mut client = fixture.client();
        client.tag("CREATE TABLE t (a int NOT NULL)");
        client.tag("INSERT INTO t SELECT x FROM generate_series(1, 5000) AS x");
        drop(client);
        let tables = fixture.engine.database().tables().len();
        assert!(fixture.client().begin_and_go(build));
        fixture.wait_for_pool();
        let (sender, receiver) = mpsc::channel();
        let mut client = fixture.client();
        std::thread::spawn(move || {
            let counted = client.lines("SELECT count(*) FROM t");
            client.tag("INSERT INTO t VALUES (0)");
            sender.send(counted).unwrap();
        });
        let counted = receiver.recv_timeout(Duration::from_secs(60));
        assert_eq!(counted.unwrap(), ["5000"], "{build}");
        assert_eq!(fixture.engine.database().tables().len(), tables, "{build}");
    }
}

#[test]
fn a_refusal_is_told_when_its_cause_is_durable() {
    let fixture = slow_to_flush();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    let mut has_waited = false;
    for id in 0..20 {
        let mut refused = fixture.client();
        refused.tag("BEGIN");
        let insert = format!("INSERT INTO t VALUES ({id})");
        // Planned, so that nothing else is waited for.
        assert_eq!(client.tag("BEGIN"), "BEGIN");
        client.tag(&insert);
        client.tag("ROLLBACK");
        let is_late = fixture.client().begin_and_go(&insert);
        has_waited |= is_late && refused.begin_and_go(&insert);
        assert_eq!(client.state(&insert), sqlstate::UNIQUE_VIOLATION);
    }
    assert!(has_waited);
}
