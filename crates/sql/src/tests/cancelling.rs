//! Statements that end before their end: cancelled, out of time, or left by their clients.

use std::time::{Duration, Instant};

use super::harness::{Client, Fixture, Rows};
use crate::storage::Reader;
use crate::{EngineOptions, Progress, Scope, SqlError, sqlstate};

/// Longest time from a cancellation to the error, on a machine that is busy.
const SOON: Duration = Duration::from_secs(10);

/// Each would run for hours.
const ENDLESS: [&str; 9] = [
    // Batches without columns.
    "SELECT count(*) FROM t a, t b, t c, t d",
    // A join that reads its input once, and finds nothing.
    "SELECT count(*) FROM t a, t b, t c, t d WHERE a.id + b.id + c.id + d.id < 0",
    // Pairs of a hash join that a condition refuses.
    "SELECT count(*) FROM (SELECT x % 2 AS k, x FROM generate_series(1, 400000) AS x) a \
     JOIN (SELECT x % 2 AS k, x FROM generate_series(1, 400000) AS x) b ON a.k = b.k AND a.x + b.x < 0",
    // A key that all rows have on both sides.
    "SELECT count(*) FROM (SELECT x % 2 AS k FROM generate_series(1, 800000) AS x) a \
     WHERE k IN (SELECT x % 2 FROM generate_series(1, 800000) AS x)",
    "SELECT count(*) FROM generate_series(1, 1000000000000) AS x WHERE x % 7 = 9",
    "SELECT sum(x) FROM generate_series(1, 1000000000000) AS x GROUP BY x % 10",
    "SELECT max(a.id) OVER (PARTITION BY b.id ORDER BY c.id) FROM t a, t b, t c",
    "SELECT 1 FROM t a WHERE EXISTS (SELECT 1 FROM t b, t c, t d WHERE b.id * c.id * d.id + a.id < 0)",
    "SELECT a.id FROM t a, t b, t c, t d ORDER BY a.id + b.id, c.id",
];

fn filled(fixture: &Fixture) -> Client {
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    client.tag("INSERT INTO t SELECT x FROM generate_series(1, 2000) AS x");
    client
}

/// Runs a statement that is cancelled after a while; returns its error, and how long after that it came.
fn cancelled(client: &mut Client, text: &str, after: Duration) -> (SqlError, Duration) {
    let handle = client.connection.cancel_handle();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(after);
        handle.cancel();
        Instant::now()
    });
    let answer = client.query(text);
    let ended = Instant::now();
    let at = canceller.join().unwrap();
    match answer {
        Ok(answer) => panic!("{text}: {answer:?}"),
        Err(error) => (error, ended.saturating_duration_since(at)),
    }
}

/// Waits until no statement holds a thread of the second pool.
fn wait_until_idle(fixture: &Fixture) {
    let begun = Instant::now();
    while fixture.engine.shared.pools.running_statements() > 0 {
        assert!(begun.elapsed() < SOON, "a statement still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn long_plans_end_soon_and_leave_their_threads() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture);
    for text in ENDLESS {
        let (error, after) = cancelled(&mut client, text, Duration::from_millis(300));
        assert_eq!(
            error.sqlstate(),
            sqlstate::QUERY_CANCELED,
            "{text}: {error:?}"
        );
        assert_eq!(error.message(), "canceling statement due to user request");
        assert!(after < SOON, "{text}: {after:?}");
        wait_until_idle(&fixture);
    }
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["2000"]);
}

#[test]
fn a_plan_in_a_block_ends_soon() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture);
    let texts = [
        ENDLESS[0],
        "INSERT INTO t SELECT a.id + 10000 FROM t a, t b, t c, t d WHERE a.id + b.id + c.id + d.id < 0",
        "DELETE FROM t USING t b, t c, t d WHERE t.id + b.id + c.id + d.id < 0",
    ];
    for (at, text) in texts.into_iter().enumerate() {
        client.tag("BEGIN");
        // A key that was rolled back leaves the index a moment later, which is a conflict for the next block with it.
        client.tag(&format!("INSERT INTO t VALUES ({})", 5000 + at));
        let (error, after) = cancelled(&mut client, text, Duration::from_millis(300));
        assert_eq!(
            error.sqlstate(),
            sqlstate::QUERY_CANCELED,
            "{text}: {error:?}"
        );
        assert!(after < SOON, "{text}: {after:?}");
        assert_eq!(client.state("SELECT 1"), sqlstate::IN_FAILED_TRANSACTION);
        assert_eq!(client.tag("ROLLBACK"), "ROLLBACK");
        wait_until_idle(&fixture);
    }
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["2000"]);
}

#[test]
fn building_indexes_and_keys_ends_soon() {
    let fixture = Fixture::with(EngineOptions {
        scan_rows_max: 10_000_000,
        ..EngineOptions::default()
    });
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int NOT NULL, a int)");
    client.tag("INSERT INTO t SELECT x, x % 7 FROM generate_series(1, 400000) AS x");
    // Filled within a fraction of a second each, were they not cancelled before.
    let texts = [
        "CREATE INDEX t_a ON t (a)",
        "ALTER TABLE t ADD PRIMARY KEY (id)",
        "ALTER TABLE t ADD CHECK (a >= 0)",
        "ALTER TABLE t ALTER COLUMN a TYPE text",
    ];
    for block in [false, true] {
        for text in texts {
            if block {
                client.tag("BEGIN");
            }
            let (error, after) = cancelled(&mut client, text, Duration::from_millis(20));
            assert_eq!(
                error.sqlstate(),
                sqlstate::QUERY_CANCELED,
                "{text}: {error:?}"
            );
            assert!(after < SOON, "{text}: {after:?}");
            if block {
                client.tag("ROLLBACK");
            }
        }
    }
    // Nothing of them is left, and no other statement waits for their end.
    assert_eq!(client.tag("UPDATE t SET a = -1 WHERE id = 1"), "UPDATE 1");
    assert_eq!(client.tag("INSERT INTO t VALUES (1, 5)"), "INSERT 0 1");
    let plan = client.lines("EXPLAIN SELECT id FROM t WHERE a = 5");
    assert!(!plan.iter().any(|line| line.contains("t_a")), "{plan:?}");
    client.tag("DELETE FROM t WHERE id > 1000");
    client.tag("CREATE INDEX t_a ON t (a)");
}

#[test]
fn changes_of_many_rows_end_soon() {
    let options = EngineOptions {
        scan_rows_max: 10_000_000,
        ..EngineOptions::default()
    };
    let fixture = Fixture::with(options);
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int)");
    client.tag("INSERT INTO t SELECT x, 0 FROM generate_series(1, 300000) AS x");
    client.tag("CREATE INDEX t_a ON t (a)");
    for text in [
        "UPDATE t SET a = a + 1",
        "DELETE FROM t",
        "UPDATE t SET a = 1 WHERE a = 0",
    ] {
        let (error, after) = cancelled(&mut client, text, Duration::from_millis(40));
        assert_eq!(
            error.sqlstate(),
            sqlstate::QUERY_CANCELED,
            "{text}: {error:?}"
        );
        assert!(after < SOON, "{text}: {after:?}");
    }
    assert_eq!(client.lines("SELECT count(*), sum(a) FROM t"), ["300000|0"]);
}

#[test]
fn copy_ends_with_the_next_rows() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture);
    let handle = client.connection.cancel_handle();
    let Client {
        connection,
        runtime,
    } = &mut client;
    let error = runtime.block_on(async {
        let mut portal = connection
            .prepare_simple("COPY t FROM STDIN")
            .await
            .unwrap();
        let mut sink = Rows::default();
        let progress = connection
            .execute(&mut portal, Scope::Alone, 0, &mut sink)
            .await
            .unwrap();
        assert!(matches!(progress, Progress::CopyIn { .. }));
        connection.copy_data(b"5000\n").await.unwrap();
        // While rows are awaited.
        handle.cancel();
        connection.copy_data(b"5001\n").await.unwrap_err()
    });
    assert_eq!(error.sqlstate(), sqlstate::QUERY_CANCELED);
    client.connection.failed();
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["2000"]);
    let handle = client.connection.cancel_handle();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        handle.cancel();
    });
    let error = client
        .copy_out("COPY (SELECT a.id FROM t a, t b, t c, t d) TO STDOUT")
        .unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::QUERY_CANCELED);
    canceller.join().unwrap();
}

#[test]
fn a_wait_for_an_index_ends_soon() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture);
    let shared = &fixture.engine.shared;
    // As if another command built an index, and never ended.
    let id: u32 = client.lines("SELECT oid FROM pg_class WHERE relname = 't'")[0]
        .parse()
        .unwrap();
    let version = shared.catalogue.numbers.next().unwrap();
    shared
        .db
        .transact_with(|tx| {
            let found = shared
                .catalogue
                .relation(&mut Reader::Transaction(tx), id)?
                .unwrap();
            let mut row = found.row.clone();
            row.marker = Some(version);
            shared.catalogue.put_relation(tx, &row, version)
        })
        .unwrap();
    for text in [
        "SELECT id FROM t WHERE id = 1",
        "SELECT id + 1 FROM t WHERE id = 2",
    ] {
        let (error, after) = cancelled(&mut client, text, Duration::from_millis(200));
        assert_eq!(error.sqlstate(), sqlstate::QUERY_CANCELED, "{error:?}");
        assert!(after < SOON, "{after:?}");
    }
    client.tag("SET statement_timeout = '100ms'");
    let error = client.query("SELECT id FROM t WHERE id = 1").unwrap_err();
    assert_eq!(
        error.message(),
        "canceling statement due to statement timeout"
    );
}

#[test]
fn a_statement_ends_with_its_client() {
    let options = EngineOptions {
        long_statements_max: 1,
        ..EngineOptions::default()
    };
    let fixture = Fixture::with(options);
    let mut other = filled(&fixture);
    for text in [ENDLESS[0], ENDLESS[1]] {
        for begin in ["", "BEGIN"] {
            let mut client = fixture.client();
            client.tag(begin);
            let Client {
                connection,
                runtime,
            } = &mut client;
            let left = runtime.block_on(async {
                let mut portal = connection.prepare_simple(text).await.unwrap();
                let mut sink = Rows::default();
                let step = connection.execute(&mut portal, Scope::Alone, 0, &mut sink);
                // A waker that is woken once.
                let mut step = std::pin::pin!(step);
                futures::future::select(&mut step, std::pin::pin!(a_while())).await;
                true
            });
            assert!(left);
            drop(client);
            // It had the only permit.
            wait_until_idle(&fixture);
            assert_eq!(
                other.lines("SELECT count(*) FROM t a JOIN t b ON a.id = b.id"),
                ["2000"]
            );
        }
    }
}

/// Ends after 200 ms, by another thread's hand.
async fn a_while() {
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(sender);
    });
    let _ = receiver.await;
}

#[test]
fn statement_timeout_ends_statements_and_only_long_ones() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture);
    client.tag("SET statement_timeout = '200ms'");
    assert_eq!(client.lines("SHOW statement_timeout"), ["200ms"]);
    for text in [
        ENDLESS[0],
        "INSERT INTO t SELECT a.id FROM t a, t b, t c, t d WHERE a.id + b.id + c.id + d.id < 0",
    ] {
        let begun = Instant::now();
        let error = client.query(text).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate::QUERY_CANCELED, "{text}");
        assert_eq!(
            error.message(),
            "canceling statement due to statement timeout"
        );
        assert!(begun.elapsed() >= Duration::from_millis(200));
        assert!(begun.elapsed() < SOON);
    }
    // Each statement has its own time.
    for _ in 0..30 {
        client.lines("SELECT id FROM t WHERE id = 7");
        std::thread::sleep(Duration::from_millis(10));
    }
    client.tag("BEGIN");
    client.tag("SET LOCAL statement_timeout = 50");
    let error = client.query(ENDLESS[1]).unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::QUERY_CANCELED);
    client.tag("ROLLBACK");
    assert_eq!(client.lines("SHOW statement_timeout"), ["200ms"]);
    client.tag("SET statement_timeout = 0");
    let (error, _) = cancelled(&mut client, ENDLESS[0], Duration::from_millis(500));
    assert_eq!(error.message(), "canceling statement due to user request");
    assert_eq!(client.state("SET statement_timeout = 'soon'"), "22023");
}

/// Clients that do not read hold no thread, neither of plans nor of planning.
#[test]
fn stalled_statements_delay_no_other() {
    let mut options = EngineOptions::default();
    (options.long_statements_max, options.statement_threads) = (4, 1);
    options.planner_threads = 1;
    let fixture = Fixture::with(options);
    let mut client = filled(&fixture);
    let mut stalled = Vec::new();
    for _ in 0..3 {
        let mut other = fixture.client();
        let Client {
            connection,
            runtime,
        } = &mut other;
        let portal = runtime.block_on(async {
            let statement = connection
                .prepare("SELECT a.id FROM t a, t b, t c", &[])
                .await
                .unwrap();
            let mut portal = connection.bind(&statement, &[], &[], &[]).unwrap();
            let mut sink = Rows::full_at(1);
            let progress = connection
                .execute(&mut portal, Scope::Alone, 0, &mut sink)
                .await
                .unwrap();
            assert_eq!(progress, Progress::SinkFull);
            portal
        });
        stalled.push((other, portal));
    }
    assert_eq!(fixture.engine.shared.pools.running_statements(), 3);
    let begun = Instant::now();
    assert_eq!(client.lines("SELECT id FROM t WHERE id = 5"), ["5"]);
    assert_eq!(
        client.lines("SELECT count(*) FROM t a, t b WHERE a.id = b.id"),
        ["2000"]
    );
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    // As many as may run at once: planning and programs need no permit.
    let mut last = fixture.client();
    let waiter = std::thread::spawn(move || {
        let (error, _) = cancelled(&mut last, ENDLESS[0], Duration::from_secs(2));
        error.sqlstate()
    });
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(client.lines("SELECT id + 1 FROM t WHERE id = 6"), ["7"]);
    assert_eq!(waiter.join().unwrap(), sqlstate::QUERY_CANCELED);
    drop(stalled);
    wait_until_idle(&fixture);
}

/// A portal that stops after each row is cancelled where it is.
#[test]
fn a_suspended_portal_is_cancelled_when_it_goes_on() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture);
    let handle = client.connection.cancel_handle();
    let Client {
        connection,
        runtime,
    } = &mut client;
    runtime.block_on(async {
        let text = "SELECT a.id FROM t a, t b, t c, t d WHERE a.id + b.id < 4 AND c.id * d.id < 9";
        let statement = connection.prepare(text, &[]).await.unwrap();
        let mut portal = connection.bind(&statement, &[], &[], &[]).unwrap();
        let mut sink = Rows::default();
        for _ in 0..2 {
            let progress = connection
                .execute(&mut portal, Scope::Part, 1, &mut sink)
                .await
                .unwrap();
            assert_eq!(progress, Progress::Suspended);
        }
        // Between two of them there is nothing to be cancelled.
        handle.cancel();
        let progress = connection
            .execute(&mut portal, Scope::Part, 1, &mut sink)
            .await
            .unwrap();
        assert_eq!(progress, Progress::Suspended);
    });
}
