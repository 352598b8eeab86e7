//! Changes and reads of many rows: elsewhere, and within limits.

use super::harness::{Client, Fixture};
use crate::{EngineOptions, sqlstate};

fn fixture(change: impl FnOnce(&mut EngineOptions)) -> Fixture {
    let mut options = EngineOptions::default();
    change(&mut options);
    Fixture::with(options)
}

fn filled(fixture: &Fixture, rows: usize) -> Client {
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int, b text)");
    client.tag("CREATE INDEX t_a ON t (a)");
    client.tag("CREATE TABLE u (id int PRIMARY KEY, a int, b text)");
    for first in (0..rows).step_by(1000) {
        let last = first + 999;
        client.tag(&format!(
            "INSERT INTO t SELECT x, x % 2, 'text' FROM generate_series({first}, {last}) AS x"
        ));
    }
    client
}

#[test]
fn changes_read_a_limited_number_of_rows() {
    let fixture = fixture(|options| options.scan_rows_max = 4_000);
    let mut client = filled(&fixture, 10_000);
    for text in [
        "UPDATE t SET b = 'other'",
        "UPDATE t SET b = 'other' WHERE a = 1",
        "UPDATE t SET b = 'other' WHERE b LIKE 'x%'",
        "DELETE FROM t",
        "DELETE FROM t WHERE a = 1",
        "DELETE FROM t USING u WHERE t.id = u.id + 1",
        "INSERT INTO u SELECT * FROM t",
        "BEGIN; SELECT count(*) FROM t",
    ] {
        let error = client.query(text).unwrap_err();
        assert_eq!(
            error.sqlstate(),
            sqlstate::OUT_OF_MEMORY,
            "{text}: {error:?}"
        );
        assert!(error.hint().is_some(), "{text}");
        client.tag("ROLLBACK");
    }
    assert_eq!(
        client.lines("SELECT count(*) FROM t WHERE b = 'text'"),
        ["10000"]
    );
    assert_eq!(client.lines("SELECT count(*) FROM u"), ["0"]);
    assert_eq!(
        client.tag("UPDATE t SET b = 'c' WHERE id < 2000"),
        "UPDATE 2000"
    );
    assert_eq!(client.tag("DELETE FROM t WHERE id >= 8000"), "DELETE 2000");
    // Of a view, as many as there are.
    assert_eq!(client.lines("SELECT count(*) FROM t"), ["8000"]);
}

#[test]
fn changes_write_a_limited_number_of_bytes() {
    let fixture = fixture(|options| options.written_bytes_max = 100_000);
    let mut client = filled(&fixture, 0);
    let long = "SELECT x, 1, repeat('x', 100) FROM generate_series(1, 10000) AS x";
    let error = client.query(&format!("INSERT INTO u {long}")).unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::OUT_OF_MEMORY, "{error:?}");
    assert!(error.hint().is_some());
    assert_eq!(client.lines("SELECT count(*) FROM u"), ["0"]);
    let lines: String = (0..10_000)
        .map(|id| format!("{id}\t1\tsome text\n"))
        .collect();
    let error = client
        .copy_in("COPY u FROM STDIN", lines.as_bytes(), 8192)
        .unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::OUT_OF_MEMORY, "{error:?}");
    assert_eq!(client.lines("SELECT count(*) FROM u"), ["0"]);
    // A table of the same transaction is filled outside of it.
    client.tag("BEGIN");
    client.tag("TRUNCATE u");
    let copied = client.copy_in("COPY u FROM STDIN", lines.as_bytes(), 8192);
    assert_eq!(copied.unwrap(), "COPY 10000");
    client.tag("COMMIT");
    let error = client.query("UPDATE u SET a = 2").unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::OUT_OF_MEMORY, "{error:?}");
    assert_eq!(client.lines("SELECT sum(a) FROM u"), ["10000"]);
    assert_eq!(
        client.tag("UPDATE u SET a = 2 WHERE id < 500"),
        "UPDATE 500"
    );
}

/// A program that meets many rows is run elsewhere, and answers the same.
#[test]
fn long_programs_answer_as_short_ones() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture, 12_000);
    let runs = |fixture: &Fixture| fixture.engine.stats().plan_runs;
    let before = runs(&fixture);
    assert_eq!(client.lines("SELECT id FROM t WHERE a = 1").len(), 6000);
    assert_eq!(runs(&fixture), before + 1);
    client.tag("BEGIN");
    assert_eq!(client.lines("SELECT id FROM t WHERE a = 1").len(), 6000);
    let returned = client.lines("UPDATE t SET b = 'x' WHERE a = 1 RETURNING id, b, NULL");
    assert_eq!(returned.len(), 6000);
    assert!(returned.iter().all(|line| line.ends_with("|x|-")));
    client.tag("ROLLBACK");
    let returned = client.lines("UPDATE t SET a = a + 2 WHERE a = 1 RETURNING id, a");
    assert_eq!(returned.len(), 6000);
    assert!(returned.iter().all(|line| line.ends_with("|3")));
    assert_eq!(client.tag("UPDATE t SET a = a + 1"), "UPDATE 12000");
    assert_eq!(
        client.lines("SELECT a, count(*) FROM t GROUP BY a ORDER BY a"),
        ["1|6000", "4|6000"]
    );
    assert_eq!(
        client.tag("INSERT INTO u SELECT * FROM t"),
        "INSERT 0 12000"
    );
    assert_eq!(client.tag("DELETE FROM t"), "DELETE 12000");
    assert_eq!(client.tag("UPDATE t SET a = 1"), "UPDATE 0");
    assert_eq!(client.lines("SELECT count(*) FROM u"), ["12000"]);
    let error = client.query("INSERT INTO u SELECT * FROM u").unwrap_err();
    assert_eq!(error.sqlstate(), sqlstate::UNIQUE_VIOLATION);
}

#[test]
fn a_long_change_is_repeated_after_conflicts() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture, 4_000);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut other = fixture.client();
            let mut written = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                other.tag(&format!(
                    "UPDATE t SET b = 'y' WHERE id = {}",
                    written % 4000
                ));
                written += 1;
            }
            written
        });
        for _ in 0..5 {
            assert_eq!(client.tag("UPDATE t SET a = a + 1"), "UPDATE 4000");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(writer.join().unwrap() > 0);
    });
    assert_eq!(client.lines("SELECT min(a), max(a) FROM t"), ["5|6"]);
}
