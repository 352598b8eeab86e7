//! Indexes and keys that are built while others write.

use std::sync::atomic::{AtomicBool, Ordering};

use super::harness::Fixture;

/// Runs writers while `build` runs; returns how many rows they wrote. Without a key they only insert.
fn beside_writers(fixture: &Fixture, has_key: bool, build: impl FnOnce()) -> usize {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let stop = &stop;
                scope.spawn(move || {
                    let mut client = fixture.client();
                    let mut written = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let id = 1_000_000 * (writer + 1) + written;
                        client.tag(&format!("INSERT INTO t VALUES ({id}, {})", id % 10));
                        if has_key {
                            client.tag(&format!("UPDATE t SET a = a + 1 WHERE id = {}", id - 1));
                            if written % 3 == 0 {
                                client.tag(&format!("DELETE FROM t WHERE id = {}", written % 500));
                            }
                        }
                        written += 1;
                    }
                    written
                })
            })
            .collect();
        // Each writer has begun.
        while fixture.engine.stats().row_programs < 20 {
            std::thread::yield_now();
        }
        build();
        stop.store(true, Ordering::Relaxed);
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap() as usize)
            .sum()
    })
}

fn filled(fixture: &Fixture, key: &str) {
    let mut client = fixture.client();
    client.tag(&format!("CREATE TABLE t (id bigint{key}, a int)"));
    client.tag("INSERT INTO t SELECT x, x % 10 FROM generate_series(0, 2000) AS x");
}

/// Each row is found by the index, and the index has no others.
fn check_index(fixture: &Fixture) {
    let mut client = fixture.client();
    for a in 0..12 {
        let mut by_index = client.lines(&format!("SELECT id FROM t WHERE a = {a}"));
        let mut by_scan = client.lines(&format!("SELECT id FROM t WHERE a + 0 = {a}"));
        by_index.sort();
        by_scan.sort();
        assert_eq!(by_index, by_scan, "{a}");
    }
}

#[test]
fn an_index_has_an_entry_for_every_row() {
    let fixture = Fixture::new();
    filled(&fixture, " PRIMARY KEY");
    let written = beside_writers(&fixture, true, || {
        fixture.client().tag("CREATE INDEX ON t (a)");
    });
    assert!(written > 0);
    check_index(&fixture);
    assert_eq!(
        fixture
            .client()
            .lines("SELECT count(*) >= 2001 - 500 FROM t"),
        ["t"]
    );
}

#[test]
fn a_key_is_added_beside_writers() {
    let fixture = Fixture::new();
    filled(&fixture, " NOT NULL");
    fixture.client().tag("CREATE INDEX ON t (a)");
    let written = beside_writers(&fixture, false, || {
        fixture.client().tag("ALTER TABLE t ADD PRIMARY KEY (id)");
    });
    assert!(written > 0);
    check_index(&fixture);
    let mut client = fixture.client();
    assert_eq!(
        client.lines("SELECT count(*) = count(DISTINCT id) FROM t"),
        ["t"]
    );
    assert!(client.lines("EXPLAIN SELECT a FROM t WHERE id = 5")[0].contains("by primary key"));
}
